//! Between which addresses test flows run: of the blocks set apart for benchmarks.

use crate::address::{Address, AddressRange};

/// The initiator's first address, of the block set apart for benchmarks (RFC 2544 appendix C.2.2).
const INITIATOR: Address = Address::v4([198, 18, 0, 2]);
/// The responder's.
const RESPONDER: Address = Address::v4([198, 19, 0, 2]);
/// The same of IPv6, 2001:2::2 (RFC 5180 section 8).
const INITIATOR_V6: Address = Address([0x20, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
/// 2001:2:0:8000::2.
const RESPONDER_V6: Address = Address([0x20, 1, 0, 2, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

/// Which addresses the stations of a test have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// IPv6, or else IPv4.
    pub is_v6: bool,
    /// How many each station has; flows run between any two of them.
    pub addresses: u16,
}

impl Network {
    /// One IPv4 address each.
    pub const V4: Network = Network { is_v6: false, addresses: 1 };

    /// Bytes of the smallest test frame, its FCS counted: with IPv6, what a test frame says of
    /// itself does not fit into the smallest frame of Ethernet.
    pub fn frame_bytes_min(self) -> u16 {
        if self.is_v6 { 84 } else { 64 }
    }

    /// The initiator's.
    pub(super) fn initiators(self) -> AddressRange {
        let first = if self.is_v6 { INITIATOR_V6 } else { INITIATOR };
        AddressRange::starting(first, self.addresses)
    }

    /// The responder's.
    pub(super) fn responders(self) -> AddressRange {
        let first = if self.is_v6 { RESPONDER_V6 } else { RESPONDER };
        AddressRange::starting(first, self.addresses)
    }
}
