//! How much of a polling worker's turn goes to connections whose time may be over.

/// Connections that a turn looks at, for their time may be over, where nothing came.
const EXPIRED_AT_REST: usize = 32;

/// How many connections a polling worker looks at in a turn, for their time may be over: a few percent
/// of the turn, and enough for connections of five packets and more. Where they have fewer, it stays
/// behind, and is given more ([`conntrack::Tracker::expire`]).
pub fn expiry_budget(received: u64) -> usize {
    if received == 0 { EXPIRED_AT_REST } else { 4 + received as usize / 4 }
}
