//! The ALGs, shared by all threads.

use super::Algs;
use crate::alg::expectations::zone_bit;
use base::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The ALGs behind a lock. Only packets of connections with a helper or a parent, and packets that
/// begin a connection in a zone with expected ones, take it.
#[derive(Debug, Default)]
pub(crate) struct SharedAlgs {
    algs: Mutex<Algs>,
    /// The [bits](zone_bit) of the zones with expected connections.
    zones: AtomicU64,
    /// The earliest deadline of an expectation in milliseconds; 0 without one.
    next_deadline_ms: AtomicU64,
}

impl SharedAlgs {
    /// Whether a new connection in this zone may be an expected one.
    #[inline]
    pub fn expect_in(&self, zone: u16) -> bool {
        self.zones.load(Ordering::Acquire) & zone_bit(zone) != 0
    }

    /// Whether any connection is expected.
    pub fn expect_any(&self) -> bool {
        self.zones.load(Ordering::Acquire) != 0
    }

    /// Removes expired expectations. The control connection may live for a day, and until then each
    /// new connection in the zone would take the lock.
    pub fn expire(&self, now: Instant) {
        let next_ms = self.next_deadline_ms.load(Ordering::Acquire);
        if next_ms != 0 && next_ms <= now.as_millis() {
            self.with(|algs| algs.expectations.expire(now));
        }
    }

    /// Locks the ALGs. A poisoned lock is ignored: the data is valid after each step.
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
