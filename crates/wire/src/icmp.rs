//! ICMP for IPv4 (RFC 792).

use crate::error::{Header, Malformed};
use crate::octets::{put, put_u16, range, u8_at, u16_at, u32_at};

pub(crate) mod field {
    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const REST: usize = 4;
    pub const ECHO_ID: usize = 4;
    pub const ECHO_SEQ: usize = 6;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Source quench (deprecated by RFC 6633, still an error that quotes a packet).
pub const SOURCE_QUENCH: u8 = 4;
/// Redirect.
pub const REDIRECT: u8 = 5;
/// Echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;
/// Timestamp request.
pub const TIMESTAMP_REQUEST: u8 = 13;
/// Timestamp reply.
pub const TIMESTAMP_REPLY: u8 = 14;
/// Information request.
pub const INFO_REQUEST: u8 = 15;
/// Information reply.
pub const INFO_REPLY: u8 = 16;

/// Bytes that start with an ICMP header and end with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp<T: AsRef<[u8]>> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Icmp<T> {
    /// A view of `bytes`.
    ///
    /// # Errors
    /// Fewer than 8 bytes.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Malformed::unless_holds(Header::Icmp, HEADER_LEN, bytes.as_ref().len())?;
        Ok(Icmp { bytes })
    }

    /// The bytes that the view was made of.
    pub fn into_inner(self) -> T {
        self.bytes
    }

    /// The type, [`ECHO_REQUEST`] for instance.
    pub fn icmp_type(&self) -> u8 {
        u8_at(self.bytes.as_ref(), field::TYPE)
    }

    /// The code within the type.
    pub fn code(&self) -> u8 {
        u8_at(self.bytes.as_ref(), field::CODE)
    }

    /// The checksum as it stands.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::CHECKSUM)
    }

    /// The four bytes behind the checksum, whose meaning hangs on the type.
    pub fn rest(&self) -> u32 {
        u32_at(self.bytes.as_ref(), field::REST)
    }

    /// The identifier of an echo, timestamp or information message.
    pub fn echo_id(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::ECHO_ID)
    }

    /// The sequence number of such a message.
    pub fn echo_seq(&self) -> u16 {
        u16_at(self.bytes.as_ref(), field::ECHO_SEQ)
    }

    /// Whether the payload is the start of the packet that the message is about.
    pub fn is_error(&self) -> bool {
        is_error(self.icmp_type())
    }

    /// What follows the header: echo data, or for errors the quoted packet.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.bytes.as_ref();
        range(bytes, HEADER_LEN, bytes.len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Icmp<T> {
    /// Sets the type.
    pub fn set_icmp_type(&mut self, icmp_type: u8) {
        put(self.bytes.as_mut(), field::TYPE, [icmp_type]);
    }

    /// Sets the code.
    pub fn set_code(&mut self, code: u8) {
        put(self.bytes.as_mut(), field::CODE, [code]);
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        put_u16(self.bytes.as_mut(), field::CHECKSUM, checksum);
    }

    /// Sets the identifier.
    pub fn set_echo_id(&mut self, id: u16) {
        put_u16(self.bytes.as_mut(), field::ECHO_ID, id);
    }
}

/// Whether a message of this type quotes the packet that it is about.
pub const fn is_error(icmp_type: u8) -> bool {
    matches!(icmp_type, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Whether a message of this type has an identifier: the queries and their replies.
pub const fn has_id(icmp_type: u8) -> bool {
    matches!(icmp_type, ECHO_REPLY | ECHO_REQUEST | TIMESTAMP_REQUEST..=INFO_REPLY)
}
