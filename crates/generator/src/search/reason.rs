//! Reasons why a trial did not pass, and their texts.

use std::fmt;

/// One reason why a trial did not pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// Fewer connections were opened than requested.
    NotOffered {
        /// Requested connections per second.
        asked: f64,
        /// Opened connections per second.
        opened: f64,
        /// Opens that the generator was too late for, the ramp included.
        missed: u64,
    },
    /// Fewer frames were sent than requested.
    FramesNotOffered {
        /// Requested frames per second and direction.
        asked: f64,
        /// Frames that the generator was too late for.
        missed: u64,
        /// Their share of all frames that were due, 0 to 1.
        share: f64,
    },
    /// Sending took too long.
    TooSlow {
        /// Actual seconds.
        took: f64,
        /// Expected seconds.
        due: f64,
    },
    /// Hosts waited longer before messages than configured.
    Overrun {
        /// Pauses that lasted too long.
        overrun: u64,
        /// All pauses.
        of: u64,
    },
    /// Packets were lost while the generator polled no port.
    Stalled {
        /// Length of the stall, in milliseconds.
        ms: f64,
    },
    /// The generator paused within a burst, so that the device had time to empty its queues.
    BurstPaused {
        /// Length of the pause, in milliseconds.
        ms: f64,
    },
    /// Not all flows of the trial reached the other side during the filling phase.
    NotFilled {
        /// Flows that did.
        arrived: u64,
        /// All flows.
        of: u64,
    },
    /// A value that must be constant at the full rate was not (RFC 9411 section 7.2.3.3).
    Unsteady {
        /// Name of the value.
        what: &'static str,
        /// Its largest deviation from the mean, in percent.
        percent: f64,
        /// Allowed deviation, in percent.
        allowed: f64,
    },
    /// The limit of connections alive was reached, and no more could be opened.
    AtLimit(u64),
    /// Every combination of addresses and ports that was tried was in use.
    TuplesExhausted(u64),
    /// The generator's server had no free connection.
    ServerFull(u64),
    /// The generator's ports rejected packets.
    PortErrors(u64),
    /// More packets arrived than were sent.
    MoreArrived {
        /// `client to server`, or the reverse.
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
        /// `client to server`, or the reverse.
        way: &'static str,
        /// Packets lost.
        lost: u64,
        /// Packets sent.
        sent: u64,
    },
    /// Connections failed.
    Failed {
        /// Kind of failure.
        kind: &'static str,
        /// Number of connections.
        count: u64,
    },
    /// Connections did not end in time.
    Unfinished(u64),
    /// The counters of connections do not add up.
    Unaccounted(u64),
    /// Packets were delayed so long that they were taken for lost.
    EndedEarly,
    /// Fewer connections were completed than opened, and the backlog grew.
    Behind {
        /// Opened connections per second.
        opened: f64,
        /// Completed connections per second.
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
    /// Writes the reasons that are the generator's own faults.
    fn fmt_of_the_generator(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotOffered { asked, opened, missed } => write!(
                f,
                "the generator opened {opened:.0} connections per second of the {asked:.0} \
                 requested, and was too late for {missed}"
            ),
            Reason::FramesNotOffered { asked, missed, share } => write!(
                f,
                "the generator was too late for {missed} frames, {:.2}% of {asked:.0} per second",
                100.0 * share
            ),
            Reason::TooSlow { took, due } => {
                write!(
                    f,
                    "the generator took {took:.2} s to send what should have taken {due:.2} s"
                )
            }
            Reason::Overrun { overrun, of } => {
                let share = 100.0 * *overrun as f64 / (*of).max(1) as f64;
                write!(f, "the generator was too late for {overrun} messages ~ {share:.2}%")
            }
            Reason::Stalled { ms } => {
                write!(
                    f,
                    "the generator did not poll its ports for {ms:.1} ms, and packets were lost"
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
                write!(
                    f,
                    "{what} deviated by {percent:.1}% from its mean; {allowed:.0}% is allowed"
                )
            }
            Reason::AtLimit(n) => write!(
                f,
                "{n} connections not opened: the limit of connections alive was reached; raise \
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
            // Written by `fmt`.
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
