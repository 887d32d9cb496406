//! NSH, the network service header (RFC 8300).

use crate::error::{Header, Malformed};
use crate::octets::{put_u32, range, u16_at, u32_at};

mod field {
    pub const FLAGS_LENGTH: usize = 0;
    pub const MD_TYPE: usize = 2;
    pub const NEXT_PROTOCOL: usize = 3;
    pub const PATH: usize = 4;
    pub const CONTEXT: usize = 8;
}

/// Bytes of the base and service path headers.
pub const BASE_LEN: usize = 8;
/// Bytes of a header with MD type 1.
pub const MD1_LEN: usize = 24;
/// The length field counts 4 bytes in 6 bits.
pub const LEN_MAX: usize = 63 * 4;

/// MD type 1: four context headers of 4 bytes (RFC 8300 section 2.4).
pub const MD_TYPE_1: u8 = 1;
/// MD type 2: context headers of variable length (RFC 8300 section 2.5).
pub const MD_TYPE_2: u8 = 2;

/// Values of the next protocol (RFC 8300 section 2.2).
pub mod next_protocol {
    /// IPv4.
    pub const IPV4: u8 = 1;
    /// IPv6.
    pub const IPV6: u8 = 2;
    /// An Ethernet frame.
    pub const ETHERNET: u8 = 3;
    /// Another NSH header.
    pub const NSH: u8 = 4;
}

const TTL_SHIFT: u32 = 6;

/// Bytes that start with an NSH header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nsh<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Nsh<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// The bytes end before the header does; its version is not 0; its length does not fit its MD type.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Malformed::unless_holds(Header::Nsh, BASE_LEN, bytes.as_ref().len())?;
        let nsh = Nsh { bytes };
        let version = u16_at(nsh.bytes.as_ref(), field::FLAGS_LENGTH) >> 14;
        Malformed::unless_kind(Header::Nsh, version, 0)?;
        let have = nsh.bytes.as_ref().len();
        let (min, max) = match nsh.md_type() {
            MD_TYPE_1 => (MD1_LEN, have.min(MD1_LEN)),
            _ => (BASE_LEN, have),
        };
        Malformed::unless_within(Header::Nsh, nsh.header_len(), min, max)?;
        Ok(nsh)
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// Bytes of the header.
    pub fn header_len(&self) -> usize {
        usize::from(u16_at(self.bytes.as_ref(), field::FLAGS_LENGTH) & 0x3f) * 4
    }

    /// The two flags: 2 for OAM, and an unassigned one.
    pub fn flags(&self) -> u8 {
        (u16_at(self.bytes.as_ref(), field::FLAGS_LENGTH) >> 12) as u8 & 3
    }

    /// The time to live, 0 to 63.
    pub fn ttl(&self) -> u8 {
        (u16_at(self.bytes.as_ref(), field::FLAGS_LENGTH) >> TTL_SHIFT) as u8 & 0x3f
    }

    /// The type of the metadata, with the four unassigned bits above it (RFC 8300 section 2.2): a packet that has one
    /// of them set is of a type of its own, as in Open vSwitch.
    pub fn md_type(&self) -> u8 {
        self.bytes.as_ref().get(field::MD_TYPE).copied().unwrap_or(0)
    }

    /// What follows the header, one of [`next_protocol`].
    pub fn next_protocol(&self) -> u8 {
        self.bytes.as_ref().get(field::NEXT_PROTOCOL).copied().unwrap_or(0)
    }

    /// The service path identifier, 24 bits.
    pub fn service_path(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::PATH) >> 8
    }

    /// The service index.
    pub fn service_index(&self) -> u8 {
        u32_at(self.bytes.as_ref(), field::PATH) as u8
    }

    /// The context headers of MD type 1.
    pub fn context(&self) -> [u32; 4] {
        [0, 1, 2, 3].map(|i| u32_at(self.bytes.as_ref(), field::CONTEXT + i * 4))
    }

    /// The metadata behind the service path header.
    pub fn metadata(&self) -> &[u8] {
        range(self.bytes.as_ref(), BASE_LEN, self.header_len())
    }

    /// What follows the header.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, self.header_len(), bytes.len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Nsh<T> {
    /// Sets flags and time to live.
    pub fn set_flags_ttl(&mut self, flags: u8, ttl: u8) {
        let len = u16_at(self.bytes.as_ref(), field::FLAGS_LENGTH) & 0x3f;
        let word = u16::from(flags & 3) << 12 | u16::from(ttl & 0x3f) << TTL_SHIFT | len;
        if let Some(place) = self.bytes.as_mut().get_mut(..2) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Sets what follows the header.
    pub fn set_next_protocol(&mut self, protocol: u8) {
        if let Some(place) = self.bytes.as_mut().get_mut(field::NEXT_PROTOCOL) {
            *place = protocol;
        }
    }

    /// Sets service path identifier and service index.
    pub fn set_path(&mut self, service_path: u32, service_index: u8) {
        let word = service_path << 8 | u32::from(service_index);
        put_u32(self.bytes.as_mut(), field::PATH, word);
    }

    /// Sets the context headers of MD type 1.
    pub fn set_context(&mut self, context: &[u32; 4]) {
        for (i, word) in context.iter().enumerate() {
            put_u32(self.bytes.as_mut(), field::CONTEXT + i * 4, *word);
        }
    }
}

impl Nsh<Vec<u8>> {
    /// A new header with this metadata, whose length is a multiple of 4; all other fields are 0. `None` if it
    /// is too long.
    pub fn build(md_type: u8, metadata: &[u8]) -> Option<Self> {
        let len = BASE_LEN + metadata.len();
        if len > LEN_MAX || !len.is_multiple_of(4) {
            return None;
        }
        let mut bytes = vec![0, (len / 4) as u8, md_type, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(metadata);
        Some(Nsh { bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_its_parts_where_rfc_8300_has_them() {
        let mut nsh = Nsh::build(MD_TYPE_1, &[0; 16]).unwrap();
        nsh.set_flags_ttl(2, 0x21);
        nsh.set_next_protocol(next_protocol::ETHERNET);
        nsh.set_path(0x123456, 0xfe);
        nsh.set_context(&[1, 2, 3, 0xdead_beef]);
        let bytes = nsh.into_inner();
        let expect = "28460103123456fe000000010000000200000003deadbeef";
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expect);
        let with_payload = [&bytes[..], &[7]].concat();
        let nsh = Nsh::new_checked(&with_payload[..]).unwrap();
        assert_eq!((nsh.flags(), nsh.ttl(), nsh.md_type()), (2, 0x21, 1));
        assert_eq!((nsh.next_protocol(), nsh.header_len()), (3, 24));
        assert_eq!((nsh.service_path(), nsh.service_index()), (0x123456, 0xfe));
        assert_eq!((nsh.context(), nsh.payload()), ([1, 2, 3, 0xdead_beef], &[7][..]));
    }

    #[test]
    fn lengths_and_versions_are_checked() {
        let md2 = Nsh::build(MD_TYPE_2, &[1, 2, 3, 4]).unwrap().into_inner();
        assert_eq!(Nsh::new_checked(&md2[..]).unwrap().metadata(), [1, 2, 3, 4]);
        assert!(Nsh::new_checked(&md2[..11]).is_err());
        let changed = |at: usize, byte: u8| {
            let mut bytes = md2.clone();
            bytes[at] = byte;
            Nsh::new_checked(bytes).is_ok()
        };
        assert!(!changed(0, 0x40), "version 1");
        assert!(!changed(1, 1), "shorter than its base");
        assert!(!changed(2, MD_TYPE_1), "MD type 1 has 24 bytes");
        assert!(changed(2, 0x32), "an unassigned bit makes another type");
        let other = [&md2[..2], &[0x31, 1], &md2[4..]].concat();
        assert_eq!(Nsh::new_checked(other).unwrap().md_type(), 0x31);
        assert!(Nsh::build(MD_TYPE_2, &[0; 244]).is_some());
        assert!(Nsh::build(MD_TYPE_2, &[0; 248]).is_none());
        assert!(Nsh::build(MD_TYPE_2, &[0; 3]).is_none());
    }
}
