//! Expiry of connections: the number that a polling worker checks per iteration, and the control thread's part.

use super::Switch;

/// Connections checked in an iteration without packets.
const EXPIRED_AT_REST: usize = 32;

/// Returns how many connections a polling worker checks for expiry in an iteration: a few percent of its
/// time, and sufficient for connections of five packets or more. If connections are shorter it falls behind,
/// and [`conntrack::Tracker::expire`] raises the budget.
pub fn expiry_budget(received: u64) -> usize {
    if received == 0 { EXPIRED_AT_REST } else { 4 + received as usize / 4 }
}

impl Switch {
    /// Removes expired connections that no worker removes, and frees the memory of flushed zones, at most
    /// `connections_max` at a time. Returns whether more may be left.
    pub fn expire(&self, connections_max: usize) -> bool {
        self.conntrack.tick_within(clock::now(), connections_max)
    }
}
