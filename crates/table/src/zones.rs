//! Which zone has which index.
//!
//! Flushing a zone takes its index away from it: whatever it held, that costs the same, and all
//! its connections are gone at once. The zone gets another index when something is inserted next.
//! What was taken away is emptied behind, a slice at a time, and serves another zone later: after
//! every guard is dropped under which a thread could still hold it.

use crate::Id;
use crate::atomic::{AtomicU32, AtomicU64, Mutex, OnceLock, Ordering, lock};
use crate::bucket::Overflow;
use crate::counts::Counts;
use crate::epochs::{Epochs, Guard, Stamp};
use crate::index::{Index, Shared};
use std::collections::VecDeque;
use std::sync::Arc;

/// Zones that there are. Miri's time goes by what there is, not by what is touched.
#[cfg(not(any(loom, miri)))]
const ZONES: usize = 1 << 16;
#[cfg(miri)]
const ZONES: usize = 1 << 4;
#[cfg(loom)]
const ZONES: usize = 1 << 1;
/// Indexes that there can be, of zones and waiting to be emptied.
#[cfg(not(any(loom, miri)))]
const INDEXES: usize = 1 << 18;
#[cfg(miri)]
const INDEXES: usize = 1 << 8;
#[cfg(loom)]
const INDEXES: usize = 1 << 3;
/// Indexes whose places are made together.
const PIECE: usize = 256;
/// Chained buckets that there can be: five times as many as 2^31 connections need on the average.
#[cfg(not(any(loom, miri)))]
const OVERFLOW: u32 = 1 << 28;
#[cfg(miri)]
const OVERFLOW: u32 = 1 << 9;
#[cfg(loom)]
const OVERFLOW: u32 = 1 << 4;

type Piece = Box<[OnceLock<Box<Index>>]>;

/// All zones, and their indexes.
pub struct Zones {
    /// The number of each zone's index; zero where it has none.
    numbers: Box<[AtomicU32]>,
    /// One bit for each block of zones of which one ever had an index. It stands beside what every
    /// packet reads, so that to ask about a zone that was never used waits for no memory.
    used_blocks: AtomicU64,
    /// All indexes that were ever made.
    indexes: Box<[OnceLock<Piece>]>,
    stores: Mutex<Stores>,
    shared: Arc<Shared>,
    epochs: Arc<Epochs>,
}

/// Indexes that no zone has.
struct Stores {
    /// Indexes with numbers from here on were never made.
    fresh: u32,
    /// To be emptied, each as soon as its stamp has passed.
    full: VecDeque<Full>,
    /// Empty, but a guard may hold one until its stamp has passed.
    resting: VecDeque<(Stamp, u32)>,
    /// Ready for any zone.
    ready: Vec<u32>,
}

struct Full {
    stamp: Stamp,
    number: u32,
    /// The first bucket that may have something in it.
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

    /// A zone's index, if anything was ever put into the zone.
    #[inline]
    #[must_use]
    pub fn get<'a>(&'a self, _guard: &'a Guard<'_>, zone: u16) -> Option<&'a Index> {
        self.index(self.number(zone))
    }

    /// A zone's index. `None` if too many of flushed zones wait to be emptied.
    #[inline]
    #[must_use]
    pub fn get_or_make<'a>(&'a self, guard: &'a Guard<'_>, zone: u16) -> Option<&'a Index> {
        match self.get(guard, zone) {
            Some(index) => Some(index),
            None => self.make(zone),
        }
    }

    /// The number of a zone's index; zero if it has none.
    #[inline]
    #[must_use]
    pub fn number(&self, zone: u16) -> u32 {
        self.numbers[usize::from(zone)].load(Ordering::Acquire)
    }

    /// Whether nothing was inserted in a zone since it was last flushed.
    #[inline]
    #[must_use]
    pub fn is_unused(&self, zone: u16) -> bool {
        self.used_blocks.load(Ordering::Acquire) & block(zone) == 0 || self.number(zone) == 0
    }

    /// The index with this number, whether a zone has it or not.
    #[inline]
    #[must_use]
    pub fn index(&self, number: u32) -> Option<&Index> {
        if number == 0 {
            return None;
        }
        let piece = self.indexes.get(number as usize / PIECE)?.get()?;
        piece[number as usize % PIECE].get().map(|index| &**index)
    }

    /// Flushes a zone; `false` if there was nothing in it, as far as that can be told while others
    /// insert and remove.
    ///
    /// It goes by whether the zone has an index, never by the counts: while entries come and go, those
    /// of one thread are added up before an insert and those of another behind its removal, and a zone
    /// seems empty that is not.
    pub fn detach(&self, zone: u16) -> bool {
        // No thread loses its cache line for nothing.
        if self.is_unused(zone) {
            return false;
        }
        let number = self.numbers[usize::from(zone)].swap(0, Ordering::AcqRel);
        let Some(index) = self.index(number) else { return false };
        let was_empty = index.is_empty();
        index.detach();
        // The stamp is after the swap: who enters from now on does not find the index.
        let full = Full { stamp: self.epochs.stamp(), number, bucket: 0 };
        lock(&self.stores).full.push_back(full);
        !was_empty
    }

    /// Flushes all zones; how many were not empty.
    pub fn detach_all(&self) -> u32 {
        self.in_use().map(|zone| u32::from(self.detach(zone))).sum()
    }

    /// Empties indexes of flushed zones. `free` is handed each entry after it was taken out, the
    /// highest ids first, until that and the buckets looked at come to `budget`. `true` if there is
    /// more to do.
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
            // Until then a thread may be about to insert, or to split a bucket.
            let mut is_empty = false;
            if self.epochs.passed(full.stamp) {
                while budget > 0 && !is_empty {
                    let before = ids.len();
                    is_empty = !index.empty_bucket(guard, full.bucket, &mut ids);
                    budget = budget.saturating_sub(1 + ids.len() - before);
                    full.bucket += 1;
                }
            }
            // Buckets hold them in the order of their hashes, which is none. Records that are freed
            // in the order in which they lie are used again in it: who comes to a zone's records one
            // after the other then finds them fetched ahead.
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

    /// Makes empty indexes that no guard holds any more ready for another zone. A zone that had many
    /// connections may never have as many again, and neither may the next one that gets its index:
    /// so the memory of large ones goes back to the system.
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

    /// Bytes of memory of all indexes, of zones or not.
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
        // Before anybody can find the index, and for good.
        self.used_blocks.fetch_or(block(zone), Ordering::Release);
        match slot.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(index),
            Err(faster) => {
                // No other thread has seen ours.
                index.detach();
                lock(&self.stores).ready.push(number);
                self.index(faster)
            }
        }
    }

    /// One index more.
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

/// The bit of the block of 1,024 zones that a zone is in.
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
