//! A hash map that grows part by part, so that no insertion moves all entries.

use crate::parts::{self, PARTS};
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::{BuildHasher, Hash};

/// The number of entries from which the map is split.
const SPLIT_AT: usize = 4 * 1024;

/// Values by key.
#[derive(Clone, Debug)]
pub struct PartedMap<K, V> {
    /// One part, or [`PARTS`].
    parts: Vec<HashTable<(K, V)>>,
    len: usize,
    state: DefaultHashBuilder,
}

impl<K, V> Default for PartedMap<K, V> {
    fn default() -> Self {
        PartedMap { parts: Vec::new(), len: 0, state: DefaultHashBuilder::default() }
    }
}

impl<K: Hash + Eq, V> PartedMap<K, V> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the map has this key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let hash = self.state.hash_one(key);
        let part = self.parts.get(self.part_of(hash))?;
        part.find(hash, |entry| entry.0 == *key).map(|entry| &entry.1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.state.hash_one(key);
        let at = self.part_of(hash);
        let part = self.parts.get_mut(at)?;
        part.find_mut(hash, |entry| entry.0 == *key).map(|entry| &mut entry.1)
    }

    /// Sets the value of a key. Returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.entry(&key) {
            Entry::Occupied(mut it) => Some(std::mem::replace(&mut it.get_mut().1, value)),
            Entry::Vacant(it) => {
                it.insert((key, value));
                self.len += 1;
                None
            }
        }
    }

    /// Returns the value of a key, inserting the default if there is none.
    pub fn or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.len += usize::from(!self.contains_key(&key));
        &mut self.entry(&key).or_insert_with(|| (key, V::default())).into_mut().1
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.state.hash_one(key);
        let at = self.part_of(hash);
        let part = self.parts.get_mut(at)?;
        let ((_, value), _) = part.find_entry(hash, |entry| entry.0 == *key).ok()?.remove();
        self.len -= 1;
        // A burst of entries leaves a large part, whose memory is returned.
        if part.capacity() > 64 && part.len() < part.capacity() / 8 {
            let state = &self.state;
            part.shrink_to(part.len() * 2, |entry| state.hash_one(&entry.0));
        }
        if part.is_empty() {
            *part = HashTable::new();
        }
        if self.len == 0 {
            self.parts = Vec::new();
        }
        Some(value)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flatten().map(|(key, value)| (key, value))
    }

    /// The entry of a key, or its insertion place.
    fn entry(&mut self, key: &K) -> Entry<'_, (K, V)> {
        if self.parts.is_empty() {
            self.parts.push(HashTable::new());
        } else if self.parts.len() == 1 && self.len >= SPLIT_AT {
            self.split();
        }
        let hash = self.state.hash_one(key);
        let (at, state) = (self.part_of(hash), &self.state);
        self.parts[at].entry(hash, |it| it.0 == *key, |it| state.hash_one(&it.0))
    }

    fn split(&mut self) {
        let mut parts = Vec::new();
        parts.resize_with(PARTS, HashTable::new);
        let old = std::mem::replace(&mut self.parts, parts);
        for entry in old.into_iter().flatten() {
            let hash = self.state.hash_one(&entry.0);
            let (at, state) = (self.part_of(hash), &self.state);
            self.parts[at].insert_unique(hash, entry, |entry| state.hash_one(&entry.0));
        }
    }

    /// The part of a hash. The table of a part uses the lowest and the highest bits.
    fn part_of(&self, hash: u64) -> usize {
        if self.parts.len() <= 1 { 0 } else { parts::part_of((hash >> 44) as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn it_holds_what_a_map_in_one_piece_holds() {
        let (mut map, mut model) = (PartedMap::default(), HashMap::new());
        let most = 3 * SPLIT_AT as u64;
        for n in 0..most {
            let key = n * n % 8191;
            assert_eq!(map.insert(key, n), model.insert(key, n));
            *map.or_default(n) += 1;
            *model.entry(n).or_default() += 1;
        }
        assert!(map.parts.len() == PARTS && !map.is_empty());
        let all = |map: &PartedMap<u64, u64>| {
            map.iter().map(|(k, v)| (*k, *v)).collect::<HashMap<_, _>>()
        };
        assert_eq!(all(&map), model);
        for n in 0..most {
            assert_eq!(map.remove(&(n * 3)), model.remove(&(n * 3)));
        }
        assert_eq!((all(&map), map.len()), (model.clone(), model.len()));
        for key in 0..most {
            assert_eq!(map.contains_key(&key), model.contains_key(&key));
            assert_eq!(map.get_mut(&key).map(|it| *it), model.get(&key).copied());
            assert_eq!(map.remove(&key), model.remove(&key));
        }
        assert!(map.is_empty() && map.parts.is_empty());
        assert_eq!((map.remove(&1), map.get(&1)), (None, None));
    }
}
