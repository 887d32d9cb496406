//! The packet type: whether a packet begins with an Ethernet header.

use super::FlowKey;
use crate::field::Field;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

impl FlowKey {
    /// Returns how many bytes at the start of the datapath's buffer do not belong to the packet: those of the
    /// Ethernet header if the packet type has none, otherwise 0.
    pub fn unseen_bytes(&self) -> usize {
        if self.get(Field::PacketType) == 0 { 0 } else { ETHERNET }
    }
}
