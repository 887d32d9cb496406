//! The number of connections and its maximum, without a counter that all threads write.
//!
//! Each thread has a [`Share`]: places that it may fill without asking, and its own sum of places
//! filled and left. With a small maximum, threads ask for each place, so that it is exact.

use crate::atomic::{AtomicU32, Line, Mutex, Ordering, lock};
use std::sync::Arc;

/// The divisor of the maximum for places that a thread takes at once: small enough that 128 threads
/// leave little of it unfilled.
const PART: u32 = 1 << 14;
const FEWEST: u32 = 64;
const MOST: u32 = 1024;
/// Below this maximum, threads ask for each place.
const EXACT_BELOW: u32 = 8192;

/// A number of places, divided among threads.
pub struct Quota {
    /// Places in threads' shares, filled or not.
    granted: Line<AtomicU32>,
    max: Line<AtomicU32>,
    /// The places that each thread filled, less those that it left (modulo 2^32, since a thread may
    /// leave a place that another filled).
    filled: Mutex<Vec<Arc<Line<AtomicU32>>>>,
}

/// One thread's places.
pub struct Share {
    unfilled: u32,
    /// The maximum when the unfilled places were granted.
    max: u32,
    filled: Arc<Line<AtomicU32>>,
    quota: Arc<Quota>,
}

impl Quota {
    /// `max` places.
    #[must_use]
    pub fn new(max: u32) -> Arc<Quota> {
        Arc::new(Quota {
            granted: Line(AtomicU32::new(0)),
            max: Line(AtomicU32::new(max)),
            filled: Mutex::new(Vec::new()),
        })
    }

    /// A new thread's share, without places.
    #[must_use]
    pub fn share(self: &Arc<Self>) -> Share {
        let filled = Arc::new(Line(AtomicU32::new(0)));
        lock(&self.filled).push(Arc::clone(&filled));
        Share { unfilled: 0, max: self.max(), filled, quota: Arc::clone(self) }
    }

    /// The number of filled places.
    #[must_use]
    pub fn used(&self) -> u32 {
        let filled = lock(&self.filled);
        let sum =
            filled.iter().fold(0u32, |sum, one| sum.wrapping_add(one.0.load(Ordering::Acquire)));
        // Other threads count meanwhile: a place may be seen left but not filled.
        if sum > u32::MAX / 2 { 0 } else { sum }
    }

    /// The maximum number of places.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.max.0.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of places. Filled places beyond it stay until they are left.
    pub fn set_max(&self, max: u32) {
        self.max.0.store(max, Ordering::Relaxed);
    }

    /// Takes up to `want` places of `max`.
    fn grant(&self, want: u32, max: u32) -> u32 {
        let mut granted = self.granted.0.load(Ordering::Relaxed);
        loop {
            let grant = want.min(max.saturating_sub(granted));
            if grant == 0 {
                return 0;
            }
            let new = granted + grant;
            match self.granted.0.compare_exchange_weak(
                granted,
                new,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return grant,
                Err(now) => granted = now,
            }
        }
    }

    fn give_back(&self, places: u32) {
        self.granted.0.fetch_sub(places, Ordering::Relaxed);
    }
}

impl Share {
    /// Fills a place. Returns false if there is none.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> bool {
        let max = self.quota.max();
        if (self.unfilled == 0 || self.max != max) && !self.ask(max) {
            return false;
        }
        self.unfilled -= 1;
        self.add(1);
        true
    }

    /// Leaves a place that this or another thread filled.
    #[inline]
    pub fn give(&mut self) {
        self.add(u32::MAX);
        self.unfilled += 1;
        let keep = if self.max < EXACT_BELOW { 0 } else { 2 * batch(self.max) };
        if self.unfilled > keep {
            let places = self.unfilled - keep / 2;
            self.quota.give_back(places);
            self.unfilled -= places;
        }
    }

    /// Returns all unfilled places, for a thread that will not fill any soon.
    pub fn settle(&mut self) {
        if self.unfilled > 0 {
            self.quota.give_back(std::mem::take(&mut self.unfilled));
        }
    }

    #[cold]
    fn ask(&mut self, max: u32) -> bool {
        self.settle();
        self.max = max;
        self.unfilled = self.quota.grant(batch(max), max);
        self.unfilled > 0
    }

    /// Only this thread writes its sum.
    #[inline]
    fn add(&self, places: u32) {
        let sum = self.filled.0.load(Ordering::Relaxed).wrapping_add(places);
        self.filled.0.store(sum, Ordering::Release);
    }
}

/// The number of places that a thread takes at once.
fn batch(max: u32) -> u32 {
    if max < EXACT_BELOW { 1 } else { (max / PART).clamp(FEWEST, MOST) }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.quota.give_back(self.unfilled);
        let mut filled = lock(&self.quota.filled);
        let sum = self.filled.0.load(Ordering::Relaxed);
        filled.retain(|one| !Arc::ptr_eq(one, &self.filled));
        if sum != 0 {
            // Its places stay filled, so the next thread continues its sum.
            match filled.iter().find(|one| Arc::strong_count(one) == 1) {
                Some(of_the_gone) => {
                    of_the_gone.0.fetch_add(sum, Ordering::Release);
                }
                None => filled.push(Arc::new(Line(AtomicU32::new(sum)))),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "many thousand steps")]
    fn one_thread_gets_exactly_the_maximum() {
        for max in [0, 1, 10, 8191, 8192, 10_000] {
            let quota = Quota::new(max);
            let mut share = quota.share();
            assert_eq!((0..).take_while(|_| share.take()).count() as u32, max);
            assert_eq!(quota.used(), max);
        }
    }

    #[test]
    fn a_small_maximum_is_exact_for_many_shares() {
        let quota = Quota::new(10);
        let [mut one, mut other] = [(); 2].map(|()| quota.share());
        for _ in 0..5 {
            assert!(one.take() && other.take());
        }
        assert!(!one.take() && !other.take());
        // A place that one thread filled may be left by another and filled by any.
        other.give();
        assert_eq!(quota.used(), 9);
        assert!(one.take() && !one.take() && !other.take());
        drop(one);
        assert_eq!(quota.used(), 10);
        assert!(!other.take());
    }

    #[test]
    fn a_lower_maximum_holds_at_once() {
        let quota = Quota::new(100_000);
        let mut share = quota.share();
        for _ in 0..20 {
            assert!(share.take());
        }
        quota.set_max(21);
        assert!(share.take() && !share.take());
        for _ in 0..5 {
            share.give();
        }
        assert_eq!(quota.used(), 16);
        assert_eq!((0..).take_while(|_| share.take()).count(), 5);
    }

    #[test]
    fn who_takes_out_alone_keeps_nothing() {
        let quota = Quota::new(100_000);
        let (mut share, mut other) = (quota.share(), quota.share());
        (0..20).for_each(|_| assert!(share.take()));
        (0..3).for_each(|_| other.give());
        other.settle();
        quota.set_max(21);
        assert_eq!((0..).take_while(|_| share.take()).count(), 4);
    }

    #[test]
    #[cfg_attr(miri, ignore = "a million steps")]
    fn shares_of_a_large_maximum_keep_little_to_themselves() {
        let quota = Quota::new(1_000_000);
        let mut shares: Vec<Share> = (0..4).map(|_| quota.share()).collect();
        let mut turn = 0;
        let taken = (0..)
            .take_while(|_| {
                turn = (turn + 1) % 4;
                shares[turn].take()
            })
            .count() as u32;
        assert!(taken > 1_000_000 - 4 * batch(1_000_000), "{taken}");
        for _ in 0..taken {
            shares[0].give();
        }
        assert_eq!(quota.used(), 0);
        assert!(shares[3].take());
    }
}
