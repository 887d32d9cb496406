//! Algs as threads share them.

use super::Algs;
use crate::expectations::zone_bit;
use base::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Algs that all threads share. Only who has to do with a connection that they know of, or begins
/// one in a zone where some are expected, takes the lock.
#[derive(Debug, Default)]
pub(crate) struct SharedAlgs {
    algs: Mutex<Algs>,
    /// The [bits](zone_bit) of the zones in which connections are expected.
    zones: AtomicU64,
    /// When the next one is expected no more, in milliseconds; 0 where none is.
    next_deadline_ms: AtomicU64,
}

impl SharedAlgs {
    /// Whether a connection that begins in this zone may be expected.
    #[inline]
    pub fn expect_in(&self, zone: u16) -> bool {
        self.zones.load(Ordering::Acquire) & zone_bit(zone) != 0
    }

    /// Whether any connection is expected.
    pub fn expect_any(&self) -> bool {
        self.zones.load(Ordering::Acquire) != 0
    }

    /// Forgets connections that are expected no more. The control connection that announced one may live
    /// for a day, and until then all that begin in the zone would take the lock.
    pub fn expire(&self, now: Instant) {
        let next_ms = self.next_deadline_ms.load(Ordering::Acquire);
        if next_ms != 0 && next_ms <= now.as_millis() {
            self.with(|algs| algs.expectations.expire(now));
        }
    }

    /// Works with the ALGs. A panic of another thread under the lock left plain data behind,
    /// which is still good.
    pub fn with<T>(&self, work: impl FnOnce(&mut Algs) -> T) -> T {
        let mut algs = self.algs.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = work(&mut algs);
        let next = algs.expectations.next_deadline();
        let next_ms = next.map_or(0, |it| it.as_nanos().div_ceil(1_000_000).max(1));
        self.next_deadline_ms.store(next_ms, Ordering::Release);
        self.zones.store(algs.expectations.zone_bits(), Ordering::Release);
        answer
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
