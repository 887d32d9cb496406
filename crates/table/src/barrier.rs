//! A pair of fences, of which the frequent one costs nothing.
//!
//! A thread that takes a guard stores this in a word of its own and then reads shared memory. A
//! thread that wants to reuse memory removes it from the shared structure and then reads those
//! words. At least one of the two must see the other's store, so each needs a full fence between
//! its store and its loads. Every call for packets takes a guard, and a full fence there waits
//! until all earlier writes have reached the cache, so that cache misses of successive calls cannot
//! overlap. Memory is reused far less often.
//!
//! So the rare side does the work for both. membarrier(2), with `MEMBARRIER_CMD_PRIVATE_EXPEDITED`,
//! returns after every thread of the process has passed a full fence at some point since the call
//! began: running threads are interrupted for it, the others passed one when they lost the
//! processor. On the frequent side it is then enough that the compiler keeps the order
//! ([`Barrier::light`]). For every reader that point lies
//!
//! - before its light fence: its loads come after the point, and so after the removal that preceded
//!   the heavy fence. It does not find what was removed.
//! - behind its light fence: a thread that reads after the heavy fence sees what the reader stored
//!   before.
//!
//! There is no third case. Where the system has no such call (before Linux 4.14, or where it is
//! forbidden), both sides have a sequentially consistent fence, as the memory model wants it.
//!
//! The model checker has no membarrier(2). The model provides only the property above: each reader
//! has a lock that its light fence takes and releases, and that the heavy fence takes and releases
//! after it began. The order of the two decides on which side of the light fence the point lies,
//! and the lock orders the accesses accordingly.

use crate::atomic::{Ordering, fence};

/// The fences between the threads of a process.
pub(crate) struct Barrier {
    /// The heavy fence's system call, if it does the work for both; it returns whether it
    /// succeeded.
    #[cfg(not(loom))]
    membarrier: Option<fn() -> bool>,
    #[cfg(loom)]
    points: Option<Vec<crate::atomic::Mutex<()>>>,
}

#[cfg(not(loom))]
impl Barrier {
    /// The best pair that the system supports.
    pub fn new() -> Self {
        Barrier { membarrier: system::has_membarrier().then_some(system::membarrier) }
    }

    /// A full fence on both sides.
    #[cfg(test)]
    pub fn symmetric() -> Self {
        Barrier { membarrier: None }
    }

    /// The pair on a system that registers the call and then refuses it.
    #[cfg(test)]
    pub fn refused() -> Self {
        Barrier { membarrier: Some(|| false) }
    }

    /// The frequent side's fence, of the thread with this number.
    #[inline(always)]
    pub fn light(&self, _thread: usize) {
        match self.membarrier {
            Some(_) => std::sync::atomic::compiler_fence(Ordering::SeqCst),
            None => fence(Ordering::SeqCst),
        }
    }

    /// The rare side's fence. Returns false if it failed; then no memory may be reused.
    #[must_use]
    pub fn heavy(&self) -> bool {
        fence(Ordering::SeqCst);
        self.membarrier.is_none_or(|membarrier| membarrier())
    }
}

#[cfg(loom)]
impl Barrier {
    /// The fences of the memory model, on both sides: fewer steps to check.
    pub fn new() -> Self {
        Barrier { points: None }
    }

    /// Threads with numbers below `threads` that are interrupted for a fence.
    pub fn asymmetric(threads: usize) -> Self {
        Barrier { points: Some((0..threads).map(|_| crate::atomic::Mutex::new(())).collect()) }
    }

    pub fn light(&self, thread: usize) {
        match &self.points {
            Some(points) => drop(crate::atomic::lock(&points[thread])),
            None => fence(Ordering::SeqCst),
        }
    }

    pub fn heavy(&self) -> bool {
        match &self.points {
            Some(points) => points.iter().for_each(|point| drop(crate::atomic::lock(point))),
            None => fence(Ordering::SeqCst),
        }
        true
    }
}

#[cfg(all(target_os = "linux", not(any(loom, miri))))]
mod system {
    use rustix::io::Errno;
    use rustix::thread::{MembarrierCommand, membarrier as call, membarrier_query};
    use std::sync::OnceLock;

    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();

    /// Whether the system call exists; if so, the process is registered for it.
    pub(super) fn has_membarrier() -> bool {
        *IS_REGISTERED.get_or_init(|| {
            let command = MembarrierCommand::PrivateExpedited;
            membarrier_query().contains_command(command) && register()
        })
    }

    /// Makes every thread of the process pass a full fence. Returns whether it succeeded.
    pub(super) fn membarrier() -> bool {
        match call(MembarrierCommand::PrivateExpedited) {
            // A child after a fork may have lost its parent's registration.
            Err(Errno::PERM) => register() && call(MembarrierCommand::PrivateExpedited).is_ok(),
            result => result.is_ok(),
        }
    }

    fn register() -> bool {
        call(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }
}

#[cfg(not(any(all(target_os = "linux", not(miri)), loom)))]
mod system {
    pub(super) fn has_membarrier() -> bool {
        false
    }

    pub(super) fn membarrier() -> bool {
        false
    }
}
