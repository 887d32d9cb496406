//! Going through an index from end to end, a part at a time, and emptying it.

use super::{BUCKETS, Index};
use crate::Id;
use crate::atomic::{Ordering, pause};
use crate::bucket::{self, Chain};
use crate::counts::What;
use crate::epochs::Visit;

impl Index {
    /// Shows what is in up to `buckets` buckets from `cursor` on, and gives the cursor to go on
    /// with, or `None` at the end. Begin with zero.
    ///
    /// Between the first call and the last, each entry that is there throughout is shown at least
    /// once: a split moves entries only to buckets with higher numbers. Entries that are moved
    /// may be shown twice.
    pub fn walk(&self, cursor: u64, buckets: usize, mut visit: impl FnMut(Id)) -> Option<u64> {
        let mut ids = Vec::new();
        let mut at = cursor;
        for _ in 0..buckets {
            if at >= self.state.load(Ordering::Acquire) & BUCKETS {
                return None;
            }
            let mut turn = 0;
            while !bucket::copy(self.bucket(at as u32), &self.shared.overflow, &mut ids) {
                pause(&mut turn);
            }
            ids.drain(..).for_each(&mut visit);
            at += 1;
        }
        (at < self.state.load(Ordering::Acquire) & BUCKETS).then_some(at)
    }

    /// Gives the memory of most buckets of a large index back to the system. The index is detached
    /// and empty, and nobody else may know it.
    pub(crate) fn give_back(&self) {
        for buckets in self.segments.iter().filter_map(|segment| segment.get()) {
            // Where it stays, it holds empty buckets as it is.
            let _ = buckets.give_back();
        }
    }

    /// Takes out what is in bucket `at` of a detached index, into `ids`. `false` behind the last.
    pub(crate) fn empty_bucket(&self, visit: &Visit<'_>, at: u32, ids: &mut Vec<Id>) -> bool {
        if u64::from(at) >= self.state.load(Ordering::Acquire) & BUCKETS {
            return false;
        }
        let mut chain = Chain::lock(self.bucket(at), &self.shared.overflow, visit.number());
        let taken = chain.take_out(|entry| {
            ids.push(entry.id());
            true
        });
        self.count(visit, What::Entries, (taken as u64).wrapping_neg());
        true
    }
}
