//! What must hold in every run.

use std::fmt::{self, Display, Formatter};

/// A law of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// A packet does what the rules say that were in force while it was on its way. Rules that were
    /// replaced count until the control side says that it has looked through all installed flows
    /// and the worker has carried that out.
    Rules,
    /// No packet overtakes another of its flow on the way to the same port, whatever the state of their
    /// connection is.
    Order,
    /// A packet that is not sent where it should be is counted as lost.
    Loss,
    /// Revalidation ends after as many slices as the installed flows fill.
    Slices,
    /// Each packet counts once in the tables and rules that it visited.
    Statistics,
    /// The control side and each worker know the same installed flows.
    Flows,
    /// What leaves the switch came into it, and the parts of the switch never stop answering.
    Sanity,
}

/// A law that did not hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Violation {
    /// Which.
    pub law: Law,
    /// In which step; the plan's length stands for its end.
    pub step: usize,
    /// What was seen and what was expected.
    pub text: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {:?}: {}", self.step, self.law, self.text)
    }
}
