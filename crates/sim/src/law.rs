//! The laws that hold in every run.

use std::fmt::{self, Display, Formatter};

/// A law of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// A packet takes a path of the rules that were valid while it was in the switch. Replaced rules count as
    /// valid until all installed flows were looked at once more, at most as many slices of revalidation later as
    /// that takes, and one; and until the worker has executed the resulting commands.
    Rules,
    /// The packets of a flow leave each port in the order of their arrival, whatever the state of their
    /// connection is, and also while rules change.
    Order,
    /// A packet that is not sent to a port as the rules require is counted as lost.
    Loss,
    /// Revalidation ends soon after the last change.
    Slices,
    /// Each packet counts exactly once in each table and rule of its path.
    Statistics,
    /// The control side and each worker have the same installed flows.
    Flows,
    /// Every packet that leaves the switch was received by it, and no part of the switch stops answering.
    Sanity,
}

/// A violation of a law.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Violation {
    /// The law.
    pub law: Law,
    /// The step; the number of steps stands for the end of the run.
    pub step: usize,
    /// The observation and the expectation.
    pub text: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {:?}: {}", self.step, self.law, self.text)
    }
}
