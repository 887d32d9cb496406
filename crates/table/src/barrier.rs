//! Two fences that belong together, of which the frequent one costs nothing.
//!
//! A thread that takes a guard says so in a word of its own, and looks at shared memory after that;
//! a thread that wants to use memory again takes it out of reach, and looks at those words after that. Of
//! the two, one must see what the other did, for which each needs a full fence between its store
//! and its loads. A guard is taken with every call for packets, and a full fence there waits until all
//! that was written before has reached the cache, so that one call's cache misses cannot overlap
//! with the next one's. Memory is used again far less often.
//!
//! So the seldom side does the work for both. membarrier(2), with
//! `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, returns after every thread of the process has passed a full
//! fence at some point of its program since the call began: those that run are interrupted for it,
//! the others passed one when they lost the processor. On the frequent side it is then enough that
//! the compiler keeps the order ([`Barrier::light`]). For every reader that point lies
//!
//! - before its light fence: its looks come after the point, and so after what was taken out of
//!   reach before the heavy fence began. It does not find it.
//! - behind its light fence: what it said before that is seen by a thread that looks after the heavy fence
//!   has ended.
//!
//! There is no third case. Where the system has no such call (before Linux 4.14, or where it is
//! forbidden), both sides have a sequentially consistent fence, as the memory model wants it.
//!
//! The model checker has no membarrier(2). It has what was used above and no more: for every reader
//! a lock that its light fence takes and lets go, and that the heavy fence takes and lets go once
//! after it began. Which of the two comes first says on which side of the light fence the point
//! lies, and the lock orders what was said to be ordered.

use crate::atomic::{Ordering, fence};

/// How a process's threads are fenced against each other.
pub(crate) struct Barrier {
    /// What the seldom side calls, where it does the work for both; whether that came about.
    #[cfg(not(loom))]
    membarrier: Option<fn() -> bool>,
    #[cfg(loom)]
    points: Option<Vec<crate::atomic::Mutex<()>>>,
}

#[cfg(not(loom))]
impl Barrier {
    /// The best that the system has.
    pub fn new() -> Self {
        Barrier { membarrier: system::has_membarrier().then_some(system::membarrier) }
    }

    /// A fence on both sides.
    #[cfg(test)]
    pub fn symmetric() -> Self {
        Barrier { membarrier: None }
    }

    /// One on a system that promised the call, and then forbids it.
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

    /// The seldom side's fence. False where there was none in the end: then nothing may be
    /// concluded.
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

    /// Whether there is such a call; the process is registered for it then.
    pub(super) fn has_membarrier() -> bool {
        *IS_REGISTERED.get_or_init(|| {
            let command = MembarrierCommand::PrivateExpedited;
            membarrier_query().contains_command(command) && register()
        })
    }

    /// Has every thread of the process pass a full fence; whether that came about.
    pub(super) fn membarrier() -> bool {
        match call(MembarrierCommand::PrivateExpedited) {
            // A child of a fork may have lost what its parent was registered for.
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
