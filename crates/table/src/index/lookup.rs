//! Many hashes looked up at once: their buckets are fetched before any is looked into.

use super::{BUCKETS, Index};
use crate::Id;
use crate::atomic::Ordering;
use crate::bucket::{self, Bucket, First};
use crate::prefetch::{prefetch, prefetch_to_write};

/// An index as it was at one moment, in which many hashes are looked up.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    index: &'a Index,
    state: u64,
    places: Places,
}

/// Where the entries of a hash were at a [`Lookup`].
#[derive(Clone, Copy)]
pub struct Spot<'a>(&'a Bucket);

impl Index {
    /// The index as it is now.
    #[inline(always)]
    #[must_use]
    pub fn lookup(&self) -> Lookup<'_> {
        let state = self.state.0.load(Ordering::Acquire);
        Lookup { index: self, state, places: Places::of(state) }
    }
}

impl<'a> Lookup<'a> {
    /// Begins to fetch the bucket of this hash, and remembers where it is.
    #[inline(always)]
    #[must_use]
    pub fn spot(&self, hash: u32) -> Spot<'a> {
        let bucket = self.index.bucket(self.places.place(hash));
        prefetch(&bucket[0]);
        Spot(bucket)
    }

    /// An id under this hash, whichever of them if there are several: at the spot of the hash if
    /// it is still there.
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
        // Nothing moved, it goes on nowhere, and no split made another bucket the hash's.
        let is_missed = bucket::is_alone(control)
            && bucket[0].load(Ordering::Relaxed) == control
            && index.state.0.load(Ordering::Acquire) == self.state;
        if is_missed {
            // What is not there is mostly put there next.
            prefetch_to_write(&bucket[0]);
            return None;
        }
        index.find(hash, |_| true)
    }
}

/// Which buckets there are.
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

    /// The bucket that a hash belongs to: the lowest bits of the hash that give a number of a bucket
    /// that is there.
    #[inline(always)]
    pub fn place(self, hash: u32) -> u32 {
        let (large, small) = (hash & self.mask, hash & (self.mask >> 1));
        if large < self.buckets { large } else { small }
    }
}
