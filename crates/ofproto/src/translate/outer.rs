//! The outer packets of a tunnel in translation: their key, their MTU, and the key of replies.

use super::tunnel::{ECN, bits};
use base::OfPort;
use flow::{Action, DropReason, Field, FlowKey, Mask, TUN_KEY, TunnelKind, TunnelPush};
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::{Key, Outer, PacketType, TunnelConfig};
use wire::{ethernet, ethertype};

/// Bytes of an Ethernet header.
const ETHERNET_LEN: u32 = ethernet::HEADER_LEN as u32;
/// The smallest MTU of IPv4 (RFC 791 section 3.2).
const MTU_MIN: u32 = 68;

/// Whether the packet enters the tunnel without an Ethernet header.
pub fn strips_ethernet(config: &TunnelConfig, key: &FlowKey) -> Result<bool, DropReason> {
    let is_packet = key.get(Field::PacketType) != 0;
    let strips = match config.packet_type {
        PacketType::LegacyL2 => false,
        PacketType::LegacyL3 => true,
        PacketType::Aware => is_packet,
    };
    // Other headers for which the tunnel protocol has a number.
    let is_known = match config.kind {
        TunnelKind::Gre => key.is_mpls() || key.is_nsh(),
        TunnelKind::Bareudp => key.is_mpls() && config.payload_type == key.eth_type(),
        TunnelKind::Vxlan => key.is_nsh(),
        _ => false,
    };
    let is_bare = (key.is_ip() || is_known) && key.vlan_tci() == 0;
    let is_carried = if strips { is_bare } else { !is_packet };
    is_carried.then_some(strips).ok_or(DropReason::TunnelHeader)
}

/// Adds the ECN bits, which the outer headers copy, to the mask. If the mask had none of them before, sets
/// `copies_ecn` of the encapsulations.
pub fn match_ecn(mask: &mut Mask, actions: &mut [Action]) {
    let copies_ecn = mask.get(Field::NwTos) & u128::from(ECN) == 0;
    mask.add_bits(Field::NwTos, ECN.into());
    for action in actions {
        if let Action::TunnelPush(push) = action {
            Arc::make_mut(push).copies_ecn = copies_ecn;
        }
    }
}

/// The outer packet as the underlay's bridge sees it.
pub fn key(outer: &Outer<'_>, config: &TunnelConfig, mark: u32) -> FlowKey {
    let mut key = FlowKey::new();
    let (source, destination) = outer.ethernet;
    key.set(Field::EthSrc, source.to_u64().into());
    key.set(Field::EthDst, destination.to_u64().into());
    let (eth_type, from, to) = match outer.destination {
        IpAddr::V4(_) => (ethertype::IPV4, Field::Ipv4Src, Field::Ipv4Dst),
        IpAddr::V6(_) => (ethertype::IPV6, Field::Ipv6Src, Field::Ipv6Dst),
    };
    key.set_eth_type(eth_type);
    key.set(from, bits(outer.source));
    key.set(to, bits(outer.destination));
    key.set_nw_proto(match (config.kind, outer.packet) {
        (TunnelKind::Srv6, Some(wire::ethertype::IPV6)) => wire::protocol::IPV6,
        (TunnelKind::Srv6, _) => wire::protocol::IPV4,
        (kind, _) => kind.protocol(),
    });
    key.set_nw_tos(outer.tos);
    key.set_nw_ttl(outer.ttl);
    key.set_tp_dst(config.udp_port);
    key.set_pkt_mark(mark);
    key.set(Field::ActsetOutput, OfPort::UNSET.0.into());
    key
}

/// Sets the maximum frame length for an underlay MTU of `mtu` bytes. `None` if no IP packet fits.
pub fn limit(push: &mut TunnelPush, mtu: u32) -> Option<()> {
    // Without an inner Ethernet header, the outer one takes its place.
    let ethernet = if push.strips_ethernet { 2 * ETHERNET_LEN } else { ETHERNET_LEN };
    push.frame_max = (mtu + ethernet).saturating_sub(push.header.len() as u32);
    let least = if push.may_fragment() { mtu } else { push.frame_max.saturating_sub(ETHERNET_LEN) };
    (least >= MTU_MIN && push.frame_max > 0).then_some(())
}

/// The tunnel fields of packets from the remote end.
pub fn answer_key(outer: &Outer<'_>, config: &TunnelConfig) -> FlowKey {
    let key = match config.in_key {
        Key::Flow => outer.key,
        key => key.value(),
    };
    let flags = if config.in_key == Key::Absent { 0 } else { TUN_KEY };
    let mut answer = FlowKey::new();
    answer.set(Field::TunIpv6Src, bits(outer.destination));
    answer.set(Field::TunIpv6Dst, bits(outer.source));
    answer.set(Field::TunId, key.into());
    answer.set(Field::TunFlags, flags.into());
    answer.set(Field::TunTtl, outer.ttl.into());
    answer.set(Field::PacketType, outer.packet.unwrap_or(0).into());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PortNo;

    #[test]
    fn frames_have_the_room_that_the_underlay_leaves() {
        // IPv4's don't-fragment flag is in byte 20 of a frame.
        let push = |strips_ethernet, header: usize, flags| {
            let mut bytes = vec![0; header];
            (bytes[12], bytes[20]) = (8, flags);
            TunnelPush {
                port: PortNo(1),
                out_port: PortNo(2),
                kind: TunnelKind::Vxlan,
                strips_ethernet,
                source_ports: tunnel::SOURCE_PORTS,
                header: bytes.into(),
                frame_max: u32::MAX,
                answer: FlowKey::new(),
                copies_ecn: false,
                sequence: flow::TunnelSequence::default(),
            }
        };
        let check = |strips, header, flags, mtu, expect: Option<u32>| {
            let mut push = push(strips, header, flags);
            let found = limit(&mut push, mtu).map(|()| push.frame_max);
            assert_eq!(found, expect, "{strips} {header} {flags} {mtu}");
            assert!(found.is_none() || push.outer_mtu() == mtu as usize);
        };
        // VXLAN over IPv4: 50 bytes including the outer Ethernet header.
        check(false, 50, 0x40, 1500, Some(1464));
        check(false, 50, 0x40, 118, Some(82));
        check(false, 50, 0x40, 117, None);
        check(false, 50, 0x40, 20, None);
        check(false, 50, 0, 117, Some(81));
        check(false, 50, 0, 67, None);
        check(false, 250, 0, 200, None);
        // GRE without an inner Ethernet header: 38 bytes.
        check(true, 38, 0x40, 1500, Some(1490));
        check(true, 38, 0x40, 92, Some(82));
        check(true, 38, 0x40, 91, None);
    }
}
