//! Tunnel options: the mapping of options to `tun_metadata` fields and to slots of the key, and matches on
//! options that have no slots yet (ovs: `lib/tun-metadata.c`).
//!
//! A key has 64 slots of four bytes for the values of options. A TLV table assigns each option as many slots
//! as its value needs. The slots of an option need not be adjacent, so the space never needs compaction. This is
//! the form that flow tables and their actions see; the datapath's is in `raw_options.rs`.

use crate::field::Field;
use crate::key::{FlowKey, Mask};
use crate::wide::Wide;

/// The number of bytes in a slot.
const SLOT_LEN: usize = 4;

impl Field {
    /// Returns `tun_metadata<n>`, 0 to 63, or `None` for a larger number.
    pub fn tun_metadata(n: u8) -> Option<Field> {
        let first = Field::TunMetadata0 as usize;
        (n < 64).then(|| Field::ALL[first + usize::from(n)])
    }

    /// Returns `n` of `tun_metadata<n>`, or `None` for any other field.
    pub fn tun_metadata_index(self) -> Option<u8> {
        let n = (self as usize).checked_sub(Field::TunMetadata0 as usize)?;
        u8::try_from(n).ok().filter(|&n| n < 64)
    }
}

/// The tunnel option that a `tun_metadata` field stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OptionMapping {
    /// The option class, which is the namespace of the type (RFC 8926 section 3.5).
    pub class: u16,
    /// The type, with the critical bit (0x80).
    pub kind: u8,
    /// `tun_metadata<index>`.
    pub index: u8,
    /// The slots of its value: bit `n` stands for slot `n`. The lowest slot contains the most significant
    /// bytes.
    pub slots: u64,
}

impl OptionMapping {
    /// The number of slots in a key.
    pub const SLOTS: u32 = u64::BITS;
    /// The number of `tun_metadata` fields.
    pub const FIELDS: u8 = 64;
    /// The maximum length of a value in bytes (RFC 8926 section 3.5).
    pub const LEN_MAX: u8 = 124;

    /// Returns the length of the value in bytes.
    pub fn len(&self) -> u8 {
        (self.slots.count_ones() as u8) * SLOT_LEN as u8
    }

    /// Returns whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// Returns a mask of all bits of the value.
    pub fn ones(&self) -> Wide {
        Wide::low_ones(u32::from(self.len()) * 8)
    }

    /// Returns the mapping of `tun_metadata<index>` in a TLV table.
    pub fn of(table: &[OptionMapping], index: u8) -> Option<&OptionMapping> {
        table.iter().find(|it| it.index == index)
    }

    /// Returns the option's bit in [`Field::TunMetadataPresent`].
    fn present(&self) -> u128 {
        1 << (u32::from(self.index) & 63)
    }

    /// Returns whether a packet carries the option.
    pub fn is_in(&self, key: &FlowKey) -> bool {
        key.get(Field::TunMetadataPresent) & self.present() != 0
    }

    /// Returns the option's value in a key, or zero if the packet does not carry it.
    pub fn read(&self, key: &FlowKey) -> Wide {
        Wide::from_bytes(&self.bytes(key))
    }

    /// Returns the value in the form that it has on the wire.
    pub fn bytes(&self, key: &FlowKey) -> Vec<u8> {
        key.option_slots(self.slots).flat_map(u32::to_be_bytes).collect()
    }

    /// Stores a value in a key, and marks the option as present.
    pub fn write(&self, key: &mut FlowKey, value: Wide) {
        self.write_bytes(key, &value.to_bytes(self.len().into()));
    }

    /// Stores a value in the form that it has on the wire, and marks the option as present. It must have the
    /// option's length.
    pub fn write_bytes(&self, key: &mut FlowKey, value: &[u8]) {
        let slots = value.chunks_exact(SLOT_LEN).map(|it| it.iter().fold(0, add_byte));
        key.set_option_slots(self.slots, slots);
        key.set(Field::TunMetadataPresent, key.get(Field::TunMetadataPresent) | self.present());
    }

    /// Removes the option from a key.
    pub fn remove(&self, key: &mut FlowKey) {
        key.set_option_slots(self.slots, std::iter::repeat(0));
        key.set(Field::TunMetadataPresent, key.get(Field::TunMetadataPresent) & !self.present());
    }

    /// Returns whether a mask includes the presence of the option.
    pub fn is_masked(&self, mask: &Mask) -> bool {
        mask.get(Field::TunMetadataPresent) & self.present() != 0
    }

    /// Returns the bits of the value in a mask.
    pub fn read_mask(&self, mask: &Mask) -> Wide {
        Wide::from_bytes(&self.mask_bytes(mask))
    }

    /// Returns the bits of the value in a mask, in the form that the value has on the wire.
    pub(crate) fn mask_bytes(&self, mask: &Mask) -> Vec<u8> {
        mask.option_slots(self.slots).flat_map(u32::to_be_bytes).collect()
    }

    /// Wildcards the option's value and presence.
    pub fn remove_mask(&self, mask: &mut Mask) {
        mask.set_option_slots(self.slots, std::iter::repeat(0));
        mask.set(Field::TunMetadataPresent, mask.get(Field::TunMetadataPresent) & !self.present());
    }

    /// Adds bits of the value, and the option's presence, to a mask.
    pub fn add_mask(&self, mask: &mut Mask, bits: Wide) {
        let bytes = (self.read_mask(mask) | bits).to_bytes(self.len().into());
        let slots = bytes.chunks_exact(SLOT_LEN).map(|it| it.iter().fold(0, add_byte));
        mask.set_option_slots(self.slots, slots);
        mask.add_bits(Field::TunMetadataPresent, self.present());
    }
}

fn add_byte(value: u32, byte: &u8) -> u32 {
    value << 8 | u32::from(*byte)
}

/// A match on a tunnel option, independent of slots: the form that controllers send and receive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OptionMatch {
    /// `tun_metadata<index>`.
    pub index: u8,
    /// The length of the value on the wire, in bytes.
    pub len: u8,
    /// The packet must not carry the option. Only flows of the datapath match on this.
    pub is_absent: bool,
    /// The value.
    pub value: Wide,
    /// The bits of the value that are compared: [`Wide::ONES`] for all bits of a value of any length, zero to
    /// match only on the option's presence.
    pub mask: Wide,
}

impl OptionMatch {
    /// Returns a match on bits of a value, with the shortest length that contains them. A match on the whole
    /// value has a length of at least one byte.
    pub fn new(index: u8, value: Wide, mask: Wide) -> Self {
        let of_mask = if mask == Wide::ONES { 1 } else { mask.byte_len() };
        let len = value.byte_len().max(of_mask).min(OptionMapping::LEN_MAX.into()) as u8;
        OptionMatch { index, len, is_absent: false, value: value & mask, mask }
    }

    /// Returns the match on an option that a key and its mask contain, or `None` if they do not match on it.
    pub fn read(mapping: &OptionMapping, key: &FlowKey, mask: &Mask) -> Option<Self> {
        if !mapping.is_masked(mask) {
            return None;
        }
        let bits = mapping.read_mask(mask);
        let whole = bits == mapping.ones() && !mapping.is_empty();
        Some(OptionMatch {
            index: mapping.index,
            len: mapping.len(),
            is_absent: !mapping.is_in(key),
            value: mapping.read(key) & bits,
            mask: if whole { Wide::ONES } else { bits },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_in_their_slots_and_nowhere_else() {
        let option = |index, slots| OptionMapping { class: 1, kind: 2, index, slots };
        let (long, short, none) = (option(3, 0x8000_0000_0000_0005), option(63, 2), option(0, 0));
        assert_eq!((long.len(), short.len(), none.len()), (12, 4, 0));
        let value = Wide::from(0x1111_1111_2222_2222_3333_3333);
        let (mut key, mut mask) = (FlowKey::new(), Mask::new());
        long.write(&mut key, value);
        assert!(long.is_in(&key) && !short.is_in(&key));
        assert_eq!((long.read(&key), short.read(&key)), (value, Wide::ZERO));
        assert_eq!(key.get(Field::TunSlots0), 0x1111_1111_0000_0000);
        assert_eq!(key.get(Field::TunSlots1), 0x2222_2222_0000_0000);
        assert_eq!(key.get(Field::TunSlots31), 0x3333_3333);
        assert_eq!(key.get(Field::TunMetadata3), 1);
        short.write(&mut key, Wide::from(7));
        none.write(&mut key, Wide::from(9));
        assert_eq!(key.get(Field::TunMetadataPresent), 1 << 63 | 1 << 3 | 1);
        assert_eq!((long.read(&key), short.read(&key)), (value, Wide::from(7)));
        assert_eq!(OptionMatch::read(&long, &key, &mask), None);
        long.add_mask(&mut mask, Wide::from(0xff));
        let found = OptionMatch::read(&long, &key, &mask).unwrap();
        assert_eq!((found.value, found.mask), (Wide::from(0x33), Wide::from(0xff)));
        long.add_mask(&mut mask, Wide::ONES);
        let found = OptionMatch::read(&long, &key, &mask).unwrap();
        assert_eq!((found.value, found.mask, found.len), (value, Wide::ONES, 12));
        long.remove(&mut key);
        assert!(OptionMatch::read(&long, &key, &mask).unwrap().is_absent);
        assert_eq!((long.read(&key), short.read(&key)), (Wide::ZERO, Wide::from(7)));
    }
}
