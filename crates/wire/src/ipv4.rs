//! IPv4 headers (RFC 791).

use std::net::Ipv4Addr;

use crate::error::{Header, Malformed};
use crate::fragment::Fragment;
use crate::octets::{array_at, put, put_u16, range, u8_at, u16_at};

pub(crate) mod field {
    pub const VERSION_IHL: usize = 0;
    pub const TOS: usize = 1;
    pub const TOTAL_LEN: usize = 2;
    pub const ID: usize = 4;
    pub const FRAGMENT: usize = 6;
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const CHECKSUM: usize = 10;
    pub const SOURCE: usize = 12;
    pub const DESTINATION: usize = 16;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// "Don't fragment", in the fragment field.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments", in the fragment field.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The offset, in the fragment field, in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// Bytes that start with an IPv4 header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// A view of `bytes`, which may be longer than the packet (Ethernet padding).
    ///
    /// # Errors
    /// Too short, not version 4, or a header length or total length that exceeds the bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let view = Ipv4::new_quoted(bytes)?;
        let have = view.bytes.as_ref().len();
        Malformed::unless_within(Header::Ipv4, view.total_len(), view.header_len(), have)?;
        Ok(view)
    }

    /// A view of a packet that may be truncated, as in ICMP errors. The header must be complete; the total
    /// length may exceed the bytes.
    ///
    /// # Errors
    /// As [`Ipv4::new_checked`], except for the total length.
    #[inline]
    pub fn new_quoted(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Ipv4, HEADER_LEN, raw.len())?;
        let version = u8_at(raw, field::VERSION_IHL) >> 4;
        Malformed::unless_kind(Header::Ipv4, version.into(), 4)?;
        Malformed::unless_within(Header::Ipv4, header_len(raw), HEADER_LEN, raw.len())?;
        Ok(Ipv4 { bytes })
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Bytes of the header with its options, 20 to 60.
    pub fn header_len(&self) -> usize {
        header_len(self.bytes.as_ref())
    }

    /// Type of service: DSCP in the high six bits, ECN in the low two.
    pub fn tos(&self) -> u8 {
        u8_at(self.bytes.as_ref(), field::TOS)
    }

    /// The total length field: the length of the packet in bytes, header included.
    pub fn total_len(&self) -> usize {
        u16_at(self.bytes.as_ref(), field::TOTAL_LEN).into()
    }

    /// The identification, equal in all fragments of a datagram.
    pub fn id(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::ID)
    }

    /// Whether routers must not fragment the packet.
    pub fn dont_fragment(&self) -> bool {
        self.fragment_field() & DONT_FRAGMENT != 0
    }

    /// Whether fragments follow this one.
    pub fn more_fragments(&self) -> bool {
        self.fragment_field() & MORE_FRAGMENTS != 0
    }

    /// The offset of this fragment in its datagram, in bytes.
    pub fn fragment_offset(&self) -> usize {
        usize::from(self.fragment_field() & OFFSET_MASK) * 8
    }

    /// The part of a datagram that this packet carries.
    pub fn fragment(&self) -> Fragment {
        let raw = self.fragment_field();
        Fragment::from_offset(raw & OFFSET_MASK, raw & MORE_FRAGMENTS != 0)
    }

    /// The time to live.
    pub fn ttl(&self) -> u8 {
        u8_at(self.bytes.as_ref(), field::TTL)
    }

    /// The protocol of the payload; see [`crate::protocol`].
    pub fn protocol(&self) -> u8 {
        u8_at(self.bytes.as_ref(), field::PROTOCOL)
    }

    /// The header checksum in the packet.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// The source address.
    pub fn source(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes.as_ref(), field::SOURCE).into()
    }

    /// The destination address.
    pub fn destination(&self) -> Ipv4Addr {
        array_at::<4>(self.bytes.as_ref(), field::DESTINATION).into()
    }

    /// The header with its options, for the checksum.
    pub fn header(&self) -> &[u8] {
        range(self.bytes.as_ref(), 0, self.header_len())
    }

    /// The options, unparsed.
    pub fn options(&self) -> &[u8] {
        range(self.bytes.as_ref(), HEADER_LEN, self.header_len())
    }

    /// The bytes after the header, without padding after the packet.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, self.header_len(), self.total_len().min(bytes.len()))
    }

    fn fragment_field(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::FRAGMENT)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Sets the type of service.
    pub fn set_tos(&mut self, tos: u8) {
        put(self.bytes.as_mut(), field::TOS, [tos]);
    }

    /// Sets the total length.
    pub fn set_total_len(&mut self, total_len: u16) {
        put_u16(self.bytes.as_mut(), field::TOTAL_LEN, total_len);
    }

    /// Sets the identification.
    pub fn set_id(&mut self, id: u16) {
        put_u16(self.bytes.as_mut(), field::ID, id);
    }

    /// Sets flags and offset together, in the form that they have on the wire.
    pub fn set_fragment_field(&mut self, raw: u16) {
        put_u16(self.bytes.as_mut(), field::FRAGMENT, raw);
    }

    /// Sets the time to live.
    pub fn set_ttl(&mut self, ttl: u8) {
        put(self.bytes.as_mut(), field::TTL, [ttl]);
    }

    /// Sets the header checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.bytes.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the source address.
    pub fn set_source(&mut self, ip: Ipv4Addr) {
        put(self.bytes.as_mut(), field::SOURCE, ip.octets());
    }

    /// Sets the destination address.
    pub fn set_destination(&mut self, ip: Ipv4Addr) {
        put(self.bytes.as_mut(), field::DESTINATION, ip.octets());
    }
}

fn header_len(raw: &[u8]) -> usize {
    usize::from(u8_at(raw, field::VERSION_IHL) & 0x0f) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_lie_are_refused() {
        let good = |change: fn(&mut Vec<u8>)| {
            let mut bytes =
                vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            bytes.extend([1, 2, 3, 4, 0xee]);
            change(&mut bytes);
            Ipv4::new_checked(bytes).map(|v| v.payload().to_vec())
        };
        assert_eq!(good(|_| ()), Ok(vec![1, 2, 3, 4]));
        type Change = fn(&mut Vec<u8>);
        let bad: &[(&str, Change)] = &[
            ("total length beyond the end", |b| b[3] = 26),
            ("total length within the header", |b| b[3] = 19),
            ("header of 16 bytes", |b| b[0] = 0x44),
            ("header of 60 bytes", |b| b[0] = 0x4f),
            ("version 6", |b| b[0] = 0x65),
            ("19 bytes", |b| b.truncate(19)),
            ("nothing", Vec::clear),
        ];
        for (what, change) in bad {
            assert!(good(*change).is_err(), "{what}");
        }
    }

    #[test]
    fn fragments() {
        for (raw, expect) in [
            (0, Fragment::None),
            (DONT_FRAGMENT, Fragment::None),
            (MORE_FRAGMENTS, Fragment::First),
            (MORE_FRAGMENTS | 1, Fragment::Later),
            (185, Fragment::Later),
        ] {
            let mut bytes = [0u8; 20];
            bytes[0] = 0x45;
            bytes[3] = 20;
            let mut view = Ipv4::new_checked(bytes).unwrap();
            view.set_fragment_field(raw);
            assert_eq!(view.fragment(), expect, "{raw:#x}");
        }
    }
}
