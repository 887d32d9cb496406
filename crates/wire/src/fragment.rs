//! Which part of a datagram a packet carries.

/// Whether a packet is a fragment, and whether the transport header is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Fragment {
    /// A whole datagram.
    #[default]
    None,
    /// The first of several: it starts with the transport header.
    First,
    /// One after the first: no transport header in it.
    Later,
}

impl Fragment {
    /// From the offset of the fragment in its datagram (any unit) and the "more" flag.
    pub const fn from_offset(offset: u16, more: bool) -> Self {
        match (offset, more) {
            (0, false) => Fragment::None,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        }
    }

    /// Whether the transport header can be in this packet.
    pub const fn has_transport_header(self) -> bool {
        !matches!(self, Fragment::Later)
    }
}
