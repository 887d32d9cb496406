//! The flow key: all fields that a packet can be matched on, in 73 words.
//!
//! A key is an array of 64-bit words, so that hashing, masking and comparing work word by word, and one
//! bitmap tells which words a mask uses. [`Field`] names the fields and knows the place of each; no other
//! code depends on the layout. Keys that are stored in large numbers are packed: [`crate::PackedKey`].
//!
//! The last 40 words are the tunnel fields. They are zero in packets without a tunnel, and the per-packet
//! code reads only two of them ([`FlowKey::has_tunnel`]). The datapath and the OpenFlow tables use the same
//! key: the datapath leaves registers, metadata and `conj_id` zero, and its `in_port` is a datapath port,
//! that of the tables the OpenFlow port of the bridge.
//!
//! IPv4 addresses occupy the low 32 bits of the IPv6 addresses; ARP shares places with IP and ND as in Open
//! vSwitch, MPLS and NSH with ARP and ND. So a match on these must match `eth_type` exactly, as in OpenFlow.

mod ct_fields;
mod label_stack;
mod packet_type;
mod tunnel_fields;

pub use ct_fields::CtFields;
pub use label_stack::MPLS_LABELS;

use crate::ct_state::CtState;
use crate::field::{Field, WORDS};
use base::{MacAddr, PortNo, RecircId, Zone};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::ethertype;

/// `eth_type` of a frame that carries a length and no SNAP header.
pub const ETH_TYPE_NONE: u16 = ethertype::NONE;
/// `nw_frag` bit: the packet is a fragment.
pub const FRAG_ANY: u8 = 1;
/// `nw_frag` bit: the packet is a fragment other than the first.
pub const FRAG_LATER: u8 = 2;
/// `vlan_tci` bit: a tag is present (in the place of the CFI bit).
pub const VLAN_PRESENT: u16 = 0x1000;

/// The first of the four words of the addresses.
const ADDRESSES: usize = Field::Ipv6Src.word();
const _: () = assert!(Field::Ipv6Dst.word() == ADDRESSES + 2);

/// `tun_flags` bit: an OAM packet (ovs: `lib/packets.h`, `FLOW_TNL_F_OAM`).
pub const TUN_OAM: u16 = 1;
/// `tun_flags` bit: outer IPv4 packets must not be fragmented.
pub const TUN_DONT_FRAGMENT: u16 = 2;
/// `tun_flags` bit: outer packets have a checksum.
pub const TUN_CSUM: u16 = 4;
/// `tun_flags` bit: the tunnel has a key.
pub const TUN_KEY: u16 = 8;

/// The values of all fields of one packet.
#[derive(Clone, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub struct FlowKey {
    words: [u64; WORDS],
}

/// A mask of a [`FlowKey`]: set bits are matched.
#[derive(Clone, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub struct Mask {
    words: [u64; WORDS],
}

macro_rules! words {
    ($name:ident) => {
        impl $name {
            /// All bits zero.
            pub const fn new() -> Self {
                $name { words: [0; WORDS] }
            }

            /// The words, for hashing and comparing.
            pub fn words(&self) -> &[u64; WORDS] {
                &self.words
            }

            /// The words, for masking.
            pub fn words_mut(&mut self) -> &mut [u64; WORDS] {
                &mut self.words
            }

            /// Returns the bits of `field`, right-aligned.
            #[inline]
            pub fn get(&self, field: Field) -> u128 {
                let place = field.place();
                if place.bits > 64 {
                    let high = u128::from(self.words[place.word]) << 64;
                    return high | u128::from(self.words[place.word + 1]);
                }
                let mask = u64::MAX >> (64 - place.bits);
                u128::from((self.words[place.word] >> place.shift) & mask)
            }

            /// Sets `field` to the low bits of `value`; bits beyond its width are ignored.
            #[inline]
            pub fn set(&mut self, field: Field, value: u128) {
                let place = field.place();
                if place.bits > 64 {
                    self.words[place.word] = (value >> 64) as u64;
                    self.words[place.word + 1] = value as u64;
                    return;
                }
                let mask = u64::MAX >> (64 - place.bits);
                let word = &mut self.words[place.word];
                *word = (*word & !(mask << place.shift)) | ((value as u64 & mask) << place.shift);
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

words!(FlowKey);
words!(Mask);

macro_rules! accessors {
    ($($(#[$doc:meta])* $get:ident / $set:ident: $ty:ty = $field:ident,)*) => {
        impl FlowKey {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $get(&self) -> $ty {
                    self.get(Field::$field) as $ty
                }

                #[doc = concat!("Stores [`Self::", stringify!($get), "`].")]
                #[inline]
                pub fn $set(&mut self, value: $ty) {
                    self.set(Field::$field, value as u128);
                }
            )*
        }
    };
}

accessors! {
    /// `ct_mark` of the packet's connection.
    ct_mark / set_ct_mark: u32 = CtMark,
    /// `ct_label` of the packet's connection.
    ct_label / set_ct_label: u128 = CtLabel,
    /// The protocol of the original direction of the packet's connection.
    ct_nw_proto / set_ct_nw_proto: u8 = CtNwProto,
    /// The source port of the original direction.
    ct_tp_src / set_ct_tp_src: u16 = CtTpSrc,
    /// The destination port of the original direction.
    ct_tp_dst / set_ct_tp_dst: u16 = CtTpDst,
    /// Ethernet type after the VLAN tags, or [`ETH_TYPE_NONE`].
    eth_type / set_eth_type: u16 = EthType,
    /// The outer VLAN tag with [`VLAN_PRESENT`] set, or 0 for none.
    vlan_tci / set_vlan_tci: u16 = VlanTci,
    /// The outer tag's Ethernet type, 0 without a tag.
    vlan_tpid / set_vlan_tpid: u16 = VlanTpid,
    /// The second VLAN tag with [`VLAN_PRESENT`] set, or 0 for none.
    vlan_tci1 / set_vlan_tci1: u16 = VlanTci1,
    /// The second tag's Ethernet type, 0 without one.
    vlan_tpid1 / set_vlan_tpid1: u16 = VlanTpid1,
    /// IP protocol, or the low byte of the ARP operation.
    nw_proto / set_nw_proto: u8 = NwProto,
    /// IPv4 TOS or IPv6 traffic class, all 8 bits.
    nw_tos / set_nw_tos: u8 = NwTos,
    /// IPv4 TTL or IPv6 hop limit.
    nw_ttl / set_nw_ttl: u8 = NwTtl,
    /// [`FRAG_ANY`] and [`FRAG_LATER`].
    nw_frag / set_nw_frag: u8 = NwFrag,
    /// The IPv6 flow label, 20 bits.
    ipv6_label / set_ipv6_label: u32 = Ipv6Label,
    /// TCP, UDP or SCTP source port, or ICMP type.
    tp_src / set_tp_src: u16 = TpSrc,
    /// TCP, UDP or SCTP destination port, or ICMP code.
    tp_dst / set_tp_dst: u16 = TpDst,
    /// TCP flags, 12 bits.
    tcp_flags / set_tcp_flags: u16 = TcpFlags,
    /// OpenFlow metadata.
    metadata / set_metadata: u64 = Metadata,
    /// The packet mark.
    pkt_mark / set_pkt_mark: u32 = PktMark,
    /// The raw in-port number: the datapath's port, or in OpenFlow tables the bridge's.
    in_port_raw / set_in_port_raw: u32 = InPort,
}

impl FlowKey {
    /// The datapath port that the packet came in on.
    pub fn in_port(&self) -> PortNo {
        PortNo(self.in_port_raw())
    }

    /// The recirculation id: which pass through the datapath this is.
    pub fn recirc_id(&self) -> RecircId {
        RecircId(self.get(Field::RecircId) as u32)
    }

    /// Sets [`Self::recirc_id`].
    pub fn set_recirc_id(&mut self, id: RecircId) {
        self.set(Field::RecircId, id.0.into());
    }

    /// The connection state of the packet; empty before `ct`.
    pub fn ct_state(&self) -> CtState {
        CtState::from_bits_retain(self.get(Field::CtState) as u8)
    }

    /// Sets [`Self::ct_state`].
    pub fn set_ct_state(&mut self, state: CtState) {
        self.set(Field::CtState, state.bits().into());
    }

    /// The zone that the packet was last tracked in.
    pub fn ct_zone(&self) -> Zone {
        Zone(self.get(Field::CtZone) as u16)
    }

    /// Sets [`Self::ct_zone`].
    pub fn set_ct_zone(&mut self, zone: Zone) {
        self.set(Field::CtZone, zone.0.into());
    }

    /// Ethernet source.
    pub fn eth_src(&self) -> MacAddr {
        MacAddr::from_u64(self.get(Field::EthSrc) as u64)
    }

    /// Ethernet destination.
    pub fn eth_dst(&self) -> MacAddr {
        MacAddr::from_u64(self.get(Field::EthDst) as u64)
    }

    /// IPv4 source, or the ARP sender's address.
    pub fn ipv4_src(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.get(Field::Ipv4Src) as u32)
    }

    /// IPv4 destination, or the ARP target's address.
    pub fn ipv4_dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.get(Field::Ipv4Dst) as u32)
    }

    /// IPv6 source.
    pub fn ipv6_src(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.get(Field::Ipv6Src))
    }

    /// IPv6 destination.
    pub fn ipv6_dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.get(Field::Ipv6Dst))
    }

    /// VLAN id of the outer tag, `None` without one.
    pub fn vlan_vid(&self) -> Option<u16> {
        let tci = self.vlan_tci();
        (tci & VLAN_PRESENT != 0).then_some(tci & 0xfff)
    }

    /// Returns whether the packet is IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        matches!(self.eth_type(), ethertype::IPV4 | ethertype::IPV6)
    }

    /// Returns source and destination address, the upper half of each first. IPv4 addresses are in the low 32
    /// bits.
    #[inline]
    pub fn addresses(&self) -> [u64; 4] {
        std::array::from_fn(|i| self.words[ADDRESSES + i])
    }

    /// Stores [`Self::addresses`].
    #[inline]
    pub fn set_addresses(&mut self, addresses: &[u64; 4]) {
        self.words[ADDRESSES..ADDRESSES + 4].copy_from_slice(addresses);
    }

    /// Returns source and destination port, or ICMP type and code, in one number.
    #[inline]
    pub fn ports(&self) -> u32 {
        (self.words[Field::TpSrc.word()] >> 32) as u32
    }

    /// Stores [`Self::ports`].
    #[inline]
    pub fn set_ports(&mut self, ports: u32) {
        let word = &mut self.words[Field::TpSrc.word()];
        *word = u64::from(ports) << 32 | *word & 0xffff_ffff;
    }

    /// Returns a hash of the in-port, recirculation id, connection state and zone, which the packets of a
    /// flow usually have in common.
    #[inline]
    pub fn place_hint(&self) -> u64 {
        self.words[Field::InPort.word()] ^ (self.words[Field::CtState.word()] & 0xffff_ffff)
    }

    /// Returns register `n`, 0 to 15, or 0 for a larger number.
    pub fn reg(&self, n: u8) -> u32 {
        Field::reg(n).map_or(0, |field| self.get(field) as u32)
    }

    /// Returns this key with the bits outside `mask` cleared.
    #[must_use]
    pub fn masked(&self, mask: &Mask) -> FlowKey {
        let mut out = FlowKey::new();
        for ((out, key), mask) in out.words.iter_mut().zip(&self.words).zip(&mask.words) {
            *out = key & mask;
        }
        out
    }
}

impl Mask {
    /// Returns a mask of all bits of this field.
    pub fn of(field: Field) -> Mask {
        let mut mask = Mask::new();
        mask.add(field);
        mask
    }

    /// Adds all bits of `field`.
    pub fn add(&mut self, field: Field) {
        self.set(field, u128::MAX);
    }

    /// Adds these bits of `field`.
    pub fn add_bits(&mut self, field: Field, bits: u128) {
        self.set(field, self.get(field) | bits);
    }

    /// Adds all bits of `other`.
    pub fn union(&mut self, other: &Mask) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Returns the intersection.
    #[must_use]
    pub fn and(&self, other: &Mask) -> Mask {
        let mut both = self.clone();
        for (word, other) in both.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
        both
    }

    /// Returns whether any bit of `field` is set.
    pub fn has(&self, field: Field) -> bool {
        self.get(field) != 0
    }

    /// Returns whether all bits of `field` are set.
    pub fn is_exact(&self, field: Field) -> bool {
        self.get(field) == field.all_ones()
    }

    /// Returns whether no bit is set: every packet matches.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns how many words have bits.
    pub fn count_words(&self) -> usize {
        self.words.iter().filter(|&&word| word != 0).count()
    }

    /// Returns whether every bit of this mask is also set in `other`.
    pub fn is_within(&self, other: &Mask) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & !b == 0)
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields(f, "FlowKey", |field| self.get(field))
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_fields(f, "Mask", |field| self.get(field))
    }
}

fn debug_fields(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    get: impl Fn(Field) -> u128,
) -> fmt::Result {
    let mut out = f.debug_struct(name);
    for field in Field::BASIC {
        let value = get(*field);
        if value != 0 {
            out.field(field.name(), &format_args!("{value:#x}"));
        }
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns whether two fields share bits of the key, because no packet has both.
    fn share_place(field: Field, other: Field) -> bool {
        let span = |place: crate::field::Place| {
            let first = place.word as u32 * 64;
            // In a field of two words the first word holds the upper half.
            match place.bits {
                65.. => (first, first + 128),
                bits => (first + place.shift, first + place.shift + bits),
            }
        };
        let ((a0, a1), (b0, b1)) = (span(field.place()), span(other.place()));
        a0 < b1 && b0 < a1
    }

    #[test]
    fn basic_fields_do_not_overlap_but_for_the_shared_addresses() {
        let mut seen: Vec<(Field, Mask)> = Vec::new();
        for &field in Field::BASIC {
            let mask = Mask::of(field);
            for (other, other_mask) in &seen {
                let clash = mask.words.iter().zip(&other_mask.words).any(|(a, b)| a & b != 0);
                assert_eq!(clash, share_place(field, *other), "{field:?} and {other:?}");
            }
            seen.push((field, mask));
        }
    }

    #[test]
    fn clearing_ct_clears_just_that() {
        let mut key = FlowKey::new();
        key.set_ct_began();
        assert!(Field::ALL.iter().all(|&field| key.get(field) == 0));
        for &field in Field::BASIC {
            key.set(field, u128::MAX);
        }
        key.clear_ct();
        for &field in Field::BASIC {
            let expect = if field.is_ct() { 0 } else { field.all_ones() };
            assert_eq!(key.get(field), expect, "{field:?}");
        }
        assert!(!key.ct_began());
    }

    #[test]
    fn all_of_ct_at_once_is_its_fields_one_by_one() {
        let ct = CtFields {
            state: CtState::EST | CtState::TRK,
            zone: Zone(7),
            mark: 0x1234_5678,
            label: [1, 2],
            src: [3, 4],
            dst: [5, 6],
            ports: [8, 9],
            protocol: 17,
        };
        let (mut all, mut each) = (FlowKey::new(), FlowKey::new());
        for field in [Field::CtLabel, Field::EthType, Field::CtIpv6Dst] {
            all.set(field, u128::MAX);
        }
        all.set_ct(&ct);
        each.set_eth_type(u16::MAX);
        each.set_ct_state(ct.state);
        each.set_ct_zone(ct.zone);
        each.set_ct_mark(ct.mark);
        each.set_ct_label(1 << 64 | 2);
        each.set(Field::CtIpv6Src, 3 << 64 | 4);
        each.set(Field::CtIpv6Dst, 5 << 64 | 6);
        each.set_ct_tp_src(8);
        each.set_ct_tp_dst(9);
        each.set_ct_nw_proto(17);
        assert_eq!(all, each);
    }

    proptest! {
        #[test]
        fn what_is_set_is_read_back_and_nothing_else_moves(
            index in 0..Field::ALL.len(), value: u128, fill: bool,
        ) {
            let field = Field::ALL[index];
            let mut key = FlowKey::new();
            if fill {
                key.words = [u64::MAX; WORDS];
            }
            let before = key.clone();
            key.set(field, value);
            prop_assert_eq!(key.get(field), value & field.all_ones());
            let place = Mask::of(field);
            for i in 0..WORDS {
                prop_assert_eq!(key.words[i] & !place.words[i], before.words[i] & !place.words[i]);
            }
        }
    }
}
