//! Geneve headers and their options (RFC 8926).

use crate::error::{Header, Malformed};
use crate::octets::{range, u8_at, u16_at, u32_at};

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 8;
/// The maximum length of all options in bytes: a six-bit number of words of four bytes.
pub const OPTIONS_LEN_MAX: usize = 63 * 4;
/// Bytes of an option without its value.
pub const OPTION_HEADER_LEN: usize = 4;
/// The UDP port assigned by IANA.
pub const PORT: u16 = 6081;
/// The flag of control packets (O).
pub const FLAG_OAM: u8 = 0x80;
/// The flag of packets with a critical option (C).
pub const FLAG_CRITICAL: u8 = 0x40;
/// The bit of an option's type that marks it as critical: the receiver must support it.
pub const OPTION_CRITICAL: u8 = 0x80;

/// Bytes that start with a Geneve header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geneve<T: AsRef<[u8]>> {
    bytes: T,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneveOption<'a> {
    /// The option class, which is the namespace of the type.
    pub class: u16,
    /// The type, with the critical bit (0x80).
    pub kind: u8,
    /// The value, a multiple of four bytes.
    pub value: &'a [u8],
}

impl<T: AsRef<[u8]>> Geneve<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Too short for header and options, a version other than 0, or an option that exceeds the options.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let raw = bytes.as_ref();
        Malformed::unless_holds(Header::Geneve, HEADER_LEN, raw.len())?;
        Malformed::unless_kind(Header::Geneve, (u8_at(raw, 0) >> 6).into(), 0)?;
        let view = Geneve { bytes };
        let raw = view.bytes.as_ref();
        Malformed::unless_holds(Header::Geneve, view.header_len(), raw.len())?;
        let options = view.options();
        let read: usize = read_options(options).map(|it| 4 + it.value.len()).sum();
        Malformed::unless_within(Header::Geneve, options.len(), 0, read)?;
        Ok(view)
    }

    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        HEADER_LEN + usize::from(u8_at(self.bytes.as_ref(), 0) & 0x3f) * 4
    }

    /// [`FLAG_OAM`] and [`FLAG_CRITICAL`].
    pub fn flags(&self) -> u8 {
        u8_at(self.bytes.as_ref(), 1) & (FLAG_OAM | FLAG_CRITICAL)
    }

    /// The Ethernet type of the payload; 0x6558 for a whole frame.
    pub fn protocol(&self) -> u16 {
        u16_at(self.bytes.as_ref(), 2)
    }

    /// The virtual network identifier, 24 bits.
    pub fn vni(&self) -> u32 {
        u32_at(self.bytes.as_ref(), 4) >> 8
    }

    /// The bytes of the options.
    pub fn options(&self) -> &[u8] {
        range(self.bytes.as_ref(), HEADER_LEN, self.header_len())
    }

    /// The bytes after the header: the encapsulated packet.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, self.header_len(), bytes.len())
    }
}

/// Returns the options in `bytes`, up to the first that exceeds them.
pub fn read_options(bytes: &[u8]) -> impl Iterator<Item = GeneveOption<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let head: [u8; 4] = *rest.first_chunk()?;
        let len = usize::from(head[3] & 0x1f) * 4;
        let value = rest.get(4..4 + len)?;
        rest = &rest[4 + len..];
        Some(GeneveOption { class: u16::from_be_bytes([head[0], head[1]]), kind: head[2], value })
    })
}

/// Returns the fixed header of a packet with `options_len` bytes of options.
pub const fn header(flags: u8, protocol: u16, vni: u32, options_len: usize) -> [u8; HEADER_LEN] {
    let (p, v) = (protocol.to_be_bytes(), (vni << 8).to_be_bytes());
    [(options_len / 4) as u8 & 0x3f, flags, p[0], p[1], v[0], v[1], v[2], v[3]]
}

/// Returns whether an option is critical.
pub fn has_critical(options: &[u8]) -> bool {
    read_options(options).any(|option| option.kind & OPTION_CRITICAL != 0)
}

/// Returns the first four bytes of an option with a value of `len` bytes.
pub const fn option_header(class: u16, kind: u8, len: usize) -> [u8; OPTION_HEADER_LEN] {
    let c = class.to_be_bytes();
    [c[0], c[1], kind, (len / 4) as u8 & 0x1f]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &[u8], words: usize, expect: Option<usize>) {
        let mut bytes = header(FLAG_OAM, 0x6558, 7, words * 4).to_vec();
        bytes.extend(options);
        let found = Geneve::new_checked(&bytes[..]).ok();
        let count = found.as_ref().map(|it| read_options(it.options()).count());
        assert_eq!(count, expect, "{options:?} {words}");
        if let Some(view) = found {
            assert_eq!((view.vni(), view.flags(), view.protocol()), (7, FLAG_OAM, 0x6558));
        }
    }

    #[test]
    fn options_end_where_the_header_does() {
        check(&[], 0, Some(0));
        check(&[], 1, None);
        check(&[1, 2, 0x83, 0], 1, Some(1));
        check(&[1, 2, 0x83, 1], 1, None);
        check(&[1, 2, 3, 1, 9, 9, 9, 9, 1, 2, 4, 0], 3, Some(2));
        check(&[1, 2, 3, 2, 9, 9, 9, 9, 1, 2, 4, 0], 3, Some(1));
        check(&[1, 2, 3, 3, 9, 9, 9, 9, 1, 2, 4, 0], 3, None);
        assert!(has_critical(&[1, 2, 0x83, 0]) && !has_critical(&[1, 2, 3, 0]));
        assert!(Geneve::new_checked([0x40, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
