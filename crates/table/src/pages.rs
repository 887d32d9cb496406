//! Zeroed memory for atomic words, in pages as large as the system gives.
//!
//! A table of ten million connections is accessed at random. With pages of 4 KiB nearly every
//! access costs a page table walk in addition to the cache miss; with pages of 2 MiB hardly any
//! does. So large pieces are aligned to 2 MiB and ask for such pages; small pages serve if the
//! system has none.
//!
//! This is one of five places in the crate with `unsafe`: the standard library has no way to ask for
//! memory that is aligned, zero and not yet touched.

use crate::atomic::AtomicU64;

pub(crate) use mapping::{map, unmap};
pub(crate) use memory::Pages;

/// The size in bytes from which a piece is mapped by itself, so that only used pages take memory.
#[cfg(not(any(loom, miri)))]
const MAPPED_FROM: usize = 64 << 10;
#[cfg(not(any(loom, miri)))]
const HUGE_PAGE: usize = 2 << 20;

#[cfg(not(loom))]
mod memory {
    use super::AtomicU64;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ops::Deref;
    use std::ptr::NonNull;

    /// A fixed number of groups of `N` atomic words each, all zero in the beginning; a group of a
    /// power of two of words up to 16 begins at a multiple of its size.
    pub(crate) struct Pages<const N: usize> {
        start: NonNull<[AtomicU64; N]>,
        len: usize,
        is_mapped: bool,
    }

    // SAFETY: `Pages` owns its memory as a `Box<[[AtomicU64; N]]>` would, which is both.
    unsafe impl<const N: usize> Send for Pages<N> {}
    // SAFETY: as above.
    unsafe impl<const N: usize> Sync for Pages<N> {}

    impl<const N: usize> Pages<N> {
        /// Allocates `len` groups; `None` if the system has no memory.
        pub fn zeroed(len: usize) -> Option<Self> {
            let layout = Self::layout(len)?;
            #[cfg(not(miri))]
            if layout.size() >= super::MAPPED_FROM {
                let start = super::mapping::map(layout.size())?.cast();
                return Some(Pages { start, len, is_mapped: true });
            }
            // SAFETY: needed because nothing safe gives zeroed memory at this alignment. The
            // layout's size is not zero. All-zero bytes are valid `AtomicU64`s.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) })?.cast();
            Some(Pages { start, len, is_mapped: false })
        }

        /// The memory in bytes.
        pub fn bytes(&self) -> usize {
            self.len * size_of::<[AtomicU64; N]>()
        }

        /// Returns the memory to the system, so that all words read as zero. Returns false, with
        /// nothing changed, for small pieces, which are not worth it.
        pub fn give_back(&self) -> bool {
            #[cfg(not(miri))]
            if self.is_mapped && self.bytes() >= super::HUGE_PAGE {
                // SAFETY: `zeroed` mapped exactly this. Words of it are only ever looked at as
                // atomics, to which any thread may store zero at any time.
                return unsafe { super::mapping::make_zero(self.start.cast(), self.bytes()) };
            }
            false
        }

        fn layout(len: usize) -> Option<Layout> {
            let layout = Layout::array::<[AtomicU64; N]>(len).ok()?.align_to(128).ok()?;
            (layout.size() > 0).then_some(layout)
        }
    }

    impl<const N: usize> Deref for Pages<N> {
        type Target = [[AtomicU64; N]];

        #[inline]
        fn deref(&self) -> &Self::Target {
            // SAFETY: `start` leads to `len` groups that were zeroed, hence valid, that live as
            // long as `self`, and that are only ever lent out shared.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
        }
    }

    impl<const N: usize> Drop for Pages<N> {
        fn drop(&mut self) {
            let Some(layout) = Self::layout(self.len) else { return };
            #[cfg(not(miri))]
            if self.is_mapped {
                // SAFETY: `zeroed` mapped exactly this, and no borrow of it is left.
                unsafe { super::mapping::unmap(self.start.cast(), layout.size()) };
                return;
            }
            debug_assert!(!self.is_mapped);
            // SAFETY: `zeroed` allocated it with this layout.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

#[cfg(not(any(loom, miri)))]
mod mapping {
    use super::HUGE_PAGE;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    use std::ptr::{NonNull, null_mut};

    /// The largest ordinary page of Linux (arm64). The size in use is not asked for: that reads the auxiliary vector,
    /// which programs under valgrind do not have in full.
    const PAGE_MAX: usize = 64 << 10;

    /// Maps `bytes` of zeroed memory, aligned to 2 MiB if it is as large as that.
    pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
        // The kernel unmaps whole pages only, and refuses another start.
        let bytes = bytes.checked_next_multiple_of(PAGE_MAX)?;
        let is_huge = bytes >= HUGE_PAGE;
        let slack = if is_huge { HUGE_PAGE } else { 0 };
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: needed because the standard library does not map memory. Without an address
        // asked for, the kernel chooses one that is not in use.
        let start = unsafe { mmap_anonymous(null_mut(), bytes + slack, protection, flags) }.ok()?;
        let lead = if is_huge { start.addr().wrapping_neg() % HUGE_PAGE } else { 0 };
        let aligned = start.wrapping_byte_add(lead);
        if is_huge {
            let tail = aligned.wrapping_byte_add(bytes);
            // SAFETY: both pieces lie inside what was mapped just now (`lead` + `bytes` +
            // `slack - lead` is its size), and they are unused. Advice changes no contents.
            unsafe {
                if lead > 0 {
                    let _ = munmap(start, lead);
                }
                if slack > lead {
                    let _ = munmap(tail, slack - lead);
                }
                let _ = madvise(aligned, bytes, Advice::LinuxHugepage);
            }
        }
        NonNull::new(aligned.cast())
    }

    /// Returns the memory to the system, so that it reads as zero. Returns whether the system did
    /// so.
    ///
    /// # Safety
    ///
    /// `start` and `bytes` are those of a call of [`map`], and all borrowers expect that others
    /// store zero there.
    pub(super) unsafe fn make_zero(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller's promise; a private mapping of no file reads as zero after this call.
        unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) }.is_ok()
    }

    /// # Safety
    ///
    /// `start` and `bytes` are those of a call of [`map`], and no borrow of it is left.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise; `map` rounded up in the same way, without an overflow.
        let _ = unsafe { munmap(start.as_ptr().cast(), bytes.next_multiple_of(PAGE_MAX)) };
    }
}

/// Without mappings, all memory comes from the allocator.
#[cfg(any(loom, miri))]
mod mapping {
    use std::ptr::NonNull;

    pub(crate) fn map(_: usize) -> Option<NonNull<u8>> {
        None
    }

    /// # Safety
    ///
    /// This build maps no memory, so it is never called.
    pub(crate) unsafe fn unmap(_: NonNull<u8>, _: usize) {}
}

/// The model checker's atomics cannot be made of zeroed bytes.
#[cfg(loom)]
mod memory {
    use super::AtomicU64;
    use std::ops::Deref;

    pub(crate) struct Pages<const N: usize>(Box<[[AtomicU64; N]]>);

    impl<const N: usize> Pages<N> {
        pub fn zeroed(len: usize) -> Option<Self> {
            Some(Pages((0..len).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect()))
        }

        pub fn bytes(&self) -> usize {
            self.0.len() * N * 8
        }

        pub fn give_back(&self) -> bool {
            false
        }
    }

    impl<const N: usize> Deref for Pages<N> {
        type Target = [[AtomicU64; N]];

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::atomic::Ordering;

    fn check<const N: usize>(len: usize, alignment: usize) {
        let pages = Pages::<N>::zeroed(len).unwrap();
        assert_eq!((pages.len(), pages.bytes()), (len, len * N * 8));
        assert_eq!(pages.as_ptr().addr() % alignment, 0);
        for at in [0, len / 2, len - 1] {
            assert!(pages[at].iter().all(|word| word.load(Ordering::Relaxed) == 0));
            pages[at][N - 1].store(7, Ordering::Relaxed);
        }
        assert_eq!(pages[len - 1][N - 1].load(Ordering::Relaxed), 7);
    }

    #[test]
    #[cfg(not(miri))]
    fn what_is_given_back_is_zero_and_can_be_used_again() {
        let pages = Pages::<8>::zeroed(1 << 15).unwrap();
        for value in 1..=2 {
            pages.iter().for_each(|group| group[3].store(value, Ordering::Relaxed));
            assert!(pages.give_back());
            let sum = pages.iter().map(|group| group[3].load(Ordering::Relaxed)).sum::<u64>();
            assert_eq!(sum, 0);
        }
        let small = Pages::<8>::zeroed(1 << 12).unwrap();
        small[5][3].store(7, Ordering::Relaxed);
        assert!(!small.give_back() && small[5][3].load(Ordering::Relaxed) == 7);
    }

    #[test]
    #[cfg(not(miri))]
    fn a_piece_of_any_length_takes_its_pages_only() {
        const PIECES: usize = 64;
        let mapped = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = text.split(' ').next().unwrap().parse().unwrap();
            pages * rustix::param::page_size()
        };
        let before = mapped();
        let pieces: Vec<_> = (0..PIECES)
            .map(|at| Pages::<8>::zeroed(HUGE_PAGE / 64 + 1 + at).expect("there is memory"))
            .collect();
        let added = mapped().saturating_sub(before);
        // Other tests map memory as well; half of what each piece could leave mapped is room for them.
        assert!(added < PIECES * 3 * HUGE_PAGE / 2, "{added} bytes");
        drop(pieces);
    }

    #[test]
    fn memory_is_zero_and_aligned() {
        check::<8>(8, 64);
        check::<16>(3, 128);
        check::<8>(if cfg!(miri) { 40 } else { 4096 }, 64);
        #[cfg(not(miri))]
        check::<16>(1 << 15, HUGE_PAGE);
        #[cfg(not(miri))]
        check::<24>(1 << 15, HUGE_PAGE);
    }
}
