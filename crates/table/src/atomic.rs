//! The atomics and locks of this crate: the standard library's, or those of the model checker
//! when it is built to be checked (`--cfg loom`).

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Waits a little for another thread to finish a few instructions; `turn` counts the calls.
#[cfg(not(loom))]
pub(crate) fn pause(turn: &mut u32) {
    *turn += 1;
    // The other thread may have lost its processor in the middle: then spinning only delays it.
    if turn.is_multiple_of(64) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(loom)]
pub(crate) fn pause(turn: &mut u32) {
    *turn += 1;
    loom::thread::yield_now();
}

/// Takes a lock whose data is plain: what a panicking holder left is as good as anything else.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// An atomic word with a cache line of its own.
#[repr(align(64))]
pub(crate) struct Line<T>(pub T);
