//! Growing an index by some buckets at a time.

use super::{BUCKETS, DETACHED, FIRST, Index};
use crate::atomic::Ordering;
use crate::bucket::Chain;
use crate::epochs::Guard;
use crate::pages::Pages;
use crate::prefetch::prefetch_to_write;

/// Entries a bucket on the average, in halves. More saves memory, and costs looks into chained
/// buckets: just before its turn to be split, a bucket has nearly twice the average. With 9 halves
/// an entry takes up to 16.5 bytes, chained buckets included, with 10 up to 15.5.
#[cfg(not(loom))]
pub(crate) const HALF_LOAD: u32 = 10;
#[cfg(loom)]
pub(crate) const HALF_LOAD: u32 = 1;
/// Buckets that one call adds at most. All of them are there at once, so that the number of buckets,
/// which all threads read all the time, is written once.
const AT_ONCE: u64 = 32;
/// Of inserts whose hash has only zeros from this bit on, one of 16, an index looks after its growth.
pub(super) const OFTEN: u32 = 28;
/// And from this bit on, one of 64, where it has so many buckets that a few more or less don't matter.
const SELDOM: u32 = 26;
const MANY: u64 = 1024;

/// A bucket that is split, and the new one that takes its share.
struct Pair<'a> {
    old: Chain<'a>,
    /// No thread can know it before the number of buckets says that it is there.
    _new: Chain<'a>,
    number: u32,
}

impl Index {
    /// Adds buckets for what has come in, now and then: an insert of this hash came last.
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

    /// Adds buckets until there are so many or it is enough for once, filling each from the one that
    /// it splits off from. Only one thread at a time does it.
    fn split(&self, guard: &Guard<'_>, wanted: u64) {
        let state = self.state.0.load(Ordering::Relaxed);
        let first = state & BUCKETS;
        // Each new one splits off from one that is there already.
        let half = 1 << first.ilog2();
        let end = wanted.min(first + AT_ONCE).min(2 * half);
        if first >= end || state & DETACHED != 0 || !self.has_segment(half as u32) {
            return;
        }
        let overflow = &self.shared.overflow;
        let lock = |number| Chain::lock(self.bucket(number), overflow, guard.number());
        let moves =
            |number: u32| move |hash: u32| u64::from(hash) & (2 * half - 1) == number.into();
        // All at once, where locking one after the other would wait for each: half of the old ones are
        // where another thread wrote them.
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
        // From here on, finds go to the new buckets, which are filled. One that went to an old
        // bucket before and misses there, finds that bucket locked or changed.
        self.state.0.fetch_add(end - first, Ordering::Release);
        for pair in pairs.iter_mut().map_while(Option::take) {
            let Pair { mut old, number, .. } = pair;
            old.move_out(moves(number));
        }
    }

    /// Makes the segment that begins with the bucket of this number, a power of two; `false` if there
    /// is no memory for it.
    fn has_segment(&self, number: u32) -> bool {
        let segment = &self.segments[(number / FIRST).ilog2() as usize + 1];
        if segment.get().is_none() {
            let Some(pages) = Pages::zeroed(number as usize) else { return false };
            // Only the one thread that splits comes here.
            let _ = segment.set(pages);
        }
        true
    }
}
