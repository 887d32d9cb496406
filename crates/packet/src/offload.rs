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
    /// Not computed yet: the checksum field of the outermost TCP or UDP header contains the sum of the
    /// pseudo-header, and the device that sends the frame adds the rest (CHECKSUM_PARTIAL).
    ///
    /// It has no positions: senders state them freely, and bytes that are written where a sender says are
    /// written behind the rules that the packet passed. Code that completes the checksum finds the header in the
    /// frame.
    Partial,
}

/// The parameters of segmentation. The frame's headers say the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// The protocol.
    pub kind: GsoKind,
    /// The length of the transport payload in each segment, in bytes.
    pub segment_bytes: u16,
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
