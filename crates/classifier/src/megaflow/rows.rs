//! The flows of one mask, stored as rows of packed words.

use crate::index::Index;
use crate::layout::{Layout, hash_packed};
use crate::rows::Rows;
use crate::slab::Handle;
use flow::{FlowKey, Mask};

/// Up to this number of rows, comparing all of them is faster than hashing.
const FEW_ROWS: usize = 4;

/// The flows of one mask.
#[derive(Clone, Debug)]
pub(super) struct Subtable {
    pub(super) mask: Mask,
    pub(super) layout: Layout,
    /// Each row has the flow's handle and its packed words.
    rows: Rows,
    index: Index,
    /// Hits since the last [`resort`](super::MegaflowTable::resort).
    pub(super) hits: u64,
}

impl Subtable {
    pub(super) fn new(mask: &Mask) -> Self {
        let layout = Layout::of(mask);
        let rows = Rows::new(layout.len() + 1);
        Subtable { mask: mask.clone(), layout, rows, index: Index::default(), hits: 0 }
    }

    /// How many flows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The packed words of a row.
    #[inline]
    pub(super) fn words(&self, row: u32) -> Option<&[u64]> {
        self.rows.get(row).and_then(|words| words.get(1..))
    }

    /// The flow in a row.
    #[inline]
    pub(super) fn flow(&self, row: u32) -> Option<Handle> {
        Some(Handle::from_word(*self.rows.get(row)?.first()?))
    }

    /// Whether the row has a flow that the packet matches.
    #[inline]
    pub(super) fn is_for(&self, row: u32, key: &FlowKey) -> bool {
        self.words(row).is_some_and(|words| self.layout.matches_soon(words, key))
    }

    /// The flow of a packet whose words have this hash.
    #[inline]
    pub(super) fn find(&self, key: &FlowKey, hash: u64) -> Option<Handle> {
        self.flow(self.find_hashed(key, hash)?)
    }

    /// The row that a packet matches.
    #[inline]
    pub(super) fn find_row(&self, key: &FlowKey, seed: u64) -> Option<u32> {
        if self.rows.len() <= FEW_ROWS {
            return (0..self.rows.len() as u32).find(|&row| self.is_for(row, key));
        }
        self.find_hashed(key, self.layout.hash(key, seed))
    }

    #[inline]
    fn find_hashed(&self, key: &FlowKey, hash: u64) -> Option<u32> {
        let is_it = |row| self.words(row).is_some_and(|words| self.layout.matches(words, key));
        self.index.find(hash, is_it)
    }

    /// Adds a flow that the subtable does not have, with the hash of its words, and returns its
    /// row.
    pub(super) fn insert(&mut self, key: &FlowKey, handle: Handle, hash: u64) -> u32 {
        let words = std::iter::once(handle.to_word()).chain(self.layout.pack(key));
        let row = self.rows.push(words);
        self.index.insert(hash, row);
        row
    }

    /// Removes the flow in a row. If another flow moves to that row, returns that flow.
    pub(super) fn remove(&mut self, row: u32, seed: u64) -> Option<Handle> {
        let hash = hash_packed(self.words(row)?, seed);
        self.index.remove(hash, row);
        let last = (self.rows.len() - 1) as u32;
        let moved = self.flow(last).filter(|_| last != row);
        if let Some(words) = self.words(last).filter(|_| last != row) {
            self.index.replace(hash_packed(words, seed), last, row);
        }
        self.rows.swap_remove(row);
        moved
    }
}
