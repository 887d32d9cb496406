//! Summary bits of all entries ever inserted into an index.
//!
//! Each insert sets bits that depend on the entry, and a search skips an index that lacks a bit
//! which a match would have set. The caller defines the bits. In steady state nothing is written,
//! since the bits are set already.

use super::Index;
use crate::atomic::{AtomicU64, Line, Ordering};

/// The number of words, one cache line.
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
    /// The number of words.
    pub const NOTES: usize = WORDS;

    /// Sets bits for the entry that is inserted or changed next. They stay until the zone is
    /// flushed.
    ///
    /// Call it before the insert: a thread that finds the entry, or learns of it from the inserting
    /// thread, then sees the bits.
    #[inline(always)]
    pub fn note(&self, word: usize, bits: u64) {
        let noted = &self.notes.0.0[word];
        if noted.load(Ordering::Relaxed) & bits != bits {
            add(noted, bits);
        }
    }

    /// The bits set in a word: at least those of every entry that was inserted before this call.
    #[inline]
    #[must_use]
    pub fn noted(&self, word: usize) -> u64 {
        self.notes.0.0[word].load(Ordering::Acquire)
    }

    /// Clears all bits. The index must be empty and unknown to other threads.
    pub(super) fn forget_notes(&self) {
        self.notes.clear();
    }
}

#[cold]
#[inline(never)]
fn add(noted: &AtomicU64, bits: u64) {
    noted.fetch_or(bits, Ordering::Release);
}
