//! Tunnels, as the datapath's steps name them.

use crate::key::FlowKey;
use crate::option::OptionMapping;
use base::PortNo;
use std::sync::Arc;
use wire::protocol;

/// Bytes of an Ethernet header without tags.
const ETHERNET_LEN: usize = 14;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $number:literal, $device:literal, $protocol:expr;)*) => {
        /// A tunnel protocol, by the interface type of Open vSwitch.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum TunnelKind {
            $($(#[$doc])* $kind,)*
        }

        impl TunnelKind {
            /// All of them.
            pub const ALL: &[TunnelKind] = &[$(TunnelKind::$kind,)*];

            /// The interface type.
            pub const fn name(self) -> &'static str {
                match self { $(TunnelKind::$kind => $name,)* }
            }

            /// The number that stands for it in a dump of `tnl_push`
            /// (ovs: `include/linux/openvswitch.h`, `enum ovs_vport_type`).
            pub const fn number(self) -> u32 {
                match self { $(TunnelKind::$kind => $number,)* }
            }

            const fn device(self) -> &'static str {
                match self { $(TunnelKind::$kind => $device,)* }
            }

            /// The IP protocol of its outer packets, or the type of the extension header that they have.
            pub const fn protocol(self) -> u8 {
                match self { $(TunnelKind::$kind => $protocol,)* }
            }
        }
    };
}

kinds! {
    /// GRE, over IPv4 or IPv6 as the remote address is.
    Gre = "gre", 3, "gre_sys", protocol::GRE;
    /// VXLAN.
    Vxlan = "vxlan", 4, "vxlan_sys", protocol::UDP;
    /// Geneve.
    Geneve = "geneve", 5, "genev_sys", protocol::UDP;
    /// ERSPAN.
    Erspan = "erspan", 107, "erspan_sys", protocol::GRE;
    /// ERSPAN over IPv6.
    Ip6Erspan = "ip6erspan", 108, "ip6erspan_sys", protocol::GRE;
    /// GRE over IPv6.
    Ip6Gre = "ip6gre", 109, "ip6gre_sys", protocol::GRE;
    /// GTP-U.
    Gtpu = "gtpu", 110, "gtpu_sys", protocol::UDP;
    /// UDP with a packet right behind its header.
    Bareudp = "bareudp", 111, "bareudp_sys", protocol::UDP;
    /// SRv6: packets behind an IPv6 header with a segment routing header (RFC 8754).
    Srv6 = "srv6", 112, "srv6_sys", protocol::ROUTING;
}

impl TunnelKind {
    /// The kind of this interface type.
    pub fn from_name(name: &str) -> Option<TunnelKind> {
        TunnelKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The protocols that keys of its outer packets have: behind extension headers, what is inside.
    pub const fn protocols(self) -> &'static [u8] {
        match self {
            TunnelKind::Srv6 => &[protocol::IPV4, protocol::IPV6],
            _ if self.is_udp() => &[protocol::UDP],
            _ => &[protocol::GRE],
        }
    }

    /// Whether its outer packets are UDP, to a port that can be chosen.
    pub const fn is_udp(self) -> bool {
        self.protocol() == protocol::UDP
    }

    /// The name of the datapath's port, which all tunnels of a kind and UDP port share
    /// (ovs: `lib/netdev-vport.c`, `netdev_vport_get_dpif_port`).
    pub fn device_name(self, udp_port: u16) -> String {
        let device = self.device();
        if self.is_udp() { format!("{device}_{udp_port}") } else { device.to_owned() }
    }
}

/// What encapsulation does to packets: made once for a flow.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TunnelPush {
    /// The tunnel's port in the datapath.
    pub port: PortNo,
    /// The port that the outer packet seems to come in on: one of the underlay's bridge.
    pub out_port: PortNo,
    /// The protocol.
    pub kind: TunnelKind,
    /// Whether the frame loses its Ethernet header before.
    pub strips_ethernet: bool,
    /// The least and the greatest UDP source port.
    pub source_ports: (u16, u16),
    /// Everything that is put in front, from the Ethernet header on. Lengths are zero, IPv4's
    /// checksum is that of the header as it stands, and a checksum that is not zero is to be
    /// computed.
    pub header: Box<[u8]>,
    /// The longest frame, with its Ethernet header, whose outer packet fits the underlay's MTU.
    pub frame_max: u32,
    /// The tunnel's fields of packets that come back, such as answers to those that are too large.
    pub answer: FlowKey,
}

impl TunnelPush {
    /// The bytes that an outer packet may have from its IP header on.
    pub fn outer_mtu(&self) -> usize {
        let stripped = if self.strips_ethernet { ETHERNET_LEN } else { 0 };
        (self.frame_max as usize + self.header.len()).saturating_sub(ETHERNET_LEN + stripped)
    }

    /// The UDP source port of an inner packet's flow, from its addresses and ports as a key has them. It is
    /// the same for all packets of a flow, so that the underlay may choose among paths by it (RFC 7348
    /// section 5).
    #[inline]
    pub fn source_port(&self, addresses: [u64; 4], ports: u32, protocol: u8) -> u16 {
        let words = addresses.into_iter().chain([ports.into(), protocol.into()]);
        self.source_port_of(words)
    }

    /// The same of an inner packet that is not IP, from words that tell its flow.
    #[inline]
    pub fn source_port_of(&self, words: impl Iterator<Item = u64>) -> u16 {
        let hash = words.fold(0, |hash: u64, word| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        let (least, greatest) = self.source_ports;
        let range = u64::from(greatest.saturating_sub(least));
        least + (((hash >> 32) * range) >> 32) as u16
    }

    /// Whether outer packets may be fragmented: those of IPv4 without the flag that forbids it.
    pub fn may_fragment(&self) -> bool {
        const DONT_FRAGMENT: u8 = 0x40;
        matches!(self.header.get(12..21), Some([8, 0, .., flags]) if flags & DONT_FRAGMENT == 0)
    }
}

/// What a device that puts outer headers on by itself is told of the tunnel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SetTunnel {
    /// A key with the tunnel's fields only.
    pub key: FlowKey,
    /// The UDP port of the tunnel's other end; 0 where the protocol has none.
    pub udp_port: u16,
    /// The options that the packet shall carry.
    pub options: Arc<[OptionMapping]>,
}
