//! The configuration of tunnel ports.

use flow::{TunnelEnd, TunnelKind};
use std::net::{IpAddr, Ipv6Addr};

/// A tunnel port's configuration (ovs: `lib/netdev.h`, `struct netdev_tunnel_config`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TunnelConfig {
    /// The protocol.
    pub kind: TunnelKind,
    /// The remote end.
    pub remote: Endpoint,
    /// The local end.
    pub local: Endpoint,
    /// The key of received packets.
    pub in_key: Key,
    /// The key of sent packets.
    pub out_key: Key,
    /// The UDP port of both ends.
    pub udp_port: u16,
    /// The outer TOS without the ECN bits, which are always copied from the inner packet.
    pub tos: Inherit,
    /// The outer TTL.
    pub ttl: Inherit,
    /// Outer IPv4 packets must not be fragmented.
    pub dont_fragment: bool,
    /// Whether outer packets have a checksum.
    pub checksum: Checksum,
    /// GRE packets have a sequence number.
    pub sequence: bool,
    /// VXLAN has the group policy extension.
    pub group_policy: bool,
    /// VXLAN has the generic protocol extension.
    pub generic_protocol: bool,
    /// The packet mark of outer packets.
    pub egress_mark: Option<u32>,
    /// The type of the inner packets.
    pub packet_type: PacketType,
    /// The fields of ERSPAN headers.
    pub erspan: Erspan,
    /// The Ethernet type of the payload of bareudp.
    pub payload_type: u16,
    /// The segments of SRv6 in the order in which packets visit them. If empty, the remote end is the only
    /// one.
    pub segments: Vec<Ipv6Addr>,
    /// The flow label of SRv6.
    pub flow_label: FlowLabel,
}

/// Whether outer packets have a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// The default of the protocol: UDP over IPv6 has a checksum, other packets have none.
    #[default]
    Usual,
    /// Outer packets have a checksum.
    On,
    /// Outer packets have none. Over IPv6 the receiver must be configured to accept them (RFC 6935).
    Off,
}

/// The flow label of outer SRv6 packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlowLabel {
    /// The flow label of the inner packet, or 0 for IPv4.
    #[default]
    Copy,
    /// 0.
    Zero,
    /// A hash of the inner packet's addresses and ports.
    Compute,
}

/// The maximum number of segments (ovs: `lib/netdev.h`, `SRV6_MAX_SEGS`).
pub(crate) const SEGMENTS_MAX: usize = 6;

/// An end of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Endpoint {
    /// Any address.
    #[default]
    Any,
    /// This address.
    Is(IpAddr),
    /// Flows match on it or set it.
    Flow,
}

/// A tunnel's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Key {
    /// No key; received packets have key 0 or none.
    #[default]
    Absent,
    /// This key.
    Is(u64),
    /// Flows match on it or set it.
    Flow,
}

impl Key {
    /// Returns the configured key, or 0 if there is none.
    pub fn value(self) -> u64 {
        if let Key::Is(key) = self { key } else { 0 }
    }
}

/// A field of the outer header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inherit {
    /// The value of the inner IP packet, or this value if the inner packet is not IP.
    Packet(u8),
    /// Always this value.
    Is(u8),
}

/// The type of the packets in a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PacketType {
    /// Ethernet frames.
    #[default]
    LegacyL2,
    /// Packets without an Ethernet header. The switch adds one on reception.
    LegacyL3,
    /// Both.
    Aware,
}

/// A number that is configured or set by flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowOr<T> {
    /// The configured number.
    Is(T),
    /// Flows set it.
    Flow,
}

impl<T: Copy> FlowOr<T> {
    /// Returns the configured number, or the one of the flow if none is configured.
    pub fn or(self, flow: T) -> T {
        if let FlowOr::Is(value) = self { value } else { flow }
    }

    /// Converts the number to another type.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> FlowOr<U> {
        match self {
            FlowOr::Is(value) => FlowOr::Is(change(value)),
            FlowOr::Flow => FlowOr::Flow,
        }
    }
}

/// The fields of ERSPAN headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Erspan {
    /// The version, 1 or 2.
    pub version: FlowOr<u8>,
    /// The index of version 1.
    pub index: FlowOr<u32>,
    /// The direction of version 2.
    pub direction: FlowOr<u8>,
    /// The hardware identifier of version 2.
    pub hardware: FlowOr<u8>,
}

impl Default for Erspan {
    fn default() -> Self {
        let (version, index) = (FlowOr::Is(0), FlowOr::Is(0));
        Erspan { version, index, direction: FlowOr::Is(0), hardware: FlowOr::Is(0) }
    }
}

/// The default TTL (ovs: `lib/netdev-vport.c`, `DEFAULT_TTL`).
pub(crate) const DEFAULT_TTL: u8 = 64;

impl TunnelConfig {
    /// Returns the default configuration of a tunnel of this kind, with any address at both ends.
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
            checksum: Checksum::Usual,
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

    /// Returns the name of the datapath port, which tunnels of the same kind and UDP port share.
    pub fn device_name(&self) -> String {
        self.kind.device_name(self.udp_port)
    }

    /// Returns which packets the tunnel's port of the datapath receives. Tunnels that share it must agree.
    pub fn end(&self) -> TunnelEnd {
        let TunnelConfig { kind, group_policy, payload_type, .. } = *self;
        TunnelEnd { kind, group_policy, payload_type }
    }

    /// Returns whether outer packets over IPv6 or IPv4 have a checksum.
    pub fn has_checksum(&self, is_ipv6: bool) -> bool {
        match self.checksum {
            Checksum::On => true,
            Checksum::Off => false,
            Checksum::Usual => is_ipv6 && self.kind.is_udp(),
        }
    }

    /// Returns whether the tunnel can carry Ethernet frames.
    pub(crate) fn carries_frames(&self) -> bool {
        !matches!(self.kind, TunnelKind::Gtpu | TunnelKind::Bareudp | TunnelKind::Srv6)
    }

    /// Returns whether the tunnel can carry packets without an Ethernet header.
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
