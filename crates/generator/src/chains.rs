//! A hash index of numbers with linked chains. The number of chain heads follows the number of entries, so
//! that a small index stays within few cache lines.
//!
//! It grows by one chain at a time (linear hashing: Litwin, VLDB 1980). A table that doubles would stop to
//! move every entry just when connections are opened fastest.

const NONE: u32 = u32::MAX;
/// Chains of an empty index.
const FIRST: usize = 64;
/// Minimum number of chains per entry, so that few chains hold two.
const SPARE: usize = 2;

/// The place of one number in its chain.
#[derive(Clone, Copy)]
struct Link {
    hash: u32,
    next: u32,
}

/// Bytes per number: its link and its share of the heads.
pub(crate) const BYTES_PER_NUMBER: usize = size_of::<Link>() + SPARE * size_of::<u32>();

/// Hash index of numbers. Memory is proportional to the largest number, so callers use the lowest free one.
pub(crate) struct Chains {
    heads: Vec<u32>,
    links: Vec<Link>,
    len: usize,
    /// The smallest all-ones mask that covers every chain's number.
    mask: usize,
}

impl Chains {
    /// An empty index with room for the numbers below `capacity`. Memory that is not used is not touched.
    pub fn new(capacity: usize) -> Chains {
        let mut heads = Vec::with_capacity((SPARE * capacity).max(FIRST));
        heads.resize(FIRST, NONE);
        Chains { heads, links: Vec::with_capacity(capacity), len: 0, mask: FIRST - 1 }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Prefetches the head of this hash's chain.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        if let Some(head) = self.heads.get(self.chain(hash)) {
            table::prefetch(head);
        }
    }

    /// Returns the first number in this hash's chain and prefetches its link.
    #[inline]
    pub fn first(&self, hash: u32) -> Option<u32> {
        let first = *self.heads.get(self.chain(hash))?;
        table::prefetch(self.links.get(first as usize)?);
        Some(first)
    }

    /// Returns the number in this hash's chain that `is_meant` accepts.
    #[inline]
    pub fn find(&self, hash: u32, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        let mut number = *self.heads.get(self.chain(hash))?;
        while let Some(link) = self.links.get(number as usize) {
            if link.hash == hash && is_meant(number) {
                return Some(number);
            }
            number = link.next;
        }
        None
    }

    /// Inserts a number that is not in the index.
    pub fn insert(&mut self, number: u32, hash: u32) {
        self.len += 1;
        if self.heads.len() < SPARE * self.len {
            self.split();
            self.split();
        }
        let at = number as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, Link { hash: 0, next: NONE });
        }
        let chain = self.chain(hash);
        if let (Some(head), Some(link)) = (self.heads.get_mut(chain), self.links.get_mut(at)) {
            *link = Link { hash, next: std::mem::replace(head, number) };
        }
    }

    /// Removes a number that is in the index.
    pub fn remove(&mut self, number: u32) {
        let Some(&gone) = self.links.get(number as usize) else { return };
        let chain = self.chain(gone.hash);
        let Some(head) = self.heads.get_mut(chain) else { return };
        if *head == number {
            *head = gone.next;
            self.len -= 1;
            return;
        }
        let mut before = *head;
        while let Some(link) = self.links.get_mut(before as usize) {
            if link.next == number {
                link.next = gone.next;
                self.len -= 1;
                return;
            }
            before = link.next;
        }
    }

    /// Returns the chain of this hash: its lowest bits under `mask`, without the highest of them where that
    /// chain does not exist yet.
    #[inline]
    fn chain(&self, hash: u32) -> usize {
        let chain = hash as usize & self.mask;
        if chain < self.heads.len() { chain } else { chain & (self.mask >> 1) }
    }

    /// Adds one chain and moves to it the entries of the chain that it splits.
    fn split(&mut self) {
        let new = self.heads.len();
        let old = new & !(1 << (usize::BITS - 1 - new.leading_zeros()));
        self.heads.push(NONE);
        self.mask |= new;
        let mut number = std::mem::replace(&mut self.heads[old], NONE);
        while let Some(&link) = self.links.get(number as usize) {
            let chain = self.chain(link.hash);
            self.links[number as usize].next = std::mem::replace(&mut self.heads[chain], number);
            number = link.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// After any sequence of inserts and removals exactly the entries present are found, also among equal
        /// hashes.
        #[test]
        fn finds_what_a_map_finds(
            steps in proptest::collection::vec((0u32..400, any::<bool>()), 1..1500),
            hashes in proptest::collection::vec(prop_oneof![any::<u32>(), 0u32..9], 400),
        ) {
            let (mut chains, mut there) = (Chains::new(400), HashMap::new());
            for (number, comes) in steps {
                let hash = hashes[number as usize];
                if comes && there.insert(number, hash).is_none() {
                    chains.insert(number, hash);
                } else if !comes && there.remove(&number).is_some() {
                    chains.remove(number);
                }
                prop_assert_eq!(chains.len(), there.len());
            }
            for number in 0..400 {
                let found = chains.find(hashes[number as usize], |other| other == number);
                prop_assert_eq!(found, there.contains_key(&number).then_some(number));
            }
        }
    }

    #[test]
    fn chains_stay_short_as_they_grow() {
        let mut chains = Chains::new(100_000);
        for number in 0..100_000u32 {
            chains.insert(number, number.wrapping_mul(0x9e37_79b9));
        }
        let length = |&head: &u32| {
            let next = |&number: &u32| chains.links.get(number as usize).map(|link| link.next);
            std::iter::successors(Some(head), next).filter(|&number| number != NONE).count()
        };
        assert_eq!(chains.heads.iter().map(length).sum::<usize>(), 100_000);
        assert!(chains.heads.iter().map(length).max() <= Some(6));
        assert!(chains.heads.len() >= 200_000);
    }
}
