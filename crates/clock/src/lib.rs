//! The only place that reads a clock.
#![forbid(unsafe_code)]

use base::Instant;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

static EPOCH: OnceLock<Duration> = OnceLock::new();
/// The time of a stopped clock, in nanoseconds; zero while it runs.
static STOPPED_AT: AtomicU64 = AtomicU64::new(0);
static START: OnceLock<std::time::Instant> = OnceLock::new();

/// Returns nanoseconds since the first call, plus one: it never returns zero, so that `Instant::ZERO` can
/// mean "before everything".
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

/// Stops the clock of the whole process. Tests advance it by [`warp`] (`ovs-appctl time/stop`).
pub fn stop() {
    let _ = STOPPED_AT.compare_exchange(
        0,
        (running() - Instant::ZERO).as_nanos() as u64,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
}

/// Advances the clock, which is stopped first if it runs.
pub fn warp(time: Duration) {
    stop();
    STOPPED_AT.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Returns the time since the Unix epoch: the system's at the first call, and from then on advanced by
/// [`now`], so that setting the system's clock causes no jump.
pub fn since_epoch() -> Duration {
    let steady = now() - Instant::ZERO;
    let system = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    *EPOCH.get_or_init(|| system().saturating_sub(steady)) + steady
}

/// Returns the processor time of the calling thread.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
