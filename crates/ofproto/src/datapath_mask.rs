//! The masks of flows in the datapath.

use flow::{Field, Mask};

/// The mask of a flow in the datapath: the presence of a tag is always included, and if nothing of the tag
/// was looked at, so is the whole tag (ovs: `lib/dpif-netdev.c`, `handle_packet_upcall`).
pub(crate) fn datapath_mask(mask: &Mask) -> Mask {
    let mut mask = mask.clone();
    add_tags(&mut mask);
    mask
}

/// Turns the mask of a translation into one for the datapath ([`datapath_mask`]).
pub(crate) fn add_tags(mask: &mut Mask) {
    if !mask.has(Field::VlanTci) {
        mask.add(Field::VlanTci);
    }
    mask.add(Field::VlanTpid);
    if mask.has(Field::VlanTci1) {
        mask.add(Field::VlanTpid1);
    }
}
