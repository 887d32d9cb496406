//! The verdict on a trial, from its numbers alone.

use super::frames::stalled;
use super::reason::Reason;
use super::sample::Sample;
use crate::pacer::Pacer;

/// What a device may lose and still pass, and how exactly the rate must be offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Share of packets in each direction, and of connections, 0 to 1.
    pub loss: f64,
    /// Allowed shortfall of the offered rate, 0 to 1.
    pub shortfall: f64,
}

impl Allowance {
    /// Half a percent covers clock and window edges; a larger shortfall is another rate.
    pub const SHORTFALL: f64 = 0.005;
}

/// The verdict on one trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The device carried it.
    Pass,
    /// The device did not.
    Fail(Vec<Reason>),
    /// The generator did not offer the requested load, so the trial says nothing about the device.
    Invalid(Vec<Reason>),
}

impl Verdict {
    /// Returns whether the device carried the rate.
    pub fn passed(&self) -> bool {
        *self == Verdict::Pass
    }

    /// Returns whether the trial says nothing about the device.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Verdict::Invalid(_))
    }

    /// Returns whether the only reason is that the generator stalled.
    pub fn is_stalled(&self) -> bool {
        let stalled = |reason: &Reason| matches!(reason, Reason::Stalled { .. });
        matches!(self, Verdict::Invalid(reasons) if reasons.iter().all(stalled))
    }

    /// Returns the reasons; empty for [`Verdict::Pass`].
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Verdict::Pass => &[],
            Verdict::Fail(reasons) | Verdict::Invalid(reasons) => reasons,
        }
    }

    /// Returns the verdict as one word for results.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail(_) => "fail",
            Verdict::Invalid(_) => "invalid",
        }
    }
}

/// Completed connections below this share of the opened ones count as behind.
const BEHIND: f64 = 0.97;

/// Judges a trial. Faults of the generator and of its ports are checked first, so that they never become a
/// figure.
pub fn judge(sample: &Sample, allowed: &Allowance) -> Verdict {
    let failures = of_the_device(sample, allowed);
    let mut faults = of_the_generator(sample, allowed);
    if failures.iter().any(|reason| matches!(reason, Reason::Lost { .. })) {
        let due = sample.due_per_second_and_side();
        faults.extend(stalled(sample.stall_ns, due, sample.queue_packets));
    }
    // If a device answers nothing, connections pile up at the client until no more can be opened: the device
    // is the cause of that limit and of the rate that was not reached.
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
    found.extend(not_offered(sample, allowed));
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

/// Returns a reason where the generator opened fewer connections than requested.
pub fn not_offered(sample: &Sample, allowed: &Allowance) -> Option<Reason> {
    let opened = sample.opened_per_second();
    // A connection that is due at the window's edge may be opened after it: one connection, or as many as the
    // pacer may be late.
    let late = 1.0 + sample.offered * Pacer::LATE_NS as f64 / 1e9;
    let edge = if sample.window.seconds > 0.0 { late / sample.window.seconds } else { 0.0 };
    let missed = sample.missed as f64;
    let behind = opened + edge < sample.offered * (1.0 - allowed.shortfall)
        || missed > allowed.shortfall * (sample.opened as f64 + missed);
    let asked = sample.offered.max(opened);
    behind.then_some(Reason::NotOffered { asked, opened, missed: sample.missed })
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
    // The driver waits for a connection's whole life before the window begins, so that as many end in it as
    // begin. Edges and the granularity of timers are tolerated.
    if sample.ended_early {
        // The window of a trial that ended early is not steady, and such a trial never passes.
        if found.is_empty() {
            found.push(Reason::EndedEarly);
        }
    } else if completed * sample.window.seconds + 10.0 < opened * sample.window.seconds * BEHIND {
        found.push(Reason::Behind { opened, completed });
    }
    found
}
