//! ICMPv6 (RFC 4443) and neighbour discovery (RFC 4861).

use std::net::Ipv6Addr;

use base::MacAddr;

use crate::octets::{array_at, put, u8_at};
use crate::view::icmp_view;

pub(crate) mod field {
    pub use crate::view::icmp_field::*;

    pub const ND_TARGET: usize = 8;
    pub const ND_OPTIONS: usize = 24;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// Echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Neighbour solicitation.
pub const NEIGHBOUR_SOLICIT: u8 = 135;
/// Neighbour advertisement.
pub const NEIGHBOUR_ADVERT: u8 = 136;

/// The neighbour discovery option with the sender's Ethernet address.
pub const OPTION_SOURCE_LINK: u8 = 1;
/// The neighbour discovery option with the target's Ethernet address.
pub const OPTION_TARGET_LINK: u8 = 2;
/// Neighbour discovery options count in units of this many bytes.
const OPTION_UNIT: usize = 8;

/// Bytes that start with an ICMPv6 header and end with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmpv6<T: AsRef<[u8]>> {
    bytes: T,
}

icmp_view!(Icmpv6);

impl<T: AsRef<[u8]>> Icmpv6<T> {
    /// Whether this is a neighbour solicitation or advertisement.
    pub fn is_neighbour_discovery(&self) -> bool {
        matches!(self.icmp_type(), NEIGHBOUR_SOLICIT | NEIGHBOUR_ADVERT) && self.code() == 0
    }

    /// The target of a neighbour solicitation or advertisement; `None` for any other or a truncated message.
    pub fn nd_target(&self) -> Option<Ipv6Addr> {
        let bytes = self.bytes.as_ref();
        let whole = self.is_neighbour_discovery() && bytes.len() >= field::ND_OPTIONS;
        whole.then(|| array_at::<16>(bytes, field::ND_TARGET).into())
    }

    /// The options of a neighbour solicitation or advertisement; none for another message.
    pub fn nd_options(&self) -> NdOptions<'_> {
        let bytes = self.bytes.as_ref();
        let from = if self.is_neighbour_discovery() { field::ND_OPTIONS } else { bytes.len() };
        NdOptions { bytes, at: from }
    }

    /// The Ethernet address in the source link-layer option (`nd_sll`).
    #[cfg(test)]
    pub(crate) fn nd_source_link(&self) -> Option<MacAddr> {
        self.nd_options().find(|o| o.kind == OPTION_SOURCE_LINK).and_then(|o| o.link_address())
    }

    /// The Ethernet address in the target link-layer option (`nd_tll`).
    #[cfg(test)]
    pub(crate) fn nd_target_link(&self) -> Option<MacAddr> {
        self.nd_options().find(|o| o.kind == OPTION_TARGET_LINK).and_then(|o| o.link_address())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmpv6<T> {
    /// Sets the target of a neighbour solicitation or advertisement.
    pub fn set_nd_target(&mut self, target: Ipv6Addr) {
        put(self.bytes.as_mut(), field::ND_TARGET, target.octets());
    }
}

/// Returns whether messages of this type are errors, which quote the packet that caused them. RFC 4443
/// section 2.1 reserves all types below 128 for errors; this returns true only for those that it defines.
pub const fn is_error(icmp_type: u8) -> bool {
    matches!(icmp_type, UNREACHABLE..=PARAMETER_PROBLEM)
}

/// Returns whether messages of this type have an identifier.
pub const fn has_id(icmp_type: u8) -> bool {
    matches!(icmp_type, ECHO_REQUEST | ECHO_REPLY)
}

/// A neighbour discovery option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NdOption<'a> {
    /// The type, such as [`OPTION_SOURCE_LINK`].
    pub kind: u8,
    /// Its offset in bytes from the start of the ICMPv6 header.
    pub at: usize,
    /// The bytes after type and length.
    pub data: &'a [u8],
}

impl NdOption<'_> {
    /// The Ethernet address in a link-layer option; `None` if the option has another length.
    pub fn link_address(&self) -> Option<MacAddr> {
        <[u8; 6]>::try_from(self.data).ok().map(MacAddr)
    }
}

/// Iterates over neighbour discovery options, up to the first malformed one.
#[derive(Debug, Clone)]
pub struct NdOptions<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for NdOptions<'a> {
    type Item = NdOption<'a>;

    fn next(&mut self) -> Option<NdOption<'a>> {
        let at = self.at;
        let len = usize::from(u8_at(self.bytes, at + 1)) * OPTION_UNIT;
        // With a length of zero the range is invalid, which ends the iteration (RFC 4861 section 4.6: nodes
        // discard such a packet).
        let data = self.bytes.get(at + 2..at + len);
        self.at = if data.is_some() { at + len } else { self.bytes.len() };
        Some(NdOption { kind: u8_at(self.bytes, at), at, data: data? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solicit(options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[0] = NEIGHBOUR_SOLICIT;
        bytes[23] = 9;
        bytes.extend(options);
        bytes
    }

    #[test]
    fn neighbour_discovery() {
        let mac = MacAddr([2, 0, 0, 0, 0, 7]);
        let view = Icmpv6::new_checked(solicit(&[14, 1, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 7]));
        let view = view.unwrap();
        assert_eq!(view.nd_target(), Some("::9".parse().unwrap()));
        assert_eq!((view.nd_source_link(), view.nd_target_link()), (Some(mac), None));
        for lying in [&[1, 0, 2, 0, 0, 0, 0, 7][..], &[1, 2, 2, 0, 0, 0, 0, 7], &[1], &[1, 1]] {
            let bytes = solicit(lying);
            assert_eq!(Icmpv6::new_checked(bytes).unwrap().nd_options().count(), 0, "{lying:?}");
        }
        let mut cut = solicit(&[]);
        cut.truncate(23);
        assert_eq!(Icmpv6::new_checked(cut).unwrap().nd_target(), None);
    }
}
