//! Why a switch in memory cannot be made.

/// Why there is no switch.
#[derive(Debug, thiserror::Error)]
pub enum InMemoryError {
    /// A port is refused.
    #[error("a port in memory is refused: {0}")]
    Port(String),
    /// A flow is none, or is refused.
    #[error("line {line}: \"{flow}\": {reason}")]
    Rule {
        /// Its line, counted from 1.
        line: usize,
        /// The flow.
        flow: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are more threads than may track.
    #[error(transparent)]
    Conntrack(#[from] conntrack::Error),
}
