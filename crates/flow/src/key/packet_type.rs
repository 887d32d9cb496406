//! The packet type: whether a packet begins with an Ethernet header.

use super::FlowKey;
use crate::field::Field;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

impl FlowKey {
    /// Returns how many bytes in front of the datapath's packet do not belong to it: the Ethernet header of a
    /// packet whose type has none.
    pub fn unseen_bytes(&self) -> usize {
        if self.get(Field::PacketType) == 0 { 0 } else { ETHERNET }
    }
}
