//! Prefix tries over the addresses of a whole table.
//!
//! Before a lookup looks at the addresses in a subtable, it asks the trie whether any flow has a
//! prefix of this subtable's length that the packet can match. If none has, the packet is known not
//! to match by only as many bits of the address as the trie needed.

use crate::trie::{PrefixTrie, TrieMatch};
use flow::{Field, FlowKey, Mask};

/// How many fields of a table may have a trie.
pub const MAX_PREFIX_FIELDS: usize = 3;

/// A field that can have a prefix trie (column `prefixes` of the database's `Flow_Table`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrefixField {
    /// `ip_src`, also for ARP's sender in the rules, but asked for IPv4 packets only.
    Ipv4Src,
    /// `ip_dst`, likewise.
    Ipv4Dst,
    /// `ipv6_src`.
    Ipv6Src,
    /// `ipv6_dst`.
    Ipv6Dst,
}

impl PrefixField {
    /// What tables have unless told otherwise (ovs: `ofproto/ofproto.c`, `default_prefix_fields`).
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

    /// The length of the prefix that `mask` is on this field, 0 where it is none or where the trie
    /// may not be used.
    pub(crate) fn prefix_len(self, mask: &Mask) -> u32 {
        // Whether the trie is asked depends on the packet's Ethernet type, which an earlier stage
        // must therefore have looked at.
        if !mask.is_exact(Field::EthType) {
            return 0;
        }
        // IPv4 addresses lie in the low bits of IPv6 ones, which are no business of IPv4's trie.
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

    /// Whether the field is what it says in this packet, and not another field in the same place.
    fn is_in(self, key: &FlowKey) -> bool {
        match self {
            PrefixField::Ipv4Src | PrefixField::Ipv4Dst => key.eth_type() == 0x0800,
            PrefixField::Ipv6Src | PrefixField::Ipv6Dst => key.eth_type() == 0x86dd,
        }
    }

    /// The field's value or mask, moved to where the trie wants it.
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

    /// Adds a match of a subtable whose prefix has `len` bits; of 0 bits there is nothing to add.
    pub fn insert(&mut self, key: &FlowKey, len: u32) {
        if len > 0 {
            self.trie.insert(self.value(key), len);
        }
    }

    /// Takes away what was added for an equal match.
    pub fn remove(&mut self, key: &FlowKey, len: u32) {
        if len > 0 {
            self.trie.remove(self.value(key), len);
        }
    }

    fn value(&self, key: &FlowKey) -> u128 {
        self.field.at_upper_end(key.get(self.field.field()))
    }

    /// `None` where the trie has nothing to say about the packet.
    fn lookup(&self, key: &FlowKey) -> Option<TrieMatch> {
        let width = self.field.field().bits();
        self.field.is_in(key).then(|| self.trie.lookup(self.value(key), width))
    }
}

/// What the tries of a table say of one packet. Each is asked when first needed.
pub(crate) struct TrieLookups<'a> {
    tries: &'a [FieldTrie],
    found: [Option<Option<TrieMatch>>; MAX_PREFIX_FIELDS],
}

impl<'a> TrieLookups<'a> {
    pub fn new(tries: &'a [FieldTrie]) -> Self {
        TrieLookups { tries, found: [None; MAX_PREFIX_FIELDS] }
    }

    /// Whether no flow with prefixes of these lengths can match the packet; the bits of the address
    /// that show it then matter. A trie knows all the flows of the table, so that it may need more
    /// bits than the subtable itself has; it is then believed only where the bits matter already
    /// (ovs: `lib/classifier.c`, `check_tries`).
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
            if found.bits <= len {
                wildcards.add_bits(field, needed);
                return true;
            }
            if wildcards.get(field) & needed == needed {
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
            (PrefixField::Ipv4Src, ip.clone(), 0),
        ];
        for (field, mask, len) in cases {
            assert_eq!(field.prefix_len(&mask), len, "{field:?} in {mask:?}");
        }
    }
}
