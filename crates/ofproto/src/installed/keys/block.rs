//! A bounded number of keys of one shape.

use super::shape::MaskWord;
use classifier::{Columns, Wanted};
use std::ops::Range;

/// Rows sampled to choose the bit of a split.
const SAMPLE: usize = 256;
/// Bits per part of a word: a port, or half an IPv4 address. Splits use all parts evenly.
const PART_BITS: u8 = 16;
/// Each side of a split must have at least one in this many rows.
const LEAST_SHARE: usize = 8;
/// A split is even if each side has at least one in this many rows.
const EVEN_SHARE: usize = 3;
/// A block without a usable bit is examined again at twice the size, up to this many times the usual one:
/// that bounds the time to move all rows.
const LARGEST: usize = 4;

/// A block of keys.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The number of their shape.
    pub shape: u32,
    /// Per row, the flow's slot and then the words.
    rows: Columns,
    /// Per column, the bits that all rows have, and those that some row has. Column 0, the slot, stands for
    /// words that are not stored, and has none.
    bounds: Box<[(u64, u64)]>,
    /// Rows removed since the bounds were last computed.
    removed: usize,
    /// The number of rows at which it is full.
    full: usize,
}

/// A bit of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bit {
    pub word: u8,
    /// The word's column.
    column: u8,
    bit: u8,
}

impl Bit {
    /// The bit's value in a word, 0 or 1.
    pub fn of(self, word: u64) -> usize {
        (word >> self.bit & 1) as usize
    }

    /// The part of the word that contains the bit.
    fn part(self) -> (u8, u8) {
        (self.word, self.bit / PART_BITS)
    }
}

impl Block {
    /// An empty block for keys of this many words.
    pub fn new(shape: u32, words: usize, full: usize) -> Self {
        let mut bounds = vec![(u64::MAX, 0); words + 1];
        bounds[0] = (0, 0);
        let rows = Columns::new(words + 1);
        Block { shape, rows, bounds: bounds.into(), removed: 0, full }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds the key of the flow in a slot. Returns its row.
    pub fn push(&mut self, slot: u32, words: impl Iterator<Item = u64> + Clone) -> u32 {
        for ((all, any), word) in self.bounds[1..].iter_mut().zip(words.clone()) {
            (*all, *any) = (*all & word, *any | word);
        }
        self.rows.push(std::iter::once(slot.into()).chain(words))
    }

    /// Copies a row from another block of the shape. Returns its number here. The caller recomputes the
    /// bounds.
    pub fn copy(&mut self, from: &Block, row: u32) -> u32 {
        let columns = 0..self.bounds.len();
        self.rows.push(columns.map(|column| from.word(row, column)))
    }

    /// Removes a row. Returns the slot of the flow that moved into its place, if one did.
    pub fn swap_remove(&mut self, row: u32) -> Option<u32> {
        self.rows.swap_remove(row);
        self.removed += 1;
        if self.removed > self.len().max(SAMPLE) {
            self.bound();
        }
        ((row as usize) < self.len()).then(|| self.slot(row))
    }

    /// Frees its memory, after its rows were copied.
    pub fn free(self) {
        self.rows.free();
    }

    /// The slot of the flow in a row.
    pub fn slot(&self, row: u32) -> u32 {
        self.word(row, 0) as u32
    }

    /// A word of a row.
    pub fn word(&self, row: u32, column: usize) -> u64 {
        self.rows.get(row, column).unwrap_or_default()
    }

    /// Computes the bounds from the rows.
    pub fn bound(&mut self) {
        for (column, bounds) in self.bounds.iter_mut().enumerate().skip(1) {
            *bounds = self.rows.bounds(column);
        }
        self.removed = 0;
    }

    /// Whether some row may match, judged by the bounds.
    pub fn may_have(&self, it: &Wanted) -> bool {
        let (all, any) = self.bounds.get(it.column).copied().unwrap_or_default();
        (it.value & !any | !it.value & all) & it.bits == 0
    }

    /// Slots of the flows in some rows that match.
    pub fn find(&self, rows: Range<usize>, wanted: impl Iterator<Item = Wanted>) -> Vec<u32> {
        let wanted: Vec<Wanted> = wanted.filter(|it| it.column > 0).collect();
        self.rows.find(rows, &wanted).into_iter().map(|row| self.slot(row)).collect()
    }

    /// Whether it is to be split.
    pub fn is_full(&self) -> bool {
        self.len() >= self.full
    }

    /// Raises the limit of a block that found no bit for a split.
    pub fn grow(&mut self, usual: usize) {
        self.full = if self.full < LARGEST * usual { 2 * self.full } else { usize::MAX };
    }

    /// The side of a row after a split by a bit.
    pub fn side(&self, row: u32, by: Bit) -> usize {
        by.of(self.word(row, by.column.into()))
    }

    /// The best bit for a split: of the part of a word used least for splits so far, the highest bit that
    /// divides the rows well. Consecutive keys, and those of one prefix, agree in it and go to one block.
    pub fn split_bit(&self, masked: &[MaskWord], path: &[Bit]) -> Option<Bit> {
        // An odd step, so that counters in the low bits vary in the sample.
        let step = (self.len() / SAMPLE) | 1;
        let sample: Vec<u32> = (0..self.len() as u32).step_by(step).collect();
        let mut best = None;
        for (it, column) in masked.iter().filter_map(|it| Some((it, it.column?))) {
            let words: Vec<u64> = sample.iter().map(|&row| self.word(row, column.into())).collect();
            for bit in (0..64).filter(|bit| it.bits >> bit & 1 != 0) {
                let bit = Bit { word: it.word, column, bit };
                let ones: usize = words.iter().map(|word| bit.of(*word)).sum();
                let fewer = ones.min(words.len() - ones);
                if fewer * LEAST_SHARE < words.len() {
                    continue;
                }
                let splits = path.iter().filter(|other| other.part() == bit.part()).count();
                let is_even = fewer * EVEN_SHARE >= words.len();
                let rank = (std::cmp::Reverse(splits), is_even);
                if best.is_none_or(|(other, _)| rank >= other) {
                    best = Some((rank, bit));
                }
            }
        }
        best.map(|(_, bit)| bit)
    }
}
