//! Errors in making a switch in memory.

/// Why there is no switch.
#[derive(Debug, thiserror::Error)]
pub enum InMemoryError {
    /// A port was refused.
    #[error("a port in memory is refused: {0}")]
    Port(String),
    /// A flow is invalid, or was refused.
    #[error("line {line}: \"{flow}\": {reason}")]
    Rule {
        /// Its line, from 1.
        line: usize,
        /// The flow.
        flow: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More threads than connection tracking supports.
    #[error(transparent)]
    Conntrack(#[from] conntrack::Error),
}
