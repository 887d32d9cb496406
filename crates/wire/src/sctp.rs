//! SCTP common headers (RFC 9260 section 3.1).

use crate::error::{Header, Malformed};
use crate::octets::{array_at, put, range, u16_at, u32_at};
use crate::view::transport_view;

pub(crate) mod field {
    pub use crate::view::port_field::*;

    pub const TAG: usize = 4;
    pub const CHECKSUM: usize = 8;
}

/// Bytes of the common header.
pub const HEADER_LEN: usize = 12;
/// Where the CRC32c lies in the common header.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;
/// Bytes of a chunk's type, flags and length.
pub const CHUNK_HEADER_LEN: usize = 4;

/// Types of chunks (RFC 9260 section 3.2).
pub mod chunk {
    /// Payload data.
    pub const DATA: u8 = 0;
    /// Requests an association.
    pub const INIT: u8 = 1;
    /// Answers INIT.
    pub const INIT_ACK: u8 = 2;
    /// Selective acknowledgement.
    pub const SACK: u8 = 3;
    /// Probes the peer.
    pub const HEARTBEAT: u8 = 4;
    /// Answers HEARTBEAT.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// Ends the association at once.
    pub const ABORT: u8 = 6;
    /// Requests the end of the association.
    pub const SHUTDOWN: u8 = 7;
    /// Answers SHUTDOWN.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// Reports an error.
    pub const ERROR: u8 = 9;
    /// Returns the state cookie.
    pub const COOKIE_ECHO: u8 = 10;
    /// Answers COOKIE ECHO: the association is established.
    pub const COOKIE_ACK: u8 = 11;
    /// Answers SHUTDOWN ACK.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    /// In ABORT and SHUTDOWN COMPLETE: the verification tag is the receiver's, reflected.
    pub const FLAG_REFLECTED: u8 = 1;
}

/// A chunk of an SCTP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// The bytes after type, flags and length, without padding.
    pub value: &'a [u8],
}

/// Bytes that start with an SCTP common header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sctp<T: AsRef<[u8]>> {
    bytes: T,
}

transport_view!(Sctp);

impl<T: AsRef<[u8]>> Sctp<T> {
    /// A view of `bytes`, which must end where the SCTP packet ends, since its header has no length.
    ///
    /// # Errors
    /// Too short.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Malformed::unless_holds(Header::Sctp, HEADER_LEN, bytes.as_ref().len())?;
        Ok(Sctp { bytes })
    }

    /// The verification tag.
    pub fn verification_tag(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::TAG)
    }

    /// The CRC32c in the packet, in the form of [`crate::checksum::crc32c`]. On the wire its least
    /// significant byte is the first one (RFC 9260 appendix A).
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(array_at(self.bytes.as_ref(), field::CHECKSUM))
    }

    /// Returns the chunks. A chunk with a wrong length is returned as `None` and ends the iteration.
    pub fn chunks(&self) -> impl Iterator<Item = Option<Chunk<'_>>> {
        let mut rest = self.payload();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let length = usize::from(u16_at(rest, 2));
            let Some(body) = rest.get(CHUNK_HEADER_LEN..length) else {
                rest = &[];
                return Some(None);
            };
            let chunk = Chunk { kind: rest[0], flags: rest[1], value: body };
            // The padding of the last chunk may be missing.
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            Some(Some(chunk))
        })
    }

    /// The chunks after the header.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, HEADER_LEN, bytes.len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Sctp<T> {
    /// Sets the CRC32c.
    pub fn set_checksum(&mut self, crc: u32) {
        put(self.bytes.as_mut(), field::CHECKSUM, crc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_walked_to_the_first_that_lies() {
        let mut bytes = [0u8; 12].to_vec();
        bytes.extend([3, 0, 0, 5, 9, 0, 0, 0, 11, 1, 0, 4]);
        let chunks = |bytes: &[u8]| {
            let sctp = Sctp::new_checked(bytes).unwrap();
            sctp.chunks().map(|it| it.map(|it| (it.kind, it.value.len()))).collect::<Vec<_>>()
        };
        assert_eq!(chunks(&bytes), [Some((3, 1)), Some((11, 0))]);
        assert_eq!(chunks(&bytes[..17]), [Some((3, 1))]);
        bytes.extend([0, 0, 0, 3]);
        assert_eq!(chunks(&bytes), [Some((3, 1)), Some((11, 0)), None]);
        bytes[27] = 5;
        assert_eq!(chunks(&bytes)[2..], [None]);
        assert_eq!(chunks(&bytes[..26])[2..], [None]);
    }

    #[test]
    fn fields_lie_where_the_rfc_says() {
        let bytes: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut sctp = Sctp::new_checked(bytes).unwrap();
        sctp.set_checksum(0x0c0b_0a09);
        assert_eq!((sctp.source_port(), sctp.destination_port()), (0x0102, 0x0304));
        assert_eq!((sctp.verification_tag(), sctp.checksum()), (0x0506_0708, 0x0c0b_0a09));
        assert_eq!(sctp.payload(), [0; 4]);
        assert_eq!(sctp.into_inner()[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert!(Sctp::new_checked([0u8; 11]).is_err());
    }
}
