//! Fields that every megaflow's mask includes, and fields that none does.

use flow::{FRAG_ANY, FRAG_LATER, Field, FlowKey, Mask, VLAN_PRESENT};
use std::sync::LazyLock;
use wire::{ethertype, protocol};

/// Fields that every megaflow matches (ovs: `ofproto/ofproto-dpif-xlate.c`, `xlate_wc_init`).
pub(super) fn always_looked_at(mask: &mut Mask, key: &FlowKey) {
    mask.add(Field::InPort);
    mask.add(Field::RecircId);
    mask.add(Field::EthType);
    if key.get(Field::PacketType) != 0 {
        mask.add(Field::PacketType);
    }
    if key.is_ip() {
        mask.add_bits(Field::NwFrag, u128::from(FRAG_ANY | FRAG_LATER));
    }
}

/// Fields that are not part of a packet.
static NOT_OF_PACKETS: LazyLock<Mask> = LazyLock::new(|| {
    let is_out =
        |field: &Field| field.is_pipeline() || matches!(field, Field::ConjId | Field::ActsetOutput);
    let mut mask = Mask::new();
    Field::BASIC.iter().copied().filter(is_out).for_each(|field| mask.add(field));
    mask
});

/// Removes bits from the mask that are not part of the original packet or are constant (ovs:
/// `xlate_wc_finish`).
pub(super) fn tidy_mask(mask: &mut Mask, key: &FlowKey, final_key: &FlowKey) {
    for (word, out) in mask.words_mut().iter_mut().zip(NOT_OF_PACKETS.words()) {
        *word &= !out;
    }
    // The packet came without a tunnel: actions set these fields.
    if !key.has_tunnel() {
        mask.clear_tunnel();
    }
    // The same for headers that actions added (ovs: `xlate_wc_finish`).
    tidy_shared(mask, key);
    // ICMP's type and code have 8 bits.
    if matches!(
        (final_key.eth_type(), final_key.nw_proto()),
        (ethertype::IPV4, protocol::ICMP) | (ethertype::IPV6, protocol::ICMPV6)
    ) {
        mask.set(Field::TpSrc, mask.get(Field::TpSrc) & 0xff);
        mask.set(Field::TpDst, mask.get(Field::TpDst) & 0xff);
    }
    // Later fragments have no ports, so their megaflow does not match ports.
    if final_key.nw_frag() & FRAG_LATER != 0 {
        mask.set(Field::TpSrc, 0);
        mask.set(Field::TpDst, 0);
    }
    let inner = mask.has(Field::VlanTci1);
    for (tci, tpid) in [(Field::VlanTci, Field::VlanTpid), (Field::VlanTci1, Field::VlanTpid1)] {
        if mask.has(tci) {
            mask.add_bits(tci, VLAN_PRESENT.into());
        }
        if key.get(tpid) == 0 {
            mask.set(tci, 0);
            mask.set(tpid, 0);
        }
    }
    // The datapath always matches the absence of a tag; the absence of a second one only if it was looked at.
    if inner && key.get(Field::VlanTpid) != 0 {
        mask.add_bits(Field::VlanTci1, VLAN_PRESENT.into());
    }
}

/// Removes bits of ARP, neighbour discovery, MPLS and NSH that the original packet did not have. These share
/// places, so such bits were looked at after actions had changed the packet.
fn tidy_shared(mask: &mut Mask, key: &FlowKey) {
    if key.is_nsh() {
        return;
    }
    let is_arp = matches!(key.eth_type(), ethertype::ARP | ethertype::RARP);
    let is_icmp6 = key.eth_type() == ethertype::IPV6 && key.nw_proto() == protocol::ICMPV6;
    let mut leave_out = |fields: &[Field]| fields.iter().for_each(|&field| mask.set(field, 0));
    leave_out(&[Field::NshFlags, Field::NshMdtype]);
    if !is_arp && !is_icmp6 {
        leave_out(&[Field::ArpSha, Field::ArpTha]);
    }
    if !is_icmp6 && !key.is_mpls() {
        leave_out(&[Field::NdTarget]);
    }
}
