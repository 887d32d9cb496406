//! The one place that reads a clock.
#![forbid(unsafe_code)]

use base::Instant;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

static EPOCH: OnceLock<Duration> = OnceLock::new();
static START: OnceLock<std::time::Instant> = OnceLock::new();

/// Now, in nanoseconds since the process first asked, and one: zero never comes back, so that
/// `Instant::ZERO` can mean "before everything".
pub fn now() -> Instant {
    let start = START.get_or_init(std::time::Instant::now);
    Instant::from_nanos(start.elapsed().as_nanos() as u64 + 1)
}

/// The time since the Unix epoch: the system's when it was first asked for, and after that as
/// steady as [`now`], so that nothing jumps when somebody sets the clock.
pub fn since_epoch() -> Duration {
    let steady = now() - Instant::ZERO;
    let system = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    *EPOCH.get_or_init(|| system().saturating_sub(steady)) + steady
}

/// How long the calling thread has had a processor.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
