//! A match: a key, and a mask of its bits that are compared.

use crate::field::{CT_WORDS, Field, HEADER_FIELDS};
use crate::key::{FlowKey, Mask};
use crate::option::{OptionMapping, OptionMatch};
use std::fmt;

/// The packets that a flow applies to. The key's bits outside the mask are always zero, so that equal matches
/// compare and hash equal.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Match {
    key: FlowKey,
    mask: Mask,
    /// Matches on tunnel options that have no slots in the key yet, sorted by index.
    options: Option<Box<[OptionMatch]>>,
}

impl Match {
    /// Returns a match of every packet.
    pub fn any() -> Self {
        Match::default()
    }

    /// Returns a match of the packets that agree with `key` in the bits of `mask`.
    pub fn new(key: &FlowKey, mask: &Mask) -> Self {
        Match { key: key.masked(mask), mask: mask.clone(), options: None }
    }

    /// Returns this match, restricted to packets whose `field` is `value`.
    #[must_use]
    pub fn with(self, field: Field, value: u128) -> Self {
        self.with_masked(field, value, u128::MAX)
    }

    /// Returns this match, restricted to packets whose `field` agrees with `value` in the bits of `mask`.
    #[must_use]
    pub fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Self {
        self.set_masked(field, value, mask);
        self
    }

    /// Restricts the match to packets whose `field` agrees with `value` in the bits of `mask`. Other bits of
    /// the field are still matched as before.
    pub fn set_masked(&mut self, field: Field, value: u128, mask: u128) {
        let mask = mask & field.all_ones();
        self.key.set(field, (self.key.get(field) & !mask) | (value & mask));
        self.mask.add_bits(field, mask);
    }

    /// Sets words of key and mask, by number.
    pub(crate) fn set_words<'a>(
        &mut self,
        words: impl Iterator<Item = (usize, (&'a u64, &'a u64))>,
    ) {
        for (at, (key, mask)) in words {
            self.key.words_mut()[at] = *key;
            self.mask.words_mut()[at] = *mask;
        }
    }

    /// Removes `field` from the match.
    pub fn wildcard(&mut self, field: Field) {
        self.key.set(field, 0);
        self.mask.set(field, 0);
    }

    /// Restricts the match to packets that carry the tunnel option and whose option agrees with `value` in
    /// the bits of `mask`. Other bits of the option are still matched as before.
    pub fn set_option(&mut self, option: OptionMatch) {
        let mut all = self.options.take().unwrap_or_default().into_vec();
        match all.binary_search_by_key(&option.index, |it| it.index) {
            Ok(at) => {
                let had = &mut all[at];
                had.value = (had.value & !option.mask) | option.value;
                had.mask = had.mask | option.mask;
                had.len = had.len.max(option.len);
            }
            Err(at) => all.insert(at, option),
        }
        self.options = Some(all.into());
    }

    /// Returns the matches on tunnel options that have no slots in the key yet.
    pub fn options(&self) -> &[OptionMatch] {
        self.options.as_deref().unwrap_or_default()
    }

    /// Moves the matches on tunnel options to the slots of the key that a TLV table assigns to them. A value
    /// that is longer than its slots loses its upper bytes, as in Open vSwitch.
    ///
    /// # Errors
    /// The index of an option that is not in the table.
    pub fn place_options(&mut self, table: &[OptionMapping]) -> Result<(), u8> {
        for option in self.options.take().unwrap_or_default() {
            let mapping = OptionMapping::of(table, option.index).ok_or(option.index)?;
            if !option.is_absent {
                let others = mapping.read(&self.key) & !option.mask;
                mapping.write(&mut self.key, others | option.value & option.mask);
            }
            mapping.add_mask(&mut self.mask, option.mask);
        }
        Ok(())
    }

    /// Moves the matches on tunnel options out of the key. The result does not depend on the TLV table.
    #[must_use]
    pub fn with_options_apart(mut self, table: &[OptionMapping]) -> Self {
        let has_any = self.mask.has(Field::TunMetadataPresent);
        for mapping in table.iter().filter(|_| has_any) {
            if let Some(option) = OptionMatch::read(mapping, &self.key, &self.mask) {
                self.set_option(option);
                mapping.remove(&mut self.key);
                mapping.remove_mask(&mut self.mask);
            }
        }
        self
    }

    /// Returns the values.
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    /// Returns the mask of the bits that are compared.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Returns whether the match has header fields, or the original tuple of a connection, but no
    /// `packet_type`. It then implies packets with an Ethernet header (ovs: `lib/match.c`,
    /// `match_add_ethernet_prereq`).
    pub fn implies_frames(&self) -> bool {
        const _: () = assert!(CT_WORDS.end == HEADER_FIELDS.start);
        let words = &self.mask.words()[Field::CtTpSrc.word()..HEADER_FIELDS.end];
        !self.mask.has(Field::PacketType) && words.iter().any(|&word| word != 0)
    }

    /// Returns whether a packet with this key matches.
    pub fn matches(&self, key: &FlowKey) -> bool {
        let words = self.key.words().iter().zip(self.mask.words()).zip(key.words());
        words.fold(0, |diff, ((want, mask), have)| diff | ((want ^ have) & mask)) == 0
    }

    /// Returns whether a packet can match both.
    pub fn overlaps(&self, other: &Match) -> bool {
        let both = self.mask.words().iter().zip(other.mask.words());
        let keys = self.key.words().iter().zip(other.key.words());
        both.zip(keys).all(|((m1, m2), (k1, k2))| (k1 ^ k2) & m1 & m2 == 0)
    }

    /// Returns whether every packet that matches this also matches `other`. OpenFlow's non-strict modify and
    /// delete select flows by it (OpenFlow 1.3.5 section 6.4).
    pub fn is_within(&self, other: &Match) -> bool {
        other.mask.is_within(&self.mask) && other.matches(&self.key)
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Match{")?;
        for &field in Field::BASIC {
            let mask = self.mask.get(field);
            if mask == field.all_ones() {
                write!(f, " {}={:#x}", field.name(), self.key.get(field))?;
            } else if mask != 0 {
                write!(f, " {}={:#x}/{mask:#x}", field.name(), self.key.get(field))?;
            }
        }
        for option in self.options() {
            write!(f, " {option:?}")?;
        }
        f.write_str(" }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide::Wide;

    #[test]
    fn options_get_their_places_and_leave_them() {
        let table = |slots: [u64; 2]| {
            let option = |(index, slots)| OptionMapping { class: 1, kind: index, index, slots };
            [(4, slots[0]), (9, slots[1])].map(option)
        };
        let (here, there) = (table([0b11, 0b100]), table([1 << 63 | 1, 0]));
        let option = |index, value: u128, mask| OptionMatch::new(index, value.into(), mask);
        let mut apart = Match::any().with(Field::TunId, 5);
        apart.set_option(option(9, 0, Wide::ZERO));
        apart.set_option(option(4, 0x1_2345_6789, Wide::ONES));
        let mut placed = apart.clone();
        assert_eq!(placed.place_options(&here), Ok(()));
        assert!(placed.options().is_empty());
        let mut key = FlowKey::new();
        key.set(Field::TunId, 5);
        here[0].write(&mut key, Wide::from(0x1_2345_6789));
        assert!(!placed.matches(&key));
        here[1].write(&mut key, Wide::from(0x55));
        assert!(placed.matches(&key));
        here[0].write(&mut key, Wide::from(0x2345_6789));
        assert!(!placed.matches(&key));
        let again = placed.clone().with_options_apart(&here);
        assert_eq!(again.options().iter().map(|it| it.len).collect::<Vec<_>>(), [8, 4]);
        assert_eq!(again.options()[0].mask, Wide::ONES);
        assert!(!again.mask().has(Field::TunMetadataPresent));
        let mut elsewhere = again.clone();
        assert_eq!(elsewhere.place_options(&there), Ok(()));
        assert_eq!(elsewhere.with_options_apart(&there).options()[0], again.options()[0]);
        assert_eq!(apart.clone().place_options(&here[1..]), Err(4));
        // Bits of one option from two parts.
        let mut parts = Match::any();
        parts.set_option(option(4, 0xab00, Wide::from(0xff00)));
        parts.set_option(option(4, 0xc, Wide::from(0xf)));
        assert_eq!(parts.options(), [option(4, 0xab0c, Wide::from(0xff0f))]);
    }

    #[test]
    fn narrowing_widening_and_overlap() {
        let ip = Match::any().with(Field::EthType, 0x800);
        let low = ip.clone().with_masked(Field::TpDst, 0x8000, 0x8000);
        let port = ip.clone().with(Field::TpDst, 80);
        assert!(low.is_within(&ip) && !ip.is_within(&low));
        assert!(low.overlaps(&ip) && !low.overlaps(&port));
        let mut key = FlowKey::new();
        key.set_eth_type(0x800);
        key.set_tp_dst(33000);
        assert!(low.matches(&key) && !port.matches(&key));
        let mut wide = port.clone();
        wide.wildcard(Field::TpDst);
        assert_eq!(wide, ip);
    }
}
