//! The one place that reads a clock.
#![forbid(unsafe_code)]

use base::Instant;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

static EPOCH: OnceLock<Duration> = OnceLock::new();
/// Where the clock stands since it was stopped, in nanoseconds; zero while it runs.
static STOPPED_AT: AtomicU64 = AtomicU64::new(0);
static START: OnceLock<std::time::Instant> = OnceLock::new();

/// Now, in nanoseconds since the process first asked, and one: zero never comes back, so that
/// `Instant::ZERO` can mean "before everything".
pub fn now() -> Instant {
    match STOPPED_AT.load(Ordering::Relaxed) {
        0 => running(),
        stopped_at => Instant::from_nanos(stopped_at),
    }
}

fn running() -> Instant {
    let start = START.get_or_init(std::time::Instant::now);
    Instant::from_nanos(start.elapsed().as_nanos() as u64 + 1)
}

/// Stops the clock for the whole process: tests let time pass by [`warp`] (`ovs-appctl time/stop`).
pub fn stop() {
    let _ = STOPPED_AT.compare_exchange(
        0,
        (running() - Instant::ZERO).as_nanos() as u64,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
}

/// Moves a stopped clock on; one that runs is stopped before.
pub fn warp(time: Duration) {
    stop();
    STOPPED_AT.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// The time since the Unix epoch: the system's when it was first asked for, and after that as
/// steady as [`now`], so that nothing jumps when the clock is set.
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
