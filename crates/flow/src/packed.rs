//! Flow keys in packed form: the words that are not zero, preceded by a bitmap of these words.
//!
//! An unpacked key takes 640 bytes, so that each field has a fixed place. Few packets fill more than twelve
//! of its words.

use crate::field::WORDS;
use crate::key::{FlowKey, Mask};
use arrayvec::ArrayVec;

/// A [`FlowKey`] without its zero words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PackedKey {
    /// Bit `i`: word `i` is stored.
    map: u128,
    words: Words,
}

/// The stored words: up to [`FEW`] of them need no memory of their own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Words {
    Few(ArrayVec<u64, FEW>),
    Many(Box<[u64]>),
}

const FEW: usize = 4;

const _: () = assert!(WORDS <= u128::BITS as usize);

impl PackedKey {
    /// Packs a key.
    pub fn new(key: &FlowKey) -> PackedKey {
        PackedKey::of(pick(map_of(key.words()), key.words()))
    }

    /// Packs a key that has these words, with their numbers in ascending order, and no others.
    pub fn of(words: impl Iterator<Item = (usize, u64)>) -> PackedKey {
        let (mut map, mut few, mut many) = (0, ArrayVec::new(), Vec::new());
        for (number, word) in words.filter(|(_, word)| *word != 0) {
            map |= 1 << number;
            if many.is_empty() && few.try_push(word).is_ok() {
                continue;
            }
            many.extend(few.drain(..));
            many.push(word);
        }
        let words = if many.is_empty() { Words::Few(few) } else { Words::Many(many.into()) };
        PackedKey { map, words }
    }

    /// Returns whether all words are zero.
    pub fn is_zero(&self) -> bool {
        self.map == 0
    }

    /// Returns the unpacked key.
    pub fn unpack(&self) -> FlowKey {
        let mut key = FlowKey::new();
        let words = match &self.words {
            Words::Few(words) => &words[..],
            Words::Many(words) => words,
        };
        spread(self.map, words, key.words_mut());
        key
    }
}

/// Returns the bitmap of words that are not zero. Whole groups of words are tested first, since most are
/// zero.
fn map_of(words: &[u64]) -> u128 {
    const GROUP: usize = 8;
    let mut map = 0;
    for (number, group) in words.chunks(GROUP).enumerate() {
        if group.iter().fold(0, |any, word| any | word) != 0 {
            let bits = group.iter().enumerate();
            let bits = bits.fold(0_u32, |bits, (i, &word)| bits | u32::from(word != 0) << i);
            map |= u128::from(bits) << (GROUP * number);
        }
    }
    map
}

impl FlowKey {
    /// Returns the bitmap of words that are not zero: bit `i` stands for word `i`.
    pub fn word_map(&self) -> u128 {
        map_of(self.words())
    }
}

impl Mask {
    /// Returns the bitmap of words that are not zero: bit `i` stands for word `i`.
    pub(crate) fn word_map(&self) -> u128 {
        map_of(self.words())
    }
}

/// Returns the words whose bits are set in `map`, with their numbers.
fn pick(map: u128, words: &[u64; WORDS]) -> impl Iterator<Item = (usize, u64)> {
    indices(map).map(|i| (i, words[i]))
}

/// Writes words back to the places whose bits are set in `map`.
fn spread(map: u128, packed: &[u64], words: &mut [u64; WORDS]) {
    for (i, word) in indices(map).zip(packed) {
        words[i] = *word;
    }
}

/// The numbers of the bits that are set.
pub(crate) fn indices(mut map: u128) -> impl Iterator<Item = usize> {
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
        fn what_was_packed_is_unpacked(key in words()) {
            let key = key_of(&key);
            for (number, word) in key.words().iter().enumerate() {
                prop_assert_eq!(key.word_map() >> number & 1 == 1, *word != 0);
            }
            prop_assert_eq!(PackedKey::new(&key).unpack(), key);
        }
    }

    #[test]
    fn a_usual_key_takes_little_room() {
        use crate::Field::*;
        let mut key = FlowKey::new();
        for field in [InPort, RecircId, CtState, EthType, NwFrag, Ipv4Dst, TpDst] {
            key.set(field, 1);
        }
        assert!(matches!(PackedKey::new(&key).words, Words::Many(words) if words.len() == 6));
        let mut few = FlowKey::new();
        [InPort, EthType, Ipv4Dst, TpDst].into_iter().for_each(|field| few.set(field, 1));
        assert!(matches!(PackedKey::new(&few).words, Words::Few(words) if words.len() == 4));
        assert!(PackedKey::new(&FlowKey::new()).is_zero() && !PackedKey::new(&few).is_zero());
    }
}
