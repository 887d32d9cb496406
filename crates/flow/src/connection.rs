//! A connection by number.

/// A connection that a packet was found to belong to; good as long as nothing that flows can see
/// of it changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionRef {
    /// Its place in connection tracking.
    pub id: u32,
    /// Changes when the place gets another connection, and when what flows can see of this one
    /// changes: its state, mark, label or translation.
    pub generation: u32,
    /// The packet runs against the connection's original direction.
    pub is_reply: bool,
}
