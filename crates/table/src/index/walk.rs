//! Going through an index from end to end, a part at a time, and emptying it.

use super::{BUCKETS, Index};
use crate::Id;
use crate::atomic::{Ordering, pause};
use crate::bucket::{self, Chain};
use crate::counts::What;
use crate::epochs::Guard;

/// How far a walk has come.
struct Cursor {
    /// When it began there were at least 2^`level` buckets.
    level: u32,
    /// The bucket among those from which the next ones were split off.
    family: u64,
}

impl Cursor {
    /// Zero begins, in an index of so many buckets.
    fn read(cursor: u64, buckets: u64) -> Cursor {
        match (cursor >> 32) as u32 {
            0 => Cursor { level: buckets.ilog2(), family: 0 },
            // One of another index, with more buckets, has come to the end of this one.
            number => Cursor { level: (number - 1).min(31), family: cursor & 0xffff_ffff },
        }
    }

    fn write(&self) -> u64 {
        u64::from(self.level + 1) << 32 | self.family
    }
}

impl Index {
    /// Shows what is in some `buckets` buckets from `cursor` on, and gives the cursor to go on with, or
    /// `None` at the end. Begin with zero.
    ///
    /// Between the first call and the last, each entry that is there throughout is shown once, however
    /// the index grows: a step goes through one bucket of those that there were at the beginning,
    /// and through all that were split off from it since. Splits move entries among these only, and
    /// to higher numbers.
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
            // What moved in between is there twice.
            ids.sort_unstable();
            ids.dedup();
            ids.drain(..).for_each(&mut visit);
            family += 1;
        }
        (family >> level == 0).then(|| Cursor { level, family }.write())
    }

    /// Appends the entries of some buckets to `ids`, until there are `enough` or so many `buckets` were
    /// looked at: that to which `hash` belongs, those behind it, and then the first ones.
    ///
    /// This is for looking at entries by chance: one that moves meanwhile may show twice or not at all,
    /// and buckets that are just changed are left out. A random hash leads to each entry about equally
    /// often; a random bucket would not, as buckets that were split hold half of what others do.
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

    /// Gives the memory of most buckets of a large index back to the system. The index is detached
    /// and empty, and no other thread may know it.
    pub(crate) fn give_back(&self) {
        for buckets in self.segments.iter().filter_map(|segment| segment.get()) {
            // Where it stays, it holds empty buckets as it is.
            let _ = buckets.give_back();
        }
    }

    /// Takes out what is in bucket `at` of a detached index, into `ids`. `false` behind the last.
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
