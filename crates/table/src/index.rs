//! One zone's index: from the hash of a packet's addresses to the id of its connection.
//!
//! Linear hashing: the number of buckets grows one by one. Each new bucket takes its share of
//! entries from exactly one old bucket, so that no insert waits for a whole table to move. Buckets
//! are in segments of doubling size that never move.
//!
//! Finds take no lock. Inserts and removals lock one bucket. Some inserts, chosen by their hashes,
//! split buckets; if another thread is splitting, they skip it.

mod lookup;
mod notes;
mod split;
mod walk;

use crate::Id;
use crate::atomic::{AtomicU32, AtomicU64, Line, OnceLock, Ordering, pause};
use crate::bucket::{self, Bucket, Chain, Entry, Look, Overflow, WORDS};
use crate::counts::{Counts, What};
use crate::epochs::Guard;
use crate::pages::Pages;
use crate::prefetch::prefetch;
use lookup::Places;
pub use lookup::{Lookup, Spot};
use notes::Notes;
use std::sync::Arc;

/// The number of buckets in the first segment, a power of two.
#[cfg(not(loom))]
const FIRST: u32 = 8;
#[cfg(loom)]
const FIRST: u32 = 2;
const FIRST_BITS: u32 = FIRST.ilog2();
/// The first segment, and one for each doubling up to 2^31 buckets.
const SEGMENTS: usize = (32 - FIRST_BITS) as usize;

/// The bits of the state that hold the number of buckets.
const BUCKETS: u64 = 0xffff_ffff;
/// The index belongs to no zone any more.
const DETACHED: u64 = 1 << 32;

/// The connections of one zone.
pub struct Index {
    /// The number of buckets, and [`DETACHED`]. Every thread reads it several times per packet, so
    /// it is written rarely.
    state: Line<AtomicU64>,
    /// 1 while a thread splits buckets.
    splitting: AtomicU32,
    segments: [OnceLock<Pages<WORDS>>; SEGMENTS],
    number: u32,
    zone: AtomicU32,
    /// The counts when this index was last empty, since threads of a former zone may have counted
    /// afterwards.
    bases: [AtomicU64; 2],
    notes: Notes,
    shared: Arc<Shared>,
}

/// The parts that all indexes share.
pub(crate) struct Shared {
    pub overflow: Overflow,
    pub counts: Counts,
}

/// The result of an insert.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// The entry was inserted.
    Done,
    /// A rival with this id exists; nothing was done.
    Rival(Id),
    /// The zone was flushed and uses another index; nothing was done.
    Detached,
}

impl Index {
    /// An index without a zone.
    pub(crate) fn new(number: u32, shared: Arc<Shared>) -> Self {
        let segments: [_; SEGMENTS] = std::array::from_fn(|_| OnceLock::new());
        let first = Pages::zeroed(FIRST as usize).expect("memory for a few buckets");
        let _ = segments[0].set(first);
        Index {
            state: Line(AtomicU64::new(u64::from(FIRST) | DETACHED)),
            splitting: AtomicU32::new(0),
            segments,
            number,
            zone: AtomicU32::new(0),
            bases: [AtomicU64::new(0), AtomicU64::new(0)],
            notes: Notes::new(),
            shared,
        }
    }

    /// The index's own number, never zero.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The zone that the index belongs or belonged to.
    #[must_use]
    pub fn zone(&self) -> u16 {
        self.zone.load(Ordering::Relaxed) as u16
    }

    /// Whether the zone was flushed, so that no entry is valid.
    #[inline]
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.state.0.load(Ordering::Acquire) & DETACHED != 0
    }

    /// Prefetches the bucket of this hash.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        let state = self.state.0.load(Ordering::Acquire);
        prefetch(&self.bucket(place(state, hash))[0]);
    }

    /// Returns the id with this hash for which `is_it` returns true.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        let mut place_now = place(self.state.0.load(Ordering::Acquire), hash);
        let mut turn = 0;
        loop {
            let bucket = self.bucket(place_now);
            match bucket::find(bucket, &self.shared.overflow, hash, &mut is_it) {
                Look::Found(id) => return Some(id),
                look => {
                    // A split may have moved the entry to a new bucket.
                    let place_then = place_now;
                    place_now = place(self.state.0.load(Ordering::Acquire), hash);
                    match look {
                        Look::Missed if place_then == place_now => return None,
                        Look::Disturbed => pause(&mut turn),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Inserts `id` under `hash`, unless `is_rival` is true for an id of the same hash. `is_rival`
    /// runs under the bucket's lock and must only compare.
    #[inline]
    pub fn insert(
        &self,
        guard: &Guard<'_>,
        hash: u32,
        id: Id,
        is_rival: impl FnMut(Id) -> bool,
    ) -> Insert {
        {
            let Some(mut chain) = self.lock_attached(guard, hash) else { return Insert::Detached };
            if let Err(rival) = chain.put(Entry::new(hash, id), is_rival) {
                return Insert::Rival(rival);
            }
        }
        self.count(guard, What::Entries, 1);
        // The low bits choose the bucket; the high bits serve as a random number.
        if hash >> split::OFTEN == 0 || cfg!(loom) {
            self.grow(guard, hash);
        }
        Insert::Done
    }

    /// Removes `id` from under `hash`. Returns whether it was there.
    #[inline]
    pub fn remove(&self, guard: &Guard<'_>, hash: u32, id: Id) -> bool {
        let entry = Entry::new(hash, id);
        let taken = self.lock(guard, hash).take_out(|one| one == entry);
        if taken > 0 {
            self.count(guard, What::Entries, (taken as u64).wrapping_neg());
        }
        taken > 0
    }

    /// The number of entries, approximate while other threads insert and remove.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.counted(What::Entries)
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts a new connection.
    #[inline]
    pub fn joined(&self, guard: &Guard<'_>) {
        self.count(guard, What::Connections, 1);
    }

    /// Counts the end of a connection.
    #[inline]
    pub fn left(&self, guard: &Guard<'_>) {
        self.count(guard, What::Connections, u64::MAX);
    }

    /// The number of connections: calls of [`Self::joined`] less those of [`Self::left`].
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.counted(What::Connections)
    }

    /// The memory in bytes, without chained buckets.
    ///
    /// Up to twice that may be mapped, since the last segment is as large as all before it; but the
    /// system backs no memory that no bucket has used.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let buckets = self.state.0.load(Ordering::Relaxed) & BUCKETS;
        size_of::<Self>() + buckets as usize * size_of::<Bucket>()
    }

    /// Assigns the empty index to a zone. No other thread may know the index.
    pub(crate) fn attach(&self, zone: u16) {
        self.zone.store(u32::from(zone), Ordering::Relaxed);
        self.forget_notes();
        for what in [What::Entries, What::Connections] {
            let base = self.shared.counts.sum(self.number, what);
            self.bases[what as usize].store(base, Ordering::Relaxed);
        }
        self.state.0.store(u64::from(FIRST), Ordering::Release);
    }

    /// Marks the index as belonging to no zone.
    pub(crate) fn detach(&self) {
        self.state.0.fetch_or(DETACHED, Ordering::AcqRel);
    }

    fn count(&self, guard: &Guard<'_>, what: What, number: u64) {
        self.shared.counts.add(guard, self.number, what, number);
    }

    fn counted(&self, what: What) -> u32 {
        let base = self.bases[what as usize].load(Ordering::Relaxed);
        let sum = self.shared.counts.sum(self.number, what).wrapping_sub(base);
        // Other threads count meanwhile: a removal may be seen without its insert.
        u32::try_from(sum).unwrap_or(0)
    }

    /// Locks the chain of `hash`; returns `None` if the index belongs to no zone.
    ///
    /// A thread that drains a detached index locks every bucket too. So either the drain finds the
    /// new entry, or this lock makes the mark visible that was set before the drain.
    #[inline]
    fn lock_attached(&self, guard: &Guard<'_>, hash: u32) -> Option<Chain<'_>> {
        let chain = self.lock(guard, hash);
        (self.state.0.load(Ordering::Acquire) & DETACHED == 0).then_some(chain)
    }

    /// Locks the chain of `hash`.
    #[inline]
    fn lock(&self, guard: &Guard<'_>, hash: u32) -> Chain<'_> {
        let mut place_now = place(self.state.0.load(Ordering::Acquire), hash);
        loop {
            let first = self.bucket(place_now);
            let chain = Chain::lock(first, &self.shared.overflow, guard.number());
            // A split takes the bucket's lock, so the place is stable from here on.
            let place_then = place_now;
            place_now = place(self.state.0.load(Ordering::Acquire), hash);
            if place_now == place_then {
                return chain;
            }
        }
    }

    #[inline]
    fn bucket(&self, number: u32) -> &Bucket {
        // 0 for numbers below FIRST, 1 for those below twice that, 2 below four times, ...
        let segment = 32 - FIRST_BITS - (number | (FIRST - 1)).leading_zeros();
        match self.segments[segment as usize].get() {
            // A segment begins at a multiple of its size, a power of two.
            Some(buckets) => &buckets[number as usize & (buckets.len() - 1)],
            // A segment is allocated before the number of buckets includes it.
            None => unreachable!("bucket {number} was never made"),
        }
    }
}

/// The bucket of a hash in a given state.
#[inline]
fn place(state: u64, hash: u32) -> u32 {
    Places::of(state).place(hash)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::epochs::Epochs;
    use crate::zones::Zones;

    /// While another thread inserts what a third takes out, their counts may add up to nothing for
    /// a thread that looks just then.
    #[test]
    fn a_zone_that_seems_empty_is_flushed_all_the_same() {
        let epochs = Epochs::new();
        let zones = Zones::new(Arc::clone(&epochs));
        let mut reader = epochs.reader().unwrap();
        let guard = reader.enter();
        let index = zones.get_or_make(&guard, 3).unwrap();
        assert!(!index.is_detached());
        assert_eq!(index.insert(&guard, 9, 5, |_| false), Insert::Done);
        index.count(&guard, What::Entries, u64::MAX);
        assert!(index.is_empty() && index.find(9, |_| true).is_some());
        zones.detach(3);
        assert!(index.is_detached() && zones.number(3) == 0);
    }

    #[test]
    fn notes_last_until_the_index_is_another_zones() {
        let epochs = Epochs::new();
        let zones = Zones::new(Arc::clone(&epochs));
        let mut reader = epochs.reader().unwrap();
        let number = {
            let guard = reader.enter();
            let index = zones.get_or_make(&guard, 3).unwrap();
            index.note(1, 0b101);
            index.note(1, 0b110);
            index.note(7, 1 << 63);
            assert_eq!([0, 1, 7].map(|word| index.noted(word)), [0, 0b111, 1 << 63]);
            zones.detach(3);
            index.number()
        };
        // Twice: it is emptied, then rests until no guard can hold it.
        for _ in 0..2 {
            while zones.drain(&reader.enter(), 100, |_, _| ()) {}
        }
        let guard = reader.enter();
        let index = zones.get_or_make(&guard, 4).unwrap();
        assert_eq!(index.number(), number, "the same memory");
        assert!((0..Index::NOTES).all(|word| index.noted(word) == 0));
    }
}
