//! Gateways as threads share them.

use super::Gateways;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Gateways that all threads share. Only who has to do with a connection that they know of, or begins
/// one while some are expected, takes the lock.
#[derive(Debug, Default)]
pub(crate) struct SharedGateways {
    gateways: Mutex<Gateways>,
    /// How many connections are expected.
    expected: AtomicUsize,
}

impl SharedGateways {
    /// Whether a connection that begins may be expected.
    #[inline]
    pub fn expect_any(&self) -> bool {
        self.expected.load(Ordering::Acquire) != 0
    }

    /// Works with the gateways. A panic of another thread under the lock left plain data behind,
    /// which is still good.
    pub fn with<T>(&self, work: impl FnOnce(&mut Gateways) -> T) -> T {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = work(&mut gateways);
        self.expected.store(gateways.expectations.len(), Ordering::Release);
        answer
    }
}

#[cfg(test)]
mod tests;
