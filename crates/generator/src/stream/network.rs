//! Addresses of test flows, from the blocks reserved for benchmarks.

use crate::address::{Address, AddressRange};

/// The initiator's first address (RFC 2544 appendix C.2.2).
const INITIATOR: Address = Address::v4([198, 18, 0, 2]);
/// The responder's first address.
const RESPONDER: Address = Address::v4([198, 19, 0, 2]);
/// The initiator's first IPv6 address, 2001:2::2 (RFC 5180 section 8).
const INITIATOR_V6: Address = Address([0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
/// The responder's first IPv6 address, 2001:2:0:8000::2.
const RESPONDER_V6: Address = Address([0x20, 1, 0, 2, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

/// The addresses of a test's stations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Whether addresses are IPv6.
    pub is_v6: bool,
    /// Addresses per station; flows run between any two of them.
    pub addresses: u16,
}

impl Network {
    /// IPv4 with one address per station.
    pub const V4: Network = Network { is_v6: false, addresses: 1 };

    /// Returns the bytes of the smallest test frame, FCS included. Over IPv6 the label does not fit into
    /// Ethernet's smallest frame.
    pub fn frame_bytes_min(self) -> u16 {
        if self.is_v6 { 84 } else { 64 }
    }

    /// Returns the initiator's addresses.
    pub(super) fn initiators(self) -> AddressRange {
        let first = if self.is_v6 { INITIATOR_V6 } else { INITIATOR };
        AddressRange::starting(first, self.addresses)
    }

    /// Returns the responder's addresses.
    pub(super) fn responders(self) -> AddressRange {
        let first = if self.is_v6 { RESPONDER_V6 } else { RESPONDER };
        AddressRange::starting(first, self.addresses)
    }
}
