//! Flow keys in packed form: the words that are not zero, preceded by a bitmap of these words.
//!
//! An unpacked key takes 640 bytes, so that each field has a fixed place. Few packets fill more than twelve
//! of its words.

use crate::field::WORDS;
use crate::key::FlowKey;

/// A [`FlowKey`] without its zero words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PackedKey {
    /// Bit `i`: word `i` is stored.
    map: u128,
    words: Box<[u64]>,
}

const _: () = assert!(WORDS <= u128::BITS as usize);

impl PackedKey {
    /// Packs a key.
    pub fn new(key: &FlowKey) -> PackedKey {
        let map = map_of(key.words());
        PackedKey { map, words: pick(map, key.words()).collect() }
    }

    /// Returns the unpacked key.
    pub fn unpack(&self) -> FlowKey {
        let mut key = FlowKey::new();
        spread(self.map, &self.words, key.words_mut());
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

/// Returns the words whose bits are set in `map`.
fn pick(map: u128, words: &[u64; WORDS]) -> impl Iterator<Item = u64> {
    indices(map).map(|i| words[i])
}

/// Writes words back to the places whose bits are set in `map`.
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
        assert_eq!(PackedKey::new(&key).words.len(), 6);
    }
}
