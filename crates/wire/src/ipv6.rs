//! IPv6 headers and extension headers (RFC 8200).

use std::net::Ipv6Addr;

use crate::error::{Header, Malformed};
use crate::fragment::Fragment;
use crate::numbers::protocol;
use crate::octets::{array_at, put, put_u16, put_u32, range, u8_at, u16_at, u32_at};

pub(crate) mod field {
    pub const VERSION_CLASS_LABEL: usize = 0;
    pub const PAYLOAD_LEN: usize = 4;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SOURCE: usize = 8;
    pub const DESTINATION: usize = 24;
}

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Bytes of a fragment header.
pub const FRAGMENT_HEADER_LEN: usize = 8;
/// The flow label, in the first word of the header.
pub const LABEL_MASK: u32 = 0x000f_ffff;
/// The minimum length of an extension header in bytes.
pub(crate) const EXTENSION_MIN_LEN: usize = 8;

/// Bytes that start with an IPv6 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// A view of `bytes`, which may be longer than the packet. Jumbograms (payload length zero, RFC 2675) are
    /// regarded as empty.
    ///
    /// # Errors
    /// Too short, not version 6, or a payload length that exceeds the bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let view = Ipv6::new_quoted(bytes)?;
        let room = view.bytes.as_ref().len().saturating_sub(HEADER_LEN);
        Malformed::unless_within(Header::Ipv6, view.payload_len(), 0, room)?;
        Ok(view)
    }

    /// A view of a packet that may be truncated, as in ICMPv6 errors. The fixed header must be complete; the
    /// payload length may exceed the bytes.
    ///
    /// # Errors
    /// As [`Ipv6::new_checked`], except for the payload length.
    #[inline]
    pub fn new_quoted(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Ipv6, HEADER_LEN, raw.len())?;
        Malformed::unless_kind(Header::Ipv6, (u8_at(raw, 0) >> 4).into(), 6)?;
        Ok(Ipv6 { bytes })
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// DSCP in the high six bits, ECN in the low two.
    pub fn traffic_class(&self) -> u8 {
        (self.first_word() >> 20) as u8
    }

    /// The 20-bit flow label.
    pub fn flow_label(&self) -> u32 {
        self.first_word() & LABEL_MASK
    }

    /// The payload length field: the number of bytes after the fixed header.
    pub fn payload_len(&self) -> usize {
        u16_at(self.bytes.as_ref(), field::PAYLOAD_LEN).into()
    }

    /// The type of the header after the fixed one; see [`crate::protocol`].
    pub fn next_header(&self) -> u8 {
        u8_at(self.bytes.as_ref(), field::NEXT_HEADER)
    }

    /// The hop limit.
    pub fn hop_limit(&self) -> u8 {
        u8_at(self.bytes.as_ref(), field::HOP_LIMIT)
    }

    /// The source address.
    pub fn source(&self) -> Ipv6Addr {
        array_at::<16>(self.bytes.as_ref(), field::SOURCE).into()
    }

    /// The destination address.
    pub fn destination(&self) -> Ipv6Addr {
        array_at::<16>(self.bytes.as_ref(), field::DESTINATION).into()
    }

    /// The bytes after the fixed header, extension headers included, without padding.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, HEADER_LEN, (HEADER_LEN + self.payload_len()).min(bytes.len()))
    }

    /// Parses the extension headers up to the first other header.
    ///
    /// # Errors
    /// An extension header that does not fit into the payload.
    pub fn extensions(&self) -> Result<Extensions, Malformed> {
        Extensions::walk(self.next_header(), self.payload())
    }

    fn first_word(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::VERSION_CLASS_LABEL)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6<T> {
    /// Sets the traffic class.
    pub fn set_traffic_class(&mut self, class: u8) {
        let word = (self.first_word() & 0xf00f_ffff) | (u32::from(class) << 20);
        put_u32(self.bytes.as_mut(), field::VERSION_CLASS_LABEL, word);
    }

    /// Sets the flow label to the low 20 bits of `label`.
    pub fn set_flow_label(&mut self, label: u32) {
        let word = (self.first_word() & !LABEL_MASK) | (label & LABEL_MASK);
        put_u32(self.bytes.as_mut(), field::VERSION_CLASS_LABEL, word);
    }

    /// Sets the payload length.
    pub fn set_payload_len(&mut self, payload_len: u16) {
        put_u16(self.bytes.as_mut(), field::PAYLOAD_LEN, payload_len);
    }

    /// Sets the hop limit.
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        put(self.bytes.as_mut(), field::HOP_LIMIT, [hop_limit]);
    }

    /// Sets the source address.
    pub fn set_source(&mut self, ip: Ipv6Addr) {
        put(self.bytes.as_mut(), field::SOURCE, ip.octets());
    }

    /// Sets the destination address.
    pub fn set_destination(&mut self, ip: Ipv6Addr) {
        put(self.bytes.as_mut(), field::DESTINATION, ip.octets());
    }
}

/// The end of a packet's extension headers, and their contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extensions {
    /// The type of the header after them. In a later fragment it is [`protocol::FRAGMENT`], since that
    /// contains no further header (ovs: `lib/flow.c`, `parse_ipv6_ext_hdrs`).
    pub protocol: u8,
    /// Their total length in bytes.
    pub len: usize,
    /// The part of a datagram that the packet carries. An atomic fragment (offset zero, no more fragments;
    /// RFC 6946) counts as a whole datagram.
    pub fragment: Fragment,
    /// The last fragment header.
    pub fragment_header: Option<FragmentHeader>,
    /// Whether a routing header has segments left. The destination address is then not the final one, which
    /// the pseudo-header contains (RFC 8200 section 8.1).
    pub routed: bool,
}

/// An IPv6 fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentHeader {
    /// Its offset in bytes from the end of the fixed header.
    pub at: usize,
    /// The type of the header at this place of the reassembled datagram.
    pub next_header: u8,
    /// The offset of the fragment in the fragmentable part of the datagram, in bytes.
    pub offset: usize,
    /// Whether fragments follow.
    pub more: bool,
    /// The identification, equal in all fragments of a datagram.
    pub id: u32,
}

impl Extensions {
    /// Parses the extension headers of `payload`, whose first header has the type `next_header`.
    ///
    /// The loop terminates, since every header has at least eight bytes.
    ///
    /// # Errors
    /// A header exceeds `payload`.
    pub fn walk(next_header: u8, payload: &[u8]) -> Result<Self, Malformed> {
        let mut walk = Extensions {
            protocol: next_header,
            len: 0,
            fragment: Fragment::None,
            fragment_header: None,
            routed: false,
        };
        loop {
            let rest = range(payload, walk.len, payload.len());
            let units = usize::from(u8_at(rest, 1));
            let len = match walk.protocol {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                    (units + 1) * 8
                }
                protocol::AUTHENTICATION => (units + 2) * 4,
                protocol::FRAGMENT => FRAGMENT_HEADER_LEN,
                _ => return Ok(walk),
            };
            let need = len.max(EXTENSION_MIN_LEN);
            Malformed::unless_holds(Header::Ipv6Extension, need, rest.len())?;
            if walk.step(rest, len) {
                return Ok(walk);
            }
        }
    }

    /// Parses the header at the start of `rest`. Returns whether it is the last one.
    fn step(&mut self, rest: &[u8], len: usize) -> bool {
        let kind = self.protocol;
        self.protocol = u8_at(rest, 0);
        match kind {
            protocol::ROUTING => self.routed |= u8_at(rest, 3) > 0,
            protocol::FRAGMENT => {
                let raw = u16_at(rest, 2);
                self.fragment_header = Some(FragmentHeader {
                    at: self.len,
                    next_header: self.protocol,
                    offset: (raw & 0xfff8).into(),
                    more: raw & 1 != 0,
                    id: u32_at(rest, 4),
                });
                if raw != 0 {
                    self.fragment = Fragment::from_offset(raw & 0xfff8, true);
                }
            }
            _ => {}
        }
        self.len += len;
        if kind == protocol::FRAGMENT && self.fragment == Fragment::Later {
            self.protocol = protocol::FRAGMENT;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(first: u8, bytes: &[u8]) -> Result<(u8, usize, Fragment, bool), Malformed> {
        Extensions::walk(first, bytes).map(|e| (e.protocol, e.len, e.fragment, e.routed))
    }

    #[test]
    fn extension_headers() {
        let none = Fragment::None;
        let hop = [6, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(walk(6, &[]), Ok((6, 0, none, false)));
        assert_eq!(walk(0, &hop), Ok((6, 8, none, false)));
        assert!(walk(0, &hop[..7]).is_err());
        assert!(walk(0, &[6, 1, 0, 0, 0, 0, 0, 0]).is_err(), "says 16 bytes, has 8");
        assert_eq!(walk(43, &[17, 0, 0, 1, 0, 0, 0, 0]), Ok((17, 8, none, true)));
        // The length of an authentication header is in words of four bytes, minus 2 (RFC 4302 section 2.2).
        assert_eq!(walk(51, &[6, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]), Ok((6, 12, none, false)));
        // Fragments: atomic, first, later. A later one ends the parsing, whatever its next header is.
        assert_eq!(walk(44, &[6, 0, 0, 0, 0, 0, 0, 9]), Ok((6, 8, none, false)));
        assert_eq!(walk(44, &[6, 0, 0, 1, 0, 0, 0, 9]), Ok((6, 8, Fragment::First, false)));
        assert_eq!(walk(44, &[0, 0, 0, 8, 0, 0, 0, 9]), Ok((44, 8, Fragment::Later, false)));
        let header = Extensions::walk(44, &[6, 0, 0x05, 0xa9, 0, 0, 0, 9]).unwrap();
        assert_eq!(
            header.fragment_header,
            Some(FragmentHeader { at: 0, next_header: 6, offset: 1448, more: true, id: 9 })
        );
    }
}
