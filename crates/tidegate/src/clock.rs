//! The one place that reads a clock.

use base::Instant;
use std::sync::OnceLock;
use std::time::Duration;

static START: OnceLock<std::time::Instant> = OnceLock::new();

/// Now, in nanoseconds since the process first asked, and one: zero never comes back, so that
/// `Instant::ZERO` can mean "before everything".
pub fn now() -> Instant {
    let start = START.get_or_init(std::time::Instant::now);
    Instant::from_nanos(start.elapsed().as_nanos() as u64 + 1)
}

/// How long the calling thread has had a processor.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
