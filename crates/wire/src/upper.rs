//! Finds the transport header of IPv4 and IPv6 packets.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::checksum::{self, Verdict};
use crate::error::{Header, Malformed};
use crate::fragment::Fragment;
use crate::numbers::protocol;
use crate::octets::{put_u16, range, range_mut, u8_at, u16_at};
use crate::{Ipv4, Ipv6, Sctp, icmp, icmpv6, tcp, udp};

/// Source and destination of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// Of an IPv4 packet.
    V4 {
        /// The source address.
        source: Ipv4Addr,
        /// The destination address.
        destination: Ipv4Addr,
    },
    /// Of an IPv6 packet.
    V6 {
        /// The source address.
        source: Ipv6Addr,
        /// The destination address.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// Returns the sum of the pseudo-header of a segment of `len` bytes.
    pub fn pseudo_sum(&self, protocol: u8, len: usize) -> u16 {
        match *self {
            Addresses::V4 { source, destination } => {
                checksum::pseudo_v4(source, destination, protocol, len)
            }
            Addresses::V6 { source, destination } => {
                checksum::pseudo_v6(source, destination, protocol, len)
            }
        }
    }
}

/// The upper-layer header of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpperLayer {
    /// The packet's addresses.
    pub addresses: Addresses,
    /// The protocol; [`protocol::FRAGMENT`] in a later IPv6 fragment.
    pub protocol: u8,
    /// Its offset in bytes from the IP header.
    pub start: usize,
    /// The end of the packet in bytes from the IP header, without padding.
    pub end: usize,
    /// The part of a datagram that the packet carries.
    pub fragment: Fragment,
    /// Whether an IPv6 routing header has segments left. The pseudo-header then does not contain the
    /// destination address in the packet.
    pub routed: bool,
}

impl UpperLayer {
    /// Finds it in `packet`, which starts with an IP header.
    ///
    /// # Errors
    /// The errors of [`Ipv4::new_checked`], [`Ipv6::new_checked`] and [`Ipv6::extensions`], or a version that
    /// is neither 4 nor 6.
    pub fn find(packet: &[u8]) -> Result<Self, Malformed> {
        match version(packet)? {
            4 => Ok(Self::of_ipv4(&Ipv4::new_checked(packet)?, packet.len())),
            _ => Self::of_ipv6(&Ipv6::new_checked(packet)?, packet.len()),
        }
    }

    /// Finds it in a packet that may be truncated, as in ICMP errors.
    ///
    /// # Errors
    /// As [`UpperLayer::find`], except for lengths that exceed the bytes.
    pub fn find_quoted(packet: &[u8]) -> Result<Self, Malformed> {
        match version(packet)? {
            4 => Ok(Self::of_ipv4(&Ipv4::new_quoted(packet)?, packet.len())),
            _ => Self::of_ipv6(&Ipv6::new_quoted(packet)?, packet.len()),
        }
    }

    fn of_ipv4(ip: &Ipv4<&[u8]>, have: usize) -> Self {
        UpperLayer {
            addresses: Addresses::V4 { source: ip.source(), destination: ip.destination() },
            protocol: ip.protocol(),
            start: ip.header_len(),
            end: ip.total_len().clamp(ip.header_len(), have.max(ip.header_len())),
            fragment: ip.fragment(),
            routed: false,
        }
    }

    fn of_ipv6(ip: &Ipv6<&[u8]>, have: usize) -> Result<Self, Malformed> {
        let extensions = ip.extensions()?;
        Ok(UpperLayer {
            addresses: Addresses::V6 { source: ip.source(), destination: ip.destination() },
            protocol: extensions.protocol,
            start: crate::ipv6::HEADER_LEN + extensions.len,
            end: (crate::ipv6::HEADER_LEN + ip.payload_len()).min(have),
            fragment: extensions.fragment,
            routed: extensions.routed,
        })
    }

    /// Returns the bytes from the transport header to the end of the packet. `packet` must be the same as in
    /// [`UpperLayer::find`].
    pub fn segment<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        range(packet, self.start, self.end)
    }

    /// Returns source and destination port of TCP, UDP or SCTP, or `None` for later fragments, other
    /// protocols and truncated headers.
    pub fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        let segment = self.segment(packet);
        let known = matches!(self.protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
        let there = known && self.fragment.has_transport_header() && segment.len() >= 4;
        there.then(|| (u16_at(segment, 0), u16_at(segment, 2)))
    }

    /// Returns the offset of the transport's Internet checksum in bytes from the IP header, or `None` for
    /// later fragments, protocols without one (SCTP has a CRC) and truncated headers.
    pub fn checksum_at(&self) -> Option<usize> {
        let v6 = matches!(self.addresses, Addresses::V6 { .. });
        let offset = match self.protocol {
            protocol::TCP => tcp::field::CHECKSUM,
            protocol::UDP => udp::field::CHECKSUM,
            protocol::ICMP if !v6 => icmp::field::CHECKSUM,
            protocol::ICMPV6 if v6 => icmpv6::field::CHECKSUM,
            _ => return None,
        };
        let at = self.start + offset;
        (self.fragment.has_transport_header() && at + 2 <= self.end).then_some(at)
    }

    /// Returns whether the transport checksum covers a pseudo-header.
    pub fn has_pseudo_header(&self) -> bool {
        self.protocol != protocol::ICMP
    }

    /// Verifies the transport checksum. It is [`Verdict::Absent`] for fragments, since the checksum covers
    /// the whole datagram, and if a routing header has segments left.
    pub fn verify(&self, packet: &[u8]) -> Verdict {
        if self.protocol == protocol::SCTP && self.fragment == Fragment::None {
            return checksum::verify_sctp(self.segment(packet));
        }
        if !self.has_whole_datagram() || self.checksum_at().is_none() {
            return Verdict::Absent;
        }
        let covered = self.covered(packet);
        let pseudo = self.addresses.pseudo_sum(self.protocol, covered.len());
        match (self.protocol, &self.addresses) {
            (protocol::TCP, _) => checksum::verify_tcp(pseudo, covered),
            (protocol::ICMP, _) => checksum::verify_icmp(covered),
            (protocol::ICMPV6, _) => checksum::verify_icmpv6(pseudo, covered),
            (_, Addresses::V4 { .. }) => checksum::verify_udp_v4(pseudo, covered),
            (_, Addresses::V6 { .. }) => checksum::verify_udp_v6(pseudo, covered),
        }
    }

    /// Computes the transport checksum. Returns false if there is none to compute: for fragments, and if a
    /// routing header has segments left.
    pub fn fill_checksum(&self, packet: &mut [u8]) -> bool {
        if self.protocol == protocol::SCTP && self.fragment == Fragment::None {
            let segment = range_mut(packet, self.start, self.end);
            let crc = checksum::sctp_crc(segment);
            return Sctp::new_checked(segment).map(|mut sctp| sctp.set_checksum(crc)).is_ok();
        }
        let Some(at) = self.checksum_at().filter(|_| self.has_whole_datagram()) else {
            return false;
        };
        put_u16(packet, at, 0);
        let covered = self.covered(packet);
        let mut sum = checksum::sum(covered);
        if self.has_pseudo_header() {
            let pseudo = self.addresses.pseudo_sum(self.protocol, covered.len());
            sum = checksum::combine(pseudo, sum);
        }
        let value = if self.protocol == protocol::UDP { checksum::udp_nonzero(!sum) } else { !sum };
        put_u16(packet, at, value)
    }

    fn has_whole_datagram(&self) -> bool {
        self.fragment == Fragment::None && !self.routed
    }

    /// Returns the bytes that the transport checksum covers: the segment, for UDP up to its own length.
    fn covered<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        let segment = self.segment(packet);
        if self.protocol != protocol::UDP {
            return segment;
        }
        let len = usize::from(u16_at(segment, udp::field::LENGTH));
        segment.get(..len).filter(|_| len >= udp::HEADER_LEN).unwrap_or(segment)
    }
}

/// Returns the IP version in the first nibble.
fn version(packet: &[u8]) -> Result<u8, Malformed> {
    Malformed::unless_holds(Header::Network, 1, packet.len())?;
    match u8_at(packet, 0) >> 4 {
        version @ (4 | 6) => Ok(version),
        other => Err(Malformed::Kind { header: Header::Network, found: other.into(), expected: 4 }),
    }
}
