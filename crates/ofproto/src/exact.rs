//! The mask of an exact-match megaflow.

use flow::{FRAG_LATER, Field, FlowKey, Mask};
use wire::{ethertype, protocol};

/// The mask of a megaflow where wildcards are disabled: all fields that the packet has, and all that
/// translation looked at. Other fields are left out, so that keys stay small.
pub(crate) fn exact_mask(key: &FlowKey, looked_at: &Mask) -> Mask {
    let mut mask = packet_fields(key);
    let besides = |field: &&Field| field.is_ct() || field.is_tunnel() || **field == Field::RecircId;
    let besides = Field::BASIC.iter().filter(besides).filter(|field| key.get(**field) != 0);
    besides.for_each(|&field| mask.add(field));
    // The bits of all defined states.
    mask.set(Field::CtState, 0xff);
    let words = mask.words_mut().iter_mut().zip(looked_at.words());
    words.for_each(|(word, looked_at)| *word |= looked_at);
    mask
}

/// The fields that a packet has (ovs: `lib/flow.c`, `flow_wildcards_init_for_packet`).
pub(crate) fn packet_fields(key: &FlowKey) -> Mask {
    use Field as F;
    let mut mask = Mask::new();
    let mut add = |fields: &[Field]| fields.iter().for_each(|&field| mask.add(field));
    add(&[F::InPort, F::PacketType]);
    if key.get(F::PacketType) == 0 {
        add(&[F::EthSrc, F::EthDst, F::EthType, F::VlanTci]);
    }
    if key.vlan_tci() != 0 {
        add(&[F::VlanTci1]);
    }
    match key.eth_type() {
        ethertype::IPV4 => add(&[F::Ipv4Src, F::Ipv4Dst]),
        ethertype::IPV6 => add(&[F::Ipv6Src, F::Ipv6Dst, F::Ipv6Label]),
        ethertype::ARP | ethertype::RARP => {
            add(&[F::ArpSpa, F::ArpTpa, F::ArpOp, F::ArpSha, F::ArpTha])
        }
        ethertype::MPLS | ethertype::MPLS_MULTICAST => {
            for (field, entry) in
                [F::MplsLse0, F::MplsLse1, F::MplsLse2].iter().zip(key.label_stack())
            {
                add(&[*field]);
                if entry.is_bottom() {
                    break;
                }
            }
        }
        ethertype::NSH => {
            add(&[F::NshFlags, F::NshTtl, F::NshMdtype, F::NshNp, F::NshSpi, F::NshSi]);
            add(&[F::NshC1, F::NshC2, F::NshC3, F::NshC4]);
            // As in Open vSwitch, which includes these although NSH does not have them.
            add(&[F::NwProto, F::NwTos, F::NwTtl, F::NwFrag]);
        }
        _ => {}
    }
    if !key.is_ip() {
        return mask;
    }
    add(&[F::NwProto, F::NwTos, F::NwTtl, F::NwFrag]);
    let has_l4 = matches!(
        key.nw_proto(),
        protocol::ICMP
            | protocol::IGMP
            | protocol::TCP
            | protocol::UDP
            | protocol::ICMPV6
            | protocol::SCTP
    );
    if key.nw_frag() & FRAG_LATER != 0 || !has_l4 {
        return mask;
    }
    add(&[F::TpSrc, F::TpDst]);
    if key.nw_proto() == protocol::TCP {
        add(&[F::TcpFlags]);
    }
    let is_nd = key.eth_type() == ethertype::IPV6 && key.nw_proto() == protocol::ICMPV6;
    if is_nd && matches!(key.tp_src(), 135 | 136) && key.tp_dst() == 0 {
        add(&[F::NdTarget, F::NdSll, F::NdTll]);
    }
    mask
}
