//! One zone's index: from the hash of a packet's addresses to the id of its connection.
//!
//! Linear hashing: the number of buckets grows one by one, each new bucket taking its share from
//! exactly one old one, so that no insert ever waits for a whole table to be moved. Buckets lie in
//! segments of doubling size that never move.
//!
//! Finds take no lock. Inserts and removals lock one bucket. Some inserts, chosen by their hashes, look
//! after the growth; a thread that finds another one at that leaves it alone.

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

/// Buckets in the first segment; a power of two.
#[cfg(not(loom))]
const FIRST: u32 = 8;
#[cfg(loom)]
const FIRST: u32 = 2;
const FIRST_BITS: u32 = FIRST.ilog2();
/// The first segment, and one for each doubling up to 2^31 buckets.
const SEGMENTS: usize = (32 - FIRST_BITS) as usize;

/// The part of the state that is the number of buckets.
const BUCKETS: u64 = 0xffff_ffff;
/// No zone has this index any more.
const DETACHED: u64 = 1 << 32;

/// The connections of one zone.
pub struct Index {
    /// How many buckets there are, and [`DETACHED`]. Every thread reads it several times for each packet,
    /// so it is written as seldom as can be.
    state: Line<AtomicU64>,
    /// 1 while some thread is at splitting buckets.
    splitting: AtomicU32,
    segments: [OnceLock<Pages<WORDS>>; SEGMENTS],
    number: u32,
    zone: AtomicU32,
    /// What the counts were when this index was last empty: late comers may have counted since
    /// it was given to a zone before.
    bases: [AtomicU64; 2],
    notes: Notes,
    shared: Arc<Shared>,
}

/// What all indexes have in common.
pub(crate) struct Shared {
    pub overflow: Overflow,
    pub counts: Counts,
}

/// What became of an insert.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// It is in.
    Done,
    /// This one is there already; nothing was done.
    Rival(Id),
    /// The zone was flushed: it has, or will get, another index. Nothing was done.
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

    /// The zone that it was made for.
    #[must_use]
    pub fn zone(&self) -> u16 {
        self.zone.load(Ordering::Relaxed) as u16
    }

    /// Whether the zone was flushed: then nothing in here is alive.
    #[inline]
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.state.0.load(Ordering::Acquire) & DETACHED != 0
    }

    /// Begins to fetch the bucket of this hash.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        let state = self.state.0.load(Ordering::Acquire);
        prefetch(&self.bucket(place(state, hash))[0]);
    }

    /// The id under this hash that `is_it`.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(Id) -> bool) -> Option<Id> {
        let mut place_now = place(self.state.0.load(Ordering::Acquire), hash);
        let mut turn = 0;
        loop {
            let bucket = self.bucket(place_now);
            match bucket::find(bucket, &self.shared.overflow, hash, &mut is_it) {
                Look::Found(id) => return Some(id),
                look => {
                    // A split may have moved it to a bucket that was not there before.
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

    /// Puts `id` under `hash`, unless an id is there that `is_rival`. That is asked under the
    /// bucket's lock and must not do more than compare.
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
        // The low bits say which bucket; the high ones are as good as a die.
        if hash >> split::OFTEN == 0 || cfg!(loom) {
            self.grow(guard, hash);
        }
        Insert::Done
    }

    /// Takes `id` out from under `hash`; whether it was there.
    #[inline]
    pub fn remove(&self, guard: &Guard<'_>, hash: u32, id: Id) -> bool {
        let entry = Entry::new(hash, id);
        let taken = self.lock(guard, hash).take_out(|one| one == entry);
        if taken > 0 {
            self.count(guard, What::Entries, (taken as u64).wrapping_neg());
        }
        taken > 0
    }

    /// Entries in it. While other threads insert and remove, what it was at about this time.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.counted(What::Entries)
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts one more connection.
    #[inline]
    pub fn joined(&self, guard: &Guard<'_>) {
        self.count(guard, What::Connections, 1);
    }

    /// Counts one connection less.
    #[inline]
    pub fn left(&self, guard: &Guard<'_>) {
        self.count(guard, What::Connections, u64::MAX);
    }

    /// Connections that [joined](Self::joined) less those that [left](Self::left).
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.counted(What::Connections)
    }

    /// Bytes of memory that it uses, chained buckets not included.
    ///
    /// Up to twice that may be mapped, since the last segment is as large as all before it; but
    /// what no bucket has reached is not backed by memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let buckets = self.state.0.load(Ordering::Relaxed) & BUCKETS;
        size_of::<Self>() + buckets as usize * size_of::<Bucket>()
    }

    /// Gives the empty index to a zone. No other thread may know it.
    pub(crate) fn attach(&self, zone: u16) {
        self.zone.store(u32::from(zone), Ordering::Relaxed);
        self.forget_notes();
        for what in [What::Entries, What::Connections] {
            let base = self.shared.counts.sum(self.number, what);
            self.bases[what as usize].store(base, Ordering::Relaxed);
        }
        self.state.0.store(u64::from(FIRST), Ordering::Release);
    }

    /// Marks that no zone has it any more.
    pub(crate) fn detach(&self) {
        self.state.0.fetch_or(DETACHED, Ordering::AcqRel);
    }

    fn count(&self, guard: &Guard<'_>, what: What, number: u64) {
        self.shared.counts.add(guard, self.number, what, number);
    }

    fn counted(&self, what: What) -> u32 {
        let base = self.bases[what as usize].load(Ordering::Relaxed);
        let sum = self.shared.counts.sum(self.number, what).wrapping_sub(base);
        // Threads go on while we add: a removal seen without its insert is nothing there.
        u32::try_from(sum).unwrap_or(0)
    }

    /// The chain that `hash` belongs to, locked; `None` if no zone has the index any more.
    ///
    /// A thread that drains a detached index locks every bucket too. So either the drain finds what is
    /// put in here, or the lock shows the mark that was set before the drain.
    #[inline]
    fn lock_attached(&self, guard: &Guard<'_>, hash: u32) -> Option<Chain<'_>> {
        let chain = self.lock(guard, hash);
        (self.state.0.load(Ordering::Acquire) & DETACHED == 0).then_some(chain)
    }

    /// The chain that `hash` belongs to, locked.
    #[inline]
    fn lock(&self, guard: &Guard<'_>, hash: u32) -> Chain<'_> {
        let mut place_now = place(self.state.0.load(Ordering::Acquire), hash);
        loop {
            let first = self.bucket(place_now);
            let chain = Chain::lock(first, &self.shared.overflow, guard.number());
            // Splitting a bucket takes its lock, so from here on it stays as it is.
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
            // A segment begins with a multiple of its size, a power of two.
            Some(buckets) => &buckets[number as usize & (buckets.len() - 1)],
            // A segment is made before the count of buckets says that it is there.
            None => unreachable!("bucket {number} was never made"),
        }
    }
}

/// The bucket that a hash belongs to, in a given state.
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
