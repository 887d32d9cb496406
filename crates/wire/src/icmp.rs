//! ICMP for IPv4 (RFC 792).

pub(crate) use crate::view::icmp_field as field;
use crate::view::icmp_view;

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

icmp_view!(Icmp);

/// Returns whether messages of this type are errors, which quote the packet that caused them.
pub const fn is_error(icmp_type: u8) -> bool {
    matches!(icmp_type, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// Returns whether messages of this type have an identifier: queries and their replies.
pub const fn has_id(icmp_type: u8) -> bool {
    matches!(icmp_type, ECHO_REPLY | ECHO_REQUEST | TIMESTAMP_REQUEST..=INFO_REPLY)
}
