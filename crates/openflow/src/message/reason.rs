//! Reasons of packet-ins (`OFPR_*`).

/// No flow matched, or a table-miss flow.
pub const NO_MATCH: u8 = 0;
/// An action of a flow.
pub const ACTION: u8 = 1;
/// The TTL ran out.
pub const INVALID_TTL: u8 = 2;
/// The action set.
pub const ACTION_SET: u8 = 3;
/// A bucket of a group.
pub const GROUP: u8 = 4;
/// An action of a packet-out.
pub const PACKET_OUT: u8 = 5;
/// A table-miss flow; internal to Open vSwitch, never in a message.
pub const EXPLICIT_MISS: u8 = 6;
/// No flow matched; internal to Open vSwitch, never in a message.
pub const IMPLICIT_MISS: u8 = 7;
