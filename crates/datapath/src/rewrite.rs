//! Rewrites a frame and its key together.

use crate::shim;
use base::MacAddr;
use flow::{Field, Frame, SetField, VLAN_PRESENT};
use packet::Checksum;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::rewrite as bytes;
use wire::{ethertype, protocol};

/// Sets bits of a field in the key and in the bytes. If the frame lacks the header, its bytes stay, and the
/// key keeps the field's zero.
pub(crate) fn set_field(frame: &mut Frame, set: &SetField) {
    let old = frame.key.get(set.field);
    let new = (old & !set.mask) | (set.value & set.mask);
    if old == new {
        return;
    }
    let is_ipv6 = frame.key.eth_type() == ethertype::IPV6;
    if write(frame, set.field, new) {
        frame.key.set(set.field, new);
        if frame.key.nw_proto() == protocol::ICMPV6 && is_ipv6 && is_in_icmpv6(set.field) {
            frame.reread_icmpv6();
        }
    }
}

/// Whether a field belongs to the addresses and ports that packets of a connection share.
pub(crate) fn is_end(field: Field) -> bool {
    matches!(
        field,
        Field::Ipv4Src
            | Field::Ipv4Dst
            | Field::Ipv6Src
            | Field::Ipv6Dst
            | Field::TpSrc
            | Field::TpDst
    )
}

/// Sets both addresses of a frame, and its packet type to Ethernet.
pub(crate) fn set_ethernet(frame: &mut Frame, source: MacAddr, destination: MacAddr) {
    for (field, mac) in [(Field::EthSrc, source), (Field::EthDst, destination)] {
        set_field(frame, &SetField { field, value: mac.to_u64().into(), mask: field.all_ones() });
    }
    frame.key.set(Field::PacketType, 0);
}

/// Removes the Ethernet header; the key's addresses are zero then.
pub(crate) fn pop_ethernet(frame: &mut Frame) {
    set_ethernet(frame, MacAddr::ZERO, MacAddr::ZERO);
    frame.key.set(Field::PacketType, frame.key.eth_type().into());
}

/// Whether a field decides which other fields an ICMPv6 message has.
fn is_in_icmpv6(field: Field) -> bool {
    matches!(
        field,
        Field::TpSrc | Field::TpDst | Field::NdOptionsType | Field::NdSll | Field::NdTll
    )
}

/// Writes a field's new value into the bytes. Returns whether the frame has the field.
fn write(frame: &mut Frame, field: Field, new: u128) -> bool {
    let partial = frame.packet.offload.checksum == Checksum::Partial;
    let is_ipv6 = frame.key.eth_type() == ethertype::IPV6;
    let has_l4 = frame.layers.l4.is_some();
    let mac = MacAddr::from_u64(new as u64);
    let (v4, v6) = (Ipv4Addr::from(new as u32), Ipv6Addr::from(new));
    match field {
        Field::EthSrc => bytes::set_eth_src(frame.packet.data_mut(), mac),
        Field::EthDst => bytes::set_eth_dst(frame.packet.data_mut(), mac),
        Field::VlanTci | Field::VlanVid | Field::VlanPcp => write_tag(frame, field, new),
        Field::Ipv4Src => bytes::set_ipv4_src(frame.l3_mut(), v4, partial),
        Field::Ipv4Dst => bytes::set_ipv4_dst(frame.l3_mut(), v4, partial),
        Field::Ipv6Src => bytes::set_ipv6_src(frame.l3_mut(), v6, partial),
        Field::Ipv6Dst => bytes::set_ipv6_dst(frame.l3_mut(), v6, partial),
        Field::Ipv6Label => bytes::set_flow_label(frame.l3_mut(), new as u32),
        Field::NwTtl if is_ipv6 => bytes::set_hop_limit(frame.l3_mut(), new as u8),
        Field::NwTtl => bytes::set_ttl(frame.l3_mut(), new as u8),
        Field::NwTos if is_ipv6 => bytes::set_traffic_class(frame.l3_mut(), new as u8),
        Field::NwTos => bytes::set_tos(frame.l3_mut(), new as u8),
        Field::TpSrc | Field::TpDst
            if has_l4 && matches!(frame.key.nw_proto(), protocol::ICMP | protocol::ICMPV6) =>
        {
            write_icmp(frame, field, new as u8, partial)
        }
        Field::TpSrc if has_l4 => bytes::set_tp_src(frame.l3_mut(), new as u16, partial),
        Field::TpDst if has_l4 => bytes::set_tp_dst(frame.l3_mut(), new as u16, partial),
        Field::ArpSpa | Field::ArpTpa | Field::ArpSha | Field::ArpTha | Field::ArpOp => {
            write_arp(frame, field, new)
        }
        Field::NdTarget => bytes::set_nd_target(frame.l3_mut(), v6, partial),
        Field::NdReserved => bytes::set_nd_reserved(frame.l3_mut(), new as u32, partial),
        Field::NdOptionsType => bytes::set_nd_option_kind(frame.l3_mut(), new as u8, partial),
        Field::NdSll => bytes::set_nd_sll(frame.l3_mut(), mac, partial),
        Field::NdTll => bytes::set_nd_tll(frame.l3_mut(), mac, partial),
        Field::MplsLse0
        | Field::MplsLabel
        | Field::MplsTc
        | Field::MplsTtl
        | Field::NshFlags
        | Field::NshTtl
        | Field::NshSpi
        | Field::NshSi
        | Field::NshC1
        | Field::NshC2
        | Field::NshC3
        | Field::NshC4 => shim::write(frame, field, new),
        // Metadata exists in the key only.
        Field::PktMark | Field::DpHash => true,
        _ => false,
    }
}

fn write_icmp(frame: &mut Frame, field: Field, new: u8, partial: bool) -> bool {
    let (icmp_type, code) = match field {
        Field::TpSrc => (new, frame.key.tp_dst() as u8),
        _ => (frame.key.tp_src() as u8, new),
    };
    bytes::set_icmp_type_code(frame.l3_mut(), icmp_type, code, partial)
}

fn write_arp(frame: &mut Frame, field: Field, new: u128) -> bool {
    let Ok(mut arp) = wire::Arp::new_checked(frame.l3_mut()) else { return false };
    match field {
        Field::ArpSpa => arp.set_sender_ip(Ipv4Addr::from(new as u32)),
        Field::ArpTpa => arp.set_target_ip(Ipv4Addr::from(new as u32)),
        Field::ArpSha => arp.set_sender_mac(MacAddr::from_u64(new as u64)),
        Field::ArpTha => arp.set_target_mac(MacAddr::from_u64(new as u64)),
        _ => arp.set_operation(new as u16),
    }
    true
}

/// Changes the outer tag. The key's presence bit is not part of the wire format.
fn write_tag(frame: &mut Frame, field: Field, new: u128) -> bool {
    if frame.key.vlan_tci() & VLAN_PRESENT == 0 {
        return false;
    }
    let mut key = frame.key.clone();
    key.set(field, new);
    let tci = key.vlan_tci() & !VLAN_PRESENT;
    match frame.packet.data_mut().get_mut(14..16) {
        Some(place) => {
            place.copy_from_slice(&tci.to_be_bytes());
            true
        }
        None => false,
    }
}

/// Pushes a tag in front of the others. Returns `false` without headroom.
pub(crate) fn push_vlan(frame: &mut Frame, tpid: u16, tci: u16) -> bool {
    if !frame.packet.insert(12, 4) {
        return false;
    }
    let tag = &mut frame.packet.data_mut()[12..16];
    tag[..2].copy_from_slice(&tpid.to_be_bytes());
    tag[2..].copy_from_slice(&(tci & !VLAN_PRESENT).to_be_bytes());
    move_layers(frame, 4);
    let key = &mut frame.key;
    key.set_vlan_tpid1(key.vlan_tpid());
    key.set_vlan_tci1(key.vlan_tci());
    key.set_vlan_tpid(tpid);
    key.set_vlan_tci(tci | VLAN_PRESENT);
    true
}

/// Pops the outer tag; a frame without one stays as it is.
pub(crate) fn pop_vlan(frame: &mut Frame) {
    if frame.key.vlan_tci() & VLAN_PRESENT == 0 || !frame.packet.remove(12, 4) {
        return;
    }
    move_layers(frame, -4);
    let key = &mut frame.key;
    key.set_vlan_tpid(key.vlan_tpid1());
    key.set_vlan_tci(key.vlan_tci1());
    key.set_vlan_tpid1(0);
    key.set_vlan_tci1(0);
}

fn move_layers(frame: &mut Frame, by: i16) {
    let layers = &mut frame.layers;
    layers.l3 = layers.l3.saturating_add_signed(by);
    layers.l4 = layers.l4.map(|at| at.saturating_add_signed(by));
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::PortNo;
    use packet::Packet;
    use proptest::prelude::*;

    fn frame(text: &str) -> Frame {
        let bytes = wire::text::parse(text).unwrap();
        Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).unwrap()
    }

    /// After a rewrite, the key must equal that of parsing the bytes again.
    fn check_agrees(frame: &Frame) {
        let copy = Frame::parse(Packet::from_bytes(frame.packet.data()), PortNo(1)).unwrap();
        assert_eq!(copy.key, frame.key);
        assert_eq!(copy.layers, frame.layers);
    }

    /// The same with a label, and with an NSH header.
    fn frames(text: &str) -> [Frame; 3] {
        let plain = frame(text);
        let bytes = plain.packet.data();
        let with = |ethertype: u16, header: &[u8]| {
            let bytes = [&bytes[..12], &ethertype.to_be_bytes(), header, &bytes[14..]].concat();
            Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).unwrap()
        };
        let nsh = wire::Nsh::build(1, &[7; 16]).unwrap().into_inner();
        [with(0x8847, &[0, 0, 0x11, 64]), with(0x894f, &nsh), plain]
    }

    const PACKETS: [&str; 9] = [
        "10.0.0.1:1000>10.0.0.2:80 S",
        "10.0.0.1:1000>10.0.0.2:53 udp len=20",
        "[fd00::1]:1000>[fd00::2]:80 PA len=9",
        "10.0.0.1:1000>10.0.0.2:80 sctp tag=9 len=20",
        "[fd00::1]:1000>[fd00::2]:80 sctp tag=9 len=21",
        "10.0.0.1>10.0.0.2 icmp-echo id=7 seq=1",
        "10.0.0.1>10.0.0.2 arp-request",
        "[fe80::1]>[ff02::1:ff00:2] nd-solicit target=[fe80::2]",
        "[fe80::2]>[fe80::1] nd-advert target=[fe80::2]",
    ];

    #[test]
    fn tags_come_and_go() {
        for text in PACKETS {
            let mut tagged = frame(text);
            let plain = tagged.packet.data().to_vec();
            assert!(push_vlan(&mut tagged, 0x8100, 0x600a));
            check_agrees(&tagged);
            set_field(&mut tagged, &SetField { field: Field::VlanVid, value: 20, mask: 0xfff });
            assert_eq!(tagged.key.vlan_tci(), 0x7014);
            check_agrees(&tagged);
            pop_vlan(&mut tagged);
            assert_eq!(tagged.packet.data(), plain);
            check_agrees(&tagged);
            pop_vlan(&mut tagged);
            assert_eq!(tagged.packet.data(), plain);
        }
    }

    proptest! {
        #[test]
        fn key_and_bytes_agree_whatever_is_set(
            packet in 0..PACKETS.len(), kind in 0..3usize, index in 0..Field::ALL.len(), value: u128, mask: u128,
        ) {
            let field = Field::ALL[index];
            // Fields that determine the layout cannot be set: the bytes would become another kind of packet.
            prop_assume!(!matches!(field, Field::EthType | Field::NwProto | Field::NwFrag
                | Field::TcpFlags | Field::VlanTpid | Field::ArpOp | Field::PktMark
                | Field::DpHash | Field::InPort | Field::InPortOxm | Field::VlanTci | Field::VlanVidPresent));
            let mut frame = frames(PACKETS[packet])[kind].take();
            let is_icmp = matches!(frame.key.nw_proto(), protocol::ICMP | protocol::ICMPV6) && matches!(field, Field::TpSrc | Field::TpDst);
            let mask = if is_icmp { mask & 0xff } else { mask };
            set_field(&mut frame, &SetField { field, value, mask });
            let copy = Frame::parse(Packet::from_bytes(frame.packet.data()), PortNo(1)).unwrap();
            prop_assert_eq!(&copy.key, &frame.key);
        }
    }
}
