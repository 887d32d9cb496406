//! When memory may be used again: after every reader that could still see it has gone.
//!
//! A thread reads shared structures between [`Reader::enter`] and the end of the [`Guard`]. What
//! is taken out of a structure meanwhile may still be looked at until then. So a thread that takes
//! something out asks for a *stamp*, and uses the memory again once that stamp has *passed*: when
//! every guard taken before the stamp is dropped.
//!
//! Why this holds. A stamp is the epoch that it ends. A reader writes down the epoch it found,
//! then a [light fence](Barrier::light) stands before its first look. Who asks whether a stamp
//! has passed has a [heavy fence](Barrier::heavy) between the taking out and its look at what
//! readers wrote. Of the two fences one comes first. If the reader's does, its epoch is seen: not
//! later than the stamp, and the stamp has not passed; later, and it was read from the counter after
//! the stamp was, and with it everything that had been taken out. If the other fence comes first,
//! the reader's looks come after the taking out, and cannot find what is gone.
//!
//! One heavy fence serves all stamps before it, those of other threads too: what they had taken out
//! is known with the epoch that is read before the fence, and what the fence made visible is passed
//! on with the number that is written behind it.

use crate::atomic::{AtomicU64, AtomicUsize, Line, Ordering};
use crate::barrier::Barrier;
use std::marker::PhantomData;
use std::sync::Arc;

/// Threads that can read at the same time.
#[cfg(not(loom))]
pub const MAX_READERS: usize = 128;
/// Threads that can read at the same time.
#[cfg(loom)]
pub const MAX_READERS: usize = 3;

/// No reader has this slot.
const FREE: u64 = 0;
/// Its reader holds no guard.
const AWAY: u64 = 1;
const FIRST_EPOCH: u64 = 2;

/// The clock of all readers.
pub struct Epochs {
    epoch: Line<AtomicU64>,
    /// What each reader is doing: [`FREE`], [`AWAY`], or the epoch in which it took its guard.
    readers: Box<[Slot]>,
    /// Slots from here on were never used.
    used: AtomicUsize,
    barrier: Barrier,
    /// Stamps below this one have a heavy fence behind them.
    fenced: AtomicU64,
    /// How often the system had none. Only a number: nothing is ordered by it.
    refused: std::sync::atomic::AtomicU64,
}

/// A reader's word. Each call for packets writes it twice, so no two of them share a cache line, nor a
/// pair of lines that a processor fetches together: once one thread had to fetch its own again, the
/// other would lose its, and so on in turns.
#[repr(align(128))]
struct Slot(AtomicU64);

/// A moment that has passed once every guard taken before it is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp(u64);

impl Epochs {
    /// A clock without readers.
    #[must_use]
    pub fn new() -> Arc<Epochs> {
        Epochs::with(Barrier::new())
    }

    /// The same with a full fence on both sides, whatever the system has.
    #[cfg(all(test, not(loom)))]
    fn symmetric() -> Arc<Epochs> {
        Epochs::with(Barrier::symmetric())
    }

    /// The same on a system that promised a fence, and then has none.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn refused() -> Arc<Epochs> {
        Epochs::with(Barrier::refused())
    }

    /// The same with threads that are interrupted for a fence, as the system does it.
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

    /// A place for one more thread; `None` when [`MAX_READERS`] have one.
    #[must_use]
    pub fn reader(self: &Arc<Self>) -> Option<Reader> {
        let number = self.readers.iter().position(|slot| {
            slot.0.compare_exchange(FREE, AWAY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })?;
        self.used.fetch_max(number + 1, Ordering::AcqRel);
        Some(Reader { epochs: Arc::clone(self), number })
    }

    /// Readers that ever were have numbers below this.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// How often the system refused to fence the threads of this process, without which nothing that
    /// was taken out since is used again.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Marks the end of what was visible up to now: call it after taking out.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.epoch.0.fetch_add(1, Ordering::AcqRel))
    }

    /// Whether no guard can see any more what was taken out before `stamp`. May have to interrupt all
    /// other threads to find out.
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

    /// The same without interrupting anybody: `false` also where only that would tell.
    pub(crate) fn has_surely_passed(&self, stamp: Stamp) -> bool {
        self.is_fenced(stamp) && self.is_behind_all(stamp)
    }

    fn is_fenced(&self, stamp: Stamp) -> bool {
        self.fenced.load(Ordering::Acquire) > stamp.0
    }

    fn is_behind_all(&self, stamp: Stamp) -> bool {
        self.readers[..self.used()].iter().all(|reader| {
            // Acquire: what the reader last looked at, it looked at before we go on.
            let began = reader.0.load(Ordering::Acquire);
            began < FIRST_EPOCH || began > stamp.0
        })
    }
}

/// A thread's permission to read.
pub struct Reader {
    epochs: Arc<Epochs>,
    number: usize,
}

impl Reader {
    /// Takes a guard: what is found from now on stays what it is until the guard is dropped.
    #[inline]
    pub fn enter(&mut self) -> Guard<'_> {
        let slot = &self.epochs.readers[self.number].0;
        // Release: a thread that sees that this guard is too late to matter, must see that the one
        // before it is over.
        slot.store(self.epochs.epoch.0.load(Ordering::Acquire), Ordering::Release);
        self.epochs.barrier.light(self.number);
        Guard { slot, number: self.number, stays_on_its_thread: PhantomData }
    }

    /// A small number that no other reader has now.
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

/// A stretch of time in which nothing that is found can become something else.
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
