//! A reference to a connection, by number.

/// The connection of a packet. It is valid while its generation is that of the connection's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionRef {
    /// The number of its record.
    pub id: u32,
    /// The generation of the record. It changes when the record is reused for another connection, and when
    /// the state, mark, label or NAT of this one changes.
    pub generation: u32,
    /// Whether the packet is a reply.
    pub is_reply: bool,
}
