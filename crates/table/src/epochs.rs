//! Epochs: memory may be reused when no reader can see it any more.
//!
//! A thread reads shared structures between [`Reader::enter`] and the end of the [`Guard`]. Until
//! then it may still read what another thread removes meanwhile. So the removing thread takes a
//! *stamp*, and reuses the memory once that stamp has *passed*: when every guard taken before the
//! stamp is dropped.
//!
//! Why this holds. A stamp is the epoch that it ends. A reader stores the epoch that it found, and
//! a [light fence](Barrier::light) precedes its first load. A thread that checks a stamp has a
//! [heavy fence](Barrier::heavy) between the removal and its load of the readers' epochs. One of
//! the two fences comes first. If it is the reader's, the check sees its epoch: either not later
//! than the stamp, and the stamp has not passed; or later, and then the reader loaded it from the
//! counter after the stamp was taken, and with it every removal before. If it is the other fence,
//! the reader's loads come after the removal, and cannot find what was removed.
//!
//! One heavy fence serves all earlier stamps, also those of other threads: the epoch read before
//! the fence makes their removals known, and the number written after it passes on what the fence
//! made visible.

use crate::atomic::{AtomicU64, AtomicUsize, Line, Ordering};
use crate::barrier::Barrier;
use std::marker::PhantomData;
use std::sync::Arc;

/// The number of threads that can read at the same time.
#[cfg(not(loom))]
pub const MAX_READERS: usize = 128;
/// The number of threads that can read at the same time.
#[cfg(loom)]
pub const MAX_READERS: usize = 3;

/// A slot without a reader.
const FREE: u64 = 0;
/// A slot whose reader holds no guard.
const AWAY: u64 = 1;
const FIRST_EPOCH: u64 = 2;

/// The epoch counter and the slots of all readers.
pub struct Epochs {
    epoch: Line<AtomicU64>,
    /// Each reader's state: [`FREE`], [`AWAY`], or the epoch in which it took its guard.
    readers: Box<[Slot]>,
    /// Slots from this number on were never used.
    used: AtomicUsize,
    barrier: Barrier,
    /// Stamps below this one precede a heavy fence.
    fenced: AtomicU64,
    /// The number of refused fences, which orders nothing.
    refused: std::sync::atomic::AtomicU64,
}

/// A reader's word. Each call for packets writes it twice, so no two words share a cache line, nor
/// a pair of lines that a processor fetches together: otherwise two threads would take the line
/// from each other again and again.
/// other would lose its, and so on in turns.
#[repr(align(128))]
struct Slot(AtomicU64);

/// A point in time that has passed once every guard taken before it is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp(u64);

impl Epochs {
    /// Epochs without readers.
    #[must_use]
    pub fn new() -> Arc<Epochs> {
        Epochs::with(Barrier::new())
    }

    /// Epochs with a full fence on both sides, whatever the system supports.
    #[cfg(all(test, not(loom)))]
    fn symmetric() -> Arc<Epochs> {
        Epochs::with(Barrier::symmetric())
    }

    /// Epochs on a system that registers the fence and then refuses it.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn refused() -> Arc<Epochs> {
        Epochs::with(Barrier::refused())
    }

    /// Epochs with membarrier(2), as the model checker provides it.
    #[cfg(loom)]
    #[must_use]
    pub fn asymmetric() -> Arc<Epochs> {
        Epochs::with(Barrier::asymmetric(MAX_READERS))
    }

    fn with(barrier: Barrier) -> Arc<Epochs> {
        Arc::new(Epochs {
            barrier,
            fenced: AtomicU64::new(0),
            refused: std::sync::atomic::AtomicU64::new(0),
            epoch: Line(AtomicU64::new(FIRST_EPOCH)),
            readers: (0..MAX_READERS).map(|_| Slot(AtomicU64::new(FREE))).collect(),
            used: AtomicUsize::new(0),
        })
    }

    /// Registers a reader; `None` if [`MAX_READERS`] are registered.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Option<Reader> {
        let number = self.readers.iter().position(|slot| {
            slot.0.compare_exchange(FREE, AWAY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        self.used.fetch_max(number + 1, Ordering::AcqRel);
        Some(Reader { epochs: Arc::clone(self), number })
    }

    /// A bound above the numbers of all readers so far.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// The number of times that the system refused to fence the threads of this process; memory
    /// removed since then cannot be reused.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Takes a stamp. Call it after the removal.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.epoch.0.fetch_add(1, Ordering::AcqRel))
    }

    /// Whether every guard from before `stamp` is dropped. May interrupt all other threads to find
    /// out.
    pub(crate) fn passed(&self, stamp: Stamp) -> bool {
        if !self.is_fenced(stamp) {
            let epoch = self.epoch.0.load(Ordering::Acquire);
            if !self.barrier.heavy() {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            self.fenced.fetch_max(epoch, Ordering::AcqRel);
        }
        self.is_behind_all(stamp)
    }

    /// [`Self::passed`] without interrupting other threads: returns false if that would be
    /// necessary.
    pub(crate) fn has_surely_passed(&self, stamp: Stamp) -> bool {
        self.is_fenced(stamp) && self.is_behind_all(stamp)
    }

    fn is_fenced(&self, stamp: Stamp) -> bool {
        self.fenced.load(Ordering::Acquire) > stamp.0
    }

    fn is_behind_all(&self, stamp: Stamp) -> bool {
        self.readers[..self.used()].iter().all(|reader| {
            // Acquire: the reader's last loads precede the reuse.
            let began = reader.0.load(Ordering::Acquire);
            began < FIRST_EPOCH || began > stamp.0
        })
    }
}

/// A thread's registration as a reader.
pub struct Reader {
    epochs: Arc<Epochs>,
    number: usize,
}

impl Reader {
    /// Takes a guard: records found from now on stay the same until it is dropped.
    #[inline]
    pub fn enter(&mut self) -> Guard<'_> {
        let slot = &self.epochs.readers[self.number].0;
        // Release: a thread that sees this epoch must see that the previous guard is dropped.
        slot.store(self.epochs.epoch.0.load(Ordering::Acquire), Ordering::Release);
        self.epochs.barrier.light(self.number);
        Guard { slot, number: self.number, stays_on_its_thread: PhantomData }
    }

    /// A small number that no other present reader has.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.epochs.readers[self.number].0.store(FREE, Ordering::Release);
    }
}

/// A period in which no record that the thread finds is reused.
pub struct Guard<'a> {
    slot: &'a AtomicU64,
    number: usize,
    stays_on_its_thread: PhantomData<*mut ()>,
}

impl Guard<'_> {
    /// The number of the reader.
    #[inline]
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.store(AWAY, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_passes_when_the_guards_before_it_are_dropped() {
        [Epochs::new(), Epochs::symmetric()].into_iter().for_each(check_stamps);
    }

    fn check_stamps(epochs: Arc<Epochs>) {
        let [mut first, mut second] = [(); 2].map(|()| epochs.reader().unwrap());
        let guard = first.enter();
        let stamp = epochs.stamp();
        assert!(!epochs.passed(stamp));
        let later = second.enter();
        drop(guard);
        assert!(epochs.passed(stamp), "a guard after the stamp does not hold it up");
        let stamp = epochs.stamp();
        assert!(!epochs.has_surely_passed(stamp), "no thread asked since");
        assert!(!epochs.passed(stamp));
        drop(later);
        assert!(epochs.has_surely_passed(stamp), "one fence serves for good");
        assert!(epochs.passed(stamp));
    }

    #[test]
    fn without_a_fence_nothing_passes_and_that_is_counted() {
        let epochs = Epochs::refused();
        let stamp = epochs.stamp();
        assert_eq!((epochs.passed(stamp), epochs.refusals()), (false, 1));
        assert_eq!((epochs.passed(stamp), epochs.refusals()), (false, 2));
        assert!(!epochs.has_surely_passed(stamp));
    }

    #[test]
    fn readers_have_numbers_of_their_own_and_leave_them_behind() {
        let epochs = Epochs::new();
        let mut readers: Vec<Reader> = std::iter::from_fn(|| epochs.reader()).collect();
        assert_eq!(readers.len(), MAX_READERS);
        let third = readers.remove(2);
        assert_eq!(third.number(), 2);
        drop(third);
        assert_eq!(epochs.reader().map(|reader| reader.number()), Some(2));
    }
}
