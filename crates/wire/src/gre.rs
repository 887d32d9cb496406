//! GRE headers (RFC 2784) with key and sequence number (RFC 2890).

use crate::error::{Header, Malformed};
use crate::octets::{range, u16_at, u32_at};

/// Bytes of the header without optional words.
pub const HEADER_LEN: usize = 4;
/// A checksum follows.
pub const FLAG_CHECKSUM: u16 = 0x8000;
/// A key follows.
pub const FLAG_KEY: u16 = 0x2000;
/// A sequence number follows.
pub const FLAG_SEQUENCE: u16 = 0x1000;

/// Bytes that start with a GRE header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gre<T: AsRef<[u8]>> {
    bytes: T,
}

/// Returns the length in bytes of a header with these flags.
pub const fn header_len(flags: u16) -> usize {
    HEADER_LEN
        + 4 * ((flags & FLAG_CHECKSUM != 0) as usize
            + (flags & FLAG_KEY != 0) as usize
            + (flags & FLAG_SEQUENCE != 0) as usize)
}

impl<T: AsRef<[u8]>> Gre<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Too short, or flags other than checksum, key and sequence number, such as routing or a version.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Gre, HEADER_LEN, raw.len())?;
        let flags = u16_at(raw, 0);
        let other = flags & !(FLAG_CHECKSUM | FLAG_KEY | FLAG_SEQUENCE);
        Malformed::unless_kind(Header::Gre, other, 0)?;
        Malformed::unless_holds(Header::Gre, header_len(flags), raw.len())?;
        Ok(Gre { bytes })
    }

    /// [`FLAG_CHECKSUM`], [`FLAG_KEY`] and [`FLAG_SEQUENCE`].
    pub fn flags(&self) -> u16 {
        u16_at(self.bytes.as_ref(), 0)
    }

    /// The Ethernet type of the payload; 0x6558 for a whole frame.
    pub fn protocol(&self) -> u16 {
        u16_at(self.bytes.as_ref(), 2)
    }

    /// Bytes of the header.
    pub fn header_len(&self) -> usize {
        header_len(self.flags())
    }

    /// The key.
    pub fn key(&self) -> Option<u32> {
        let at = header_len(self.flags() & FLAG_CHECKSUM);
        (self.flags() & FLAG_KEY != 0).then(|| u32_at(self.bytes.as_ref(), at))
    }

    /// The bytes after the header: the encapsulated packet.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, self.header_len(), bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expect: Option<(usize, Option<u32>)>) {
        let found = Gre::new_checked(bytes).ok().map(|it| (it.payload().len(), it.key()));
        assert_eq!(found, expect, "{bytes:?}");
    }

    #[test]
    fn flags_say_how_long_it_is() {
        check(&[0, 0, 0x65, 0x58, 1], Some((1, None)));
        check(&[0x20, 0, 0x65, 0x58, 0, 0, 1, 2], Some((0, Some(0x102))));
        check(&[0x20, 0, 0x65, 0x58, 0, 0, 1], None);
        check(&[0xa0, 0, 0x65, 0x58, 9, 9, 9, 9, 0, 0, 1, 2], Some((0, Some(0x102))));
        check(&[0x10, 0, 0x65, 0x58, 9, 9, 9, 9, 1], Some((1, None)));
        check(&[0, 1, 0x65, 0x58], None);
        check(&[0x40, 0, 0x65, 0x58], None);
        check(&[0, 0, 0x65], None);
    }
}
