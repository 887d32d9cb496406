//! What a tunnel port is configured to be.

use flow::TunnelKind;
use std::net::{IpAddr, Ipv6Addr};

/// A tunnel port's configuration (ovs: `lib/netdev.h`, `struct netdev_tunnel_config`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelConfig {
    /// The protocol.
    pub kind: TunnelKind,
    /// The other end.
    pub remote: Endpoint,
    /// This end.
    pub local: Endpoint,
    /// The key of packets that are received.
    pub in_key: Key,
    /// The key of packets that are sent.
    pub out_key: Key,
    /// The UDP port of both ends.
    pub udp_port: u16,
    /// The outer TOS without its ECN bits, which are always taken from the packet.
    pub tos: Inherit,
    /// The outer TTL.
    pub ttl: Inherit,
    /// Outer IPv4 packets must not be fragmented.
    pub dont_fragment: bool,
    /// Outer packets have a checksum.
    pub checksum: bool,
    /// GRE and GTP-U packets have a sequence number.
    pub sequence: bool,
    /// VXLAN with a group policy.
    pub group_policy: bool,
    /// VXLAN with the generic protocol extension.
    pub generic_protocol: bool,
    /// The packet mark of outer packets.
    pub egress_mark: Option<u32>,
    /// Whether packets have an Ethernet header within the tunnel.
    pub packet_type: PacketType,
    /// What ERSPAN headers say.
    pub erspan: Erspan,
    /// The Ethernet type of what bareudp carries.
    pub payload_type: u16,
    /// SRv6's segments in the order in which they are visited; without any, the other end is the only one.
    pub segments: Vec<Ipv6Addr>,
    /// SRv6's flow label.
    pub flow_label: FlowLabel,
}

/// The flow label of SRv6's outer packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlowLabel {
    /// That of the inner packet, 0 where it is IPv4.
    #[default]
    Copy,
    /// 0.
    Zero,
    /// A hash of the inner packet's addresses and ports.
    Compute,
}

/// The most segments (ovs: `lib/netdev.h`, `SRV6_MAX_SEGS`).
pub(crate) const SEGMENTS_MAX: usize = 6;

/// An end of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Endpoint {
    /// Any address.
    #[default]
    Any,
    /// This one.
    Is(IpAddr),
    /// As flows say.
    Flow,
}

/// A tunnel's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Key {
    /// No key; received packets have key 0 or none.
    #[default]
    Absent,
    /// This one.
    Is(u64),
    /// As flows say.
    Flow,
}

impl Key {
    /// The number; 0 without a key, or if flows set it.
    pub fn value(self) -> u64 {
        if let Key::Is(key) = self { key } else { 0 }
    }
}

/// A field of the outer header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inherit {
    /// The inner IP packet's value; this one if the inner packet is not IP.
    Packet(u8),
    /// Always this.
    Is(u8),
}

/// The type of the packets in a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PacketType {
    /// Ethernet frames.
    #[default]
    LegacyL2,
    /// Packets without an Ethernet header, which get one on this side.
    LegacyL3,
    /// Both.
    Aware,
}

/// A number, or that flows say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowOr<T> {
    /// The number.
    Is(T),
    /// As flows say.
    Flow,
}

impl<T: Copy> FlowOr<T> {
    /// The number, or what the flow says.
    pub fn or(self, flow: T) -> T {
        if let FlowOr::Is(value) = self { value } else { flow }
    }
}

/// What ERSPAN headers say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Erspan {
    /// 1 or 2.
    pub version: FlowOr<u8>,
    /// The index of version 1.
    pub index: FlowOr<u32>,
    /// The direction of version 2.
    pub direction: FlowOr<u8>,
    /// The hardware's number of version 2.
    pub hardware: FlowOr<u8>,
}

impl Default for Erspan {
    fn default() -> Self {
        let (version, index) = (FlowOr::Is(0), FlowOr::Is(0));
        Erspan { version, index, direction: FlowOr::Is(0), hardware: FlowOr::Is(0) }
    }
}

/// The TTL where none is configured (ovs: `lib/netdev-vport.c`, `DEFAULT_TTL`).
pub(crate) const DEFAULT_TTL: u8 = 64;

impl TunnelConfig {
    /// A tunnel of this kind with everything at its default, and no end yet.
    pub fn new(kind: TunnelKind) -> Self {
        let udp_port = default_udp_port(kind);
        let packet_type = match kind {
            TunnelKind::Gtpu | TunnelKind::Bareudp | TunnelKind::Srv6 => PacketType::LegacyL3,
            _ => PacketType::LegacyL2,
        };
        TunnelConfig {
            kind,
            remote: Endpoint::Any,
            local: Endpoint::Any,
            in_key: Key::Absent,
            out_key: Key::Absent,
            udp_port,
            tos: Inherit::Is(0),
            ttl: Inherit::Is(DEFAULT_TTL),
            dont_fragment: true,
            checksum: false,
            sequence: false,
            group_policy: false,
            generic_protocol: false,
            egress_mark: None,
            packet_type,
            erspan: Erspan::default(),
            payload_type: 0,
            segments: Vec::new(),
            flow_label: FlowLabel::Copy,
        }
    }

    /// The name of the datapath's port that the tunnel shares with others.
    pub fn device_name(&self) -> String {
        self.kind.device_name(self.udp_port)
    }

    /// Whether the tunnel can carry Ethernet frames.
    pub(crate) fn carries_frames(&self) -> bool {
        !matches!(self.kind, TunnelKind::Gtpu | TunnelKind::Bareudp | TunnelKind::Srv6)
    }

    /// Whether it can carry packets without an Ethernet header.
    pub(crate) fn carries_packets(&self) -> bool {
        match self.kind {
            TunnelKind::Gre | TunnelKind::Gtpu | TunnelKind::Bareudp | TunnelKind::Srv6 => true,
            TunnelKind::Vxlan => self.generic_protocol,
            _ => false,
        }
    }
}

pub(crate) fn default_udp_port(kind: TunnelKind) -> u16 {
    match kind {
        TunnelKind::Vxlan => wire::vxlan::PORT,
        TunnelKind::Geneve => wire::geneve::PORT,
        TunnelKind::Gtpu => wire::gtpu::PORT,
        _ => 0,
    }
}
