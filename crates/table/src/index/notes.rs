//! What an index says of all that was ever put into it, without a look at any of it.
//!
//! Each insert notes bits of what is inserted, and a search for something need not go through
//! an index where a bit is missing that this would have. What the bits mean is the caller's business.
//! In a table that has settled nothing is written: bits that are there already are only read.

use super::Index;
use crate::atomic::{AtomicU64, Line, Ordering};

/// Words of notes: a cache line.
const WORDS: usize = 8;

pub(super) struct Notes(Line<[AtomicU64; WORDS]>);

impl Notes {
    pub fn new() -> Self {
        Notes(Line(std::array::from_fn(|_| AtomicU64::new(0))))
    }

    fn clear(&self) {
        self.0.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl Index {
    /// Words of notes that there are.
    pub const NOTES: usize = WORDS;

    /// Notes bits of what is inserted, or changed, next. They stay until the zone is flushed.
    ///
    /// Before that, and not after it: who finds the entry, or knows of it from the thread that inserted it,
    /// then finds the bits.
    #[inline(always)]
    pub fn note(&self, word: usize, bits: u64) {
        let noted = &self.notes.0.0[word];
        if noted.load(Ordering::Relaxed) & bits != bits {
            add(noted, bits);
        }
    }

    /// The bits of a word that were noted: at least those of every entry that was there before this
    /// call.
    #[inline]
    #[must_use]
    pub fn noted(&self, word: usize) -> u64 {
        self.notes.0.0[word].load(Ordering::Acquire)
    }

    /// The index is empty, and no other thread knows it.
    pub(super) fn forget_notes(&self) {
        self.notes.clear();
    }
}

#[cold]
#[inline(never)]
fn add(noted: &AtomicU64, bits: u64) {
    noted.fetch_or(bits, Ordering::Release);
}
