//! Asking the processor to fetch a cache line that will be needed soon.
//!
//! This is one of three places in the crate with `unsafe`: the instruction has no safe form.

/// Begins to fetch the cache line that `value` begins in.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, whatever the address; and
        // this one is a reference's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    let _ = value;
}
