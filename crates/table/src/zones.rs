//! The index of each zone.
//!
//! A flush takes the index away from a zone: that costs the same whatever it held, and ends all its
//! connections at once. The zone gets another index with its next insert. The old index is emptied
//! later, in slices, and serves another zone once every guard is dropped under which a thread could
//! still use it.

use crate::Id;
use crate::atomic::{AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, lock};
use crate::bucket::Overflow;
use crate::counts::Counts;
use crate::epochs::{Epochs, Guard, Stamp};
use crate::index::{Index, Shared};
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of zones.
#[cfg(not(any(loom, miri)))]
const ZONES: usize = 1 << 16;
#[cfg(miri)]
const ZONES: usize = 1 << 4;
#[cfg(loom)]
const ZONES: usize = 1 << 1;
/// The maximum number of indexes, including those to be emptied.
#[cfg(not(any(loom, miri)))]
const INDEXES: usize = 1 << 18;
#[cfg(miri)]
const INDEXES: usize = 1 << 8;
#[cfg(loom)]
const INDEXES: usize = 1 << 3;
/// The number of indexes that are allocated together.
const PIECE: usize = 256;
/// The maximum number of chained buckets: five times the average need of 2^31 connections.
#[cfg(not(any(loom, miri)))]
const OVERFLOW: u32 = 1 << 28;
#[cfg(miri)]
const OVERFLOW: u32 = 1 << 9;
#[cfg(loom)]
const OVERFLOW: u32 = 1 << 4;

type Piece = Box<[OnceLock<Box<Index>>]>;

/// All zones and their indexes.
pub struct Zones {
    /// The number of each zone's index, or zero.
    numbers: Box<[AtomicU32]>,
    /// One bit for each block of zones in which any zone has had an index. It is beside data that
    /// every packet reads, so that a test for an unused zone misses no cache.
    used_blocks: AtomicU64,
    /// All indexes ever made.
    indexes: Box<[OnceLock<Piece>]>,
    stores: Mutex<Stores>,
    shared: Arc<Shared>,
    epochs: Arc<Epochs>,
}

/// The indexes that belong to no zone.
struct Stores {
    /// Indexes from this number on were never made.
    fresh: u32,
    /// Indexes to empty, each once its stamp has passed.
    full: VecDeque<Full>,
    /// Empty indexes, which a guard may still hold until their stamp has passed.
    resting: VecDeque<(Stamp, u32)>,
    /// Indexes that any zone can take.
    ready: Vec<u32>,
}

struct Full {
    stamp: Stamp,
    number: u32,
    /// The first bucket that may have entries.
    bucket: u32,
}

impl Zones {
    /// All zones, empty.
    #[must_use]
    pub fn new(epochs: Arc<Epochs>) -> Zones {
        let counts = Counts::new(INDEXES, Arc::clone(&epochs));
        let stores =
            Stores { fresh: 1, full: VecDeque::new(), resting: VecDeque::new(), ready: Vec::new() };
        Zones {
            numbers: (0..ZONES).map(|_| AtomicU32::new(0)).collect(),
            used_blocks: AtomicU64::new(0),
            indexes: (0..INDEXES.div_ceil(PIECE)).map(|_| OnceLock::new()).collect(),
            stores: Mutex::new(stores),
            shared: Arc::new(Shared { overflow: Overflow::new(OVERFLOW), counts }),
            epochs,
        }
    }

    /// Returns a zone's index, if it has one.
    #[inline]
    #[must_use]
    pub fn get<'a>(&'a self, _guard: &'a Guard<'_>, zone: u16) -> Option<&'a Index> {
        self.index(self.number(zone))
    }

    /// Returns a zone's index, made if need be. `None` if too many indexes of flushed zones wait to
    /// be emptied.
    #[inline]
    #[must_use]
    pub fn get_or_make<'a>(&'a self, guard: &'a Guard<'_>, zone: u16) -> Option<&'a Index> {
        match self.get(guard, zone) {
            Some(index) => Some(index),
            None => self.make(zone),
        }
    }

    /// The number of a zone's index, or zero.
    #[inline]
    #[must_use]
    pub fn number(&self, zone: u16) -> u32 {
        self.numbers[usize::from(zone)].load(Ordering::Acquire)
    }

    /// Whether no entry was inserted in a zone since its last flush.
    #[inline]
    #[must_use]
    pub fn is_unused(&self, zone: u16) -> bool {
        self.used_blocks.load(Ordering::Acquire) & block(zone) == 0 || self.number(zone) == 0
    }

    /// The index with this number, whether or not it belongs to a zone.
    #[inline]
    #[must_use]
    pub fn index(&self, number: u32) -> Option<&Index> {
        if number == 0 {
            return None;
        }
        let piece = self.indexes.get(number as usize / PIECE)?.get()?;
        piece[number as usize % PIECE].get().map(|index| &**index)
    }

    /// Flushes a zone. Returns false if it had no entries, approximately while other threads insert
    /// and remove.
    ///
    /// The flush depends on whether the zone has an index, never on the counts: they are summed
    /// while other threads insert and remove, so a zone with entries may seem empty.
    pub fn detach(&self, zone: u16) -> bool {
        // An unused zone must not cost other threads a cache line.
        if self.is_unused(zone) {
            return false;
        }
        let number = self.numbers[usize::from(zone)].swap(0, Ordering::AcqRel);
        let Some(index) = self.index(number) else { return false };
        let was_empty = index.is_empty();
        index.detach();
        // The stamp follows the swap: a guard taken from now on does not find the index.
        let full = Full { stamp: self.epochs.stamp(), number, bucket: 0 };
        lock(&self.stores).full.push_back(full);
        !was_empty
    }

    /// Flushes all zones. Returns the number of zones that were not empty.
    pub fn detach_all(&self) -> u32 {
        self.in_use().map(|zone| u32::from(self.detach(zone))).sum()
    }

    /// Empties indexes of flushed zones. Calls `free` with each entry after its removal, the
    /// highest ids first, until entries and buckets read reach `budget`. Returns whether more is
    /// left.
    pub fn drain(
        &self,
        guard: &Guard<'_>,
        mut budget: usize,
        mut free: impl FnMut(&Index, Id),
    ) -> bool {
        let mut ids = Vec::new();
        loop {
            let Some(mut full) = lock(&self.stores).full.pop_front() else {
                self.make_ready();
                return false;
            };
            let Some(index) = self.index(full.number) else { continue };
            // Until then a thread may be inserting or splitting a bucket.
            let mut is_empty = false;
            if self.epochs.passed(full.stamp) {
                while budget > 0 && !is_empty {
                    let before = ids.len();
                    is_empty = !index.empty_bucket(guard, full.bucket, &mut ids);
                    budget = budget.saturating_sub(1 + ids.len() - before);
                    full.bucket += 1;
                }
            }
            // Buckets are in the order of hashes. Records that are freed in the order of memory are
            // reused in it, so that the hardware prefetches them for later visits.
            ids.sort_unstable_by(|one, other| other.cmp(one));
            ids.drain(..).for_each(|id| free(index, id));
            if !is_empty {
                lock(&self.stores).full.push_front(full);
                return true;
            }
            let stamp = self.epochs.stamp();
            lock(&self.stores).resting.push_back((stamp, full.number));
        }
    }

    /// Makes empty indexes that no guard holds ready for other zones. Neither zone may ever need as
    /// much memory again, so that of large indexes is returned to the system.
    fn make_ready(&self) {
        let next = || {
            let passed = |(stamp, _): &mut (Stamp, _)| self.epochs.passed(*stamp);
            lock(&self.stores).resting.pop_front_if(passed)
        };
        while let Some((_, number)) = next() {
            if let Some(index) = self.index(number) {
                index.give_back();
            }
            lock(&self.stores).ready.push(number);
        }
    }

    /// The zones that have an index.
    pub fn in_use(&self) -> impl Iterator<Item = u16> {
        let zones = (0..=u16::MAX).zip(&self.numbers);
        zones.filter(|(_, number)| number.load(Ordering::Acquire) != 0).map(|(zone, _)| zone)
    }

    /// The memory in bytes of all indexes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let made = lock(&self.stores).fresh;
        let indexes = (1..made).filter_map(|number| self.index(number));
        indexes.map(Index::bytes).sum::<usize>() + self.shared.overflow.bytes()
    }

    #[cold]
    fn make(&self, zone: u16) -> Option<&Index> {
        let slot = &self.numbers[usize::from(zone)];
        let number = {
            let mut stores = lock(&self.stores);
            match stores.empty_one(&self.epochs) {
                Some(number) => number,
                None => self.add(&mut stores)?,
            }
        };
        let index = self.index(number)?;
        index.attach(zone);
        // Before any thread can find the index; never cleared.
        self.used_blocks.fetch_or(block(zone), Ordering::Release);
        match slot.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(index),
            Err(faster) => {
                // No other thread has seen this index.
                index.detach();
                lock(&self.stores).ready.push(number);
                self.index(faster)
            }
        }
    }

    /// Makes one more index.
    fn add(&self, stores: &mut Stores) -> Option<u32> {
        let number = stores.fresh;
        let piece = self.indexes.get(number as usize / PIECE)?;
        let piece = piece.get_or_init(|| (0..PIECE).map(|_| OnceLock::new()).collect());
        let index = Index::new(number, Arc::clone(&self.shared));
        let _ = piece[number as usize % PIECE].set(Box::new(index));
        stores.fresh += 1;
        Some(number)
    }
}

/// The bit for the block of 1,024 zones that has this zone.
#[inline]
fn block(zone: u16) -> u64 {
    1 << (zone >> 10)
}

impl Stores {
    fn empty_one(&mut self, epochs: &Epochs) -> Option<u32> {
        if let Some(number) = self.ready.pop() {
            return Some(number);
        }
        let (_, number) = self.resting.pop_front_if(|(stamp, _)| epochs.passed(*stamp))?;
        Some(number)
    }
}
