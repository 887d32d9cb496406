//! Tunnels in the actions of the datapath.

use crate::key::FlowKey;
use base::PortNo;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::protocol;

/// The length of an Ethernet header without tags, in bytes.
const ETHERNET_LEN: usize = 14;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $number:literal, $device:literal, $protocol:expr;)*) => {
        /// A tunnel protocol, named as Open vSwitch's interface types.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum TunnelKind {
            $($(#[$doc])* $kind,)*
        }

        impl TunnelKind {
            /// All kinds.
            pub const ALL: &[TunnelKind] = &[$(TunnelKind::$kind,)*];

            /// Returns the interface type.
            pub const fn name(self) -> &'static str {
                match self { $(TunnelKind::$kind => $name,)* }
            }

            /// Returns the number of the kind in dumps of `tnl_push` (ovs: `include/linux/openvswitch.h`,
            /// `enum ovs_vport_type`).
            pub const fn number(self) -> u32 {
                match self { $(TunnelKind::$kind => $number,)* }
            }

            const fn device(self) -> &'static str {
                match self { $(TunnelKind::$kind => $device,)* }
            }

            /// Returns the IP protocol of the outer packets, or the type of their IPv6 extension header.
            pub const fn protocol(self) -> u8 {
                match self { $(TunnelKind::$kind => $protocol,)* }
            }
        }
    };
}

kinds! {
    /// GRE, over IPv4 or IPv6 depending on the remote address.
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
    /// Bareudp: packets directly in UDP, without a tunnel header.
    Bareudp = "bareudp", 111, "bareudp_sys", protocol::UDP;
    /// SRv6: packets in IPv6 with a segment routing header (RFC 8754).
    Srv6 = "srv6", 112, "srv6_sys", protocol::ROUTING;
}

impl TunnelKind {
    /// Returns the kind with this interface type.
    pub fn from_name(name: &str) -> Option<TunnelKind> {
        TunnelKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// Returns the values of `nw_proto` in the keys of outer packets. Extraction skips extension headers, so
    /// for SRv6 it is the protocol of the inner packet.
    pub const fn protocols(self) -> &'static [u8] {
        match self {
            TunnelKind::Srv6 => &[protocol::IPV4, protocol::IPV6],
            _ if self.is_udp() => &[protocol::UDP],
            _ => &[protocol::GRE],
        }
    }

    /// Returns whether the outer packets are UDP, with a configurable destination port.
    pub const fn is_udp(self) -> bool {
        self.protocol() == protocol::UDP
    }

    /// Returns the name of the datapath port that all tunnels of this kind and UDP port share (ovs:
    /// `lib/netdev-vport.c`, `netdev_vport_get_dpif_port`).
    pub fn device_name(self, udp_port: u16) -> String {
        let device = self.device();
        if self.is_udp() { format!("{device}_{udp_port}") } else { device.to_owned() }
    }
}

/// The receiving end of the tunnels that share a port of the datapath.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TunnelEnd {
    /// The protocol.
    pub kind: TunnelKind,
    /// VXLAN headers with a group policy are received.
    pub group_policy: bool,
    /// The Ethernet type of the packets in bareudp, where IPv4 includes IPv6. With 0 the first bits of a packet
    /// tell its type.
    pub payload_type: u16,
}

impl From<TunnelKind> for TunnelEnd {
    fn from(kind: TunnelKind) -> Self {
        TunnelEnd { kind, group_policy: false, payload_type: 0 }
    }
}

/// The sequence numbers of the packets that a tunnel port sends. All workers take numbers from it, because the
/// receiver may drop a packet with a lower number than the last one (RFC 2890 section 2.2). Clones share the
/// counter and are equal; the sequences of different ports are not.
#[derive(Clone, Debug, Default)]
pub struct TunnelSequence(Arc<AtomicU32>);

impl TunnelSequence {
    /// Takes the next number. The first is 0.
    pub fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

impl PartialEq for TunnelSequence {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TunnelSequence {}

impl Hash for TunnelSequence {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        Arc::as_ptr(&self.0).hash(hasher);
    }
}

/// An encapsulation with prebuilt outer headers, built once per flow.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TunnelPush {
    /// The tunnel's port in the datapath.
    pub port: PortNo,
    /// The in-port of the outer packet: a port of the underlay's bridge.
    pub out_port: PortNo,
    /// The protocol.
    pub kind: TunnelKind,
    /// Whether the Ethernet header of the frame is removed first.
    pub strips_ethernet: bool,
    /// The range of UDP source ports: the first one, and the one after the last.
    pub source_ports: (u16, u16),
    /// The outer headers, from the Ethernet header on. Length fields are zero, the IPv4 checksum is that of
    /// the header with a zero length, and a checksum of UDP or GRE is computed per packet if it is not zero
    /// here.
    pub header: Box<[u8]>,
    /// The maximum length of an inner frame, including its Ethernet header, whose outer packet fits the
    /// underlay's MTU.
    pub frame_max: u32,
    /// The tunnel fields of packets in the opposite direction, such as ICMP errors for packets that are too
    /// large.
    pub answer: FlowKey,
    /// Whether the flow matches the packet's ECN bits only because the outer headers copy them (RFC 6040).
    pub copies_ecn: bool,
    /// The source of sequence numbers, for outer headers that have one.
    pub sequence: TunnelSequence,
}

impl TunnelPush {
    /// Returns the maximum length of an outer packet in bytes, from its IP header on.
    pub fn outer_mtu(&self) -> usize {
        let stripped = if self.strips_ethernet { ETHERNET_LEN } else { 0 };
        (self.frame_max as usize + self.header.len()).saturating_sub(ETHERNET_LEN + stripped)
    }

    /// Returns the UDP source port for an inner packet, from its addresses and ports in the form of the key.
    /// All packets of a flow have the same one, so that the underlay can balance load by it (RFC 7348 section
    /// 5).
    #[inline]
    pub fn source_port(&self, addresses: [u64; 4], ports: u32, protocol: u8) -> u16 {
        let words = addresses.into_iter().chain([ports.into(), protocol.into()]);
        self.source_port_of(words)
    }

    /// Returns the UDP source port for an inner packet that is not IP, from words that identify its flow.
    #[inline]
    pub fn source_port_of(&self, words: impl Iterator<Item = u64>) -> u16 {
        let hash = words.fold(0, |hash: u64, word| {
            (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        let (least, greatest) = self.source_ports;
        let range = u64::from(greatest.saturating_sub(least));
        least + (((hash >> 32) * range) >> 32) as u16
    }

    /// Returns whether outer packets may be fragmented: they are IPv4 without the "don't fragment" flag.
    pub fn may_fragment(&self) -> bool {
        const DONT_FRAGMENT: u8 = 0x40;
        matches!(self.header.get(12..21), Some([8, 0, .., flags]) if flags & DONT_FRAGMENT == 0)
    }
}

/// The tunnel fields for a device that adds the outer headers itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SetTunnel {
    /// A key with the tunnel fields only. Its options are those that the packet gets.
    pub key: FlowKey,
    /// The UDP destination port, or 0 if the protocol is not UDP.
    pub udp_port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_equal_if_they_share_the_counter() {
        let (first, other) = (TunnelSequence::default(), TunnelSequence::default());
        let clone = first.clone();
        assert_eq!((first.next(), clone.next(), first.next(), other.next()), (0, 1, 2, 0));
        assert!(first == clone && first != other);
        let hash = |sequence: &TunnelSequence| {
            let mut hasher = std::hash::DefaultHasher::new();
            sequence.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&first), hash(&clone));
    }
}
