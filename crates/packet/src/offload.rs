//! What is still to be done to a packet, in the kernel's vnet-header terms
//! (Linux: `include/uapi/linux/virtio_net.h`).

/// The offload state of a packet: its transport checksum and segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// The state of the transport checksum.
    pub checksum: Checksum,
    /// Present if the frame is larger than a network segment and must be segmented before a wire.
    pub gso: Option<Gso>,
}

/// The state of the transport checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Unknown: a reader that needs a right checksum verifies it.
    #[default]
    Unverified,
    /// Verified by a device or by the switch, or never sent on a wire.
    Good,
    /// Not computed yet: the field at `start + offset` holds the pseudo header's sum, and the
    /// sender to a wire sums from `start` to the end (CHECKSUM_PARTIAL).
    Partial {
        /// Where summing starts, in bytes from the start of the frame.
        start: u16,
        /// Where the checksum field lies, in bytes from `start`.
        offset: u16,
    },
}

/// The parameters of segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// Which protocol's rules apply.
    pub kind: GsoKind,
    /// Transport payload bytes in each segment.
    pub segment_bytes: u16,
    /// Bytes of headers that each segment repeats.
    pub header_bytes: u16,
    /// The sender's congestion-window-reduced flag goes onto the first segment only.
    pub ecn: bool,
}

/// Protocols that the kernel segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP cut into datagrams (UDP_L4).
    UdpL4,
}
