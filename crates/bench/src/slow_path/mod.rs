//! What happens off the fast path, measured: packets that no flow matches yet, statistics and expiry.

mod daemon;
pub mod flow_setup;
mod series;
pub mod stats;
mod turns;

use base::Instant;
pub use series::{Chart, Line};

/// Seconds from one time to another.
fn seconds(from: Instant, to: Instant) -> f64 {
    (to - from).as_secs_f64()
}
