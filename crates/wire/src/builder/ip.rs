//! The IP layer of the builder, where lengths and checksums are computed.

use std::net::Ipv6Addr;

use base::MacAddr;

use super::{PacketBuilder, TcpBuilder, TransportBuilder};
use crate::numbers::{ethertype, protocol};
use crate::upper::Addresses;
use crate::{checksum, icmp, icmpv6, ipv4, octets, sctp, tcp, udp};

/// The longest IP packet, header included.
const MAX_PACKET_LEN: usize = 65_535;
/// The maximum number of quoted bytes in an ICMP error. With the headers it has at most 576 bytes for IPv4
/// (RFC 1812 section 4.3.2.3) and 1280 bytes for IPv6 (RFC 4443 section 2.4).
const QUOTE_V4: usize = 548;
const QUOTE_V6: usize = 1232;

/// The transport checksum that [`IpBuilder`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checksum {
    /// The correct checksum.
    #[default]
    Full,
    /// Only the sum of the pseudo-header, which a network card completes.
    Partial,
    /// Zero, which in UDP over IPv4 means "no checksum".
    Zero,
    /// A wrong checksum.
    Bad,
}

/// A packet up to its IP header.
#[derive(Debug, Clone)]
#[must_use]
pub struct IpBuilder {
    outer: PacketBuilder,
    addresses: Addresses,
    pub(super) ttl: u8,
    tos: u8,
    id: u32,
    label: u32,
    dont_fragment: bool,
    /// Offset in bytes, and the "more fragments" flag.
    fragment: Option<(u16, bool)>,
    checksum: Checksum,
}

impl IpBuilder {
    pub(super) fn new(outer: PacketBuilder, addresses: Addresses) -> Self {
        IpBuilder {
            outer,
            addresses,
            ttl: 64,
            tos: 0,
            id: 0,
            label: 0,
            dont_fragment: false,
            fragment: None,
            checksum: Checksum::Full,
        }
    }

    /// Time to live or hop limit; 64 unless set.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Type of service or traffic class.
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// The identification. IPv4 uses the low 16 bits; in IPv6 only fragments have it.
    pub fn id(mut self, id: u32) -> Self {
        self.id = id;
        self
    }

    /// The flow label of an IPv6 packet.
    pub fn label(mut self, label: u32) -> Self {
        self.label = label;
        self
    }

    /// Sets "don't fragment" in an IPv4 packet.
    pub fn dont_fragment(mut self) -> Self {
        self.dont_fragment = true;
        self
    }

    /// Makes the packet a fragment at `offset` bytes (a multiple of 8) of its datagram. Use
    /// [`IpBuilder::raw`] for all fragments except the first, since they have no transport header.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        self.fragment = Some((offset & 0xfff8, more));
        self
    }

    /// The transport checksum to write.
    pub fn checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }

    /// A TCP segment.
    pub fn tcp(self, source: u16, destination: u16) -> TcpBuilder {
        TcpBuilder::new(self, (source, destination))
    }

    /// A UDP datagram.
    pub fn udp(self, source: u16, destination: u16) -> TransportBuilder {
        let mut header = [source.to_be_bytes(), destination.to_be_bytes()].concat();
        header.extend([0; 4]);
        self.transport(protocol::UDP, header)
    }

    /// An SCTP packet with the verification tag `tag`. Its payload consists of the chunks.
    pub fn sctp(self, source: u16, destination: u16, tag: u32) -> TransportBuilder {
        let mut header = [source.to_be_bytes(), destination.to_be_bytes()].concat();
        header.extend(tag.to_be_bytes());
        header.extend([0; 4]);
        self.transport(protocol::SCTP, header)
    }

    /// An echo request, ICMP or ICMPv6 by the packet's addresses.
    pub fn echo_request(self, id: u16, seq: u16) -> TransportBuilder {
        let icmp_type = self.pick(icmp::ECHO_REQUEST, icmpv6::ECHO_REQUEST);
        self.icmp(icmp_type, 0, u32::from(id) << 16 | u32::from(seq))
    }

    /// An echo reply, ICMP or ICMPv6 by the packet's addresses.
    pub fn echo_reply(self, id: u16, seq: u16) -> TransportBuilder {
        let icmp_type = self.pick(icmp::ECHO_REPLY, icmpv6::ECHO_REPLY);
        self.icmp(icmp_type, 0, u32::from(id) << 16 | u32::from(seq))
    }

    /// An ICMP or ICMPv6 error about `quoted`, which starts with its IP header. The packet is truncated to
    /// the length that the RFCs allow.
    pub fn icmp_error(self, icmp_type: u8, code: u8, rest: u32, quoted: &[u8]) -> TransportBuilder {
        let most = match self.addresses {
            Addresses::V4 { .. } => QUOTE_V4,
            Addresses::V6 { .. } => QUOTE_V6,
        };
        let quote = quoted.get(..most).unwrap_or(quoted).to_vec();
        self.icmp(icmp_type, code, rest).payload(quote)
    }

    /// Any ICMP or ICMPv6 message; `rest` is the word after the checksum.
    pub fn icmp(self, icmp_type: u8, code: u8, rest: u32) -> TransportBuilder {
        let mut header = vec![icmp_type, code, 0, 0];
        header.extend(rest.to_be_bytes());
        let protocol = self.pick(protocol::ICMP, protocol::ICMPV6);
        self.transport(protocol, header)
    }

    /// A neighbour solicitation for `target`, with the sender's Ethernet address as an option.
    pub fn neighbour_solicit(self, target: Ipv6Addr) -> TransportBuilder {
        let mac = self.outer.link.unwrap_or_default().0;
        self.neighbour(icmpv6::NEIGHBOUR_SOLICIT, 0, target, icmpv6::OPTION_SOURCE_LINK, mac)
    }

    /// A neighbour advertisement of `target` (solicited, override), with the sender's Ethernet
    /// address as an option.
    pub fn neighbour_advert(self, target: Ipv6Addr) -> TransportBuilder {
        const SOLICITED_OVERRIDE: u32 = 0x6000_0000;
        let mac = self.outer.link.unwrap_or_default().0;
        let kind = icmpv6::OPTION_TARGET_LINK;
        self.neighbour(icmpv6::NEIGHBOUR_ADVERT, SOLICITED_OVERRIDE, target, kind, mac)
    }

    fn neighbour(
        self,
        icmp_type: u8,
        flags: u32,
        target: Ipv6Addr,
        option: u8,
        mac: MacAddr,
    ) -> TransportBuilder {
        let mut body = target.octets().to_vec();
        body.extend([option, 1]);
        body.extend(mac.0);
        // Receivers drop the message unless the hop limit is 255 (RFC 4861 sections 7.1.1 and 7.1.2).
        self.ttl(255).icmp(icmp_type, 0, flags).payload(body)
    }

    /// A packet of any protocol with `body` after the IP header, without a transport checksum: for later
    /// fragments and for protocols that have no builder.
    pub fn raw(self, protocol: u8, body: &[u8]) -> Vec<u8> {
        self.finish(protocol, body)
    }

    fn transport(self, protocol: u8, header: Vec<u8>) -> TransportBuilder {
        TransportBuilder::new(self, protocol, header)
    }

    fn pick(&self, v4: u8, v6: u8) -> u8 {
        match self.addresses {
            Addresses::V4 { .. } => v4,
            Addresses::V6 { .. } => v6,
        }
    }

    /// Returns the packet with the selected transport checksum.
    pub(super) fn build(self, protocol: u8, mut segment: Vec<u8>) -> Vec<u8> {
        segment.truncate(self.room());
        let wanted = self.checksum;
        let at = transport_checksum_at(protocol).filter(|at| at + 2 <= segment.len());
        if let Some(at) = at {
            let pseudo = match protocol {
                protocol::ICMP => 0,
                _ => self.addresses.pseudo_sum(protocol, segment.len()),
            };
            let full = !checksum::combine(pseudo, checksum::sum(&segment));
            let full = if protocol == protocol::UDP { checksum::udp_nonzero(full) } else { full };
            let value = match wanted {
                Checksum::Full => full,
                Checksum::Partial => pseudo,
                Checksum::Zero => 0,
                Checksum::Bad => full ^ 0x5555,
            };
            octets::put_u16(&mut segment, at, value);
        }
        if protocol == protocol::SCTP {
            let crc = checksum::sctp_crc(&segment);
            let value = match wanted {
                Checksum::Full => crc,
                // The CRC covers no pseudo-header, so there is no partial form.
                Checksum::Partial | Checksum::Zero => 0,
                Checksum::Bad => crc ^ 0x5555,
            };
            octets::put(&mut segment, sctp::field::CHECKSUM, value.to_le_bytes());
        }
        self.finish(protocol, &segment)
    }

    /// Returns the number of bytes that fit after the IP header and a fragment header.
    pub(super) fn room(&self) -> usize {
        match self.addresses {
            Addresses::V4 { .. } => MAX_PACKET_LEN - ipv4::HEADER_LEN,
            Addresses::V6 { .. } => MAX_PACKET_LEN - crate::ipv6::FRAGMENT_HEADER_LEN,
        }
    }

    fn finish(self, protocol: u8, segment: &[u8]) -> Vec<u8> {
        let segment = segment.get(..self.room()).unwrap_or(segment);
        match self.addresses {
            Addresses::V4 { source, destination } => {
                let mut packet = self.ipv4_header(protocol, segment.len());
                packet.extend(source.octets());
                packet.extend(destination.octets());
                let sum = checksum::checksum(&packet);
                octets::put_u16(&mut packet, ipv4::field::CHECKSUM, sum);
                packet.extend(segment);
                self.outer.raw(ethertype::IPV4, &packet)
            }
            Addresses::V6 { source, destination } => {
                let mut body = self.ipv6_fragment_header(protocol);
                let next = if body.is_empty() { protocol } else { protocol::FRAGMENT };
                body.extend(segment);
                let word = 6 << 28 | u32::from(self.tos) << 20 | (self.label & 0xf_ffff);
                let mut packet = word.to_be_bytes().to_vec();
                packet.extend((body.len() as u16).to_be_bytes());
                packet.extend([next, self.ttl]);
                packet.extend(source.octets());
                packet.extend(destination.octets());
                packet.extend(body);
                self.outer.raw(ethertype::IPV6, &packet)
            }
        }
    }

    /// The IPv4 header up to the addresses, with a checksum of zero.
    fn ipv4_header(&self, protocol: u8, segment_len: usize) -> Vec<u8> {
        let (offset, more) = self.fragment.unwrap_or_default();
        let mut flags = offset / 8;
        flags |= if more { ipv4::MORE_FRAGMENTS } else { 0 };
        flags |= if self.dont_fragment { ipv4::DONT_FRAGMENT } else { 0 };
        let mut header = vec![0x45, self.tos];
        header.extend(((ipv4::HEADER_LEN + segment_len) as u16).to_be_bytes());
        header.extend((self.id as u16).to_be_bytes());
        header.extend(flags.to_be_bytes());
        header.extend([self.ttl, protocol, 0, 0]);
        header
    }

    /// The fragment header of an IPv6 fragment, or nothing for a whole packet.
    fn ipv6_fragment_header(&self, protocol: u8) -> Vec<u8> {
        let Some((offset, more)) = self.fragment else { return Vec::new() };
        let mut header = vec![protocol, 0];
        header.extend((offset | u16::from(more)).to_be_bytes());
        header.extend(self.id.to_be_bytes());
        header
    }
}

fn transport_checksum_at(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(tcp::field::CHECKSUM),
        protocol::UDP => Some(udp::field::CHECKSUM),
        protocol::ICMP | protocol::ICMPV6 => Some(icmp::field::CHECKSUM),
        _ => None,
    }
}
