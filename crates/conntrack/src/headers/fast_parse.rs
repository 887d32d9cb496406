//! The fast parse of a frame: reads whole TCP and UDP packets over IPv4 without options in a few
//! dozen instructions. Every other packet, and every malformed one, is left to the full parse
//! ([`Extracted`]), which also finds the reason.

use crate::hash::Secrets;
use crate::headers::extract::Extracted;
use crate::key::{Family, Key, zone_protocol};
use crate::protocols::tcp::Segment;
use crate::record::WORDS_V4;
use base::limits::BATCH_SIZE;
use flow::Frame;
use packet::Checksum;
use std::net::Ipv4Addr;
use table::atomic::AtomicU64;
use table::{Id, Spot};
use wire::checksum::{self, Verdict};
use wire::{ethertype, icmp, protocol};

const IP_HEADER: usize = 20;
/// Version 4 and a header length of five words, the first byte of the header.
const VERSION_LENGTH: u64 = 0x45;
/// The bits "more fragments" and fragment offset.
const FRAGMENT: u64 = 0x3fff;

/// The headers of IPv4 and UDP, the shortest packet that is parsed.
const SHORTEST: usize = IP_HEADER + 8;

/// An IPv4 packet without options. Its IP header is verified; the fields behind it are read only.
struct Plain<'a> {
    /// The bytes from the IP header on, trailers included.
    ip: &'a [u8],
    /// The packet's length by its IP header: between [`SHORTEST`] and the bytes in `ip`.
    total_len: usize,
    addresses: u64,
    protocol: u8,
    ports: u32,
    /// The word behind the ports: length and checksum of UDP, identifier and sequence number of an
    /// echo.
    next: u32,
}

impl<'a> Plain<'a> {
    #[inline(always)]
    fn of(frame: &Frame, data: &'a [u8]) -> Option<Self> {
        if frame.key.eth_type() != ethertype::IPV4 || frame.layers.l4.is_none() {
            return None;
        }
        let ip = data.get(usize::from(frame.layers.l3)..)?;
        let ([first, second], [third, ports, next]) = words(ip.first_chunk()?);
        let total_len = (first >> 32 & 0xffff) as usize;
        // One test for the version, the header length and fragments: each leaves a non-zero bit.
        let odd = (first >> 56 ^ VERSION_LENGTH) | first & FRAGMENT;
        // One test for both bounds: a length below the minimum wraps to a large number.
        let is_there = total_len.wrapping_sub(SHORTEST) <= ip.len().wrapping_sub(SHORTEST);
        if odd != 0 || !is_there || !is_right(first, second, third) {
            return None;
        }
        let addresses = second << 32 | u64::from(third);
        Some(Plain { ip, total_len, addresses, protocol: (second >> 48) as u8, ports, next })
    }

    /// Whether this is a whole UDP datagram. The caller has checked the protocol.
    #[inline(always)]
    fn is_whole_udp(&self, frame: &Frame) -> bool {
        let (length, sum) = ((self.next >> 16) as usize, self.next as u16);
        // One test for both bounds, as above.
        if length.wrapping_sub(8) > self.total_len - SHORTEST {
            return false;
        }
        sum == 0 || is_verified(frame) || is_right_udp(self.addresses, self.ip, length)
    }

    /// Returns the segment of a whole TCP packet. The caller has checked the protocol.
    #[inline(always)]
    fn segment(&self, frame: &Frame) -> Option<Segment> {
        let l4 = self.ip.get(IP_HEADER..self.total_len)?;
        let segment = Segment::of(l4)?;
        let is_right = || checksum::verify_tcp_v4(self.addresses, l4) == Verdict::Good;
        (is_verified(frame) || is_right()).then_some(segment)
    }
}

/// A whole UDP packet over IPv4 without options, lengths and checksums verified.
pub(crate) struct Datagram {
    /// Source and destination, as in [`Key::addresses_v4`].
    pub addresses: u64,
    /// Ports and protocol as in [`Key::rest`], without the zone.
    pub ports_protocol: u64,
    /// The frame's length in bytes.
    pub len: usize,
}

impl Datagram {
    /// Parses a frame; `None` leaves it to the full parse.
    #[inline(always)]
    pub fn of(frame: &Frame) -> Option<Self> {
        let data = frame.packet.data();
        let plain = Plain::of(frame, data)?;
        if plain.protocol != protocol::UDP || !plain.is_whole_udp(frame) {
            return None;
        }
        let ports_protocol = u64::from(plain.ports) << 32 | u64::from(protocol::UDP) << 8;
        Some(Datagram { addresses: plain.addresses, ports_protocol, len: data.len() })
    }
}

/// A whole TCP packet over IPv4 without options, or a whole ICMP echo request or reply.
pub(crate) struct SegmentOrEcho {
    /// Source and destination, as in [`Key::addresses_v4`].
    pub addresses: u64,
    /// Ports (or an echo's identifier, type and code) and protocol as in [`Key::rest`], without the
    /// zone.
    pub rest: u64,
    /// Present for TCP.
    pub segment: Option<Segment>,
}

impl SegmentOrEcho {
    /// Parses a frame; `None` leaves it to the full parse.
    #[inline(always)]
    pub fn of(frame: &Frame) -> Option<Self> {
        let plain = Plain::of(frame, frame.packet.data())?;
        let Plain { ip, total_len, addresses, protocol, ports, next } = plain;
        if protocol == protocol::ICMP {
            let l4 = ip.get(IP_HEADER..total_len)?;
            let type_code = echo(ports).filter(|_| is_verified(frame) || is_right_icmp(l4))?;
            let id = u64::from(next >> 16) << 48;
            let rest = id | type_code << 32 | u64::from(protocol::ICMP) << 8;
            return Some(SegmentOrEcho { addresses, rest, segment: None });
        }
        if protocol != protocol::TCP {
            return None;
        }
        let rest = u64::from(ports) << 32 | u64::from(protocol::TCP) << 8;
        Some(SegmentOrEcho { addresses, rest, segment: Some(plain.segment(frame)?) })
    }
}

/// The segments of a batch's TCP packets, apart from [`FastParse`] to keep that small for UDP.
pub(crate) type Segments = arrayvec::ArrayVec<Segment, BATCH_SIZE>;

/// A whole TCP or UDP packet and its candidate connection.
#[derive(Clone, Copy)]
pub(crate) struct FastParse<'a> {
    /// Source and destination, as in [`Key::addresses_v4`].
    pub addresses: u64,
    /// Ports, zone and protocol, as in [`Key::rest`].
    pub rest: u64,
    /// The bucket of its hash, if the zone has an index.
    pub spot: Option<Spot<'a>>,
    /// The record of a connection with the same hash.
    pub candidate: Option<&'a [AtomicU64; WORDS_V4]>,
    pub id: Id,
    pub hash: u32,
    /// The packet has the same tuple as the previous one, whose hash and candidate it shares.
    pub repeats: bool,
    /// Present for TCP: the segment's place in [`Segments`].
    segment: u8,
}

const _: () = assert!(BATCH_SIZE <= u8::MAX as usize);
const _: () = assert!(size_of::<FastParse<'_>>() == 48);

impl FastParse<'_> {
    /// A frame that the fast parse does not handle.
    pub const NOTHING: FastParse<'static> = FastParse {
        addresses: 0,
        rest: 0,
        spot: None,
        candidate: None,
        id: 0,
        hash: 0,
        repeats: false,
        segment: 0,
    };

    /// Whether the fast parse handled the frame.
    #[inline(always)]
    pub fn is_parsed(&self) -> bool {
        self.rest != 0
    }

    /// Parses a frame that is tracked in `zone`, without its [hash](Self::hashed); `None` leaves it
    /// to the full parse.
    #[inline(always)]
    pub fn of(frame: &Frame, zone: u16, segments: &mut Segments) -> Option<Self> {
        let plain = Plain::of(frame, frame.packet.data())?;
        let Plain { addresses, ports, protocol, .. } = plain;
        // Port 0 is invalid.
        if ports < 1 << 16 || ports as u16 == 0 {
            return None;
        }
        let segment = segments.len() as u8;
        match protocol {
            protocol::UDP if plain.is_whole_udp(frame) => {}
            protocol::TCP => segments.push(plain.segment(frame)?),
            _ => return None,
        }
        let rest = u64::from(ports) << 32 | u64::from(zone_protocol(zone, protocol, Family::V4));
        Some(FastParse { addresses, rest, segment, ..Self::NOTHING })
    }

    /// The hash of the packet's connection.
    #[inline(always)]
    pub fn hashed(&self, secrets: &Secrets) -> u32 {
        secrets.v4(self.addresses, (self.rest >> 32) as u32, self.rest as u32)
    }

    #[inline(always)]
    pub fn is_tcp(&self) -> bool {
        (self.rest >> 8) as u8 == protocol::TCP
    }

    /// The TCP segment, if the packet is TCP.
    #[inline(always)]
    pub fn segment<'a>(&self, segments: &'a Segments) -> Option<&'a Segment> {
        if self.is_tcp() { segments.get(usize::from(self.segment)) } else { None }
    }

    /// The packet's tuple and zone.
    pub fn key(&self) -> Key {
        Key::from_words_v4(self.addresses, self.rest)
    }

    /// What the full parse would extract from this packet.
    pub fn extracted(&self, segments: &Segments) -> Extracted {
        Extracted { segment: self.segment(segments).copied(), ..Extracted::of_key(self.key()) }
    }
}

/// Returns the IP header as two words and a half, the ports, and the word behind them.
#[inline(always)]
fn words(header: &[u8; SHORTEST]) -> ([u64; 2], [u32; 3]) {
    let word = |at: usize| header[at..].first_chunk().copied().unwrap_or_default();
    let half = |at: usize| header[at..].first_chunk().copied().unwrap_or_default();
    // Written out: `map` on an array compiles to a call where this is inlined more than once.
    let words = [u64::from_be_bytes(word(0)), u64::from_be_bytes(word(8))];
    let [third, ports, next] = [half(16), half(20), half(24)];
    (words, [u32::from_be_bytes(third), u32::from_be_bytes(ports), u32::from_be_bytes(next)])
}

/// Whether the header's ones' complement sum is right (RFC 1071). 2^64 and 2^16 are both 1 modulo
/// 0xffff, so the sum may be taken in any width and its carries added at the end.
#[inline(always)]
fn is_right(first: u64, second: u64, third: u32) -> bool {
    let (sum, carry) = first.overflowing_add(second);
    let (sum, again) = sum.overflowing_add(u64::from(third));
    let sum = (sum >> 32) + (sum & 0xffff_ffff) + u64::from(carry) + u64::from(again);
    // The sum is not zero, since the version is not.
    sum % 0xffff == 0
}

/// Whether the UDP checksum is right.
#[inline(never)]
fn is_right_udp(addresses: u64, ip: &[u8], length: usize) -> bool {
    let Some(datagram) = ip.get(IP_HEADER..IP_HEADER + length) else { return false };
    let pseudo = pseudo(addresses, protocol::UDP, length);
    checksum::verify_udp_v4(pseudo, datagram) == Verdict::Good
}

/// Whether the transport checksum is known to be right, or is still to be computed.
#[inline(always)]
fn is_verified(frame: &Frame) -> bool {
    frame.packet.offload.checksum != Checksum::Unverified
}

/// Whether the ICMP checksum is right.
#[inline(never)]
fn is_right_icmp(l4: &[u8]) -> bool {
    checksum::verify_icmp(l4) == Verdict::Good
}

/// Returns type and code, as in [`Key::rest`], of an echo request or reply with code 0. `word` is
/// type, code and checksum.
#[inline(always)]
fn echo(word: u32) -> Option<u64> {
    const TYPES: [u8; 2] = [icmp::ECHO_REQUEST, icmp::ECHO_REPLY];
    let [icmp_type, code, ..] = word.to_be_bytes();
    (TYPES.contains(&icmp_type) && code == 0).then_some(u64::from(icmp_type) << 8)
}

fn pseudo(addresses: u64, protocol: u8, len: usize) -> u16 {
    let (source, destination) = ((addresses >> 32) as u32, addresses as u32);
    checksum::pseudo_v4(
        Ipv4Addr::from_bits(source),
        Ipv4Addr::from_bits(destination),
        protocol,
        len,
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use base::PortNo;
    use packet::Packet;
    use proptest::prelude::*;

    fn frame(bytes: &[u8]) -> Option<Frame> {
        Frame::parse(Packet::from_bytes(bytes), PortNo(1)).ok()
    }

    proptest! {
        /// Whatever the fast parse returns, the full parse returns too.
        #[test]
        fn the_fast_parse_agrees_with_the_full_parse(
            kind in 0..6usize, len in 0..40usize, good: bool,
            damage in proptest::collection::vec((0..70usize, any::<u8>()), 0..3),
            cut in proptest::option::of(14..60usize),
        ) {
            let text = [
                format!("10.0.0.1:1000>10.0.0.2:80 S seq=5 win=100 len={len}"),
                format!("10.0.0.1:1000>10.0.0.2:80 udp len={len}"),
                format!("10.0.0.1:1000>10.0.0.2:80 A seq=5 ack=9 win=100 len={len}"),
                format!("10.0.0.1>10.0.0.2 icmp-echo id=77 seq=1 len={len}"),
                format!("[fd00::1]:1000>[fd00::2]:80 udp len={len}"),
                format!("10.0.0.1>10.0.0.2 ip proto=47 len={len}"),
            ];
            let mut bytes = wire::text::parse(&text[kind]).unwrap();
            for (at, flip) in damage {
                let at = at % bytes.len();
                bytes[at] ^= flip;
            }
            bytes.truncate(cut.unwrap_or(usize::MAX));
            let Some(mut frame) = frame(&bytes) else { return Ok(()) };
            if good {
                frame.packet.offload.checksum = Checksum::Good;
            }
            let secrets = Secrets::seed(1);
            if let Some(said) = SegmentOrEcho::of(&frame) {
                let extracted = Extracted::of(&frame, 0).unwrap();
                let rest = said.rest | u64::from(zone_protocol(0, 0, Family::V4));
                prop_assert_eq!((said.addresses, rest), (extracted.key.addresses_v4(), extracted.key.rest()));
                prop_assert_eq!(said.segment, extracted.segment);
                prop_assert!(!extracted.related);
            }
            let extracted = Extracted::of(&frame, 9);
            let mut segments = Segments::new();
            match FastParse::of(&frame, 9, &mut segments) {
                Some(mut fast) => {
                    let extracted = extracted.unwrap();
                    fast.hash = fast.hashed(&secrets);
                    prop_assert_eq!(fast.key(), extracted.key);
                    prop_assert_eq!(fast.hash, extracted.key.hash(&secrets));
                    prop_assert!(fast.is_parsed());
                    prop_assert_eq!(fast.segment(&segments), extracted.segment.as_ref());
                    prop_assert!(!extracted.related);
                }
                None => {
                    let usual = |it: &Extracted| it.key.family == Family::V4
                        && matches!(it.key.protocol, protocol::TCP | protocol::UDP) && !it.related;
                    let plain = frame.l3().first() == Some(&0x45);
                    prop_assert!(!plain || !extracted.is_ok_and(|it| usual(&it)));
                }
            }
        }
    }
}
