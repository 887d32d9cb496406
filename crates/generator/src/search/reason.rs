//! What can be wrong with a trial, and how it is said.

use std::fmt;

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
    /// Sending took longer than it should have.
    TooSlow {
        /// Seconds that it took.
        took: f64,
        /// Seconds that it should have taken.
        due: f64,
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
                write!(f, "{completed:.0} connections per second completed of {opened:.0} opened")
            }
            fault => fault.fmt_of_the_generator(f),
        }
    }
}

impl Reason {
    /// The generator's own faults.
    fn fmt_of_the_generator(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotOffered { asked, opened, missed } => write!(
                f,
                "the generator opened {opened:.0} connections per second of the {asked:.0} asked \
                 for, and was too late for {missed}"
            ),
            Reason::FramesNotOffered { asked, missed, share } => write!(
                f,
                "the generator was too late for {missed} frames, {:.2}% of {asked:.0} a second",
                100.0 * share
            ),
            Reason::TooSlow { took, due } => {
                write!(f, "the generator took {took:.2} s to send what was to take {due:.2} s")
            }
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
            Reason::AtLimit(n) => write!(
                f,
                "{n} connections not opened: as many as may be were alive already; raise \
                 --max-flows (generate: --connections)"
            ),
            Reason::TuplesExhausted(n) => {
                write!(f, "{n} opens found no free addresses and ports; widen the ranges")
            }
            Reason::ServerFull(n) => {
                write!(f, "{n} connections refused by the generator's full server")
            }
            Reason::PortErrors(n) => {
                write!(f, "{n} packets refused by the generator's own ports")
            }
            // Said above.
            Reason::MoreArrived { .. }
            | Reason::TableNotEmpty(_)
            | Reason::Broken(_)
            | Reason::TableFull(_)
            | Reason::Lost { .. }
            | Reason::Failed { .. }
            | Reason::Unfinished(_)
            | Reason::Unaccounted(_)
            | Reason::EndedEarly
            | Reason::Behind { .. } => Ok(()),
        }
    }
}
