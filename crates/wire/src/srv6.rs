//! The segment routing header of IPv6 (RFC 8754 section 2).

use std::net::Ipv6Addr;

use crate::error::{Header, Malformed};
use crate::ipv6::EXTENSION_MIN_LEN;
use crate::octets::{array_at, range, u8_at};
use crate::protocol;

/// The routing type.
pub const ROUTING_TYPE: u8 = 4;
/// Bytes before the segments.
pub const FIXED_LEN: usize = 8;
/// Bytes of a segment.
pub const SEGMENT_LEN: usize = 16;

/// A segment routing header after an IPv6 header, possibly with other extension headers between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Srv6<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> Srv6<'a> {
    /// Finds it in `payload`, the bytes after an IPv6 header with this `next_header`.
    ///
    /// # Errors
    /// There is none before the upper layer, or a header is truncated or has a wrong length.
    pub fn find(next_header: u8, payload: &'a [u8]) -> Result<Self, Malformed> {
        let (mut next, mut at) = (next_header, 0);
        let mut found = None;
        while matches!(
            next,
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS | protocol::ROUTING
        ) {
            let rest = range(payload, at, payload.len());
            Malformed::unless_holds(Header::Ipv6Extension, EXTENSION_MIN_LEN, rest.len())?;
            let len = (usize::from(u8_at(rest, 1)) + 1) * 8;
            Malformed::unless_holds(Header::Ipv6Extension, len, rest.len())?;
            if next == protocol::ROUTING {
                found = Some(range(rest, 0, len));
            }
            next = u8_at(rest, 0);
            at += len;
        }
        let bytes = found.unwrap_or_default();
        Malformed::unless_holds(Header::Ipv6Extension, FIXED_LEN, bytes.len())?;
        let kind = u8_at(bytes, 2);
        Malformed::unless_kind(Header::Ipv6Extension, kind.into(), ROUTING_TYPE.into())?;
        let segments = FIXED_LEN + (usize::from(u8_at(bytes, 4)) + 1) * SEGMENT_LEN;
        Malformed::unless_holds(Header::Ipv6Extension, segments, bytes.len())?;
        Ok(Srv6 { bytes, len: at })
    }

    /// The length of all extension headers in bytes.
    pub fn extensions_len(&self) -> usize {
        self.len
    }

    /// The type of the next header.
    pub fn next_header(&self) -> u8 {
        u8_at(self.bytes, 0)
    }

    /// The number of remaining segments.
    pub fn segments_left(&self) -> u8 {
        u8_at(self.bytes, 3)
    }

    /// Returns the segments in the order in which packets visit them. The header contains the last one first.
    pub fn segments(&self) -> impl Iterator<Item = Ipv6Addr> {
        let last = usize::from(u8_at(self.bytes, 4));
        let segment = |at: usize| array_at::<16>(self.bytes, FIXED_LEN + at * SEGMENT_LEN).into();
        (0..=last).rev().map(segment)
    }
}

/// Appends a header to `out`. `segments` are in the order in which packets visit them, at most 127.
pub fn header(out: &mut Vec<u8>, next_header: u8, segments: &[Ipv6Addr]) {
    let last = segments.len().saturating_sub(1) as u8;
    out.extend([next_header, 2 * segments.len() as u8, ROUTING_TYPE, last, last, 0, 0, 0]);
    segments.iter().rev().for_each(|segment| out.extend(segment.octets()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_lies_are_refused() {
        let segments: Vec<Ipv6Addr> = (1..=3).map(Ipv6Addr::from_bits).collect();
        let mut bytes = Vec::new();
        header(&mut bytes, protocol::IPV4, &segments);
        assert_eq!(bytes.len(), FIXED_LEN + 3 * SEGMENT_LEN);
        let found = Srv6::find(protocol::ROUTING, &bytes).unwrap();
        assert_eq!((found.next_header(), found.segments_left()), (protocol::IPV4, 2));
        assert_eq!(found.segments().collect::<Vec<_>>(), segments);
        assert_eq!(found.extensions_len(), bytes.len());
        // After other extension headers.
        let behind = [&[protocol::ROUTING, 0, 1, 4, 0, 0, 0, 0][..], &bytes].concat();
        let found = Srv6::find(protocol::HOP_BY_HOP, &behind).unwrap();
        assert_eq!(found.extensions_len(), behind.len());
        assert!(Srv6::find(protocol::UDP, &bytes).is_err(), "no routing header");
        for len in 0..bytes.len() {
            assert!(Srv6::find(protocol::ROUTING, &bytes[..len]).is_err(), "{len} bytes");
        }
        let refused = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert!(Srv6::find(protocol::ROUTING, &bytes).is_err(), "byte {at} is {value}");
        };
        refused(1, 7);
        refused(1, 4);
        refused(2, 0);
        refused(4, 3);
    }
}
