//! Samples of a switch during flow set-up, and the results up to the last flow.

use super::{ESTABLISHED, EVERY, OLD_SINK};
use crate::BenchError;
use crate::slow_path::daemon::{Misses, PUBLISHED_AFTER, UnderTest};
use crate::slow_path::processor::Processor;
use crate::slow_path::seconds;
use base::Instant;
use std::time::Duration;

/// The shortest time for rates that exclude adding the port.
const SHORTEST: Duration = Duration::from_millis(100);

/// The counters of a switch at one time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// Seconds since just before the packets that need flows were started.
    pub at_s: f64,
    /// Flows without the established ones.
    pub flows: f64,
    /// Established packets sent.
    pub sent: u64,
    /// Passes that missed; up to [`PUBLISHED_AFTER`] old.
    pub misses: Misses,
    pub processor: Processor,
}

impl Sample {
    /// Reads the counters.
    pub fn read(switch: &mut UnderTest, begun: Instant) -> Result<Sample, BenchError> {
        let flows = switch.flows()?.saturating_sub(ESTABLISHED.into());
        let at_s = seconds(begun, clock::now());
        let (sent, processor) = (switch.sent(OLD_SINK)?, switch.processor());
        Ok(Sample { at_s, flows: flows as f64, sent, misses: switch.misses()?, processor })
    }

    /// Established packets per second since an earlier sample.
    pub fn established_rate(&self, from: &Sample) -> f64 {
        self.sent.saturating_sub(from.sent) as f64 / self.seconds_since(from)
    }

    /// The worker's processor time for an established packet since an earlier sample, if it does nothing else, in
    /// seconds.
    pub fn worker_s_per_packet(&self, from: &Sample) -> f64 {
        let packets = self.sent.saturating_sub(from.sent).max(1);
        self.processor.since(from.processor).workers_s / packets as f64
    }

    fn seconds_since(&self, from: &Sample) -> f64 {
        (self.at_s - from.at_s).max(EVERY.as_secs_f64())
    }
}

/// The samples of a run: one before the port of the new packets was added, then those since, and one after
/// the counters of misses are up to date.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples(pub Vec<Sample>);

impl Samples {
    /// Flows at the end.
    pub fn flows(&self) -> f64 {
        self.0.last().map_or(0.0, |last| last.flows)
    }

    /// The sample at which the last flow that stayed was present.
    pub fn came(&self) -> Sample {
        let flows = self.flows();
        self.0.iter().find(|it| it.flows >= flows).copied().unwrap_or_default()
    }

    /// The sample at which rates begin. Flows are added already while the port is added, so it is the next
    /// sample, unless too little time remains after it.
    fn from(&self) -> Sample {
        let came_s = self.came().at_s;
        let after = self.0.get(1).filter(|it| came_s - it.at_s >= SHORTEST.as_secs_f64());
        after.or(self.0.first()).copied().unwrap_or_default()
    }

    /// Flows per second until the last one.
    pub fn per_second(&self) -> f64 {
        let (from, came) = (self.from(), self.came());
        (came.flows - from.flows).max(0.0) / came.seconds_since(&from)
    }

    /// Processor time until the last flow.
    pub fn processor(&self) -> Processor {
        self.came().processor.since(self.from().processor)
    }

    /// Flows per second of processor time until the last flow.
    pub fn per_processor_second(&self) -> f64 {
        let Processor { workers_s, others_s } = self.processor();
        self.set_up() / (workers_s + others_s)
    }

    /// Flows that came until the last one, since rates count.
    fn set_up(&self) -> f64 {
        (self.came().flows - self.from().flows).max(0.0)
    }

    /// Processor time of all threads for a flow, in microseconds, if an established packet takes this much of
    /// the worker's.
    pub fn processor_us_per_flow(&self, established_packet_s: f64) -> f64 {
        let Processor { workers_s, others_s } = self.processor();
        let established = self.came().sent.saturating_sub(self.from().sent) as f64;
        let established_s = (established * established_packet_s).min(workers_s);
        1e6 * (workers_s - established_s + others_s) / self.set_up()
    }

    /// Established packets per second until the last flow.
    pub fn established_rate(&self) -> f64 {
        self.came().established_rate(&self.from())
    }

    /// Misses until the last flow. The counters are published late, so those of the following
    /// [`PUBLISHED_AFTER`] count, too.
    pub fn misses(&self) -> Misses {
        let published = self.came().at_s + PUBLISHED_AFTER.as_secs_f64();
        let after = self.0.iter().find(|it| it.at_s >= published).or(self.0.last());
        let [before, after] = [self.0.first(), after].map(|it| it.copied().unwrap_or_default());
        Misses {
            queued: after.misses.queued.saturating_sub(before.misses.queued),
            refused: after.misses.refused.saturating_sub(before.misses.refused),
        }
    }

    /// Seconds and flows, for the chart.
    pub fn points(&self) -> Vec<(f64, f64)> {
        self.0.iter().map(|it| (it.at_s, it.flows)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of seconds, flows, established packets, refused misses, and seconds of processor time.
    fn samples(all: &[(f64, f64, u64, u64, f64)]) -> Samples {
        let sample = |&(at_s, flows, sent, refused, workers_s)| {
            let misses = Misses { queued: 1000, refused };
            let processor = Processor { workers_s, others_s: 0.0 };
            Sample { at_s, flows, sent, misses, processor }
        };
        Samples(all.iter().map(sample).collect())
    }

    #[test]
    fn all_results_are_of_the_time_until_the_last_flow_came() {
        let it = samples(&[
            (0.0, 0.0, 100, 5, 1.0),
            (1.0, 200.0, 200, 5, 2.0),
            (2.0, 500.0, 300, 25, 2.5),
            (3.0, 1000.0, 400, 40, 3.0),
            (4.0, 1000.0, 900, 50, 4.0),
            (4.5, 1000.0, 2000, 70, 5.0),
            (9.0, 1000.0, 9000, 999, 9.0),
        ]);
        assert_eq!((it.came().at_s, it.flows(), it.per_second()), (3.0, 1000.0, 400.0));
        assert_eq!((it.per_processor_second(), it.established_rate()), (800.0, 100.0));
        assert_eq!(it.misses(), Misses { queued: 0, refused: 65 });
        // In the second from the first sample on, 800 flows took one second of the worker, and 200 established
        // packets were sent.
        assert_eq!(it.processor_us_per_flow(0.0), 1250.0);
        assert_eq!(it.processor_us_per_flow(0.001), 1000.0);
        assert_eq!(it.processor_us_per_flow(1.0), 0.0);
        assert_eq!(it.0[2].worker_s_per_packet(&it.0[1]), 0.005);
        // The last flow came soon after the port was added.
        let it =
            samples(&[(0.0, 0.0, 0, 0, 1.0), (0.49, 990.0, 0, 0, 1.9), (0.5, 1000.0, 0, 0, 2.0)]);
        assert_eq!((it.per_second(), it.per_processor_second()), (2000.0, 1000.0));
        // Flows that were removed again do not count.
        let it =
            samples(&[(0.0, 0.0, 0, 0, 0.0), (1.0, 800.0, 0, 0, 0.0), (2.0, 300.0, 0, 0, 0.0)]);
        assert_eq!((it.flows(), it.came().at_s), (300.0, 1.0));
        assert_eq!(Samples::default().per_second(), 0.0);
    }
}
