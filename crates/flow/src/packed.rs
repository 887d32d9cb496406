//! Keys and matches as they are stored: the words that are not zero, behind a bitmap.
//!
//! A working key takes 640 bytes so that a packet's fields lie at fixed places. A typical flow looks
//! at six to ten words, so that its stored match takes some 150 bytes.

use crate::field::WORDS;
use crate::key::{FlowKey, Mask};
use crate::matching::Match;

/// A [`FlowKey`] without its zero words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PackedKey {
    /// Bit `i`: word `i` is stored.
    map: u128,
    words: Box<[u64]>,
}

/// A [`Match`] without the words that its mask does not look at.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PackedMatch {
    /// Bit `i`: the mask looks at word `i`.
    map: u128,
    /// The mask's words, then the key's.
    words: Box<[u64]>,
}

const _: () = assert!(WORDS <= u128::BITS as usize);

impl PackedKey {
    /// Stores a key.
    pub fn new(key: &FlowKey) -> PackedKey {
        let map = map_of(key.words());
        PackedKey { map, words: pick(map, key.words()).collect() }
    }

    /// The whole key.
    pub fn unpack(&self) -> FlowKey {
        let mut key = FlowKey::new();
        spread(self.map, &self.words, key.words_mut());
        key
    }
}

impl PackedMatch {
    /// Stores a match.
    pub fn new(matching: &Match) -> PackedMatch {
        let (key, mask) = (matching.key().words(), matching.mask().words());
        let map = map_of(mask);
        PackedMatch { map, words: pick(map, mask).chain(pick(map, key)).collect() }
    }

    /// The whole match.
    pub fn unpack(&self) -> Match {
        let (mask_words, key_words) = self.halves();
        let (mut key, mut mask) = (FlowKey::new(), Mask::new());
        spread(self.map, mask_words, mask.words_mut());
        spread(self.map, key_words, key.words_mut());
        Match::new(&key, &mask)
    }

    /// Whether the packet with this key matches.
    pub fn matches(&self, key: &FlowKey) -> bool {
        let (mask, want) = self.halves();
        let have = pick(self.map, key.words());
        have.zip(mask).zip(want).all(|((have, mask), want)| have & mask == *want)
    }

    fn halves(&self) -> (&[u64], &[u64]) {
        self.words.split_at(self.words.len() / 2)
    }
}

/// Which words are not zero.
fn map_of(words: &[u64]) -> u128 {
    words.iter().enumerate().fold(0, |map, (i, &word)| map | u128::from(word != 0) << i)
}

/// The words whose bits are set in `map`.
fn pick(map: u128, words: &[u64; WORDS]) -> impl Iterator<Item = u64> {
    indices(map).map(|i| words[i])
}

/// Puts words back into the places whose bits are set in `map`.
fn spread(map: u128, packed: &[u64], words: &mut [u64; WORDS]) {
    for (i, word) in indices(map).zip(packed) {
        words[i] = *word;
    }
}

fn indices(mut map: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = map.trailing_zeros() as usize;
        map &= map.wrapping_sub(1);
        (bit < WORDS).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words() -> impl Strategy<Value = Vec<u64>> {
        let word = prop_oneof![3 => Just(0), 1 => Just(u64::MAX), 1 => any::<u64>()];
        prop::collection::vec(word, WORDS)
    }

    fn key_of(words: &[u64]) -> FlowKey {
        let mut key = FlowKey::new();
        key.words_mut().copy_from_slice(words);
        key
    }

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(key in words(), mask in words(), packet in words()) {
            let mut masked = Mask::new();
            masked.words_mut().copy_from_slice(&mask);
            let matching = Match::new(&key_of(&key), &masked);
            let packed = PackedMatch::new(&matching);
            prop_assert_eq!(packed.unpack(), matching.clone());
            for packet in [&packet, &key] {
                let packet = key_of(packet);
                prop_assert_eq!(packed.matches(&packet), matching.matches(&packet));
            }
            let key = key_of(&key);
            prop_assert_eq!(PackedKey::new(&key).unpack(), key);
        }
    }

    #[test]
    fn a_usual_match_takes_little_room() {
        use crate::Field::*;
        let fields = [InPort, RecircId, CtState, EthType, NwFrag, Ipv4Dst, TpDst];
        let matching = fields.iter().fold(Match::any(), |all, &field| all.with(field, 1));
        assert_eq!(PackedMatch::new(&matching).words.len(), 2 * 6);
    }
}
