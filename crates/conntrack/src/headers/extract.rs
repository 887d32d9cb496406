//! The full parse: reads the tuple of a frame and verifies lengths and checksums.
//!
//! It refuses what Open vSwitch refuses (ovs: `lib/conntrack.c`, `conn_key_extract`). Fragments are
//! reassembled before (`fragments.rs`); those that could not be are refused.

use crate::counters::Event;
use crate::key::{Family, Key};
use crate::protocols::sctp::Chunks;
use crate::protocols::tcp::Segment;
use flow::Frame;
use packet::Checksum;
use wire::checksum::{self, Verdict};
use wire::{Addresses, Ipv4, Ipv6, ethertype, icmp, icmpv6, protocol};

/// Bytes of the quoted transport header that an ICMP error must have (RFC 792).
const QUOTED_BYTES: usize = 8;

/// The fields of a frame that conntrack needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extracted {
    /// The packet's tuple. For an ICMP error the reverse of the quoted packet's tuple, so that its
    /// direction is the error's own.
    pub key: Key,
    /// The frame is an ICMP error.
    pub related: bool,
    /// For an ICMP error the second word of the quoted transport header: TCP's sequence number or
    /// SCTP's verification tag.
    pub quoted_number: u32,
    /// Present for TCP, except in an ICMP error.
    pub segment: Option<Segment>,
    /// Present for SCTP, except in an ICMP error.
    pub chunks: Option<Chunks>,
}

impl Extracted {
    /// A key alone, without segment or chunks.
    pub fn of_key(key: Key) -> Extracted {
        Extracted { key, related: false, quoted_number: 0, segment: None, chunks: None }
    }

    /// Parses a frame that is tracked in `zone`.
    pub fn of(frame: &Frame, zone: u16) -> Result<Extracted, Event> {
        let verify = frame.packet.offload.checksum == Checksum::Unverified;
        let (src, dst, family) = match frame.key.eth_type() {
            ethertype::IPV4 => {
                let ip = Ipv4::new_checked(frame.l3()).map_err(|_| Event::Truncated)?;
                if frame.key.nw_frag() != 0 {
                    return Err(Event::Fragment);
                }
                if checksum::verify_ipv4_header(ip.header()) == Verdict::Bad {
                    return Err(Event::L3Checksum);
                }
                (ip.source().into(), ip.destination().into(), Family::V4)
            }
            ethertype::IPV6 => {
                let ip = Ipv6::new_checked(frame.l3()).map_err(|_| Event::Truncated)?;
                if frame.key.nw_frag() != 0 {
                    return Err(Event::Fragment);
                }
                (ip.source().into(), ip.destination().into(), Family::V6)
            }
            _ => return Err(Event::NotIp),
        };
        let l4 = frame.l4().ok_or(Event::Truncated)?;
        let protocol = frame.key.nw_proto();
        let key = Key { src, dst, l4: [0; 2], zone, protocol, family };
        transport(key, l4, verify)
    }
}

fn transport(mut key: Key, l4: &[u8], verify: bool) -> Result<Extracted, Event> {
    let mut extracted = Extracted::of_key(key);
    match key.protocol {
        protocol::TCP => {
            let segment = Segment::of(l4).ok_or(Event::Truncated)?;
            verify_checksum(&key, l4, verify)?;
            extracted.key.l4 = ports(l4)?;
            extracted.segment = Some(segment);
        }
        protocol::UDP => {
            let udp = wire::Udp::new_checked(l4).map_err(|_| Event::Truncated)?;
            let datagram = l4.get(..udp.length()).ok_or(Event::Truncated)?;
            // RFC 768 sums the bytes that UDP's length covers, Open vSwitch all that IP carries
            // (`lib/conntrack.c`, `checksum_valid`). Either sum is accepted.
            verify_checksum(&key, datagram, verify)
                .or_else(|_| verify_checksum(&key, l4, verify))?;
            extracted.key.l4 = ports(l4)?;
        }
        protocol::SCTP => {
            let chunks = Chunks::read(l4);
            if verify && checksum::verify_sctp(l4) == Verdict::Bad {
                return Err(Event::L4Checksum);
            }
            extracted.key.l4 = ports(l4)?;
            extracted.chunks = Some(chunks?);
        }
        _ if key.is_icmp() => {
            if l4.len() < icmp::HEADER_LEN {
                return Err(Event::Truncated);
            }
            verify_checksum(&key, l4, verify)?;
            match query(key.family, l4)? {
                Some(l4) => key.l4 = l4,
                None => {
                    (key, extracted.quoted_number) = icmp_error_key(&key, &l4[icmp::HEADER_LEN..])?;
                    extracted.related = true;
                }
            }
            extracted.key = key;
        }
        _ => {}
    }
    Ok(extracted)
}

fn verify_checksum(key: &Key, l4: &[u8], verify: bool) -> Result<(), Event> {
    if !verify {
        return Ok(());
    }
    let addresses = match key.family {
        Family::V4 => Addresses::V4 { source: key.src.v4(), destination: key.dst.v4() },
        Family::V6 => Addresses::V6 { source: key.src.v6(), destination: key.dst.v6() },
    };
    let pseudo = addresses.pseudo_sum(key.protocol, l4.len());
    let verdict = match (key.protocol, key.family) {
        (protocol::TCP, _) => checksum::verify_tcp(pseudo, l4),
        (protocol::UDP, Family::V4) => checksum::verify_udp_v4(pseudo, l4),
        (protocol::UDP, Family::V6) => checksum::verify_udp_v6(pseudo, l4),
        (protocol::ICMP, _) => checksum::verify_icmp(l4),
        _ => checksum::verify_icmpv6(pseudo, l4),
    };
    if verdict == Verdict::Bad { Err(Event::L4Checksum) } else { Ok(()) }
}

fn ports(l4: &[u8]) -> Result<[u16; 2], Event> {
    let ports = [be16(l4, 0), be16(l4, 2)];
    if ports.contains(&0) { Err(Event::PortZero) } else { Ok(ports) }
}

/// Returns the identifier, and type and code, of an ICMP query or reply; `None` for an error.
fn query(family: Family, l4: &[u8]) -> Result<Option<[u16; 2]>, Event> {
    let [icmp_type, code, ..] = *l4 else { return Err(Event::Truncated) };
    let (is_query, is_error) = match family {
        Family::V4 => (icmp::has_id(icmp_type), icmp::is_error(icmp_type)),
        Family::V6 => (icmpv6::has_id(icmp_type), icmpv6::is_error(icmp_type)),
    };
    match (is_query, is_error) {
        (true, _) if code == 0 => Ok(Some([be16(l4, 4), u16::from(icmp_type) << 8])),
        (_, true) => Ok(None),
        _ => Err(Event::IcmpType),
    }
}

/// Returns the key of the connection that an ICMP error quotes, in the error's own direction. An
/// error must go to the sender of the quoted packet (RFC 5927 section 4).
fn icmp_error_key(outer: &Key, inner: &[u8]) -> Result<(Key, u32), Event> {
    let bad = |_| Event::IcmpQuote;
    let (src, dst, protocol, l4) = match outer.family {
        Family::V4 => {
            let ip = Ipv4::new_quoted(inner).map_err(bad)?;
            // Only the first fragment has the ports.
            if ip.fragment() == wire::Fragment::Later {
                return Err(Event::IcmpQuote);
            }
            let l4 = inner.get(ip.header_len()..).unwrap_or_default();
            (ip.source().into(), ip.destination().into(), ip.protocol(), l4)
        }
        Family::V6 => {
            let ip = Ipv6::new_quoted(inner).map_err(bad)?;
            let extensions = ip.extensions().map_err(bad)?;
            if extensions.fragment == wire::Fragment::Later {
                return Err(Event::IcmpQuote);
            }
            let l4 = inner.get(wire::ipv6::HEADER_LEN + extensions.len..).unwrap_or_default();
            (ip.source().into(), ip.destination().into(), extensions.protocol, l4)
        }
    };
    if src != outer.dst {
        return Err(Event::IcmpQuote);
    }
    let mut key = Key { src, dst, protocol, l4: [0; 2], ..*outer };
    if key.has_nat_ports() || key.is_icmp() {
        if l4.len() < QUOTED_BYTES {
            return Err(Event::IcmpQuote);
        }
        key.l4 = if key.is_icmp() {
            query(key.family, l4).ok().flatten().ok_or(Event::IcmpQuote)?
        } else {
            ports(l4).map_err(|_| Event::IcmpQuote)?
        };
    }
    let number = u32::from(be16(l4, 4)) << 16 | u32::from(be16(l4, 6));
    Ok((key.reversed(), number))
}

/// Reads a big-endian word; zero beyond the end.
fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&word| u16::from_be_bytes(word))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use base::PortNo;
    use packet::Packet;

    /// UDP's length is shorter than what IP carries, and the checksum covers one or the other.
    #[test]
    fn a_udp_checksum_may_cover_all_that_ip_carries() {
        for (text, ip) in
            [("10.0.0.1:5>10.0.0.2:53 udp len=20", 20), ("[fd00::1]:5>[fd00::2]:53 udp len=20", 40)]
        {
            let mut bytes = wire::text::parse(text).unwrap();
            let l4 = 14 + ip;
            bytes[l4 + 5] -= 4;
            for covered in [28_usize, 24] {
                let addresses = &bytes[l4 - if ip == 20 { 8 } else { 32 }..l4];
                let pseudo = [addresses, &[0, 17, 0, covered as u8]].concat();
                let sum = |bytes: &[u8]| u32::from(!checksum::checksum(bytes));
                let with_zero =
                    [&bytes[l4..l4 + 6], &[0, 0], &bytes[l4 + 8..l4 + covered]].concat();
                let sum = sum(&pseudo) + sum(&with_zero);
                let word = !(((sum & 0xffff) + (sum >> 16)) as u16);
                bytes[l4 + 6..l4 + 8].copy_from_slice(&word.to_be_bytes());
                let read = |bytes: &[u8]| {
                    let frame = Frame::parse(Packet::from_bytes(bytes), PortNo(1)).unwrap();
                    Extracted::of(&frame, 0).map(|it| it.key.l4)
                };
                assert_eq!(read(&bytes), Ok([5, 53]), "{text}, {covered} bytes");
                bytes[l4 + 6] ^= 1;
                assert_eq!(read(&bytes), Err(Event::L4Checksum), "{text}");
            }
        }
    }
}
