//! `packet_type`: whether packets are Ethernet frames, or which protocol they begin with
//! (OpenFlow 1.5.1, section 7.2.3.11).
//!
//! On the wire it is a namespace and a type. The key stores the Ethernet type of packets without an Ethernet
//! header, and 0 for frames.

use flow::{Field, Match};

/// The namespace of Ethernet types (OFPHTN_ETHERTYPE).
const ETHERTYPE: u32 = 1;

/// Returns the key's value; `None` for an unsupported packet type.
pub(crate) fn to_key(wire: u32) -> Option<u16> {
    match (wire >> 16, wire as u16) {
        (0, 0) => Some(0),
        (ETHERTYPE, 0) => None,
        (ETHERTYPE, ethertype) => Some(ethertype),
        _ => None,
    }
}

/// Returns the value on the wire.
pub fn to_wire(packet_type: u16) -> u32 {
    match packet_type {
        0 => 0,
        ethertype => ETHERTYPE << 16 | u32::from(ethertype),
    }
}

/// Removes a match on Ethernet frames if another field of the match implies it
/// (ovs: `lib/match.c`, `match_add_ethernet_prereq`).
pub(crate) fn leave_out_default(matching: &mut Match) {
    if matching.mask().has(Field::PacketType) && matching.key().get(Field::PacketType) == 0 {
        matching.wildcard(Field::PacketType);
        if !matching.implies_frames() {
            matching.set_masked(Field::PacketType, 0, u128::MAX);
        }
    }
}
