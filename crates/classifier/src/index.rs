//! A hash index that grows part by part, so that no insertion moves all entries.

use crate::parts::{self, PARTS};
use hashbrown::HashTable;

/// The number of entries from which the index is split. With ten million entries a part has up to 53,000,
/// which move in about a millisecond when it grows.
const SPLIT_AT: usize = 16 * 1024;

/// Maps hashes to numbers of places that the caller keeps. Half of each hash is stored with the
/// number, so that growing reads nothing else. Hashes that differ only in their lowest bits lie side by side.
#[derive(Clone, Debug)]
pub struct Index {
    /// One part, or [`PARTS`].
    parts: Vec<HashTable<Entry>>,
    /// The number of bits of a stored hash below those that choose the part.
    shift: u32,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    place: u32,
}

impl Default for Index {
    fn default() -> Self {
        Index { parts: vec![HashTable::new()], shift: u32::BITS, len: 0 }
    }
}

impl Index {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the place with this hash for which `is_it` returns true.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let hash = kept(hash);
        let part = &self.parts[self.part_of(hash)];
        let found = part.find(spread(hash), |entry| entry.hash == hash && is_it(entry.place));
        found.map(|entry| entry.place)
    }

    /// Changes the place of an entry after the caller moved its value.
    pub fn replace(&mut self, hash: u64, old: u32, new: u32) {
        let hash = kept(hash);
        let part = self.part_of(hash);
        if let Some(entry) = self.parts[part].find_mut(spread(hash), |it| it.place == old) {
            entry.place = new;
        }
    }

    /// Adds a place that the index does not have.
    pub fn insert(&mut self, hash: u64, place: u32) {
        if self.parts.len() == 1 && self.len >= SPLIT_AT {
            self.split();
        }
        let hash = kept(hash);
        let part = self.part_of(hash);
        self.parts[part].insert_unique(spread(hash), Entry { hash, place }, |it| spread(it.hash));
        self.len += 1;
    }

    /// Removes a place. Returns whether the index had it.
    pub fn remove(&mut self, hash: u64, place: u32) -> bool {
        let hash = kept(hash);
        let part = self.part_of(hash);
        let part = &mut self.parts[part];
        let Ok(entry) = part.find_entry(spread(hash), |it| it.place == place) else { return false };
        entry.remove();
        self.len -= 1;
        // A burst of flows leaves a large part, whose memory is returned.
        if part.capacity() > 64 && part.len() < part.capacity() / 8 {
            part.shrink_to(part.len() * 2, |it| spread(it.hash));
        }
        if part.is_empty() {
            *part = HashTable::new();
        }
        if self.len == 0 {
            *self = Index::default();
        }
        true
    }

    fn split(&mut self) {
        let mut parts = Vec::new();
        parts.resize_with(PARTS, HashTable::new);
        self.shift = u32::BITS - parts::BITS;
        let old = std::mem::replace(&mut self.parts, parts);
        for entry in old.into_iter().flatten() {
            let part = self.part_of(entry.hash);
            self.parts[part].insert_unique(spread(entry.hash), entry, |it| spread(it.hash));
        }
    }

    /// The number of the part for a stored hash.
    #[inline]
    fn part_of(&self, hash: u32) -> usize {
        parts::part_of((u64::from(hash) >> self.shift) as usize)
    }
}

/// The half of a hash that is stored.
#[inline]
fn kept(hash: u64) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}

/// The hash for the table of a part, which finds a place by the lowest bits and tells places apart by the
/// highest. The lowest are those of the stored hash, so that a caller decides which entries lie side by side.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash) | u64::from(hash.wrapping_mul(0x9e37_79b9)) << u32::BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(place: u32) -> u64 {
        u64::from(place).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(31)
    }

    #[test]
    fn what_was_put_in_is_found_until_it_is_taken_out() {
        let mut index = Index::default();
        let count = 3 * SPLIT_AT as u32;
        for place in 0..count {
            index.insert(hash(place), place);
        }
        assert_eq!(index.len(), count as usize);
        for place in 0..count {
            assert_eq!(index.find(hash(place), |it| it == place), Some(place));
        }
        assert_eq!(index.find(hash(count), |it| it == count), None);
        for place in (0..count).step_by(2) {
            assert!(index.remove(hash(place), place) && !index.remove(hash(place), place));
        }
        for place in 0..count {
            let found = index.find(hash(place), |it| it == place);
            assert_eq!(found, (place % 2 == 1).then_some(place));
        }
        for place in (1..count).step_by(2) {
            assert!(index.remove(hash(place), place));
        }
        assert!(index.is_empty() && index.parts.len() == 1);
    }

    /// Shrinking moves all entries, so a removal does it only after many others.
    #[test]
    fn the_memory_of_a_part_stays_until_an_eighth_is_left() {
        let mut index = Index::default();
        (0..1000).for_each(|place| index.insert(hash(place), place));
        let capacity = index.parts[0].capacity();
        let eighth = capacity as u32 / 8;
        for place in (eighth..1000).rev() {
            assert_eq!(index.parts[0].capacity(), capacity, "{place} and lower ones are left");
            index.remove(hash(place), place);
        }
        index.remove(hash(0), 0);
        assert!(index.parts[0].capacity() < capacity);
    }

    #[test]
    fn places_of_one_hash_are_told_apart() {
        let mut index = Index::default();
        (0..10).for_each(|place| index.insert(7, place));
        assert_eq!(index.find(7, |place| place == 4), Some(4));
        assert!(index.remove(7, 4));
        assert_eq!(index.find(7, |place| place == 4), None);
        assert_eq!(index.len(), 9);
        index.replace(7, 5, 4);
        assert_eq!([4, 5].map(|it| index.find(7, |place| place == it)), [Some(4), None]);
    }
}
