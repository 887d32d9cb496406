//! Parses packets byte by byte (RFC 791, 8200, 9293, 768, 792, 4443, 9260).

use super::reverse;
use conntrack::Event;
use flow::{Frame, Tuple, TupleL4};
use packet::Checksum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::{self, Verdict};

/// A valid packet.
pub struct Seen {
    /// The tuple to look up; for an ICMP error, the reverse of the quoted packet's.
    pub tuple: Tuple,
    pub what: What,
}

pub enum What {
    Tcp(Segment),
    Sctp(Chunks),
    /// A query or reply of ICMP or ICMPv6.
    Query {
        is_answer: bool,
    },
    /// An ICMP error that quotes a packet with this sequence number or tag.
    Error {
        number: u32,
    },
    Other,
}

#[derive(Clone, Copy)]
pub struct Segment {
    pub seq: u32,
    pub ack: u32,
    pub window: u32,
    pub len: u32,
    pub is_syn: bool,
    pub is_ack: bool,
    pub is_fin: bool,
    pub is_rst: bool,
    pub is_push_or_urgent: bool,
    /// The option of a SYN (RFC 7323 section 2.2); values above 14 are taken as 14.
    pub scale: Option<u32>,
}

pub struct Chunks {
    pub tag: u32,
    /// Types in order, and whether the T bit is set.
    pub kinds: Vec<u8>,
    pub is_reflected: bool,
    pub initiate_tag: u32,
}

/// The layout of an IP packet.
pub struct Place {
    pub protocol: u8,
    pub l4: usize,
    pub end: usize,
    /// Offset in bytes, whether more fragments follow, the identification.
    pub fragment: Option<(usize, bool, u32)>,
}

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) << 16 | u32::from(u16_at(bytes, at + 2))
}

/// The Ethernet type, and the offset of its payload.
pub fn network(bytes: &[u8]) -> (u16, usize) {
    let mut at = 12;
    while matches!(u16_at(bytes, at), 0x8100 | 0x88a8) {
        at += 4;
    }
    (u16_at(bytes, at), at + 2)
}

/// Parses the IP packet at `ip`. The end of a quoted one may be missing.
pub fn place(bytes: &[u8], ip: usize, is_quote: bool) -> Option<Place> {
    let rest = bytes.len().checked_sub(ip)?;
    if *bytes.get(ip)? >> 4 == 4 {
        let header = usize::from(bytes[ip] & 15) * 4;
        if rest < 20 || header < 20 || rest < header {
            return None;
        }
        let total = usize::from(u16_at(bytes, ip + 2));
        if total < header || (total > rest && !is_quote) {
            return None;
        }
        let word = u16_at(bytes, ip + 6);
        let offset = usize::from(word & 0x1fff) * 8;
        let more = word & 0x2000 != 0;
        let id = u32::from(u16_at(bytes, ip + 4));
        Some(Place {
            protocol: bytes[ip + 9],
            l4: ip + header,
            end: ip + total.min(rest),
            fragment: (offset > 0 || more).then_some((offset, more, id)),
        })
    } else {
        place_v6(bytes, ip, is_quote)
    }
}

fn place_v6(bytes: &[u8], ip: usize, is_quote: bool) -> Option<Place> {
    let rest = bytes.len() - ip;
    if rest < 40 || bytes[ip] >> 4 != 6 {
        return None;
    }
    let total = 40 + usize::from(u16_at(bytes, ip + 4));
    if total > rest && !is_quote {
        return None;
    }
    let end = ip + total.min(rest);
    let (mut protocol, mut l4, mut fragment) = (bytes[ip + 6], ip + 40, None);
    while matches!(protocol, 0 | 43 | 44 | 51 | 60) {
        if l4 + 8 > end {
            return None;
        }
        let words = usize::from(bytes[l4 + 1]);
        let len = match protocol {
            44 => 8,
            51 => (words + 2) * 4,
            _ => (words + 1) * 8,
        };
        if protocol == 44 {
            let word = u16_at(bytes, l4 + 2);
            let (offset, more) = (usize::from(word & 0xfff8), word & 1 != 0);
            if offset > 0 || more {
                fragment = Some((offset, more, u32_at(bytes, l4 + 4)));
            }
        }
        protocol = bytes[l4];
        l4 += len;
    }
    (l4 <= end).then_some(Place { protocol, l4, end, fragment })
}

pub fn addresses(bytes: &[u8], ip: usize) -> (IpAddr, IpAddr) {
    let v4 = |at: usize| IpAddr::V4(Ipv4Addr::from_bits(u32_at(bytes, at)));
    let v6 = |at: usize| {
        let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("sixteen bytes");
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    if bytes[ip] >> 4 == 4 { (v4(ip + 12), v4(ip + 16)) } else { (v6(ip + 8), v6(ip + 24)) }
}

/// The sum of the pseudo header.
pub fn pseudo(bytes: &[u8], ip: usize, protocol: u8, len: usize) -> u16 {
    match addresses(bytes, ip) {
        (IpAddr::V4(a), IpAddr::V4(b)) => checksum::pseudo_v4(a, b, protocol, len),
        (IpAddr::V6(a), IpAddr::V6(b)) => checksum::pseudo_v6(a, b, protocol, len),
        _ => unreachable!("both addresses are of one packet"),
    }
}

/// Parses a packet that is not a fragment. The error is why it is invalid.
pub fn read(frame: &Frame) -> Result<Seen, Event> {
    let bytes = frame.packet.data();
    let (kind, ip) = network(bytes);
    if kind != 0x0800 && kind != 0x86dd {
        return Err(Event::NotIp);
    }
    let place = place(bytes, ip, false).ok_or(Event::Truncated)?;
    if kind == 0x0800 && checksum::sum(&bytes[ip..ip + usize::from(bytes[ip] & 15) * 4]) != 0xffff {
        return Err(Event::L3Checksum);
    }
    if place.fragment.is_some() {
        return Err(Event::Fragment);
    }
    let l4 = &bytes[place.l4..place.end];
    let is_trusted = !matches!(frame.packet.offload.checksum, Checksum::Unverified);
    let sum = pseudo(bytes, ip, place.protocol, l4.len());
    if !is_trusted && is_damaged(kind == 0x0800, place.protocol, sum, l4) {
        return Err(Event::L4Checksum);
    }
    let (tuple, what) = read_l4(bytes, ip, &place, false)?;
    let What::Error { .. } = what else { return Ok(Seen { tuple, what }) };
    read_error(bytes, ip, &place)
}

fn is_damaged(is_v4: bool, protocol: u8, sum: u16, l4: &[u8]) -> bool {
    let verdict = match protocol {
        6 if l4.len() >= 20 => checksum::verify_tcp(sum, l4),
        17 if l4.len() >= 8 && is_v4 => checksum::verify_udp_v4(sum, l4),
        17 if l4.len() >= 8 => checksum::verify_udp_v6(sum, l4),
        1 if is_v4 && l4.len() >= 8 => checksum::verify_icmp(l4),
        58 if !is_v4 && l4.len() >= 8 => checksum::verify_icmpv6(sum, l4),
        132 if l4.len() >= 12 => checksum::verify_sctp(l4),
        _ => return false,
    };
    verdict == Verdict::Bad
}

/// The quoted packet must be one that the error's receiver sent.
fn read_error(bytes: &[u8], ip: usize, outer: &Place) -> Result<Seen, Event> {
    let bad = Event::IcmpQuote;
    let inner = outer.l4 + 8;
    let bytes = &bytes[..outer.end];
    let place = place(bytes, inner, true).ok_or(bad)?;
    let is_later = place.fragment.is_some_and(|(offset, ..)| offset > 0);
    if is_later || bytes[inner] >> 4 != bytes[ip] >> 4 {
        return Err(bad);
    }
    let (tuple, what) = read_l4(bytes, inner, &place, true).map_err(|_| bad)?;
    if matches!(what, What::Error { .. }) || addresses(bytes, inner).0 != addresses(bytes, ip).1 {
        return Err(bad);
    }
    let number = match what {
        What::Tcp(_) => u32_at(bytes, place.l4 + 4),
        What::Sctp(_) => u32_at(bytes, place.l4 + 4),
        _ => 0,
    };
    Ok(Seen { tuple: reverse(tuple), what: What::Error { number } })
}

fn read_l4(bytes: &[u8], ip: usize, place: &Place, is_quote: bool) -> Result<(Tuple, What), Event> {
    let l4 = &bytes[place.l4..place.end];
    let (src, dst) = addresses(bytes, ip);
    let tuple = |l4| Tuple { src, dst, protocol: place.protocol, l4 };
    let is_v4 = src.is_ipv4();
    let least = match (place.protocol, is_quote) {
        (6, false) => 20,
        (132, false) => 12,
        (6 | 17 | 132, _) => 8,
        (1, _) if is_v4 => 8,
        (58, _) if !is_v4 => 8,
        _ => 0,
    };
    if l4.len() < least {
        return Err(Event::Truncated);
    }
    match place.protocol {
        6 | 17 | 132 => {
            let (src, dst) = (u16_at(l4, 0), u16_at(l4, 2));
            let what = match place.protocol {
                _ if is_quote && place.protocol == 6 => What::Tcp(empty_segment()),
                _ if is_quote && place.protocol == 132 => What::Sctp(empty_chunks()),
                6 => What::Tcp(segment(l4).ok_or(Event::Truncated)?),
                132 => What::Sctp(chunks(l4).ok_or(Event::SctpChunks)?),
                _ if !is_quote && !(8..=l4.len()).contains(&usize::from(u16_at(l4, 4))) => {
                    return Err(Event::Truncated);
                }
                _ => What::Other,
            };
            if src == 0 || dst == 0 {
                return Err(Event::PortZero);
            }
            Ok((tuple(TupleL4::Ports { src, dst }), what))
        }
        1 if is_v4 => Ok(icmp(l4, &[8, 13, 15], &[0, 14, 16], &[3, 4, 5, 11, 12])?).map(|it| {
            let (l4, what) = it;
            (tuple(l4), what)
        }),
        58 if !is_v4 => Ok(icmp(l4, &[128], &[129], &[1, 2, 3, 4])?).map(|it| {
            let (l4, what) = it;
            (tuple(l4), what)
        }),
        1 | 58 => Err(Event::IcmpType),
        _ => Ok((tuple(TupleL4::Ports { src: 0, dst: 0 }), What::Other)),
    }
}

fn icmp(l4: &[u8], asks: &[u8], answers: &[u8], errors: &[u8]) -> Result<(TupleL4, What), Event> {
    let (icmp_type, code, id) = (l4[0], l4[1], u16_at(l4, 4));
    let what = match icmp_type {
        it if asks.contains(&it) && code == 0 => What::Query { is_answer: false },
        it if answers.contains(&it) && code == 0 => What::Query { is_answer: true },
        it if errors.contains(&it) => What::Error { number: 0 },
        _ => return Err(Event::IcmpType),
    };
    Ok((TupleL4::Icmp { id, icmp_type, code }, what))
}

fn empty_segment() -> Segment {
    Segment {
        seq: 0,
        ack: 0,
        window: 0,
        len: 0,
        is_syn: false,
        is_ack: false,
        is_fin: false,
        is_rst: false,
        is_push_or_urgent: false,
        scale: None,
    }
}

fn segment(l4: &[u8]) -> Option<Segment> {
    let header = usize::from(l4[12] >> 4) * 4;
    if header < 20 || header > l4.len() {
        return None;
    }
    let has = |bit: u8| l4[13] & bit != 0;
    Some(Segment {
        seq: u32_at(l4, 4),
        ack: u32_at(l4, 8),
        window: u32::from(u16_at(l4, 14)),
        len: (l4.len() - header) as u32,
        is_fin: has(1),
        is_syn: has(2),
        is_rst: has(4),
        is_ack: has(16),
        is_push_or_urgent: has(8) || has(32),
        scale: scale(&l4[20..header]),
    })
}

fn scale(mut options: &[u8]) -> Option<u32> {
    loop {
        options = match *options {
            [3, 3, shift, ..] => return Some(u32::from(shift.min(14))),
            [1, ref rest @ ..] => rest,
            [kind, len, ..] if kind != 0 && len >= 2 => options.get(usize::from(len)..)?,
            _ => return None,
        };
    }
}

fn empty_chunks() -> Chunks {
    Chunks { tag: 0, kinds: Vec::new(), is_reflected: false, initiate_tag: 0 }
}

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

fn chunks(l4: &[u8]) -> Option<Chunks> {
    let mut chunks = Chunks { tag: u32_at(l4, 4), ..empty_chunks() };
    let mut at = 12;
    while at < l4.len() {
        let len = usize::from(u16_at(l4.get(at..at + 4)?, 2));
        let chunk = l4.get(at..at + len).filter(|_| len >= 4)?;
        if matches!(chunk[0], INIT | INIT_ACK) {
            chunks.initiate_tag = u32_at(chunk.get(4..20)?, 0);
        }
        if matches!(chunk[0], ABORT | SHUTDOWN_COMPLETE) {
            chunks.is_reflected = chunk[1] & 1 != 0;
        }
        chunks.kinds.push(chunk[0]);
        at += len.next_multiple_of(4);
    }
    let has = |kind: u8| chunks.kinds.contains(&kind);
    let is_alone = chunks.kinds.len() == 1;
    let must_be_alone = has(INIT) || has(INIT_ACK) || has(SHUTDOWN_COMPLETE);
    let is_good = !chunks.kinds.is_empty()
        && (is_alone || !must_be_alone)
        && has(INIT) == (chunks.tag == 0)
        && !((has(INIT) || has(INIT_ACK)) && chunks.initiate_tag == 0);
    is_good.then_some(chunks)
}
