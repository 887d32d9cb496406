//! Matches in packed form, for tables of many flows.

use crate::field::WORDS;
use crate::matching::Match;
use crate::option::OptionMatch;
use crate::packed::indices;

/// A [`Match`] without the words that its mask does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackedMatch {
    /// The words that the mask has, by bit: the lower half first.
    map: [u64; 2],
    /// These words of the mask, then those of the key.
    words: Box<[u64]>,
    options: Option<Box<Box<[OptionMatch]>>>,
}

const _: () = assert!(WORDS <= u128::BITS as usize && size_of::<PackedMatch>() <= 40);

impl PackedMatch {
    /// Packs a match.
    pub fn new(matching: &Match) -> PackedMatch {
        let (mask, key) = (matching.mask().words(), matching.key().words());
        let map = matching.mask().word_map();
        let mut words = Vec::with_capacity(2 * map.count_ones() as usize);
        words.extend(indices(map).map(|at| mask[at]));
        words.extend(indices(map).map(|at| key[at]));
        let options = matching.options();
        let options = (!options.is_empty()).then(|| Box::new(options.into()));
        PackedMatch { map: [map as u64, (map >> 64) as u64], words: words.into(), options }
    }

    /// Returns the match.
    pub fn unpack(&self) -> Match {
        let mut matching = Match::any();
        let (mask, key) = self.words.split_at(self.words.len() / 2);
        let [lower, upper] = self.map;
        let map = u128::from(upper) << 64 | u128::from(lower);
        matching.set_words(indices(map).zip(key.iter().zip(mask)));
        for option in self.options.iter().flat_map(|options| options.iter()) {
            matching.set_option(option.clone());
        }
        matching
    }

    /// Returns whether both compare the same bits.
    pub fn has_mask_of(&self, other: &PackedMatch) -> bool {
        let half = self.words.len() / 2;
        self.map == other.map && self.words[..half] == other.words[..half]
    }

    /// Returns whether every packet matches.
    pub fn is_any(&self) -> bool {
        self.words.is_empty() && self.options.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::wide::Wide;

    #[test]
    fn what_was_packed_is_unpacked() {
        let mut of_option = Match::any().with(Field::TunId, 7);
        of_option.set_option(OptionMatch::new(4, 5u128.into(), Wide::ONES));
        for matching in [
            Match::any(),
            of_option,
            Match::any().with(Field::EthType, 0x800).with(Field::Ipv4Dst, 0),
            Match::any().with_masked(Field::Ipv6Dst, 3 << 90, 7 << 90).with(Field::ConjId, 0),
        ] {
            let packed = PackedMatch::new(&matching);
            assert_eq!(packed.unpack(), matching);
            assert_eq!(packed.is_any(), matching == Match::any());
        }
    }
}
