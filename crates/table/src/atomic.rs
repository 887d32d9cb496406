//! The atomics and locks of this crate: the standard library's, or the model checker's (`--cfg
//! loom`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicPtr;
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicPtr;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

/// Waits briefly for another thread to finish a few instructions; `turn` counts the calls.
#[cfg(not(loom))]
pub fn pause(turn: &mut u32) {
    *turn += 1;
    // The other thread may have lost its processor meanwhile, and spinning would only delay it.
    if turn.is_multiple_of(64) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

#[cfg(loom)]
pub fn pause(turn: &mut u32) {
    *turn += 1;
    loom::thread::yield_now();
}

/// Takes a lock whose data stays valid after a panic of its holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// An atomic word with a cache line of its own.
#[repr(align(64))]
pub(crate) struct Line<T>(pub T);

/// The standard library's `OnceLock`, which the model checker lacks.
#[cfg(loom)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicU32,
}

#[cfg(loom)]
impl<T> OnceLock<T> {
    pub fn new() -> Self {
        OnceLock { value: std::sync::OnceLock::new(), is_set: AtomicU32::new(0) }
    }

    pub fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) == 0 { None } else { self.value.get() }
    }

    pub fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(1, Ordering::Release);
        Ok(())
    }

    pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let _ = self.set(init());
        }
        self.value.get().expect("it was set just now, or before")
    }
}
