//! SCTP common headers (RFC 9260 section 3.1).

use crate::error::{Header, Malformed};
use crate::octets::{array_at, put, put_u16, put_u32, range, u16_at, u32_at};

pub(crate) mod field {
    pub const SOURCE: usize = 0;
    pub const DESTINATION: usize = 2;
    pub const TAG: usize = 4;
    pub const CHECKSUM: usize = 8;
}

/// Bytes of the common header.
pub const HEADER_LEN: usize = 12;

/// Bytes that start with an SCTP common header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sctp<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Sctp<T> {
    /// A view of `bytes`, all of which is the SCTP packet: its header has no length.
    ///
    /// # Errors
    /// Too short.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Malformed::unless_holds(Header::Sctp, HEADER_LEN, bytes.as_ref().len())?;
        Ok(Sctp { bytes })
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// The source port.
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::SOURCE)
    }

    /// The destination port.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::DESTINATION)
    }

    /// The verification tag.
    pub fn verification_tag(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::TAG)
    }

    /// The CRC32c as it stands, as [`crate::checksum::crc32c`] gives it; it goes over the wire
    /// with its least significant byte first (RFC 9260 appendix A).
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(array_at(self.bytes.as_ref(), field::CHECKSUM))
    }

    /// The chunks behind the header.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, HEADER_LEN, bytes.len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Sctp<T> {
    /// Sets the source port.
    pub fn set_source_port(&mut self, port: u16) {
        put_u16(self.bytes.as_mut(), field::SOURCE, port);
    }

    /// Sets the destination port.
    pub fn set_destination_port(&mut self, port: u16) {
        put_u16(self.bytes.as_mut(), field::DESTINATION, port);
    }

    /// Sets the verification tag.
    pub fn set_verification_tag(&mut self, tag: u32) {
        put_u32(self.bytes.as_mut(), field::TAG, tag);
    }

    /// Sets the CRC32c.
    pub fn set_checksum(&mut self, crc: u32) {
        put(self.bytes.as_mut(), field::CHECKSUM, crc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_rfc_says() {
        let mut sctp = Sctp::new_checked([0u8; 16]).unwrap();
        sctp.set_source_port(0x0102);
        sctp.set_destination_port(0x0304);
        sctp.set_verification_tag(0x0506_0708);
        sctp.set_checksum(0x0c0b_0a09);
        assert_eq!((sctp.source_port(), sctp.destination_port()), (0x0102, 0x0304));
        assert_eq!((sctp.verification_tag(), sctp.checksum()), (0x0506_0708, 0x0c0b_0a09));
        assert_eq!(sctp.payload(), [0; 4]);
        assert_eq!(sctp.into_inner()[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert!(Sctp::new_checked([0u8; 11]).is_err());
    }
}
