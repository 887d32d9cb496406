//! Overflow buckets, which threads take and return without contention.

use super::{Bucket, WORDS};
use crate::atomic::{AtomicU64, AtomicUsize, Line, Mutex, Ordering, lock};
use crate::chunks::Chunks;
use crate::epochs::MAX_READERS;

/// The overflow buckets of all indexes.
///
/// A returned bucket may be in another chain at once. A reader that still reads it finds entries of
/// foreign hashes and records that do not match, and the control word of its own chain has changed.
pub(crate) struct Overflow {
    buckets: Chunks<WORDS>,
    capacity: u64,
    /// By reader number: the free buckets of each thread.
    free: Box<[Line<Mutex<Vec<u64>>>]>,
    /// Threads from this number on never had any.
    threads: AtomicUsize,
    /// Buckets from this link on were never taken.
    fresh: Line<AtomicU64>,
}

/// The number of new buckets that a thread takes at once.
#[cfg(not(loom))]
const FRESH: u64 = 32;
#[cfg(loom)]
const FRESH: u64 = 1;

impl Overflow {
    pub fn new(capacity: u32) -> Self {
        let capacity = u64::from(capacity);
        Overflow {
            buckets: Chunks::new(capacity as usize),
            capacity,
            free: (0..MAX_READERS).map(|_| Line(Mutex::new(Vec::new()))).collect(),
            threads: AtomicUsize::new(0),
            fresh: Line(AtomicU64::new(FRESH)),
        }
    }

    #[inline]
    pub(super) fn bucket(&self, link: u64) -> &Bucket {
        self.buckets.at(link as usize)
    }

    /// The memory in bytes of all buckets ever taken.
    pub fn bytes(&self) -> usize {
        self.fresh.0.load(Ordering::Relaxed) as usize * size_of::<Bucket>()
    }

    /// Returns an empty bucket.
    pub(super) fn take(&self, thread: usize) -> u64 {
        let mut own = lock(&self.free[thread].0);
        if own.is_empty() {
            self.refill(thread, &mut own);
        }
        own.pop().expect("links were added just now")
    }

    /// Takes half of another thread's excess, or new buckets.
    #[cold]
    fn refill(&self, thread: usize, own: &mut Vec<u64>) {
        self.note(thread);
        let threads = &self.free[..self.threads.load(Ordering::Relaxed)];
        let others = threads.iter().enumerate().filter(|&(at, _)| at != thread);
        for (_, other) in others {
            let Ok(mut other) = other.0.try_lock() else { continue };
            if other.len() >= FRESH as usize {
                let half = other.len() / 2;
                own.extend(other.drain(half..));
                return;
            }
        }
        let start = self.fresh.0.fetch_add(FRESH, Ordering::Relaxed);
        let has_memory = start + FRESH <= self.capacity
            && self.buckets.make(start as usize)
            && self.buckets.make((start + FRESH - 1) as usize);
        // As for a vector, lack of memory is fatal.
        assert!(has_memory, "no memory for {start} overflow buckets");
        own.extend(start..start + FRESH);
    }

    pub(super) fn give(&self, thread: usize, link: u64) {
        debug_assert!(link != 0 && link < self.fresh.0.load(Ordering::Relaxed));
        self.note(thread);
        lock(&self.free[thread].0).push(link);
    }

    /// Marks that this thread has buckets that others may take.
    fn note(&self, thread: usize) {
        if thread >= self.threads.load(Ordering::Relaxed) {
            self.threads.fetch_max(thread + 1, Ordering::Relaxed);
        }
    }
}
