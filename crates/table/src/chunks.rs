//! An array that grows by chunks whose addresses never change.
//!
//! This is one of five places in the crate with `unsafe`: a group is found by a pointer, which needs a
//! quarter of the memory, and half of the instructions, of access through the chunk.

use crate::atomic::{AtomicPtr, AtomicU64, OnceLock, Ordering};
use crate::pages::Pages;
use std::ptr::null_mut;

/// Groups in a chunk: with 16 words a group, two huge pages; with 24, three.
#[cfg(not(any(loom, miri)))]
pub(crate) const CHUNK: usize = 1 << 15;
/// Small, since Miri checks the whole chunk at each access.
#[cfg(miri)]
pub(crate) const CHUNK: usize = 1 << 6;
#[cfg(loom)]
pub(crate) const CHUNK: usize = 8;

/// Groups of `N` atomic words each, by number. A chunk stays at its address as long as the array exists.
pub(crate) struct Chunks<const N: usize> {
    chunks: Box<[OnceLock<Pages<N>>]>,
    /// The addresses of the chunks, each with [`CHUNK`] groups; null if not allocated.
    starts: Box<[AtomicPtr<[AtomicU64; N]>]>,
}

impl<const N: usize> Chunks<N> {
    /// Creates an array that can grow to `capacity` groups.
    pub fn new(capacity: usize) -> Self {
        let count = capacity.div_ceil(CHUNK);
        Chunks {
            chunks: (0..count).map(|_| OnceLock::new()).collect(),
            starts: (0..count).map(|_| AtomicPtr::new(null_mut())).collect(),
        }
    }

    /// Allocates the chunk of `number`, if necessary. Returns whether it exists.
    pub fn make(&self, number: usize) -> bool {
        let at = number / CHUNK;
        let (Some(chunk), Some(start)) = (self.chunks.get(at), self.starts.get(at)) else {
            return false;
        };
        if !start.load(Ordering::Acquire).is_null() {
            return true;
        }
        if chunk.get().is_none() {
            let Some(pages) = Pages::zeroed(CHUNK) else { return false };
            // If another thread was faster, its chunk is used.
            let _ = chunk.set(pages);
        }
        let Some(pages) = chunk.get().filter(|pages| pages.len() == CHUNK) else { return false };
        start.store(pages.as_ptr().cast_mut(), Ordering::Release);
        true
    }

    /// Returns a group.
    ///
    /// # Panics
    ///
    /// If its chunk was never made.
    #[inline]
    pub fn at(&self, number: usize) -> &[AtomicU64; N] {
        let Some(start) = self.starts.get(number / CHUNK) else { never_made(number) };
        let start = start.load(Ordering::Acquire);
        if start.is_null() {
            never_made(number);
        }
        // SAFETY: needed to find a group by a pointer alone. `make` took the pointer from a chunk of
        // `CHUNK` groups, so that the group lies in it. The chunk belongs to `self`, never moves and
        // goes only with it; its groups are atomic and only ever lent out shared.
        unsafe { &*start.add(number % CHUNK) }
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_chunks_that_exist_take_memory() {
        const CHUNK_BYTES: usize = CHUNK * 3 * 8;
        let chunks = Chunks::<3>::new(2 * CHUNK + 1);
        assert_eq!(chunks.bytes(), 0);
        for (number, is_made, expect) in [
            (CHUNK, true, 1),
            (2 * CHUNK - 1, true, 1),
            (0, true, 2),
            (3 * CHUNK, false, 2),
            (2 * CHUNK, true, 3),
        ] {
            assert_eq!(chunks.make(number), is_made, "{number}");
            assert_eq!(chunks.bytes(), expect * CHUNK_BYTES, "{number}");
        }
    }
}
