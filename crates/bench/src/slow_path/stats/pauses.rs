//! The longest pause in flow setup, and its cause.

use base::Instant;
use serde::Serialize;
use std::time::Duration;

/// The longest time without a new flow while packets of new flows waited.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Pause {
    /// Processor time of the thread, including its time in the kernel.
    pub ms: f64,
    /// The same by the clock; the difference is the time of other programs.
    pub clock_ms: f64,
    /// The longest piece of work in it.
    pub work: &'static str,
    /// Its duration, in processor time.
    pub work_ms: f64,
}

/// Finds the longest pause.
pub struct Pauses {
    /// The time of the last flow, by the thread's processor time and by the clock.
    since: (Instant, Instant),
    /// The longest piece of work since then.
    work: (&'static str, Duration),
    pub longest: Pause,
}

impl Pauses {
    /// Starts now, by the thread's processor time and by the clock.
    pub fn begin(now: Instant, clock: Instant) -> Pauses {
        Pauses { since: (now, clock), work: ("", Duration::ZERO), longest: Pause::default() }
    }

    /// Records the duration of a piece of work.
    pub fn worked(&mut self, work: &'static str, took: Duration) {
        if took > self.work.1 {
            self.work = (work, took);
        }
    }

    /// Records a new flow, which ends a pause; or the end of the measurement while flows are missing.
    pub fn flow_came(&mut self, now: Instant, clock: Instant) {
        let ms = |time: Duration| 1e3 * time.as_secs_f64();
        let pause = ms(now - self.since.0);
        if pause > self.longest.ms {
            let (work, took) = self.work;
            let clock_ms = ms(clock - self.since.1);
            self.longest = Pause { ms: pause, clock_ms, work, work_ms: ms(took) };
        }
        self.nothing_waits(now, clock);
    }

    /// No packet waits, so a pause ends.
    pub fn nothing_waits(&mut self, now: Instant, clock: Instant) {
        (self.since, self.work) = ((now, clock), ("", Duration::ZERO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_is_kept_with_its_longest_work() {
        let at = |ms: u64| (Instant::from_millis(1000 + ms), Instant::from_millis(5000 + 2 * ms));
        let work = Duration::from_millis;
        let (now, clock) = at(0);
        let mut pauses = Pauses::begin(now, clock);
        for (came, works) in [
            (2, vec![("packets", 2)]),
            (9, vec![("packets", 1), ("upkeep", 5), ("revalidation", 1)]),
            (12, vec![("packets", 3)]),
        ] {
            works.into_iter().for_each(|(name, ms)| pauses.worked(name, work(ms)));
            let (now, clock) = at(came);
            pauses.flow_came(now, clock);
        }
        let longest = Pause { ms: 7.0, clock_ms: 14.0, work: "upkeep", work_ms: 5.0 };
        assert_eq!(pauses.longest, longest);
        // A time without packets is no pause.
        let (now, clock) = at(100);
        pauses.nothing_waits(now, clock);
        let (now, clock) = at(101);
        pauses.flow_came(now, clock);
        assert_eq!(pauses.longest, longest);
    }
}
