//! An array that grows by chunks which stay where they are.

use crate::atomic::{AtomicU64, OnceLock};
use crate::pages::Pages;

/// Groups in a chunk: with 16 words a group, two huge pages; with 24, three.
#[cfg(not(any(loom, miri)))]
pub(crate) const CHUNK: usize = 1 << 15;
/// Miri goes through the whole chunk at each look.
#[cfg(miri)]
pub(crate) const CHUNK: usize = 1 << 6;
#[cfg(loom)]
pub(crate) const CHUNK: usize = 8;

/// Groups of `N` atomic words each, by number. What was made stays, at the same place, as long as
/// the array does.
pub(crate) struct Chunks<const N: usize> {
    chunks: Box<[OnceLock<Pages<N>>]>,
}

impl<const N: usize> Chunks<N> {
    /// An array that can grow to `capacity` groups.
    pub fn new(capacity: usize) -> Self {
        Chunks { chunks: (0..capacity.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// Makes the chunk that `number` lies in; whether it is there.
    pub fn make(&self, number: usize) -> bool {
        let Some(chunk) = self.chunks.get(number / CHUNK) else { return false };
        if chunk.get().is_none() {
            let Some(pages) = Pages::zeroed(CHUNK) else { return false };
            // If another thread was faster, its chunk serves.
            let _ = chunk.set(pages);
        }
        true
    }

    /// A group.
    ///
    /// # Panics
    ///
    /// If its chunk was never made.
    #[inline]
    pub fn at(&self, number: usize) -> &[AtomicU64; N] {
        let chunk = self.chunks.get(number / CHUNK).and_then(OnceLock::get);
        let Some(chunk) = chunk else { never_made(number) };
        &chunk[number % CHUNK]
    }

    /// Bytes of memory in chunks.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().filter_map(OnceLock::get).map(Pages::bytes).sum()
    }
}

#[cold]
#[inline(never)]
fn never_made(number: usize) -> ! {
    panic!("nothing was ever made at {number}")
}
