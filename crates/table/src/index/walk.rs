//! Visits an index from end to end in parts, and empties it.

use super::{BUCKETS, Index};
use crate::Id;
use crate::atomic::{Ordering, pause};
use crate::bucket::{self, Chain};
use crate::counts::What;
use crate::epochs::Guard;

/// The position of a walk.
struct Cursor {
    /// The index had at least 2^`level` buckets at the beginning.
    level: u32,
    /// The next bucket of the original ones, from which later ones were split.
    family: u64,
}

impl Cursor {
    /// Reads a cursor for an index of `buckets` buckets; zero is the beginning.
    fn read(cursor: u64, buckets: u64) -> Cursor {
        match (cursor >> 32) as u32 {
            0 => Cursor { level: buckets.ilog2(), family: 0 },
            // A cursor of another index with more buckets is the end of this one.
            number => Cursor { level: (number - 1).min(31), family: cursor & 0xffff_ffff },
        }
    }

    fn write(&self) -> u64 {
        u64::from(self.level + 1) << 32 | self.family
    }
}

impl Index {
    /// Visits the entries of about `buckets` buckets from `cursor` on. Returns the next cursor, or
    /// `None` at the end. Zero is the beginning.
    ///
    /// Each entry that exists throughout the walk is visited once, even if the index grows: a step
    /// visits one bucket of those that existed at the beginning, and all that were split from it
    /// since. Splits move entries among these only, and to higher numbers.
    pub fn walk(&self, cursor: u64, buckets: usize, mut visit: impl FnMut(Id)) -> Option<u64> {
        let Cursor { level, mut family } = Cursor::read(cursor, self.buckets());
        let (mut seen, mut ids) = (0, Vec::new());
        while seen < buckets && family >> level == 0 {
            if family >= self.buckets() {
                return None;
            }
            let mut at = family;
            while at < self.buckets() {
                let mut turn = 0;
                while !bucket::append(self.bucket(at as u32), &self.shared.overflow, &mut ids) {
                    pause(&mut turn);
                }
                at += 1 << level;
                seen += 1;
            }
            // An entry that moved during the step appears twice.
            ids.sort_unstable();
            ids.dedup();
            ids.drain(..).for_each(&mut visit);
            family += 1;
        }
        (family >> level == 0).then(|| Cursor { level, family }.write())
    }

    /// Appends entries of some buckets to `ids`, until there are `enough` or `buckets` were read:
    /// first the bucket of `hash`, then those behind it, then the first ones.
    ///
    /// This is for random samples: an entry that moves meanwhile may appear twice or not at all,
    /// and locked buckets are skipped. A random hash leads to each entry about equally often; a
    /// random bucket number would not, since split buckets have half as many entries as others.
    pub fn sample(&self, hash: u32, buckets: u32, enough: usize, ids: &mut Vec<Id>) {
        let state = self.state.0.load(Ordering::Acquire);
        let (all, first) = ((state & BUCKETS) as u32, super::place(state, hash));
        for number in (first..all).chain(0..first).take(buckets as usize) {
            if ids.len() >= enough {
                return;
            }
            bucket::append(self.bucket(number), &self.shared.overflow, ids);
        }
    }

    fn buckets(&self) -> u64 {
        self.state.0.load(Ordering::Acquire) & BUCKETS
    }

    /// Returns the memory of most buckets of a large index to the system. The index must be
    /// detached, empty and unknown to other threads.
    pub(crate) fn give_back(&self) {
        for buckets in self.segments.iter().filter_map(|segment| segment.get()) {
            // If that fails, the memory stays and holds empty buckets.
            let _ = buckets.give_back();
        }
    }

    /// Moves the ids of bucket `at` of a detached index to `ids`. Returns false behind the last
    /// bucket.
    pub(crate) fn empty_bucket(&self, guard: &Guard<'_>, at: u32, ids: &mut Vec<Id>) -> bool {
        if u64::from(at) >= self.state.0.load(Ordering::Acquire) & BUCKETS {
            return false;
        }
        let mut chain = Chain::lock(self.bucket(at), &self.shared.overflow, guard.number());
        let taken = chain.take_out(|entry| {
            ids.push(entry.id());
            true
        });
        self.count(guard, What::Entries, (taken as u64).wrapping_neg());
        true
    }
}
