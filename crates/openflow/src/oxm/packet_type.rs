//! `packet_type`: whether packets are Ethernet frames, or which protocol they begin with
//! (OpenFlow 1.5.1, section 7.2.3.11).
//!
//! On the wire it is a namespace and a type. The key has the Ethernet type of packets without an Ethernet
//! header, and 0 for frames.

use flow::{Field, Match};

/// The namespace of Ethernet types (OFPHTN_ETHERTYPE).
const ETHERTYPE: u32 = 1;

/// The field as the key has it; `None` for kinds of packets that there are none of here.
pub(crate) fn to_key(wire: u32) -> Option<u16> {
    match (wire >> 16, wire as u16) {
        (0, 0) => Some(0),
        (ETHERTYPE, 0) => None,
        (ETHERTYPE, ethertype) => Some(ethertype),
        _ => None,
    }
}

/// The field as it stands on the wire.
pub fn to_wire(packet_type: u16) -> u32 {
    match packet_type {
        0 => 0,
        ethertype => ETHERTYPE << 16 | u32::from(ethertype),
    }
}

/// A match that speaks of headers means frames in any case: that it says so itself is left out
/// (ovs: `lib/match.c`, `match_add_ethernet_prereq`).
pub(crate) fn leave_out_default(matching: &mut Match) {
    if matching.mask().has(Field::PacketType) && matching.key().get(Field::PacketType) == 0 {
        matching.wildcard(Field::PacketType);
        if !matching.implies_frames() {
            matching.set_masked(Field::PacketType, 0, u128::MAX);
        }
    }
}
