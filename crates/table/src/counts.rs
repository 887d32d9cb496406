//! Counts per index, one for each thread.
//!
//! A shared count would be a cache line that all threads inserting into one zone contend for. Here
//! every reader has a row of its own with a pair of counts per index, and reading sums the rows.

use crate::atomic::{AtomicU64, OnceLock, Ordering};
use crate::epochs::{Epochs, Guard, MAX_READERS};
use crate::pages::Pages;
use std::sync::Arc;

/// The number of indexes in a piece of a row.
#[cfg(not(loom))]
const PIECE: usize = 256;
#[cfg(loom)]
const PIECE: usize = 4;
/// A row of pieces.
type Row = Box<[OnceLock<Pages<2>>]>;

/// The counts of all indexes.
pub(crate) struct Counts {
    rows: Box<[OnceLock<Row>]>,
    indexes: usize,
    epochs: Arc<Epochs>,
}

/// The kind of a count.
#[derive(Clone, Copy)]
pub(crate) enum What {
    Entries = 0,
    Connections = 1,
}

impl Counts {
    /// Counts for indexes with numbers below `indexes`.
    pub fn new(indexes: usize, epochs: Arc<Epochs>) -> Self {
        Counts { rows: (0..MAX_READERS).map(|_| OnceLock::new()).collect(), indexes, epochs }
    }

    /// Adds to (or, modulo 2^64, subtracts from) this thread's count for an index.
    #[inline]
    pub fn add(&self, guard: &Guard<'_>, index: u32, what: What, number: u64) {
        let row = self.rows[guard.number()].get_or_init(|| self.row());
        let piece = row[index as usize / PIECE].get_or_init(piece);
        let count = &piece[index as usize % PIECE][what as usize];
        // No other thread has this reader's number, so no other thread writes here.
        count.store(count.load(Ordering::Relaxed).wrapping_add(number), Ordering::Release);
    }

    /// The sum over all threads, modulo 2^64.
    pub fn sum(&self, index: u32, what: What) -> u64 {
        let rows = self.rows[..self.epochs.used()].iter().filter_map(OnceLock::get);
        let pieces = rows.filter_map(|row| row[index as usize / PIECE].get());
        pieces.fold(0, |sum, piece| {
            let count: &AtomicU64 = &piece[index as usize % PIECE][what as usize];
            sum.wrapping_add(count.load(Ordering::Acquire))
        })
    }

    #[cold]
    fn row(&self) -> Row {
        (0..self.indexes.div_ceil(PIECE)).map(|_| OnceLock::new()).collect()
    }
}

#[cold]
fn piece() -> Pages<2> {
    Pages::zeroed(PIECE).expect("memory for 256 counts")
}
