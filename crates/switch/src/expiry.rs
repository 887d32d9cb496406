//! The number of connections that a polling worker checks for expiry per iteration.

/// Connections checked in an iteration without packets.
const EXPIRED_AT_REST: usize = 32;

/// Returns how many connections a polling worker checks for expiry in an iteration: a few percent of its
/// time, and sufficient for connections of five packets or more. If connections are shorter it falls behind,
/// and [`conntrack::Tracker::expire`] raises the budget.
pub fn expiry_budget(received: u64) -> usize {
    if received == 0 { EXPIRED_AT_REST } else { 4 + received as usize / 4 }
}
