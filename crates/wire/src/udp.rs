//! UDP headers (RFC 768).

use crate::error::{Header, Malformed};
use crate::octets::{range, u16_at};
use crate::view::transport_view;

pub(crate) mod field {
    pub use crate::view::port_field::*;

    pub const LENGTH: usize = 4;
    pub const CHECKSUM: usize = 6;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Bytes that start with a UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<T: AsRef<[u8]>> {
    bytes: T,
}

transport_view!(Udp);

impl<T: AsRef<[u8]>> Udp<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Too short, or a length that is below eight or exceeds the bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Udp, HEADER_LEN, raw.len())?;
        let length = u16_at(raw, field::LENGTH).into();
        Malformed::unless_within(Header::Udp, length, HEADER_LEN, raw.len())?;
        Ok(Udp { bytes })
    }

    /// The length field: bytes of header and payload.
    pub fn length(&self) -> usize {
        u16_at(self.bytes.as_ref(), field::LENGTH).into()
    }

    /// The checksum in the packet; zero means that there is none.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// The payload, up to the end that the length field gives.
    pub fn payload(&self) -> &[u8] {
        range(self.bytes.as_ref(), HEADER_LEN, self.length())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_checked() {
        for (length, payload) in [(7, None), (8, Some(0)), (10, Some(2)), (11, None)] {
            let mut bytes = [0u8; 10];
            bytes[5] = length;
            let found = Udp::new_checked(bytes).ok().map(|u| u.payload().len());
            assert_eq!(found, payload, "{length}");
        }
    }
}
