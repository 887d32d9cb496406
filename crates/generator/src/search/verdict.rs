//! Whether a trial passed: decided from its numbers alone.

use super::frames::stalled;
use super::sample::Sample;
use crate::pacer::Pacer;
use std::fmt;

/// What a device may lose and still pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Share of packets in each direction, and of connections, 0 to 1.
    pub loss: f64,
    /// How far the generator may stay behind the rate that it was asked for, 0 to 1.
    pub shortfall: f64,
}

impl Allowance {
    /// Half a percent behind is what a clock and a second's edges make; more is another rate.
    pub const SHORTFALL: f64 = 0.005;
}

/// What a trial says of a rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The device carried it.
    Pass,
    /// The device did not.
    Fail(Vec<Reason>),
    /// The generator did not do what it was asked, so that nothing is said of the device.
    Invalid(Vec<Reason>),
}

impl Verdict {
    /// Whether the device carried the rate.
    pub fn passed(&self) -> bool {
        *self == Verdict::Pass
    }

    /// Whether nothing is said of the device.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Verdict::Invalid(_))
    }

    /// Whether nothing else was wrong than that the generator did not get to its ports for a moment.
    pub fn is_stalled(&self) -> bool {
        let stalled = |reason: &Reason| matches!(reason, Reason::Stalled { .. });
        matches!(self, Verdict::Invalid(reasons) if reasons.iter().all(stalled))
    }

    /// Why not.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Verdict::Pass => &[],
            Verdict::Fail(reasons) | Verdict::Invalid(reasons) => reasons,
        }
    }

    /// In a word, as results show it.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail(_) => "fail",
            Verdict::Invalid(_) => "invalid",
        }
    }
}

/// One thing that is wrong with a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Fewer connections were opened than asked for.
    NotOffered {
        /// Asked for, each second.
        asked: f64,
        /// Opened, each second.
        opened: f64,
        /// Opens that the generator was too late for, ramp and all.
        missed: u64,
    },
    /// Fewer frames were sent than asked for.
    FramesNotOffered {
        /// Asked for, each second and direction.
        asked: f64,
        /// Frames that the generator was too late for.
        missed: u64,
        /// Of all that fell due, 0 to 1.
        share: f64,
    },
    /// Hosts waited longer before messages than they should.
    Overrun {
        /// Pauses that lasted too long.
        overrun: u64,
        /// Of how many.
        of: u64,
    },
    /// Packets were lost while the generator looked at no port.
    Stalled {
        /// For how long.
        ms: f64,
    },
    /// The generator paused within a burst: the device had time to empty its queues.
    BurstPaused {
        /// For how long.
        ms: f64,
    },
    /// Flows that the trial was to use did not all reach the other side before it.
    NotFilled {
        /// That did.
        arrived: u64,
        /// Of how many.
        of: u64,
    },
    /// What was to be constant while the rate stood was not (RFC 9411 section 7.2.3.3).
    Unsteady {
        /// What.
        what: &'static str,
        /// How far it was from its mean at most, in percent.
        percent: f64,
        /// How far it may be.
        allowed: f64,
    },
    /// So many connections were alive that no more could be opened.
    AtLimit(u64),
    /// Every combination of addresses and ports that was tried was in use.
    TuplesExhausted(u64),
    /// The generator's server had no room.
    ServerFull(u64),
    /// The generator's ports refused packets.
    PortErrors(u64),
    /// More arrived than was sent.
    MoreArrived {
        /// `client to server` or the other way.
        way: &'static str,
        /// Packets sent.
        sent: u64,
        /// Packets received.
        received: u64,
    },
    /// The device still held connections of an earlier trial.
    TableNotEmpty(u64),
    /// The device cannot be measured at all.
    Broken(super::Broken),
    /// The device's table was full.
    TableFull(u64),
    /// Packets did not arrive.
    Lost {
        /// `client to server` or the other way.
        way: &'static str,
        /// How many.
        lost: u64,
        /// Of how many.
        sent: u64,
    },
    /// Connections failed.
    Failed {
        /// In which way.
        kind: &'static str,
        /// How many.
        count: u64,
    },
    /// Connections did not end.
    Unfinished(u64),
    /// Connections did not add up.
    Unaccounted(u64),
    /// Packets were so long on their way that they were taken for lost.
    EndedEarly,
    /// Fewer connections were completed than opened, and the backlog grew.
    Behind {
        /// Opened, each second.
        opened: f64,
        /// Completed, each second.
        completed: f64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotOffered { asked, opened, missed } => write!(
                f,
                "the generator opened {opened:.0} connections a second of the {asked:.0} asked \
                 for, and was too late for {missed}"
            ),
            Reason::FramesNotOffered { asked, missed, share } => write!(
                f,
                "the generator was too late for {missed} frames, {:.2}% of {asked:.0} a second",
                100.0 * share
            ),
            Reason::Overrun { overrun, of } => {
                let share = 100.0 * *overrun as f64 / (*of).max(1) as f64;
                write!(f, "the generator was too late for {overrun} messages ~ {share:.2}%")
            }
            Reason::Stalled { ms } => {
                write!(
                    f,
                    "the generator did not get to its ports for {ms:.1} ms, and packets were lost"
                )
            }
            Reason::BurstPaused { ms } => {
                write!(f, "the generator paused for {ms:.1} ms within the burst")
            }
            Reason::NotFilled { arrived, of } => write!(
                f,
                "only {arrived} of {of} flows reached the other side before the trial; give \
                 phase 1 a lower --rate"
            ),
            Reason::Unsteady { what, percent, allowed } => {
                write!(f, "{what} was {percent:.1}% from its mean; {allowed:.0}% may be")
            }
            Reason::AtLimit(n) => {
                write!(f, "{n} connections not opened, as too many were alive; raise --max-flows")
            }
            Reason::TuplesExhausted(n) => {
                write!(f, "{n} opens found no free addresses and ports; widen the ranges")
            }
            Reason::ServerFull(n) => {
                write!(f, "{n} connections refused by the generator's full server")
            }
            Reason::PortErrors(n) => {
                write!(f, "{n} packets refused by the generator's own ports")
            }
            Reason::MoreArrived { way, sent, received } => {
                write!(f, "{way}: {received} packets arrived of {sent} sent")
            }
            Reason::TableNotEmpty(n) => {
                write!(f, "the device still held {n} connections of an earlier sample")
            }
            Reason::Broken(broken) => write!(f, "{broken}"),
            Reason::TableFull(n) => write!(f, "table full: {n} connections refused by the device"),
            Reason::Lost { way, lost, sent } => {
                let share = 100.0 * *lost as f64 / (*sent).max(1) as f64;
                write!(f, "dropped, {way}: {lost} of {sent} packets ~ {share:.4}%")
            }
            Reason::Failed { kind, count } => {
                write!(f, "connections {}: {count}", kind.replace('_', " "))
            }
            Reason::Unfinished(n) => write!(f, "connections that did not end: {n}"),
            Reason::Unaccounted(n) => write!(f, "connections that do not add up: {n}"),
            Reason::EndedEarly => write!(f, "more packets were on their way than queues hold"),
            Reason::Behind { opened, completed } => {
                write!(f, "{completed:.0} connections a second completed of {opened:.0} opened")
            }
        }
    }
}

/// Below this share of the connections opened, those completed are behind.
const BEHIND: f64 = 0.97;

/// Decides about a trial. A fault of the generator or of what carries its packets is looked for
/// first: it must never be taken for a figure.
pub fn judge(sample: &Sample, allowed: &Allowance) -> Verdict {
    let failures = of_the_device(sample, allowed);
    let mut faults = of_the_generator(sample, allowed);
    if failures.iter().any(|reason| matches!(reason, Reason::Lost { .. })) {
        let due = sample.due_per_second_and_side();
        faults.extend(stalled(sample.stall_ns, due, sample.queue_packets));
    }
    // A device that answers nothing piles connections up at the client until no more can be
    // opened: that limit is the device's doing, and so is the rate that was not reached.
    let piled_up = sample.at_limit > 0 && !failures.is_empty();
    if piled_up {
        faults.retain(|reason| {
            !matches!(reason, Reason::AtLimit(_) | Reason::NotOffered { .. })
                || sample.missed > sample.at_limit
        });
    }
    if !faults.is_empty() {
        return Verdict::Invalid(faults);
    }
    if failures.is_empty() { Verdict::Pass } else { Verdict::Fail(failures) }
}

fn of_the_generator(sample: &Sample, allowed: &Allowance) -> Vec<Reason> {
    let mut found = Vec::new();
    if let Some(broken) = sample.broken() {
        found.push(Reason::Broken(broken));
    }
    for (way, it) in [("client to server", sample.forth), ("server to client", sample.back)] {
        if it.received > it.sent {
            found.push(Reason::MoreArrived { way, sent: it.sent, received: it.received });
        }
    }
    if let Some(left) = sample.table_before.filter(|&left| left > 0) {
        found.push(Reason::TableNotEmpty(left));
    }
    let opened = sample.opened_per_second();
    // What falls due at the window's edge may be opened behind it: one connection, or as much as
    // the pacer may be late.
    let late = 1.0 + sample.offered * Pacer::LATE_NS as f64 / 1e9;
    let edge = if sample.window.seconds > 0.0 { late / sample.window.seconds } else { 0.0 };
    let missed = sample.missed as f64;
    if opened + edge < sample.offered * (1.0 - allowed.shortfall)
        || missed > allowed.shortfall * (sample.opened as f64 + missed)
    {
        let asked = sample.offered.max(opened);
        found.push(Reason::NotOffered { asked, opened, missed: sample.missed });
    }
    let (overrun, of) = (sample.pauses_overrun, sample.pauses);
    // Otherwise the device would be blamed for connections that end late.
    if overrun as f64 > (1.0 - BEHIND) * of as f64 {
        found.push(Reason::Overrun { overrun, of });
    }
    let counted = [
        (sample.at_limit, Reason::AtLimit as fn(u64) -> Reason),
        (sample.tuples_exhausted, Reason::TuplesExhausted),
        (sample.server_full, Reason::ServerFull),
        (sample.port_errors, Reason::PortErrors),
    ];
    found.extend(counted.into_iter().filter(|(n, _)| *n > 0).map(|(n, reason)| reason(n)));
    found
}

fn of_the_device(sample: &Sample, allowed: &Allowance) -> Vec<Reason> {
    let mut found = Vec::new();
    let too_many = |part: u64, of: u64| part > 0 && part as f64 > allowed.loss * of as f64;
    for (way, it) in [("client to server", sample.forth), ("server to client", sample.back)] {
        if too_many(it.lost(), it.sent) {
            found.push(Reason::Lost { way, lost: it.lost(), sent: it.sent });
        }
    }
    if sample.table_full > 0 {
        found.push(Reason::TableFull(sample.table_full));
    }
    if too_many(sample.failed.total() + sample.unfinished, sample.opened) {
        let kinds = sample.failed.by_name().into_iter().filter(|(_, count)| *count > 0);
        found.extend(kinds.map(|(kind, count)| Reason::Failed { kind, count }));
        if sample.unfinished > 0 {
            found.push(Reason::Unfinished(sample.unfinished));
        }
    }
    let ended = sample.completed + sample.failed.total() + sample.unfinished + sample.cut_short;
    if ended != sample.opened {
        found.push(Reason::Unaccounted(ended.abs_diff(sample.opened)));
    }
    let (opened, completed) = (sample.opened_per_second(), sample.completed_per_second());
    // Whoever drives the trial waits for a connection's whole life before the window begins, so
    // that as many end in it as begin. Edges and timers' grains are forgiven.
    if sample.ended_early {
        // Its window is no steady one; and whatever ended it early, it never is a pass.
        if found.is_empty() {
            found.push(Reason::EndedEarly);
        }
    } else if completed * sample.window.seconds + 10.0 < opened * sample.window.seconds * BEHIND {
        found.push(Reason::Behind { opened, completed });
    }
    found
}
