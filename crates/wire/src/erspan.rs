//! ERSPAN headers behind GRE with a sequence number (draft-foschiano-erspan): types II and III, which
//! Open vSwitch calls versions 1 and 2.

use crate::error::{Header, Malformed};
use crate::octets::{range, u8_at, u16_at, u32_at};

/// Bytes of a type II header: the common word and the index.
pub const HEADER_LEN_1: usize = 8;
/// Bytes of a type III header: the common word, a timestamp, and a word of tag, flags and hardware
/// identifier.
pub const HEADER_LEN_2: usize = 12;
/// The largest session identifier (ten bits).
pub const SESSION_MAX: u16 = 0x3ff;
/// The largest index (twenty bits).
pub const INDEX_MAX: u32 = 0xf_ffff;
/// The largest hardware identifier (six bits).
pub const HARDWARE_MAX: u8 = 0x3f;

/// Bytes that start with an ERSPAN header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erspan<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Erspan<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Too short, or a version other than 1 and 2.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Erspan, HEADER_LEN_1, raw.len())?;
        let version = u8_at(raw, 0) >> 4;
        if version == 2 {
            Malformed::unless_holds(Header::Erspan, HEADER_LEN_2, raw.len())?;
        } else {
            Malformed::unless_kind(Header::Erspan, version.into(), 1)?;
        }
        Ok(Erspan { bytes })
    }

    /// 1 for type II, 2 for type III.
    pub fn version(&self) -> u8 {
        u8_at(self.bytes.as_ref(), 0) >> 4
    }

    /// The session identifier, ten bits.
    pub fn session(&self) -> u16 {
        u16_at(self.bytes.as_ref(), 2) & SESSION_MAX
    }

    /// The port index of version 1; 0 for version 2.
    pub fn index(&self) -> u32 {
        if self.version() == 1 { u32_at(self.bytes.as_ref(), 4) & INDEX_MAX } else { 0 }
    }

    /// The direction of version 2, 1 for egress; 0 for version 1.
    pub fn direction(&self) -> u8 {
        if self.version() == 2 { (u8_at(self.bytes.as_ref(), 11) >> 3) & 1 } else { 0 }
    }

    /// The hardware identifier of version 2; 0 for version 1.
    pub fn hardware(&self) -> u8 {
        let word = u16_at(self.bytes.as_ref(), 10);
        if self.version() == 2 { (word >> 4) as u8 & HARDWARE_MAX } else { 0 }
    }

    /// Bytes of the header.
    pub fn header_len(&self) -> usize {
        if self.version() == 2 { HEADER_LEN_2 } else { HEADER_LEN_1 }
    }

    /// The mirrored frame.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, self.header_len(), bytes.len())
    }
}

/// A version 1 header.
pub const fn header_1(session: u16, index: u32) -> [u8; HEADER_LEN_1] {
    let (s, i) = ((session & SESSION_MAX).to_be_bytes(), (index & INDEX_MAX).to_be_bytes());
    [0x10, 0, s[0], s[1], i[0], i[1], i[2], i[3]]
}

/// The offset of the timestamp in a version 2 header.
pub const TIME_AT: usize = 4;

/// Returns the timestamp of a version 2 header, in units of 100 microseconds, which granularity 0 means
/// (ovs: `lib/packets.h`, `get_erspan_ts`).
pub const fn time(ns: u64) -> [u8; 4] {
    ((ns / 100_000) as u32).to_be_bytes()
}

/// A version 2 header with a timestamp of zero.
pub const fn header_2(session: u16, direction: u8, hardware: u8) -> [u8; HEADER_LEN_2] {
    let s = (session & SESSION_MAX).to_be_bytes();
    let last = ((hardware & HARDWARE_MAX) as u16) << 4 | ((direction & 1) as u16) << 3;
    let l = last.to_be_bytes();
    [0x20, 0, s[0], s[1], 0, 0, 0, 0, 0, 0, l[0], l[1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let one = Erspan::new_checked(header_1(0x7b, 3)).unwrap();
        assert_eq!((one.version(), one.session(), one.index()), (1, 0x7b, 3));
        let two = Erspan::new_checked(header_2(0x237, 1, 7)).unwrap();
        assert_eq!((two.version(), two.session()), (2, 0x237));
        assert_eq!((two.direction(), two.hardware(), two.index()), (1, 7, 0));
        // From a test of Open vSwitch (ovs: `tests/tunnel-push-pop.at`).
        assert_eq!(header_2(0x237, 1, 7)[10..], [0x00, 0x78]);
        assert!(Erspan::new_checked([0x30; 12]).is_err());
        assert!(Erspan::new_checked([0x20; 8]).is_err());
    }
}
