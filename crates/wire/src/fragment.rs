//! The part of a datagram that a packet carries.

/// Whether a packet is a fragment, and whether it contains the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fragment {
    /// A whole datagram.
    #[default]
    None,
    /// The first fragment, which starts with the transport header.
    First,
    /// A fragment after the first, without a transport header.
    Later,
}

impl Fragment {
    /// Returns the part, from the offset in the datagram (in any unit) and the "more fragments" flag.
    pub const fn from_offset(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Fragment::None,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        }
    }

    /// Returns whether the packet can contain the transport header.
    pub const fn has_transport_header(self) -> bool {
        !matches!(self, Fragment::Later)
    }
}
