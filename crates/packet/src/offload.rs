//! The offload state of packets, in the terms of the kernel's vnet header (Linux:
//! `include/uapi/linux/virtio_net.h`).

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
    /// Unknown: code that needs a correct checksum verifies it.
    #[default]
    Unverified,
    /// Verified by a device or by the switch, or never sent on a wire.
    Good,
    /// Not computed yet: the field at `start + offset` contains the sum of the pseudo-header, and the device
    /// that sends the frame sums from `start` to the end (CHECKSUM_PARTIAL).
    Partial {
        /// The offset of the first summed byte from the start of the frame.
        start: u16,
        /// The offset of the checksum field from `start`.
        offset: u16,
    },
}

/// The parameters of segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// The protocol.
    pub kind: GsoKind,
    /// The length of the transport payload in each segment, in bytes.
    pub segment_bytes: u16,
    /// The length of the headers that each segment repeats, in bytes.
    pub header_bytes: u16,
    /// Only the first segment gets the sender's CWR flag (RFC 3168 section 6.1.2).
    pub ecn: bool,
}

/// Protocols that the kernel segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP, split into datagrams (UDP_L4).
    UdpL4,
}
