//! Plain values of one owner, in pages as large as the system gives.
//!
//! For tables of one thread that are accessed at random, such as a worker's cache. [`crate::pages`]
//! explains the use of large pages.

use crate::prefetch::prefetch;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The size in bytes from which arrays use large pages.
const LARGE_FROM: usize = 2 << 20;

/// The number of bytes that are filled without a pause.
const PIECE_BYTES: usize = 512 << 10;

/// A fixed number of values, as a `Box<[T]>` has them.
#[derive(Debug)]
pub struct Array<T: Copy> {
    start: NonNull<T>,
    len: usize,
    is_mapped: bool,
}

// SAFETY: `Array` owns its memory as a `Box<[T]>` would, which is both where `T` is.
unsafe impl<T: Copy + Send> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Copy + Sync> Sync for Array<T> {}

impl<T: Copy> Array<T> {
    /// An array of `len` copies of this value. If the system refuses memory for a large array, the
    /// ordinary allocator provides it.
    ///
    /// `pause` is called before each piece of about 512 KiB of a large array, since the system
    /// clears each page on its first write, and threads that share the processor wait meanwhile.
    pub fn filled(value: T, len: usize, pause: &mut dyn FnMut()) -> Self {
        const { assert!(align_of::<T>() <= 4096, "mapped memory begins at a page") };
        let bytes = len.saturating_mul(size_of::<T>());
        let mapped = if bytes >= LARGE_FROM { crate::pages::map(bytes) } else { None };
        let Some(start) = mapped else {
            let start = NonNull::from(Box::leak(vec![value; len].into_boxed_slice())).cast();
            return Array { start, len, is_mapped: false };
        };
        let start = start.cast::<T>();
        let piece = (PIECE_BYTES / size_of::<T>().max(1)).max(1);
        for at in 0..len {
            if at.is_multiple_of(piece) {
                pause();
            }
            // SAFETY: needed because the values are not there yet. `len` of them lie in the mapping,
            // which begins at a page, hence aligned, and which no other thread knows of.
            unsafe { start.add(at).write(value) };
        }
        Array { start, len, is_mapped: true }
    }

    /// Prefetches the cache line in which a value begins, if the value exists.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        if let Some(value) = self.get(at) {
            prefetch(value);
        }
    }
}

impl<T: Copy> Default for Array<T> {
    /// No values.
    fn default() -> Self {
        Array { start: NonNull::dangling(), len: 0, is_mapped: false }
    }
}

impl<T: Copy> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` leads to `len` values (dangling and aligned where there are none) that live
        // as long as `self` does, which owns them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> Drop for Array<T> {
    fn drop(&mut self) {
        if self.is_mapped {
            // SAFETY: `filled` mapped exactly this, and no borrow of it is left. Values
            // that are `Copy` have nothing to be dropped.
            unsafe { crate::pages::unmap(self.start.cast(), self.len * size_of::<T>()) };
            return;
        }
        let values = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len);
        // SAFETY: `filled` leaked exactly this box, and no borrow of it is left; or there are
        // no values, and a dangling pointer is what a box of none has.
        drop(unsafe { Box::from_raw(values) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(align(64))]
    struct Line([u64; 8]);

    #[test]
    fn values_are_there_aligned_and_can_be_changed() {
        let large = if cfg!(miri) { 0 } else { LARGE_FROM / 64 + 5 };
        for len in [0, 1, 100, large] {
            let mut array = Array::filled(Line([7; 8]), len, &mut || ());
            assert_eq!(array.len(), len);
            assert_eq!(array.as_ptr().addr() % 64, 0);
            if len == large && !cfg!(miri) {
                assert_eq!(array.as_ptr().addr() % LARGE_FROM, 0, "where large pages begin");
            }
            assert!(array.iter().all(|line| *line == Line([7; 8])));
            if let Some(last) = array.last_mut() {
                last.0[3] = 9;
                assert_eq!(array[len - 1].0[2..4], [7, 9]);
            }
            let moved = std::thread::spawn(move || array.len()).join();
            assert_eq!(moved.ok(), Some(len));
        }
        assert!(Array::<Line>::default().is_empty());
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing is mapped there")]
    fn a_large_array_is_filled_with_pauses() {
        let mut pauses = 0;
        let array = Array::filled(Line([7; 8]), 4 * PIECE_BYTES / 64 + 1, &mut || pauses += 1);
        assert!(array.iter().all(|line| *line == Line([7; 8])));
        assert_eq!(pauses, 5);
    }
}
