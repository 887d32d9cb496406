//! Growing an index by a bucket at a time.

use super::{BUCKETS, DETACHED, FIRST, Index, SPLITTING};
use crate::atomic::Ordering;
use crate::bucket::Chain;
use crate::epochs::Visit;
use crate::pages::Pages;

/// Entries a bucket on the average, in halves. More saves memory, and costs looks into chained
/// buckets: just before its turn to be split, a bucket has nearly twice the average. With 9 halves
/// an entry takes up to 16.5 bytes, chained buckets included, with 10 up to 15.5.
#[cfg(not(loom))]
pub(crate) const HALF_LOAD: u32 = 10;
#[cfg(loom)]
pub(crate) const HALF_LOAD: u32 = 1;
/// Buckets that one call adds at most.
const AT_ONCE: u64 = 32;

impl Index {
    /// Adds buckets for what has come in.
    #[cold]
    pub(super) fn grow(&self, visit: &Visit<'_>) {
        let wanted = u64::from(self.len()) * 2 / u64::from(HALF_LOAD);
        let state = self.state.load(Ordering::Relaxed);
        let is_enough = state & BUCKETS >= wanted.min(BUCKETS >> 1);
        if is_enough || state & (SPLITTING | DETACHED) != 0 {
            return;
        }
        let claim = self.state.compare_exchange(
            state,
            state | SPLITTING,
            Ordering::Acquire,
            Ordering::Relaxed,
        );
        if claim.is_err() {
            return;
        }
        let first = state & BUCKETS;
        let end = wanted.min(first + AT_ONCE);
        let _is_complete = (first..end).all(|number| self.split(visit, number as u32));
        self.state.fetch_and(!SPLITTING, Ordering::Release);
    }

    /// Adds the bucket with this number, filling it from the one that it splits off from.
    /// `false` if there is no memory for it.
    fn split(&self, visit: &Visit<'_>, number: u32) -> bool {
        let half = 1u32 << number.ilog2();
        let segment = (half / FIRST).ilog2() as usize + 1;
        if self.segments[segment].get().is_none() {
            let Some(pages) = Pages::zeroed(half as usize) else { return false };
            // Only the one thread that splits comes here.
            let _ = self.segments[segment].set(pages);
        }
        let overflow = &self.shared.overflow;
        let mut old = Chain::lock(self.bucket(number - half), overflow, visit.number());
        // Nobody can know the new bucket before the count of buckets says that it is there.
        let mut new = Chain::lock(self.bucket(number), overflow, visit.number());
        let moves = |hash| hash & (2 * half - 1) == number;
        old.copy_to(&mut new, moves);
        // From here on, finds go to the new bucket, which is filled. One that went to the old
        // bucket before and misses there, finds that bucket locked or changed.
        self.state.fetch_add(1, Ordering::Release);
        old.move_out(moves);
        true
    }
}
