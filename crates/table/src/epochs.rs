//! When memory may be used again: after every reader that could still see it has gone.
//!
//! A thread reads shared structures between [`Reader::enter`] and the end of the [`Visit`]. What
//! somebody takes out of a structure meanwhile may still be looked at until then. So whoever takes
//! something out asks for a *stamp*, and uses the memory again once that stamp has *passed*: when
//! every visit that began before the stamp is over.
//!
//! Why this holds. A stamp is the epoch that it ends. A visitor writes down the epoch it found,
//! then a sequentially consistent fence stands before its first look. Who asks whether a stamp
//! has passed has such a fence between the taking out and its look at what visitors wrote. Of
//! the two fences one comes first. If the visitor's does, its epoch is seen: not later than the
//! stamp, and the stamp has not passed; later, and it was read from the counter after the stamp
//! was, and with it everything that had been taken out. If the other fence comes first, the
//! visitor's looks come after the taking out, and cannot find what is gone.

use crate::atomic::{AtomicU64, AtomicUsize, Line, Ordering, fence};
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
/// Its reader is not visiting.
const AWAY: u64 = 1;
const FIRST_EPOCH: u64 = 2;

/// The clock of all readers.
pub struct Epochs {
    epoch: Line<AtomicU64>,
    /// What each reader is doing: [`FREE`], [`AWAY`], or the epoch in which its visit began.
    readers: Box<[Line<AtomicU64>]>,
    /// Slots from here on were never used.
    used: AtomicUsize,
}

/// A moment that has passed once every visit that began before it is over.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Stamp(u64);

impl Epochs {
    /// A clock without readers.
    #[must_use]
    pub fn new() -> Arc<Epochs> {
        Arc::new(Epochs {
            epoch: Line(AtomicU64::new(FIRST_EPOCH)),
            readers: (0..MAX_READERS).map(|_| Line(AtomicU64::new(FREE))).collect(),
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

    /// Readers have numbers below this.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// Marks the end of what was visible up to now: call it after taking out.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp(self.epoch.0.fetch_add(1, Ordering::AcqRel))
    }

    /// Whether nobody can see any more what was taken out before `stamp`.
    pub(crate) fn passed(&self, stamp: Stamp) -> bool {
        fence(Ordering::SeqCst);
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
    /// Begins a visit: what is found from now on stays what it is until the visit ends.
    #[inline]
    pub fn enter(&mut self) -> Visit<'_> {
        let slot = &self.epochs.readers[self.number].0;
        // Release: whoever sees that this visit is too late to matter, must see that the one
        // before it is over.
        slot.store(self.epochs.epoch.0.load(Ordering::Acquire), Ordering::Release);
        fence(Ordering::SeqCst);
        Visit { slot, number: self.number, stays_on_its_thread: PhantomData }
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
pub struct Visit<'a> {
    slot: &'a AtomicU64,
    number: usize,
    stays_on_its_thread: PhantomData<*mut ()>,
}

impl Visit<'_> {
    /// The number of the reader.
    #[inline]
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }
}

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.store(AWAY, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_passes_when_the_visits_before_it_are_over() {
        let epochs = Epochs::new();
        let [mut first, mut second] = [(); 2].map(|()| epochs.reader().unwrap());
        let visit = first.enter();
        let stamp = epochs.stamp();
        assert!(!epochs.passed(stamp));
        let later = second.enter();
        drop(visit);
        assert!(epochs.passed(stamp), "a visit after the stamp does not hold it up");
        let stamp = epochs.stamp();
        assert!(!epochs.passed(stamp));
        drop(later);
        assert!(epochs.passed(stamp));
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
