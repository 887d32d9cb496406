//! The result of one trial of test frames, and its verdict.

use super::Broken;
use super::reason::Reason;
use super::sample::Direction;
use super::verdict::{Allowance, Verdict};
use crate::pacer::Pacer;
use crate::stream::StreamStatistics;
use base::Histogram;

/// One trial of test frames, in one direction or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameSample {
    /// Requested rate, in frames per second and direction.
    pub offered: f64,
    /// Seconds in which frames were sent.
    pub seconds: f64,
    /// Seconds that sending should have taken; 0 where no rate was set.
    pub due_seconds: f64,
    /// From the initiator to the responder.
    pub forth: Direction,
    /// From the responder to the initiator.
    pub back: Direction,
    /// Frames that arrived more than once.
    pub duplicates: u64,
    /// Frames that came back to the station that sent them.
    pub returned: u64,
    /// Frames that cannot be read or have wrong checksums.
    pub garbage: u64,
    /// Frames of other senders on the wires of both sides, not counted elsewhere.
    pub foreign: u64,
    /// Frames that the generator was too late to send.
    pub missed: u64,
    /// Frames that the generator's own ports rejected.
    pub port_errors: u64,
    /// Frames that the device did not take from the generator's ports; they count as lost.
    pub port_drops: u64,
    /// Longest time in which the generator polled neither port, in nanoseconds.
    pub stall_ns: u64,
    /// Connections in the device's table before the trial; `None` where it cannot be read or is meant to hold
    /// some.
    pub table_before: Option<u64>,
    /// Connections that the device refused because its table was full.
    pub table_full: u64,
    /// One-way latency, both directions together.
    pub latency_ns: Histogram,
}

impl FrameSample {
    /// Adds the counters of both stations.
    pub fn count(&mut self, initiator: &StreamStatistics, responder: &StreamStatistics) {
        self.forth = Direction { sent: initiator.sent, received: responder.received };
        self.back = Direction { sent: responder.sent, received: initiator.received };
        for it in [initiator, responder] {
            self.duplicates += it.duplicates;
            self.returned += it.returned;
            self.garbage += it.garbage;
            self.foreign += it.foreign;
            self.latency_ns.merge(&it.latency_ns);
        }
    }

    /// Returns the frames sent in both directions.
    pub fn sent(&self) -> u64 {
        self.forth.sent + self.back.sent
    }

    /// Returns the share of frames lost in both directions together, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        (self.forth.lost() + self.back.lost()) as f64 / self.sent().max(1) as f64
    }

    /// Returns the loss of the worse direction, 0 to 1: the other direction does not hide it.
    pub fn worst_loss_ratio(&self) -> f64 {
        let of = |it: &Direction| it.lost() as f64 / it.sent.max(1) as f64;
        of(&self.forth).max(of(&self.back))
    }

    /// Returns the fault of a device with which no search can go on.
    pub fn broken(&self) -> Option<Broken> {
        let sent = self.sent();
        let received = self.forth.received + self.back.received;
        // A few frames are not enough to judge.
        if sent < 10 {
            return None;
        }
        if self.returned * 2 > sent {
            return Some(Broken::WrongSide);
        }
        if self.garbage * 2 > received + self.garbage {
            return Some(Broken::Garbage);
        }
        if self.duplicates * 2 > sent {
            return Some(Broken::Twice);
        }
        if received == 0 {
            return Some(Broken::Nothing);
        }
        (self.back.sent >= 10 && self.back.received == 0).then_some(Broken::NothingBack)
    }
}

/// Frames that the smallest queue behind a port holds, where its size is not known. In a stall in which more
/// frames arrive, the generator's own queue may have dropped them.
const QUEUE_FRAMES: u64 = 2048;
/// Shorter stalls are ignored, in nanoseconds.
const STALL_NS: u64 = 1_000_000;

/// Returns the reason for an invalid trial where the generator polled no port for `stall_ns` and more packets
/// arrived than its queues hold.
pub(super) fn stalled(
    stall_ns: u64,
    packets_per_second: f64,
    queue_packets: Option<u64>,
) -> Option<Reason> {
    let away = stall_ns as f64 / 1e9 * packets_per_second;
    (stall_ns > STALL_NS && away > queue_packets.unwrap_or(QUEUE_FRAMES) as f64)
        .then_some(Reason::Stalled { ms: stall_ns as f64 / 1e6 })
}

/// Judges a trial of frames, the generator's faults first, as [`super::judge`] does.
pub fn judge_frames(sample: &FrameSample, allowed: &Allowance) -> Verdict {
    let mut faults = Vec::new();
    if let Some(broken) = sample.broken() {
        faults.push(Reason::Broken(broken));
    }
    if sample.duplicates > 0 {
        let (sent, received) = (sample.sent(), sample.forth.received + sample.back.received);
        faults.push(Reason::MoreArrived {
            way: "in both directions",
            sent,
            received: received + sample.duplicates,
        });
    }
    if let Some(left) = sample.table_before.filter(|&left| left > 0) {
        faults.push(Reason::TableNotEmpty(left));
    }
    let due = (sample.sent() + sample.missed) as f64;
    if sample.missed as f64 > allowed.shortfall * due {
        faults.push(Reason::FramesNotOffered {
            asked: sample.offered,
            missed: sample.missed,
            share: sample.missed as f64 / due,
        });
    }
    // The rate is what was sent in its time, whatever delayed it.
    let late = Pacer::late_ns(sample.offered as u64) as f64 / 1e9;
    let allowed_seconds = sample.due_seconds * (1.0 + allowed.shortfall) + late;
    if sample.due_seconds > 0.0 && sample.seconds > allowed_seconds {
        faults.push(Reason::TooSlow { took: sample.seconds, due: sample.due_seconds });
    }
    if sample.port_errors > 0 {
        faults.push(Reason::PortErrors(sample.port_errors));
    }
    let mut failures = Vec::new();
    for (way, it) in [("forth", sample.forth), ("back", sample.back)] {
        if it.lost() > 0 && it.lost() as f64 > allowed.loss * it.sent as f64 {
            failures.push(Reason::Lost { way, lost: it.lost(), sent: it.sent });
        }
    }
    if !failures.is_empty() {
        faults.extend(stalled(sample.stall_ns, sample.offered, None));
    }
    if sample.table_full > 0 {
        failures.push(Reason::TableFull(sample.table_full));
    }
    if !faults.is_empty() {
        return Verdict::Invalid(faults);
    }
    if failures.is_empty() { Verdict::Pass } else { Verdict::Fail(failures) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean() -> FrameSample {
        let packets = Direction { sent: 10_000, received: 10_000 };
        FrameSample {
            offered: 10_000.0,
            seconds: 1.0,
            due_seconds: 1.0,
            forth: packets,
            back: packets,
            table_before: Some(0),
            ..FrameSample::default()
        }
    }

    #[test]
    fn verdicts() {
        type Case = (&'static str, fn(&mut FrameSample), f64, &'static str, &'static str);
        let cases: &[Case] = &[
            ("nothing wrong", |_| (), 0.0, "pass", ""),
            ("one lost", |s| s.back.received -= 1, 0.0, "fail", "back: 1 of 10000 packets"),
            ("one lost, allowed", |s| s.back.received -= 1, 1e-4, "pass", ""),
            ("doubled", |s| s.duplicates = 3, 0.5, "invalid", "20003 packets arrived of 20000"),
            ("late", |s| s.missed = 500, 0.0, "invalid", "too late for 500 frames"),
            ("hardly late", |s| s.missed = 50, 0.0, "pass", ""),
            ("slow", |s| s.seconds = 2.25, 0.0, "invalid", "took 2.25 s to send what"),
            ("hardly slow", |s| s.seconds = 1.02, 0.0, "pass", ""),
            ("as fast as it goes", |s| (s.seconds, s.due_seconds) = (9.0, 0.0), 0.0, "pass", ""),
            ("left-overs", |s| s.table_before = Some(2), 0.0, "invalid", "still held 2"),
            ("table full", |s| s.table_full = 2, 1.0, "fail", "table full: 2"),
            ("its own port", |s| s.port_errors = 2, 1.0, "invalid", "own ports"),
            ("looked away, nothing lost", |s| s.stall_ns = 1 << 40, 0.0, "pass", ""),
            (
                "looked away, some lost",
                |s| {
                    s.stall_ns = 300_000_000;
                    s.forth.received -= 9;
                },
                0.0,
                "invalid",
                "for 300.0 ms",
            ),
            (
                "looked away too shortly to lose any",
                |s| {
                    s.stall_ns = 100_000_000;
                    s.forth.received -= 9;
                },
                0.0,
                "fail",
                "forth: 9 of",
            ),
            (
                "forwards nothing",
                |s| (s.forth.received, s.back) = (0, Direction::default()),
                1.0,
                "invalid",
                "forwards nothing",
            ),
            ("nothing back", |s| s.back.received = 0, 1.0, "invalid", "from the servers"),
            ("to the wrong side", |s| s.returned = 15_000, 1.0, "invalid", "back to the side"),
            ("twice", |s| s.duplicates = 20_000, 1.0, "invalid", "packets twice"),
            (
                "garbage",
                |s| {
                    (s.forth.received, s.back.received) = (0, 0);
                    s.garbage = 20_000;
                },
                1.0,
                "invalid",
                "garbage",
            ),
        ];
        for (name, change, loss, word, expected) in cases {
            let mut sample = clean();
            change(&mut sample);
            let allowed = Allowance { loss: *loss, shortfall: Allowance::SHORTFALL };
            let verdict = judge_frames(&sample, &allowed);
            let said: Vec<_> = verdict.reasons().iter().map(Reason::to_string).collect();
            assert_eq!(verdict.word(), *word, "{name}: {said:?}");
            assert!(said.join("; ").contains(expected), "{name}: {said:?}");
        }
    }
}
