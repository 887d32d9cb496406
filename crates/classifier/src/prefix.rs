//! Prefix tries over the addresses of a whole table.
//!
//! Before a lookup compares the addresses of a subtable, it walks the trie to learn whether any
//! flow has a prefix of this subtable's length that the packet can match. If none has, the lookup
//! skips the subtable and un-wildcards only as many address bits as the trie needed.

use crate::trie::{PrefixTrie, TrieMatch};
use flow::{Field, FlowKey, Mask};
use table::Remains;
use wire::ethertype;

/// The maximum number of fields of a table with a trie.
pub const MAX_PREFIX_FIELDS: usize = 3;

/// A field that can have a prefix trie (column `prefixes` of the database's `Flow_Table`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixField {
    /// `ip_src`. Rules for ARP have their sender in it too, but only IPv4 packets use the trie.
    Ipv4Src,
    /// `ip_dst`. Rules for ARP have their target in it too, but only IPv4 packets use the trie.
    Ipv4Dst,
    /// `ipv6_src`.
    Ipv6Src,
    /// `ipv6_dst`.
    Ipv6Dst,
}

impl PrefixField {
    /// The default of a table (ovs: `ofproto/ofproto.c`, `default_prefix_fields`).
    pub const DEFAULT: &[PrefixField] = &[PrefixField::Ipv4Dst, PrefixField::Ipv4Src];

    /// The field whose prefixes these are.
    pub fn field(self) -> Field {
        match self {
            PrefixField::Ipv4Src => Field::Ipv4Src,
            PrefixField::Ipv4Dst => Field::Ipv4Dst,
            PrefixField::Ipv6Src => Field::Ipv6Src,
            PrefixField::Ipv6Dst => Field::Ipv6Dst,
        }
    }

    /// The length of the prefix that `mask` has on this field; 0 without a prefix, or if the trie
    /// may not be used.
    pub(crate) fn prefix_len(self, mask: &Mask) -> u32 {
        // Addresses are those of IP only with a match on the Ethernet type, or on the packet type in its place.
        if !mask.is_exact(Field::EthType) && !mask.is_exact(Field::PacketType) {
            return 0;
        }
        // IPv4 addresses occupy the low bits of IPv6 ones; IPv4's trie ignores the other bits.
        let whole = match self {
            PrefixField::Ipv4Src => mask.get(Field::Ipv6Src),
            PrefixField::Ipv4Dst => mask.get(Field::Ipv6Dst),
            PrefixField::Ipv6Src | PrefixField::Ipv6Dst => 0,
        };
        if whole >> 32 != 0 {
            return 0;
        }
        let bits = self.at_upper_end(mask.get(self.field()));
        let len = bits.leading_ones();
        if len + bits.trailing_zeros() == 128 { len } else { 0 }
    }

    /// Whether the packet has this field, and not another one in the same place. The packet type says so of a packet
    /// that is looked up without an Ethernet type, as those without an Ethernet header are.
    fn is_in(self, key: &FlowKey) -> bool {
        let kind = match key.eth_type() {
            0 => key.get(Field::PacketType) as u16,
            kind => kind,
        };
        match self {
            PrefixField::Ipv4Src | PrefixField::Ipv4Dst => kind == ethertype::IPV4,
            PrefixField::Ipv6Src | PrefixField::Ipv6Dst => kind == ethertype::IPV6,
        }
    }

    /// The field's value or mask, moved to the upper end, where the trie begins.
    fn at_upper_end(self, value: u128) -> u128 {
        value << (128 - self.field().bits())
    }
}

/// One field's trie.
#[derive(Clone, Debug)]
pub(crate) struct FieldTrie {
    pub field: PrefixField,
    trie: PrefixTrie,
}

impl FieldTrie {
    pub fn new(field: PrefixField) -> Self {
        FieldTrie { field, trie: PrefixTrie::default() }
    }

    /// Adds a match of a subtable whose prefix has `len` bits; does nothing for 0 bits.
    pub fn insert(&mut self, key: &FlowKey, len: u32) {
        if len > 0 {
            self.trie.insert(self.value(key), len);
        }
    }

    /// Removes the entry that was added for an equal match.
    pub fn remove(&mut self, key: &FlowKey, len: u32) {
        if len > 0 {
            self.trie.remove(self.value(key), len);
        }
    }

    /// Frees the trie a part at a time.
    pub fn hand_over(self, remains: &mut Remains) {
        self.trie.hand_over(remains);
    }

    fn value(&self, key: &FlowKey) -> u128 {
        self.field.at_upper_end(key.get(self.field.field()))
    }

    /// Returns `None` if the packet does not have the field.
    fn lookup(&self, key: &FlowKey) -> Option<TrieMatch> {
        let width = self.field.field().bits();
        self.field.is_in(key).then(|| self.trie.lookup(self.value(key), width))
    }
}

/// The tries' results for one packet, each computed when first needed.
pub(crate) struct TrieLookups<'a> {
    tries: &'a [FieldTrie],
    found: [Option<Option<TrieMatch>>; MAX_PREFIX_FIELDS],
}

impl<'a> TrieLookups<'a> {
    pub fn new(tries: &'a [FieldTrie]) -> Self {
        TrieLookups { tries, found: [None; MAX_PREFIX_FIELDS] }
    }

    /// Returns whether no flow with prefixes of these lengths can match the packet, and then
    /// un-wildcards the address bits that show it. A trie has the prefixes of all flows of the
    /// table, so it may need more bits than the subtable has; its result is then used only if those
    /// bits are un-wildcarded already (ovs: `lib/classifier.c`, `check_tries`).
    pub fn rule_out(
        &mut self,
        lens: &[u32; MAX_PREFIX_FIELDS],
        key: &FlowKey,
        wildcards: &mut Mask,
    ) -> bool {
        for ((trie, found), &len) in self.tries.iter().zip(&mut self.found).zip(lens) {
            if len == 0 {
                continue;
            }
            let Some(found) = *found.get_or_insert_with(|| trie.lookup(key)) else { continue };
            if found.has_length(len) {
                continue;
            }
            let field = trie.field.field();
            let needed = upper_bits(field, found.bits);
            let is_known = wildcards.get(field) & needed == needed;
            if found.bits <= len || is_known {
                wildcards.add_bits(field, needed);
                // What decided that the packet has the field.
                wildcards.add_bits(Field::EthType, Field::EthType.all_ones());
                if key.eth_type() == 0 {
                    wildcards.add_bits(Field::PacketType, Field::PacketType.all_ones());
                }
                return true;
            }
        }
        false
    }
}

/// The first `len` bits of a field.
fn upper_bits(field: Field, len: u32) -> u128 {
    field.all_ones() & !field.all_ones().checked_shr(len).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_contiguous_masks_of_the_right_protocol_are_prefixes() {
        let ip = Mask::of(Field::EthType);
        let with = |field, bits| {
            let mut mask = ip.clone();
            mask.add_bits(field, bits);
            mask
        };
        let mut with_packet_type = Mask::of(Field::Ipv4Src);
        with_packet_type.add_bits(Field::PacketType, Field::PacketType.all_ones());
        let cases = [
            (PrefixField::Ipv4Dst, with(Field::Ipv4Dst, 0xffff_0000), 16),
            (PrefixField::Ipv4Dst, with(Field::Ipv4Dst, 0xffff_ffff), 32),
            (PrefixField::Ipv4Dst, with(Field::Ipv4Dst, 0xff00_ff00), 0),
            (PrefixField::Ipv4Dst, with(Field::Ipv4Dst, 1), 0),
            (PrefixField::Ipv4Dst, with(Field::Ipv4Src, 0xffff_0000), 0),
            (PrefixField::Ipv4Dst, with(Field::Ipv6Dst, u128::MAX), 0),
            (PrefixField::Ipv6Dst, with(Field::Ipv6Dst, u128::MAX), 128),
            (PrefixField::Ipv6Dst, with(Field::Ipv6Dst, u128::MAX << 118), 10),
            (PrefixField::Ipv6Dst, with(Field::Ipv4Dst, u128::MAX), 0),
            (PrefixField::Ipv4Src, Mask::of(Field::Ipv4Src), 0),
            (PrefixField::Ipv4Src, with_packet_type, 32),
            (PrefixField::Ipv4Src, ip.clone(), 0),
        ];
        for (field, mask, len) in cases {
            assert_eq!(field.prefix_len(&mask), len, "{field:?} in {mask:?}");
        }
    }
}
