//! Whether threads that work with snapshots have finished what they began with an older one.
//!
//! A thread begins a passage before it reads the newest snapshot, and ends it when all results are in the ledger of
//! [`Published`](crate::Published). The publishing thread asks which passages are under way: when these are over, no
//! result of an older snapshot will come any more. `tests/models.rs` checks this in all orders.

use crate::atomic::{AtomicU64, Mutex, Ordering, fence, lock};
use std::sync::Arc;

/// The passages of all threads.
#[derive(Debug)]
pub struct Passages {
    /// A count per thread, odd during a passage.
    counts: Mutex<Vec<Arc<AtomicU64>>>,
}

/// One thread's passages.
#[derive(Debug)]
pub struct Passage {
    count: Arc<AtomicU64>,
}

/// The passages that were under way at some time.
#[derive(Debug)]
pub struct UnderWay {
    counts: Vec<(Arc<AtomicU64>, u64)>,
}

impl Default for Passages {
    fn default() -> Self {
        Passages { counts: Mutex::new(Vec::new()) }
    }
}

impl Passages {
    /// Adds a thread.
    pub fn join(&self) -> Passage {
        let count = Arc::new(AtomicU64::new(0));
        let mut counts = lock(&self.counts);
        counts.retain(|other| Arc::strong_count(other) > 1);
        counts.push(Arc::clone(&count));
        Passage { count }
    }

    /// The passages under way. Others begin with a snapshot that was published before this call, or a newer one.
    pub fn under_way(&self) -> UnderWay {
        // Either the thread's count is seen here, or the thread sees the new version.
        fence(Ordering::SeqCst);
        let counts = lock(&self.counts);
        let counts = counts.iter().map(|count| (count, count.load(Ordering::Acquire)));
        let odd = counts.filter(|(_, seen)| seen % 2 == 1);
        UnderWay { counts: odd.map(|(count, seen)| (Arc::clone(count), seen)).collect() }
    }
}

impl UnderWay {
    /// Whether all of them are over.
    pub fn are_over(&self) -> bool {
        self.counts.iter().all(|(count, seen)| count.load(Ordering::Acquire) != *seen)
    }
}

impl Passage {
    /// Begins a passage, unless one is under way. The newest snapshot must be read after this.
    pub fn begin(&mut self) {
        let count = self.count.load(Ordering::Relaxed);
        if count.is_multiple_of(2) {
            self.count.store(count + 1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }

    /// Ends the passage, if one is under way.
    pub fn end(&mut self) {
        let count = self.count.load(Ordering::Relaxed);
        if !count.is_multiple_of(2) {
            self.count.store(count + 1, Ordering::Release);
        }
    }
}

/// A thread that ends enters no more results.
impl Drop for Passage {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn passages_that_were_under_way_are_waited_for_and_no_others() {
        let passages = Passages::default();
        let [mut one, mut other] = [(); 2].map(|()| passages.join());
        assert!(passages.under_way().are_over());
        one.begin();
        one.begin();
        let first = passages.under_way();
        other.begin();
        assert!(!first.are_over());
        one.end();
        one.end();
        assert!(first.are_over());
        one.begin();
        assert!(first.are_over());
        let asked = passages.under_way();
        drop(one);
        assert!(!asked.are_over());
        drop(other);
        assert!(asked.are_over());
        drop((first, asked));
        let _ = passages.join();
        assert_eq!(lock(&passages.counts).len(), 1, "threads that ended are forgotten");
    }
}
