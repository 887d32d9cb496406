//! Benchmarks beyond the fast path: misses, statistics and expiry.

mod daemon;
pub mod failover;
pub mod flow_setup;
mod hosts;
mod processor;
mod round_robin;
mod series;
pub mod stats;
pub mod upcall;

use base::Instant;
pub use series::{Chart, Line};

/// Seconds from one time to another.
fn seconds(from: Instant, to: Instant) -> f64 {
    (to - from).as_secs_f64()
}

/// The number of packets due at a rate.
fn due(now: Instant, begun: Instant, rate: u32) -> u64 {
    ((now - begun).as_nanos() * u128::from(rate) / 1_000_000_000) as u64
}
