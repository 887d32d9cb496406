//! Prefetches cache lines that are needed soon.
//!
//! This is one of five places in the crate with `unsafe`: the instruction has no safe form.

/// Prefetches the cache line in which `value` begins.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
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

/// Prefetches all cache lines of `value`.
#[inline(always)]
pub fn prefetch_whole<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    for at in (0..size_of::<T>()).step_by(64) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = std::ptr::from_ref(value).cast::<i8>().wrapping_add(at);
        // SAFETY: as in `prefetch`; the line is one of the value's.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    let _ = value;
}

/// Prefetches a line for writing: other processors give it up now, not at the write, for which a
/// locked instruction would have to wait.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    // SAFETY: needed because the compiler takes another instruction for `_MM_HINT_ET0` unless it
    // builds for a processor that surely has this one, which the others pass over. It changes no
    // memory and no register, and the address is a reference's.
    unsafe {
        core::arch::asm!(
            "prefetchw [{}]",
            in(reg) std::ptr::from_ref(value),
            options(nostack, preserves_flags, readonly),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    let _ = value;
}
