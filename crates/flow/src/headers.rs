//! The headers of an ordinary packet in one cache line, parsed with few instructions.

mod fields;
mod hash;
mod mask;
mod outer;
mod write;

use crate::key::VLAN_PRESENT;
use crate::layers::Layers;
use base::PortNo;
use wire::ethertype;
use wire::protocol::{ICMP, ICMPV6, IGMP, SCTP, TCP, UDP};

/// Words in [`Headers`].
pub const HEADER_WORDS: usize = 8;
/// The first words, which are all that IPv4 fills.
pub const IPV4_WORDS: usize = 5;

/// ICMPv6's echo request and reply.
const ECHO: std::ops::RangeInclusive<u8> = 128..=129;
/// The outer tag's type is 0x88a8 rather than 0x8100.
const SERVICE_TAG: u64 = 1 << 39;
/// "More fragments" and the offset, in the first word of an IPv4 header.
const FRAGMENT: u64 = 0x3fff;
/// Protocol, TOS, TTL and the tag's type, in word 3.
const PROTOCOL: u64 = 0xff << 56;
/// The ports in word 3. For an ICMP message, the low bytes of the two ports contain type and code, and the
/// high bytes contain its identifier. Connection tracking reads the identifier; flows cannot match on it.
const PORTS: u64 = 0xffff_ffff;
const TYPE: u64 = 0x00ff_0000;
const TYPE_CODE: u64 = TYPE | 0xff;

/// The fields of an ordinary packet that can be matched: unfragmented IPv4, or IPv6 without extension
/// headers, with TCP, UDP, SCTP or an ICMP echo, and at most one VLAN tag. Every other packet becomes
/// [`Headers::none`], and only its [`FlowKey`](crate::FlowKey) has its fields.
///
/// | word | high to low bits |
/// |---|---|
/// | 0 | port that it came in on (32), TCP flags (12), IPv6 flow label (20) |
/// | 1 | Ethernet destination (48), Ethernet type (16) |
/// | 2 | Ethernet source (48), VLAN tag (16) |
/// | 3 | protocol, TOS, TTL, type of the tag (8 each), ports (16 each) |
/// | | or of ICMP half of the identifier, type, the other half, code (8 each) |
/// | 4 | IPv4 source and destination, or the upper half of the IPv6 source |
/// | 5, 6, 7 | the rest of the IPv6 addresses |
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(64))]
pub struct Headers {
    words: [u64; HEADER_WORDS],
}

impl Headers {
    /// The value for packets that are not ordinary.
    pub const fn none() -> Self {
        Headers { words: [0; HEADER_WORDS] }
    }

    /// Returns the Ethernet type of the VLAN tag, if there is one.
    pub fn tag_type(&self) -> Option<u16> {
        let is_service = self.words[3] & SERVICE_TAG != 0;
        let tag = if is_service { ethertype::SERVICE_VLAN } else { ethertype::VLAN };
        (self.words[2] as u16 & VLAN_PRESENT != 0).then_some(tag)
    }

    /// Returns whether this is the value for packets that are not ordinary.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.words[1] & 0xffff == 0
    }

    /// Returns the words, for hashing and comparing.
    #[inline]
    pub fn words(&self) -> &[u64; HEADER_WORDS] {
        &self.words
    }

    /// Returns the port that the packet came in on.
    #[inline]
    pub fn in_port(&self) -> PortNo {
        PortNo((self.words[0] >> 32) as u32)
    }

    /// Returns the TCP flags, 12 bits.
    #[inline]
    pub fn tcp_flags(&self) -> u16 {
        (self.words[0] >> 20) as u16 & 0xfff
    }

    /// Returns the union of the TCP flags of these packets.
    #[inline]
    pub fn tcp_flags_of(all: &[Headers]) -> u16 {
        let words = all.iter().fold(0, |words, one| words | one.words[0]);
        (words >> 20) as u16 & 0xfff
    }

    /// Returns whether the packet is IPv6. Otherwise it is IPv4, and words 5 to 7 are zero.
    #[inline]
    pub fn is_ipv6(&self) -> bool {
        self.words[1] as u16 == ethertype::IPV6
    }

    /// Returns source and destination address of an IPv4 packet.
    #[inline]
    pub fn ipv4_addresses(&self) -> u64 {
        self.words[4]
    }

    /// Returns source and destination port.
    #[inline]
    pub fn ports(&self) -> u32 {
        self.words[3] as u32
    }

    /// Returns whether the packet is an ICMP or ICMPv6 message.
    #[inline]
    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol(), ICMP | ICMPV6)
    }

    /// Returns the type of an ICMP message.
    #[inline]
    pub fn icmp_type(&self) -> u8 {
        (self.words[3] >> 16) as u8
    }

    /// Returns the identifier of an ICMP query or reply; undefined for errors.
    #[inline]
    pub fn icmp_id(&self) -> u16 {
        let [high, _, low, _] = self.ports().to_be_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Returns the bits of word 3 that are the ports in a key.
    #[inline]
    fn port_bits(&self) -> u64 {
        if self.is_icmp() { TYPE_CODE } else { PORTS }
    }

    /// Returns the IP protocol.
    #[inline]
    pub fn protocol(&self) -> u8 {
        (self.words[3] >> 56) as u8
    }

    /// Parses a packet from `in_port`. Returns the offsets of its headers. For a packet that is not ordinary,
    /// returns `None` and becomes [`Headers::none`].
    #[inline(always)]
    pub fn read(&mut self, data: &[u8], in_port: PortNo) -> Option<Layers> {
        if let Some(start) = data.first_chunk::<48>()
            && self.read_usual(start, data.len(), in_port)
        {
            return Some(Layers { l3: 14, l4: Some(34) });
        }
        self.read_other(data, in_port)
    }

    #[inline(never)]
    fn read_other(&mut self, data: &[u8], in_port: PortNo) -> Option<Layers> {
        if let Some(start) = data.first_chunk::<68>()
            && self.read_usual_v6(start, data.len(), in_port)
        {
            return Some(Layers { l3: 14, l4: Some(54) });
        }
        self.words[1] = 0;
        self.read_ordinary(data, in_port)
    }

    /// Parses UDP or TCP over IPv6 without extension headers or tags, as [`Self::read_usual`] does.
    #[inline]
    fn read_usual_v6(&mut self, start: &[u8; 68], frame_bytes: usize, in_port: PortNo) -> bool {
        let source_type = be64(start, 6);
        // Version, class, flow label, payload length, protocol, hop limit.
        let ip = be64(start, 14);
        let (payload_bytes, protocol) = ((ip >> 16 & 0xffff) as usize, (ip >> 8) as u8);
        let least_bytes = match protocol {
            UDP => 8,
            TCP => 20,
            _ => return false,
        };
        let odd = (source_type & 0xffff ^ u64::from(ethertype::IPV6)) | (ip >> 60 ^ 6);
        if odd != 0 || payload_bytes < least_bytes || payload_bytes > frame_bytes - 54 {
            return false;
        }
        let control = if protocol == TCP { be16(start, 66) } else { 0 };
        if protocol == TCP && !has_header(control, payload_bytes) {
            return false;
        }
        let flags = control & 0xfff;
        let class = ip >> 52 & 0xff;
        self.words = [
            u64::from(in_port.0) << 32 | flags << 20 | ip >> 32 & 0xf_ffff,
            be64(start, 0) & !0xffff | u64::from(ethertype::IPV6),
            source_type & !0xffff,
            u64::from(protocol) << 56 | class << 48 | (ip & 0xff) << 40 | be32(start, 54),
            be64(start, 22),
            be64(start, 30),
            be64(start, 38),
            be64(start, 46),
        ];
        true
    }

    /// Parses UDP, or TCP of sufficient length, over IPv4 without options or tags. Returns whether the packet
    /// is one of these.
    #[inline]
    fn read_usual(&mut self, start: &[u8; 48], frame_bytes: usize, in_port: PortNo) -> bool {
        let source_type = be64(start, 6);
        // Version and header length, TOS, total length, identification, fragment.
        let ip = be64(start, 14);
        // TTL, protocol, checksum, and the source address.
        let rest = be64(start, 22);
        let (ip_bytes, protocol) = ((ip >> 32 & 0xffff) as usize, (rest >> 48) as u8);
        let (least_bytes, flags) = match protocol {
            TCP => {
                let control = be16(start, 46);
                // A header length below the minimum makes the computed packet longer than any frame.
                let header_bytes =
                    if control < NO_OPTIONS { usize::MAX >> 1 } else { header_bytes(control) };
                (20 + header_bytes, control & 0xfff)
            }
            UDP => (28, 0),
            _ => return false,
        };
        // All conditions in one test: each violation sets a bit.
        let odd =
            (source_type & 0xffff ^ u64::from(ethertype::IPV4)) | (ip >> 56 ^ 0x45) | ip & FRAGMENT;
        if odd != 0 || ip_bytes < least_bytes || ip_bytes > frame_bytes - 14 {
            return false;
        }
        self.words = [
            u64::from(in_port.0) << 32 | flags << 20,
            be64(start, 0) & !0xffff | u64::from(ethertype::IPV4),
            source_type & !0xffff,
            rest << 8 & PROTOCOL | ip & 0xff << 48 | rest >> 16 & 0xff << 40 | be32(start, 34),
            be64(start, 26),
            0,
            0,
            0,
        ];
        true
    }

    /// Parses the less frequent kinds of packets.
    fn read_ordinary(&mut self, data: &[u8], in_port: PortNo) -> Option<Layers> {
        let ethernet: &[u8; 18] = data.first_chunk()?;
        let mut ethertype = be16(ethernet, 12);
        let (mut tag, mut service, mut l3) = (0, 0, 14);
        // After a second tag the Ethernet type is not IP. The full parse handles such frames and the VLAN
        // limit.
        if ethertype::is_vlan(ethertype as u16) {
            service = if ethertype as u16 == ethertype::SERVICE_VLAN { SERVICE_TAG } else { 0 };
            tag = be16(ethernet, 14) | u64::from(VLAN_PRESENT);
            ethertype = be16(ethernet, 16);
            l3 = 18;
        }
        let ip = data.get(l3..)?;
        let l4 = match ethertype as u16 {
            ethertype::IPV4 => self.read_ipv4(ip)?,
            ethertype::IPV6 => self.read_ipv6(ip)?,
            _ => return None,
        };
        self.words[0] |= u64::from(in_port.0) << 32;
        self.words[1] = be64(ethernet, 0) & !0xffff | ethertype;
        self.words[2] = be64(ethernet, 6) & !0xffff | tag;
        self.words[3] |= service;
        Some(Layers { l3: l3 as u16, l4: Some((l3 + l4) as u16) })
    }

    /// Parses from the IP header on. Returns the offset of the transport header.
    #[inline]
    fn read_ipv4(&mut self, ip: &[u8]) -> Option<usize> {
        let header: &[u8; 20] = ip.first_chunk()?;
        let header_bytes = usize::from(header[0] & 0xf) * 4;
        let total_bytes = be16(header, 2) as usize;
        let fragment = be16(header, 6) & 0x3fff;
        if header[0] >> 4 != 4 || header_bytes < 20 || fragment != 0 {
            return None;
        }
        let (ports, flags) = transport(ip.get(header_bytes..total_bytes)?, header[9], true)?;
        let bytes = u64::from(header[9]) << 24 | u64::from(header[1]) << 16;
        self.words[0] = flags << 20;
        self.words[3] = (bytes | u64::from(header[8]) << 8) << 32 | ports;
        self.words[4..].copy_from_slice(&[be64(header, 12), 0, 0, 0]);
        Some(header_bytes)
    }

    #[inline]
    fn read_ipv6(&mut self, ip: &[u8]) -> Option<usize> {
        let header: &[u8; 40] = ip.first_chunk()?;
        if header[0] >> 4 != 6 || !matches!(header[6], TCP | UDP | SCTP | ICMPV6) {
            return None;
        }
        let end = 40 + be16(header, 4) as usize;
        let (ports, flags) = transport(ip.get(40..end)?, header[6], false)?;
        let version_class_label = be64(header, 0) >> 32;
        let class = version_class_label >> 20 & 0xff;
        let bytes = u64::from(header[6]) << 24 | class << 16 | u64::from(header[7]) << 8;
        self.words[0] = flags << 20 | version_class_label & 0xf_ffff;
        self.words[3] = bytes << 32 | ports;
        let [a, b] = [be64(header, 8), be64(header, 16)];
        self.words[4..].copy_from_slice(&[a, b, be64(header, 24), be64(header, 32)]);
        Some(40)
    }

    /// Returns whether this packet, which must not be IPv6, agrees with another in the bits of a mask. Every
    /// mask must include the Ethernet type.
    #[inline(always)]
    pub fn is_like(&self, other: &Headers, mask: &Headers) -> bool {
        let differs = |i: usize| (self.words[i] ^ other.words[i]) & mask.words[i];
        // The addresses are compared first, since they differ most often.
        differs(4) == 0 && differs(0) | differs(1) | differs(2) | differs(3) == 0
    }
}

/// Data offset and flags of a packet without TCP options.
const NO_OPTIONS: u64 = 0x5000;

/// Returns whether the TCP data offset is at least the fixed header and within the `bytes` of the packet.
#[inline(always)]
fn has_header(control: u64, bytes: usize) -> bool {
    control >= NO_OPTIONS && header_bytes(control) <= bytes
}

/// Returns the length of a TCP header from its data offset and flags.
#[inline(always)]
fn header_bytes(control: u64) -> usize {
    (control >> 12 << 2) as usize
}

/// Returns the low 32 bits of word 3 and the TCP flags. Returns `None` if the header is truncated, or if the
/// key has more fields of this message than [`Headers`] (ICMPv6 other than echo).
#[inline(always)]
fn transport(l4: &[u8], protocol: u8, is_ipv4: bool) -> Option<(u64, u64)> {
    match protocol {
        UDP => l4.first_chunk::<8>().map(|header| (be64(header, 0) >> 32, 0)),
        TCP => {
            let header = l4.first_chunk::<20>()?;
            let control = be16(header, 12);
            has_header(control, l4.len()).then(|| (be64(header, 0) >> 32, control & 0xfff))
        }
        SCTP => l4.first_chunk::<12>().map(|header| (be64(header, 0) >> 32, 0)),
        _ => without_ports(l4, protocol, is_ipv4).map(|word| (word, 0)),
    }
}

/// The same for protocols without ports.
#[inline(never)]
fn without_ports(l4: &[u8], protocol: u8, is_ipv4: bool) -> Option<u64> {
    match protocol {
        ICMP if is_ipv4 => l4.first_chunk().map(icmp),
        ICMPV6 if !is_ipv4 => l4.first_chunk().filter(|it| ECHO.contains(&it[0])).map(icmp),
        IGMP if is_ipv4 => {
            l4.first_chunk::<8>().map(|it| be16(it, 0) << 8 & TYPE | be16(it, 0) & 0xff)
        }
        _ => Some(0),
    }
}

/// Returns type, code and identifier in the layout of word 3.
fn icmp(header: &[u8; 8]) -> u64 {
    let [icmp_type, code, _, _, high, low, ..] = *header;
    u64::from(u32::from_be_bytes([high, icmp_type, low, code]))
}

/// The caller ensures that the array is long enough.
#[inline]
fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

#[inline]
fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_be_bytes(word))
}

#[inline]
fn be64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests;
