//! The rate of errors that a worker sends about packets that are too large.

use base::Instant;
use std::time::Duration;

/// Each worker sends one error per interval on average, in bursts of at most [`ERRORS_AT_ONCE`] (RFC 1812
/// section 4.3.2.8, RFC 4443 section 2.4).
pub(crate) const ERROR_EVERY: Duration = Duration::from_millis(1);
pub(crate) const ERRORS_AT_ONCE: u32 = 50;

/// Bounds the rate of errors.
#[derive(Debug, Default)]
pub(crate) struct ErrorLimit {
    /// The errors sent so far use up the rate until this time.
    paid: Instant,
}

impl ErrorLimit {
    /// Whether another error may be sent; counts it if so.
    pub fn allows(&mut self, now: Instant) -> bool {
        let is_allowed = self.paid < now + ERROR_EVERY * ERRORS_AT_ONCE;
        if is_allowed {
            self.paid = self.paid.max(now) + ERROR_EVERY;
        }
        is_allowed
    }
}
