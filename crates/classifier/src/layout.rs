//! The words of a mask, packed, so that hashing and comparing read nothing else.

use flow::{FlowKey, Mask, Match};
use std::hash::Hasher as _;
use std::ops::Range;

/// A hash word by word, which can be finished after each.
pub(crate) type WordHasher = rapidhash::fast::RapidHasher<'static>;

/// The words of a key that a mask selects, in the order in which they are hashed and stored, with
/// the bits of each. A word may appear more than once with different bits.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    words: Box<[LayoutWord]>,
}

/// Some bits of one word of the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayoutWord {
    pub index: usize,
    pub bits: u64,
}

impl Layout {
    /// The words in the order given.
    pub fn new(words: Vec<LayoutWord>) -> Layout {
        Layout { words: words.into() }
    }

    /// The words of `mask` that are not zero.
    pub fn of(mask: &Mask) -> Layout {
        Layout::new(words_of(mask).collect())
    }

    /// The number of words stored per flow.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The words of `key` to store for a flow.
    pub fn pack(&self, key: &FlowKey) -> impl Iterator<Item = u64> {
        let words = key.words();
        self.words.iter().map(move |word| words[word.index] & word.bits)
    }

    /// The match of these packed words.
    pub fn unpack(&self, packed: &[u64]) -> Match {
        let (mut key, mut mask) = (FlowKey::new(), Mask::new());
        for (word, value) in self.words.iter().zip(packed) {
            key.words_mut()[word.index] |= value;
            mask.words_mut()[word.index] |= word.bits;
        }
        Match::new(&key, &mask)
    }

    /// Adds the masked words of `key` in `range` to a hash.
    #[inline]
    pub fn hash_range(&self, range: Range<usize>, key: &FlowKey, hasher: &mut WordHasher) {
        let words = key.words();
        for word in &self.words[range] {
            hasher.write_u64(words[word.index] & word.bits);
        }
    }

    /// The hash of the masked words of `key`.
    #[inline]
    pub fn hash(&self, key: &FlowKey, seed: u64) -> u64 {
        let mut hasher = WordHasher::new(seed);
        self.hash_range(0..self.words.len(), key, &mut hasher);
        hasher.finish()
    }

    /// Whether the masked `key` equals the packed words.
    #[inline]
    pub fn matches(&self, packed: &[u64], key: &FlowKey) -> bool {
        let words = key.words();
        let each = self.words.iter().zip(packed);
        each.fold(0, |diff, (word, want)| diff | ((words[word.index] & word.bits) ^ want)) == 0
    }

    /// [`Self::matches`], where most keys are expected to differ in the first word.
    #[inline]
    pub fn matches_soon(&self, packed: &[u64], key: &FlowKey) -> bool {
        let words = key.words();
        let mut each = self.words.iter().zip(packed);
        each.all(|(word, want)| words[word.index] & word.bits == *want)
    }

    /// Un-wildcards the bits in the words of `range`.
    pub fn unwildcard(&self, range: Range<usize>, wildcards: &mut Mask) {
        for word in &self.words[range] {
            wildcards.words_mut()[word.index] |= word.bits;
        }
    }

    /// Whether a packet could match both the packed words and `other`.
    pub fn overlaps(&self, packed: &[u64], other: &Match) -> bool {
        let (key, mask) = (other.key().words(), other.mask().words());
        self.words
            .iter()
            .zip(packed)
            .all(|(word, value)| (value ^ key[word.index]) & word.bits & mask[word.index] == 0)
    }
}

/// The hash of packed words, equal to [`Layout::hash`] of a key that matches them.
pub(crate) fn hash_packed(packed: &[u64], seed: u64) -> u64 {
    let mut hasher = WordHasher::new(seed);
    for &word in packed {
        hasher.write_u64(word);
    }
    hasher.finish()
}

/// The hash of a mask, to find its subtable.
pub(crate) fn hash_mask(mask: &Mask) -> u64 {
    hash_packed(mask.words(), 0)
}

/// The words of `mask` that are not zero.
pub(crate) fn words_of(mask: &Mask) -> impl Iterator<Item = LayoutWord> {
    let words = mask.words().iter().enumerate();
    words.filter(|&(_, &bits)| bits != 0).map(|(index, &bits)| LayoutWord { index, bits })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Field;

    /// Masks of one hash are compared one after the other at each insertion, so a tenant could slow it down.
    #[test]
    fn masks_have_hashes_of_their_own() {
        let mask = |field, bits: u32| {
            let bits = u128::from(u32::MAX << (32 - bits));
            Match::any().with_masked(field, 0, bits).mask().clone()
        };
        let masks =
            (1..=32).flat_map(|bits| [mask(Field::Ipv4Src, bits), mask(Field::Ipv4Dst, bits)]);
        let hashes: std::collections::HashSet<u64> = masks.map(|it| hash_mask(&it)).collect();
        assert_eq!(hashes.len(), 64);
    }
}
