//! Pattern items of `rte_flow` (DPDK's programmer's guide, "Generic flow API", "Pattern item").

use base::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bit of an integrity item: the network layer passed all checks of the device.
pub const L3_OK: u64 = 1 << 2;
/// Bit of an integrity item: the transport layer passed all checks of the device.
pub const L4_OK: u64 = 1 << 3;

/// Flag of a connection item: the segment is within the windows and changes only them
/// (`RTE_FLOW_CONNTRACK_PKT_STATE_VALID`).
pub const IN_WINDOW: u32 = 1;
/// The segment is within the windows, and changes the connection's state (the same with
/// `RTE_FLOW_CONNTRACK_PKT_STATE_CHANGED`).
pub const CHANGES_STATE: u32 = 3;

/// Values of a header's fields, with a mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spec<T> {
    /// The values. Bits outside the mask are zero.
    pub value: T,
    /// The mask.
    pub mask: T,
}

/// An item of a pattern. Header items are in the order of the headers in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// `REPRESENTED_PORT`: the packet enters the device's embedded switch from the entity that this DPDK port
    /// represents: the wire, or a guest's function.
    RepresentedPort(u16),
    /// `ETH`.
    Eth(Spec<Eth>),
    /// `VLAN`.
    Vlan(Spec<Vlan>),
    /// `IPV4`.
    Ipv4(Spec<Ipv4>),
    /// `IPV6`.
    Ipv6(Spec<Ipv6>),
    /// `TCP`.
    Tcp(Spec<Tcp>),
    /// `UDP`.
    Udp(Spec<Udp>),
    /// `VXLAN`, with an exact VNI. Later items match the inner packet.
    Vxlan {
        /// The network identifier.
        vni: u32,
        /// Whether the flags are matched as well: only the VNI's is set (RFC 7348 section 5).
        compares_flags: bool,
    },
    /// `INTEGRITY`: the device checked the packet, and these bits are set.
    Integrity {
        /// 1 for the outermost headers, 2 for those inside a tunnel.
        level: u32,
        /// Bits, such as [`L3_OK`].
        bits: u64,
    },
    /// `CONNTRACK`: the result of a connection object, matched exactly; [`IN_WINDOW`] or [`CHANGES_STATE`].
    Connection(u32),
}

/// An Ethernet header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Eth {
    /// Destination.
    pub destination: MacAddr,
    /// Source.
    pub source: MacAddr,
    /// The type; that of a VLAN tag if one follows.
    pub ethertype: u16,
    /// Whether a VLAN tag follows.
    pub has_vlan: bool,
}

/// A VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vlan {
    /// Priority, drop eligibility and identifier.
    pub tci: u16,
}

/// An IPv4 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv4 {
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// The protocol that follows.
    pub protocol: u8,
    /// Flags and offset of a fragment.
    pub fragment: u16,
    /// Source.
    pub source: Ipv4Addr,
    /// Destination.
    pub destination: Ipv4Addr,
}

/// An IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipv6 {
    /// Traffic class.
    pub class: u8,
    /// Flow label.
    pub label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// The protocol that follows.
    pub next_header: u8,
    /// Whether a fragment header follows.
    pub has_fragment: bool,
    /// Source.
    pub source: Ipv6Addr,
    /// Destination.
    pub destination: Ipv6Addr,
}

/// A TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tcp {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// The lower eight flags.
    pub flags: u8,
}

/// A UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Udp {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

impl Default for Ipv4 {
    fn default() -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        Ipv4 { tos: 0, ttl: 0, protocol: 0, fragment: 0, source: none, destination: none }
    }
}

impl Default for Ipv6 {
    fn default() -> Self {
        Ipv6 {
            class: 0,
            label: 0,
            hop_limit: 0,
            next_header: 0,
            has_fragment: false,
            source: Ipv6Addr::UNSPECIFIED,
            destination: Ipv6Addr::UNSPECIFIED,
        }
    }
}
