//! Growth of an index, by some buckets at a time.

use super::{BUCKETS, DETACHED, FIRST, Index};
use crate::atomic::Ordering;
use crate::bucket::Chain;
use crate::epochs::Guard;
use crate::pages::Pages;
use crate::prefetch::prefetch_to_write;

/// The average number of entries per bucket, in halves. More saves memory and costs reads of
/// chained buckets: just before its split, a bucket has nearly twice the average. With 9 halves an
/// entry takes up to 16.5 bytes, chained buckets included, with 10 up to 15.5.
#[cfg(not(loom))]
pub(crate) const HALF_LOAD: u32 = 10;
#[cfg(loom)]
pub(crate) const HALF_LOAD: u32 = 1;
/// The maximum number of buckets that one call adds. They appear at once, so that the number of
/// buckets, which all threads read constantly, is written once.
const AT_ONCE: u64 = 32;
/// An insert whose hash has only zeros from this bit on, one of 16, checks whether the index must
/// grow.
pub(super) const OFTEN: u32 = 28;
/// From this bit on, one of 64, for indexes so large that a few buckets more or less do not matter.
const SELDOM: u32 = 26;
const MANY: u64 = 1024;

/// A bucket that is split, and the new one that takes its share.
struct Pair<'a> {
    old: Chain<'a>,
    /// No thread can know it before the number of buckets includes it.
    _new: Chain<'a>,
    number: u32,
}

impl Index {
    /// Adds buckets for the entries inserted so far. `hash` is that of the last insert.
    #[cold]
    pub(super) fn grow(&self, guard: &Guard<'_>, hash: u32) {
        let buckets = self.state.0.load(Ordering::Relaxed) & BUCKETS;
        if buckets >= MANY && hash >> SELDOM != 0 {
            return;
        }
        let wanted = u64::from(self.len()) * 2 / u64::from(HALF_LOAD);
        let is_enough = buckets >= wanted.min(BUCKETS >> 1);
        let splitting = &self.splitting;
        if is_enough || splitting.swap(1, Ordering::Acquire) != 0 {
            return;
        }
        self.split(guard, wanted);
        splitting.store(0, Ordering::Release);
    }

    /// Adds buckets up to the wanted number or the maximum per call, and fills each from the bucket
    /// that it splits. Only one thread at a time does this.
    fn split(&self, guard: &Guard<'_>, wanted: u64) {
        let state = self.state.0.load(Ordering::Relaxed);
        let first = state & BUCKETS;
        // Each new bucket splits one that exists already.
        let half = 1 << first.ilog2();
        let end = wanted.min(first + AT_ONCE).min(2 * half);
        if first >= end || state & DETACHED != 0 || !self.has_segment(half as u32) {
            return;
        }
        let overflow = &self.shared.overflow;
        let lock = |number| Chain::lock(self.bucket(number), overflow, guard.number());
        let moves =
            |number: u32| move |hash: u32| u64::from(hash) & (2 * half - 1) == number.into();
        // Prefetches all: locking one after the other would wait for each, since other threads
        // wrote half of them.
        for number in first as u32..end as u32 {
            prefetch_to_write(&self.bucket(number - half as u32)[0]);
            prefetch_to_write(&self.bucket(number)[0]);
        }
        let mut pairs = [const { None }; AT_ONCE as usize];
        for (pair, number) in pairs.iter_mut().zip(first as u32..end as u32) {
            let (old, mut new) = (lock(number - half as u32), lock(number));
            old.copy_to(&mut new, moves(number));
            *pair = Some(Pair { old, _new: new, number });
        }
        // From here on, finds go to the new buckets, which are filled. A find that read an old
        // bucket before and misses sees that bucket locked or changed.
        self.state.0.fetch_add(end - first, Ordering::Release);
        for pair in pairs.iter_mut().map_while(Option::take) {
            let Pair { mut old, number, .. } = pair;
            old.move_out(moves(number));
        }
    }

    /// Allocates the segment that begins with this bucket, a power of two. Returns false without
    /// memory.
    fn has_segment(&self, number: u32) -> bool {
        let segment = &self.segments[(number / FIRST).ilog2() as usize + 1];
        if segment.get().is_none() {
            let Some(pages) = Pages::zeroed(number as usize) else { return false };
            // Only the one splitting thread comes here.
            let _ = segment.set(pages);
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::epochs::Epochs;
    use crate::index::{BUCKETS, FIRST};
    use crate::zones::Zones;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    /// Between its look at the entries and its split, another thread may have grown or detached the index.
    #[test]
    fn an_index_that_has_enough_buckets_or_is_detached_does_not_grow() {
        let epochs = Epochs::new();
        let zones = Zones::new(Arc::clone(&epochs));
        let mut reader = epochs.reader().unwrap();
        let guard = reader.enter();
        let index = zones.get_or_make(&guard, 3).unwrap();
        let (first, number) = (u64::from(FIRST), index.number());
        let buckets = || index.state.0.load(Ordering::Relaxed) & BUCKETS;
        for (wanted, expect) in [(0, 0), (first - 1, 0), (first, 0), (first + 1, 1), (first, 1)] {
            index.split(&guard, wanted);
            assert_eq!(buckets(), first + expect, "{wanted} wanted");
        }
        zones.detach(3);
        let detached = zones.index(number).unwrap();
        detached.split(&guard, first + 2);
        assert_eq!(buckets(), first + 1);
    }
}
