//! The one place that reads a clock.

use base::Instant;
use std::sync::OnceLock;

static START: OnceLock<std::time::Instant> = OnceLock::new();

/// Now, in nanoseconds since the process first asked, and one: zero never comes back, so that
/// `Instant::ZERO` can mean "before everything".
pub fn now() -> Instant {
    let start = START.get_or_init(std::time::Instant::now);
    Instant::from_nanos(start.elapsed().as_nanos() as u64 + 1)
}
