//! Prerequisites of fields: what else a match must contain.

use Prerequisite as P;
use flow::{CtState, Field, Match};
use wire::{ethertype, protocol};

/// A prerequisite of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prerequisite {
    None,
    Ethernet,
    Vlan,
    Mpls,
    Nsh,
    Arp,
    Ipv4,
    Ipv6,
    Ip,
    Tcp,
    Udp,
    Sctp,
    Icmp4,
    Icmp6,
    Nd,
    NdSolicit,
    NdAdvert,
    Ct,
}

/// The protocols that a match specifies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Proto {
    pub eth_type: u16,
    pub nw_proto: u8,
    pub has_vlan: bool,
}

/// Returns the Ethernet type that a match specifies, also by the packet type of packets without an Ethernet
/// header.
pub(crate) fn eth_type(matching: &Match) -> u16 {
    match matching.key().get(Field::PacketType) {
        0 => matching.key().eth_type(),
        packet_type => packet_type as u16,
    }
}

impl Proto {
    pub fn of(matching: &Match) -> Self {
        let key = matching.key();
        Proto {
            eth_type: eth_type(matching),
            nw_proto: key.get(Field::NwProto) as u8,
            has_vlan: key.vlan_tci() & flow::VLAN_PRESENT != 0,
        }
    }

    pub fn is_ip(self) -> bool {
        matches!(self.eth_type, ethertype::IPV4 | ethertype::IPV6)
    }

    pub fn is_mpls(self) -> bool {
        ethertype::is_mpls(self.eth_type)
    }

    pub fn is_nsh(self) -> bool {
        self.eth_type == ethertype::NSH
    }

    pub fn is_arp(self) -> bool {
        matches!(self.eth_type, ethertype::ARP | ethertype::RARP)
    }

    pub fn is_icmp4(self) -> bool {
        self.eth_type == ethertype::IPV4 && self.nw_proto == protocol::ICMP
    }

    pub fn is_icmp6(self) -> bool {
        self.eth_type == ethertype::IPV6 && self.nw_proto == protocol::ICMPV6
    }

    /// Returns whether the match's connection addresses are of the same family as its packets. IPv4 ones are
    /// stored in the bits of the IPv6 ones.
    pub fn fits_ct_addresses(self, matching: &Match) -> bool {
        let within = |wide: Field, narrow: Field| {
            let mask = matching.mask();
            match self.eth_type {
                ethertype::IPV6 => true,
                ethertype::IPV4 => mask.get(wide) == mask.get(narrow),
                _ => !mask.has(wide),
            }
        };
        within(Field::CtIpv6Src, Field::CtNwSrc) && within(Field::CtIpv6Dst, Field::CtNwDst)
    }
}

impl Prerequisite {
    /// Returns whether the match satisfies the prerequisite. A connection field requires a match on
    /// `ct_state` that implies a valid connection (ovs: `lib/flow.h`, `is_ct_valid`).
    pub fn met_by(self, matching: &Match) -> bool {
        let key = matching.key();
        let proto = Proto::of(matching);
        let no_later = key.nw_frag() & flow::FRAG_LATER == 0;
        let nd = |kind: Option<u16>| {
            let code = key.tp_dst() == 0;
            let is_nd = matches!(key.tp_src(), 135 | 136);
            proto.is_icmp6() && code && kind.map_or(is_nd, |kind| key.tp_src() == kind)
        };
        match self {
            P::None => true,
            P::Ethernet => key.get(Field::PacketType) == 0,
            P::Vlan => proto.has_vlan && key.get(Field::PacketType) == 0,
            P::Mpls => proto.is_mpls(),
            P::Nsh => proto.is_nsh(),
            P::Arp => proto.is_arp(),
            P::Ipv4 => proto.eth_type == ethertype::IPV4,
            P::Ipv6 => proto.eth_type == ethertype::IPV6,
            P::Ip => proto.is_ip(),
            P::Tcp => proto.is_ip() && proto.nw_proto == protocol::TCP && no_later,
            P::Udp => proto.is_ip() && proto.nw_proto == protocol::UDP && no_later,
            P::Sctp => proto.is_ip() && proto.nw_proto == protocol::SCTP && no_later,
            P::Icmp4 => proto.is_icmp4(),
            P::Icmp6 => proto.is_icmp6(),
            P::Nd => nd(None),
            P::NdSolicit => nd(Some(135)),
            P::NdAdvert => nd(Some(136)),
            P::Ct => {
                let state = key.ct_state();
                let implied = CtState::all() - CtState::INV - CtState::TRK;
                let mask = CtState::from_bits_retain(matching.mask().get(Field::CtState) as u8);
                state.intersects(implied)
                    || (state.contains(CtState::TRK)
                        && mask.contains(CtState::INV)
                        && !state.contains(CtState::INV))
            }
        }
    }
}
