//! Where the headers of a frame lie.

/// Offsets of the headers of a frame, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layers {
    /// The network header, after all VLAN tags.
    pub l3: u16,
    /// The transport header, or `None` if there is none to parse: the packet is not IP, is truncated, or is a
    /// fragment other than the first.
    pub l4: Option<u16>,
}
