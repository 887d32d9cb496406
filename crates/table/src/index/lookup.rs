//! Looks up many hashes at once: all buckets are prefetched before the first is read.

use super::{BUCKETS, Index};
use crate::Id;
use crate::atomic::Ordering;
use crate::bucket::{self, Bucket, First};
use crate::prefetch::{prefetch, prefetch_to_write};

/// An index at one point in time, for looking up many hashes.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    index: &'a Index,
    state: u64,
    places: Places,
}

/// The bucket of a hash at the time of the [`Lookup`].
#[derive(Clone, Copy)]
pub struct Spot<'a>(&'a Bucket);

impl Index {
    /// A lookup in the present index.
    #[inline(always)]
    #[must_use]
    pub fn lookup(&self) -> Lookup<'_> {
        let state = self.state.0.load(Ordering::Acquire);
        Lookup { index: self, state, places: Places::of(state) }
    }
}

impl<'a> Lookup<'a> {
    /// Prefetches the bucket of this hash, and returns it.
    #[inline(always)]
    #[must_use]
    pub fn spot(&self, hash: u32) -> Spot<'a> {
        let bucket = self.index.bucket(self.places.place(hash));
        prefetch(&bucket[0]);
        Spot(bucket)
    }

    /// Returns an id under this hash, any of several. Reads the spot's bucket, unless entries have
    /// moved.
    #[inline(always)]
    #[must_use]
    pub fn find_at(&self, Spot(bucket): Spot<'_>, hash: u32) -> Option<Id> {
        let index = self.index;
        if hash == 0 {
            return index.find(hash, |_| true);
        }
        let control = bucket[0].load(Ordering::Acquire);
        match bucket::first_with(bucket, hash) {
            First::Found(id) => return Some(id),
            First::Gone => return index.find(hash, |_| true),
            First::Nowhere => {}
        }
        // Nothing moved, the bucket has no overflow, and no split gave the hash another bucket.
        let is_missed = bucket::is_alone(control)
            && bucket[0].load(Ordering::Relaxed) == control
            && index.state.0.load(Ordering::Acquire) == self.state;
        if is_missed {
            // A miss is usually followed by an insert into this bucket.
            prefetch_to_write(&bucket[0]);
            return None;
        }
        index.find(hash, |_| true)
    }
}

/// The buckets that exist.
#[derive(Clone, Copy)]
pub(super) struct Places {
    buckets: u32,
    /// All bits of the highest bucket's number.
    mask: u32,
}

impl Places {
    #[inline(always)]
    pub fn of(state: u64) -> Self {
        let buckets = (state & BUCKETS) as u32;
        Places { buckets, mask: u32::MAX >> (buckets - 1).leading_zeros() }
    }

    /// The bucket of a hash: as many of its lowest bits as give the number of an existing bucket.
    #[inline(always)]
    pub fn place(self, hash: u32) -> u32 {
        let (large, small) = (hash & self.mask, hash & (self.mask >> 1));
        if large < self.buckets { large } else { small }
    }
}
