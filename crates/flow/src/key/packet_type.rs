//! What a packet begins with.

use super::FlowKey;
use crate::field::Field;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

impl FlowKey {
    /// Bytes in front of the datapath's packet that are none of it: an Ethernet header, where it has none.
    pub fn unseen_bytes(&self) -> usize {
        if self.get(Field::PacketType) == 0 { 0 } else { ETHERNET }
    }
}
