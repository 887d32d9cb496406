//! Options of tunnels: which field stands for which option, where its value lies in a key, and matches
//! on options before they have a place there (ovs: `lib/tun-metadata.c`).
//!
//! A key has 64 slots of four bytes for the values of options. A TLV table gives each option as many slots
//! as its value needs. They need not lie side by side, so that the space never has to be put in order.

use crate::field::Field;
use crate::key::{FlowKey, Mask};
use crate::wide::Wide;

/// Bytes of a slot.
const SLOT_LEN: usize = 4;

impl Field {
    /// `tun_metadata<n>`, 0 to 63.
    pub fn tun_metadata(n: u8) -> Option<Field> {
        let first = Field::TunMetadata0 as usize;
        (n < 64).then(|| Field::ALL[first + usize::from(n)])
    }

    /// Which `tun_metadata` field it is, if it is one.
    pub fn tun_metadata_index(self) -> Option<u8> {
        let n = (self as usize).checked_sub(Field::TunMetadata0 as usize)?;
        u8::try_from(n).ok().filter(|&n| n < 64)
    }
}

/// An option that a `tun_metadata` field stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OptionMapping {
    /// The namespace of the type (RFC 8926 section 3.5).
    pub class: u16,
    /// The type, with the critical bit (0x80).
    pub kind: u8,
    /// `tun_metadata<index>`.
    pub index: u8,
    /// The slots of its value, the most significant bytes in the lowest: bit `n` for slot `n`.
    pub slots: u64,
}

impl OptionMapping {
    /// Number of slots: four bytes each.
    pub const SLOTS: u32 = u64::BITS;
    /// Number of `tun_metadata` fields.
    pub const FIELDS: u8 = 64;
    /// The longest value in bytes (RFC 8926 section 3.5).
    pub const LEN_MAX: u8 = 124;

    /// Bytes of a value.
    pub fn len(&self) -> u8 {
        (self.slots.count_ones() as u8) * SLOT_LEN as u8
    }

    /// Whether its value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// All bits of a value.
    pub fn ones(&self) -> Wide {
        Wide::low_ones(u32::from(self.len()) * 8)
    }

    /// The mapping of a field in a table.
    pub fn of(table: &[OptionMapping], index: u8) -> Option<&OptionMapping> {
        table.iter().find(|it| it.index == index)
    }

    /// The bit that says in a key that the option is there, and in a mask that this matters.
    fn present(&self) -> u128 {
        1 << (u32::from(self.index) & 63)
    }

    /// Whether a packet carries the option.
    pub fn is_in(&self, key: &FlowKey) -> bool {
        key.get(Field::TunMetadataPresent) & self.present() != 0
    }

    /// The option's value in a key; zero if it is not there.
    pub fn read(&self, key: &FlowKey) -> Wide {
        Wide::from_bytes(&self.bytes(key))
    }

    /// The value as it stands on the wire.
    pub fn bytes(&self, key: &FlowKey) -> Vec<u8> {
        key.option_slots(self.slots).flat_map(u32::to_be_bytes).collect()
    }

    /// Stores a value in a key, with the option's presence.
    pub fn write(&self, key: &mut FlowKey, value: Wide) {
        self.write_bytes(key, &value.to_bytes(self.len().into()));
    }

    /// Stores a value of the option's length as it stands on the wire.
    pub fn write_bytes(&self, key: &mut FlowKey, value: &[u8]) {
        let slots = value.chunks_exact(SLOT_LEN).map(|it| it.iter().fold(0, add_byte));
        key.set_option_slots(self.slots, slots);
        key.set(Field::TunMetadataPresent, key.get(Field::TunMetadataPresent) | self.present());
    }

    /// Takes the option out of a key.
    pub fn remove(&self, key: &mut FlowKey) {
        key.set_option_slots(self.slots, std::iter::repeat(0));
        key.set(Field::TunMetadataPresent, key.get(Field::TunMetadataPresent) & !self.present());
    }

    /// Whether it matters in a mask that the option is there.
    pub fn is_masked(&self, mask: &Mask) -> bool {
        mask.get(Field::TunMetadataPresent) & self.present() != 0
    }

    /// The bits of the value that matter in a mask.
    pub fn read_mask(&self, mask: &Mask) -> Wide {
        let slots: Vec<u8> = mask.option_slots(self.slots).flat_map(u32::to_be_bytes).collect();
        Wide::from_bytes(&slots)
    }

    /// Makes nothing of the option matter.
    pub fn remove_mask(&self, mask: &mut Mask) {
        mask.set_option_slots(self.slots, std::iter::repeat(0));
        mask.set(Field::TunMetadataPresent, mask.get(Field::TunMetadataPresent) & !self.present());
    }

    /// Makes bits of the value matter besides those that do, and that the option is there.
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

/// A match on an option, apart from a key: what a controller said, or is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OptionMatch {
    /// `tun_metadata<index>`.
    pub index: u8,
    /// Bytes of the value on the wire.
    pub len: u8,
    /// The option must not be there, as flows of the datapath may say.
    pub is_absent: bool,
    /// The value.
    pub value: Wide,
    /// The bits of it that matter: [`Wide::ONES`] for all of them, however long the value is; none where
    /// only the option's presence matters.
    pub mask: Wide,
}

impl OptionMatch {
    /// A match on bits of a value. The length is the least that holds it; a whole value has a byte at least.
    pub fn new(index: u8, value: Wide, mask: Wide) -> Self {
        let of_mask = if mask == Wide::ONES { 1 } else { mask.byte_len() };
        let len = value.byte_len().max(of_mask).min(OptionMapping::LEN_MAX.into()) as u8;
        OptionMatch { index, len, is_absent: false, value: value & mask, mask }
    }

    /// What a key and its mask say of an option; `None` if nothing.
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
