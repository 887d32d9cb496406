//! GTP-U headers (3GPP TS 29.281).

use crate::error::{Header, Malformed};
use crate::octets::{range, u8_at, u16_at, u32_at};

/// Bytes of the header without optional fields.
pub const HEADER_LEN: usize = 8;
/// Bytes of the optional fields. All are present if any of their flags is set.
pub const OPTIONAL_LEN: usize = 4;
/// The UDP port assigned by IANA.
pub const PORT: u16 = 2152;
/// Version 1, protocol type GTP.
pub const FLAGS: u8 = 0x30;
/// A sequence number is present.
pub const FLAG_SEQUENCE: u8 = 0x02;
/// Sequence number, N-PDU number or extension header: with any of them the optional fields are present.
pub const FLAGS_OPTIONAL: u8 = 0x07;
/// The message type of user packets.
pub const G_PDU: u8 = 255;

/// Bytes that start with a GTP-U header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gtpu<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Gtpu<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Too short, another version or protocol type, or a length beyond the bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Gtpu, HEADER_LEN, raw.len())?;
        let flags = u8_at(raw, 0);
        Malformed::unless_kind(Header::Gtpu, (flags & 0xf0).into(), FLAGS.into())?;
        let view = Gtpu { bytes };
        let (least, most) =
            (view.header_len() - HEADER_LEN, view.bytes.as_ref().len() - HEADER_LEN);
        Malformed::unless_within(Header::Gtpu, view.length(), least, most)?;
        Ok(view)
    }

    /// Version and flags.
    pub fn flags(&self) -> u8 {
        u8_at(self.bytes.as_ref(), 0)
    }

    /// The message type, such as [`G_PDU`].
    pub fn message_type(&self) -> u8 {
        u8_at(self.bytes.as_ref(), 1)
    }

    /// The number of bytes after the first eight.
    pub fn length(&self) -> usize {
        u16_at(self.bytes.as_ref(), 2).into()
    }

    /// The tunnel endpoint identifier.
    pub fn endpoint(&self) -> u32 {
        u32_at(self.bytes.as_ref(), 4)
    }

    /// Bytes of the header with its optional fields, without extension headers.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + if self.flags() & FLAGS_OPTIONAL != 0 { OPTIONAL_LEN } else { 0 }
    }

    /// The type of the first extension header, 0 for none.
    pub fn next_extension(&self) -> u8 {
        if self.flags() & 0x04 != 0 { u8_at(self.bytes.as_ref(), 11) } else { 0 }
    }

    /// The bytes after the header: the encapsulated packet.
    pub fn payload(&self) -> &[u8] {
        range(self.bytes.as_ref(), self.header_len(), HEADER_LEN + self.length())
    }
}

/// Returns a header without the optional fields.
pub const fn header(flags: u8, kind: u8, length: u16, endpoint: u32) -> [u8; HEADER_LEN] {
    let (l, e) = (length.to_be_bytes(), endpoint.to_be_bytes());
    [flags, kind, l[0], l[1], e[0], e[1], e[2], e[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked() {
        for (flags, length, have, payload) in [
            (0x30, 4, 12, Some(4)),
            (0x30, 5, 12, None),
            (0x32, 4, 12, Some(0)),
            (0x32, 3, 12, None),
            (0x20, 4, 12, None),
            (0x50, 4, 12, None),
        ] {
            let mut bytes = header(flags, G_PDU, length, 9).to_vec();
            bytes.resize(have, 0);
            let found = Gtpu::new_checked(&bytes[..]).ok().map(|it| it.payload().len());
            assert_eq!(found, payload, "{flags:#x} {length}");
        }
    }
}
