//! What is still to be done to a packet, in the kernel's vnet-header terms
//! (Linux: `include/uapi/linux/virtio_net.h`).

/// The state of a packet's transport checksum and segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offload {
    /// What is known of the transport checksum.
    pub checksum: Checksum,
    /// Present where the frame is larger than the network's segments and must be cut before a
    /// wire sees it.
    pub gso: Option<Gso>,
}

/// What is known of the transport checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Nothing: a reader that relies on it verifies it.
    #[default]
    Unverified,
    /// Verified by a device or by us, or never on a wire at all.
    Good,
    /// Not computed yet: the field at `start + offset` holds the pseudo header's sum, and the
    /// last one to send the packet sums from `start` to the end (CHECKSUM_PARTIAL).
    Partial {
        /// Where summing starts, in bytes from the start of the frame.
        start: u16,
        /// Where the checksum field lies, in bytes from `start`.
        offset: u16,
    },
}

/// How a large frame is to be cut.
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

/// Protocols the kernel segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP cut into datagrams (UDP_L4).
    UdpL4,
}
