//! The flows of one mask, one after the other in rows of packed words.

use crate::layout::{Layout, hash_packed};
use crate::slab::Handle;
use flow::{FlowKey, Mask};
use hashbrown::HashTable;

/// So many rows are looked through faster than a hash is worked out.
const FEW_ROWS: usize = 4;
/// Stands for the handle in a row without a flow; there are never so many flows.
const FREE: u64 = u64::MAX;

/// The flows of one mask.
#[derive(Clone, Debug)]
pub(super) struct Subtable {
    pub(super) mask: Mask,
    pub(super) layout: Layout,
    /// Rows one after the other: the flow's handle, then its packed words.
    rows: Vec<u64>,
    free_rows: Vec<u32>,
    pub(super) index: HashTable<u32>,
    /// Since the last sorting.
    pub(super) hits: u64,
}

impl Subtable {
    pub(super) fn new(mask: &Mask) -> Self {
        Subtable {
            mask: mask.clone(),
            layout: Layout::of(mask),
            rows: Vec::new(),
            free_rows: Vec::new(),
            index: HashTable::new(),
            hits: 0,
        }
    }

    fn stride(&self) -> usize {
        self.layout.len() + 1
    }

    /// The packed words of a row.
    pub(super) fn words(&self, row: u32) -> &[u64] {
        words(&self.rows, self.stride(), row)
    }

    /// The flow in a row.
    pub(super) fn flow(&self, row: u32) -> Handle {
        Handle::from_word(self.rows[row as usize * self.stride()])
    }

    /// Whether there is a flow in a row, and a packet matches it.
    #[inline]
    pub(super) fn is_for(&self, row: u32, key: &FlowKey) -> bool {
        let stride = self.stride();
        self.layout.matches_soon(words(&self.rows, stride, row), key)
            && self.rows[row as usize * stride] != FREE
    }

    #[inline]
    pub(super) fn find(&self, key: &FlowKey, hash: u64) -> Option<Handle> {
        self.index
            .find(hash, |&row| self.layout.matches(self.words(row), key))
            .map(|&row| self.flow(row))
    }

    /// The row that a packet matches.
    #[inline]
    pub(super) fn find_row(&self, key: &FlowKey, seed: u64) -> Option<u32> {
        let rows = self.rows.len() / self.stride();
        if rows <= FEW_ROWS {
            return (0..rows as u32).find(|&row| self.is_for(row, key));
        }
        let hash = self.layout.hash(key, seed);
        self.index.find(hash, |&row| self.layout.matches(self.words(row), key)).copied()
    }

    /// Adds a flow that is not there yet and says in which row.
    pub(super) fn insert(&mut self, key: &FlowKey, handle: Handle, seed: u64) -> u32 {
        let stride = self.stride();
        let row = self.free_rows.pop().unwrap_or_else(|| {
            let row = self.rows.len() / stride;
            self.rows.resize((row + 1) * stride, 0);
            row as u32
        });
        let start = row as usize * stride;
        self.rows[start] = handle.to_word();
        for (word, packed) in
            self.rows[start + 1..start + stride].iter_mut().zip(self.layout.pack(key))
        {
            *word = packed;
        }
        let rows = &self.rows;
        self.index.insert_unique(self.layout.hash(key, seed), row, |&row| {
            hash_packed(words(rows, stride, row), seed)
        });
        row
    }

    pub(super) fn remove(&mut self, row: u32, seed: u64) {
        let hash = hash_packed(self.words(row), seed);
        if let Ok(entry) = self.index.find_entry(hash, |&have| have == row) {
            entry.remove();
            let stride = self.stride();
            self.rows[row as usize * stride] = FREE;
            self.free_rows.push(row);
        }
    }
}

/// The packed words of a row of `stride` words whose first is the handle.
fn words(rows: &[u64], stride: usize, row: u32) -> &[u64] {
    let start = row as usize * stride;
    &rows[start + 1..start + stride]
}
