//! The Internet checksum: computation (RFC 1071), sums of pseudo-headers, incremental updates (RFC 1624) and
//! verification. Also the CRC32c of SCTP.
//!
//! Terms: a *sum* is the folded ones' complement sum of 16-bit words. A *checksum* is the complement of a
//! sum, the form in which headers contain it. A packet with a *partial* checksum, which the kernel leaves for
//! the network card to complete, contains the sum of the pseudo-header in the checksum field.

mod crc32c;
#[cfg(test)]
mod tests;

pub use crc32c::{crc32c, crc32c_change, sctp_crc};

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::octets::u16_at;
#[cfg(test)]
use crate::octets::{put_u16, range};

/// The sum of `bytes`, an odd last byte padded with zero.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(fold(total(bytes)).to_ne_bytes())
}

/// Returns the sum, unfolded and in native byte order (RFC 1071 section 2, B and C): 2^32 and 2^16 are both 1
/// modulo 0xffff. It adds halves of words, which the compiler vectorizes; for whole packets this takes half
/// as long as adding words with carry. Each step adds less than 2^33, so 64 bits suffice for any packet.
#[inline]
fn total(bytes: &[u8]) -> u64 {
    let (chunks, tail) = bytes.as_chunks::<8>();
    let mut total = 0;
    for chunk in chunks {
        let word = u64::from_ne_bytes(*chunk);
        total += (word & 0xffff_ffff) + (word >> 32);
    }
    if tail.is_empty() {
        return total;
    }
    let (halves, tail) = tail.as_chunks::<4>();
    total += halves.iter().map(|half| u64::from(u32::from_ne_bytes(*half))).sum::<u64>();
    let mut last = [0u8; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    total + u64::from(u32::from_ne_bytes(last))
}

/// Returns the ones' complement sum of two words, with end-around carry.
#[inline]
const fn plus(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u64
}

/// Returns the checksum of `bytes`, in which the checksum field must be zero.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// Returns the sum of two adjacent parts from their sums. The first part must have an even length.
#[inline]
pub const fn combine(a: u16, b: u16) -> u16 {
    fold(a as u64 + b as u64)
}

/// The sum of the IPv4 pseudo header of a segment of `len` bytes.
#[inline]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: usize) -> u16 {
    let addresses = sum32(source.to_bits()) + sum32(destination.to_bits());
    fold(addresses + u64::from(protocol) + len as u64)
}

/// The sum of the IPv6 pseudo header of a segment of `len` bytes (RFC 8200 section 8.1).
#[inline]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, len: usize) -> u16 {
    let addresses = sum128(source.to_bits()) + sum128(destination.to_bits());
    fold(addresses + u64::from(protocol) + len as u64)
}

/// Returns the checksum as UDP transmits it: 0 is sent as 0xffff, since 0 means "no checksum" (RFC 768).
#[inline]
pub const fn udp_nonzero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// The change of a packet's sum when fields change (RFC 1624, equation 3).
///
/// The same change applies to the checksum of the header and to that of the transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Change(u16);

impl Change {
    /// No change.
    pub const NONE: Change = Change(0);

    /// The change of a 16-bit word from `old` to `new`.
    #[inline]
    pub const fn u16(old: u16, new: u16) -> Self {
        Change(fold(!old as u64 + new as u64))
    }

    /// The change of two adjacent words.
    #[inline]
    pub const fn u32(old: u32, new: u32) -> Self {
        Change(fold(sum32(!old) + sum32(new)))
    }

    /// The change of eight adjacent words.
    #[inline]
    pub const fn u128(old: u128, new: u128) -> Self {
        Change(fold(sum128(!old) + sum128(new)))
    }

    /// Returns the combination of this change and another one.
    #[inline]
    pub const fn and(self, other: Change) -> Self {
        Change(combine(self.0, other.0))
    }

    /// Returns the checksum after the change.
    #[inline]
    #[must_use]
    pub const fn checksum(self, before: u16) -> u16 {
        !combine(!before, self.0)
    }

    /// Returns the sum after the change.
    #[inline]
    #[must_use]
    pub const fn sum(self, before: u16) -> u16 {
        combine(before, self.0)
    }
}

/// Returns `checksum` after a covered word changed from `old` to `new`.
#[must_use]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Change::u16(old, new).checksum(checksum)
}

/// Returns `checksum` after a covered IPv4 address (or two words) changed from `old` to `new`.
#[must_use]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    Change::u32(old, new).checksum(checksum)
}

/// The result of verifying a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The checksum is correct.
    Good,
    /// The checksum is wrong.
    Bad,
    /// There is no checksum to verify: UDP over IPv4 without one, a fragment, or another protocol.
    Absent,
}

impl Verdict {
    fn of(sum: u16) -> Self {
        if sum == 0xffff { Verdict::Good } else { Verdict::Bad }
    }
}

/// Verifies the checksum of an IPv4 header, given with its options.
pub fn verify_ipv4_header(header: &[u8]) -> Verdict {
    Verdict::of(sum(header))
}

/// Verifies a TCP segment, given the sum of the pseudo-header.
pub fn verify_tcp(pseudo: u16, segment: &[u8]) -> Verdict {
    Verdict::of(combine(pseudo, sum(segment)))
}

/// Verifies a TCP segment over IPv4 in one pass. `addresses` are source and destination.
#[inline]
pub fn verify_tcp_v4(addresses: u64, segment: &[u8]) -> Verdict {
    let protocol_len = u32::from(crate::protocol::TCP) + segment.len() as u32;
    let pseudo = plus(addresses.to_be(), u64::from(protocol_len.to_be()));
    // Never zero, since the protocol is not.
    let is_right = plus(total(segment), pseudo).is_multiple_of(0xffff);
    if is_right { Verdict::Good } else { Verdict::Bad }
}

/// Verifies a TCP segment, or another message with a pseudo-header, over IPv6 in one pass. `addresses` are
/// source and destination, the upper half of each first.
#[inline]
pub fn verify_v6(addresses: &[u64; 4], protocol: u8, segment: &[u8]) -> Verdict {
    let [a, b, c, d] = addresses;
    let addresses = plus(plus(a.to_be(), b.to_be()), plus(c.to_be(), d.to_be()));
    let protocol_len = u32::from(protocol) + segment.len() as u32;
    let pseudo = plus(addresses, u64::from(protocol_len.to_be()));
    // Never zero, since the protocol is not.
    let is_right = plus(total(segment), pseudo).is_multiple_of(0xffff);
    if is_right { Verdict::Good } else { Verdict::Bad }
}

/// Verifies a UDP datagram (header and payload) over IPv4, where the checksum may be absent.
pub fn verify_udp_v4(pseudo: u16, datagram: &[u8]) -> Verdict {
    match u16_at(datagram, crate::udp::field::CHECKSUM) {
        0 => Verdict::Absent,
        _ => Verdict::of(combine(pseudo, sum(datagram))),
    }
}

/// Verifies a UDP datagram over IPv6, which must have a checksum (RFC 8200 section 8.1).
pub fn verify_udp_v6(pseudo: u16, datagram: &[u8]) -> Verdict {
    match u16_at(datagram, crate::udp::field::CHECKSUM) {
        0 => Verdict::Bad,
        _ => Verdict::of(combine(pseudo, sum(datagram))),
    }
}

/// Verifies an ICMP message, which has no pseudo header.
pub fn verify_icmp(message: &[u8]) -> Verdict {
    Verdict::of(sum(message))
}

/// Verifies an ICMPv6 message, given the sum of the pseudo-header.
pub fn verify_icmpv6(pseudo: u16, message: &[u8]) -> Verdict {
    Verdict::of(combine(pseudo, sum(message)))
}

/// Verifies the CRC32c of an SCTP packet, which covers no pseudo-header. A packet that is too short for the
/// common header has none.
pub fn verify_sctp(packet: &[u8]) -> Verdict {
    match crate::Sctp::new_checked(packet) {
        Ok(sctp) if sctp.checksum() == sctp_crc(packet) => Verdict::Good,
        Ok(_) => Verdict::Bad,
        Err(_) => Verdict::Absent,
    }
}

/// Completes a partial checksum: sums `packet` from `start` (the field contains the sum of the pseudo-header)
/// and writes the checksum `offset` bytes after `start`, as the fields `csum_start` and `csum_offset` of a
/// virtio network header define. Returns whether both lie within the packet.
#[cfg(test)]
pub(crate) fn finish_partial(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(at) = start.checked_add(offset) else { return false };
    // A result of zero is sent as 0xffff, which every protocol accepts and UDP requires.
    let value = udp_nonzero(checksum(range(packet, start, packet.len())));
    put_u16(packet, at, value)
}

const fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    total as u16
}

const fn sum32(value: u32) -> u64 {
    (value >> 16) as u64 + (value & 0xffff) as u64
}

const fn sum128(value: u128) -> u64 {
    let (high, low) = ((value >> 64) as u64, value as u64);
    (high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff)
}
