//! The fast parse of IPv6, as [`FastParse`](crate::headers::fast_parse::FastParse) for IPv4: reads whole TCP
//! and UDP packets, echo requests and replies without extension headers. Every other packet is left
//! to the full parse ([`Extracted`](crate::headers::extract::Extracted)).

use crate::hash::{End6, Secrets};
use crate::headers::extract::Extracted;
use crate::key::{Address, Family, Key, zone_protocol};
use crate::protocols::tcp::Segment;
use crate::record::Record;
use flow::Frame;
use packet::Checksum;
use wire::checksum::{self, Verdict};
use wire::{ethertype, icmpv6, protocol};

const IP_HEADER: usize = 40;

/// A whole TCP or UDP packet or echo.
pub(crate) struct FastParseV6 {
    /// Source and destination, the upper halves first.
    addresses: [u64; 4],
    /// Ports, or an echo's identifier, type and code, as in [`Key::l4`](crate::key::Key).
    ports: u32,
    protocol: u8,
    /// Present for TCP.
    segment: Option<Segment>,
}

/// A whole TCP or UDP packet that is tracked in a zone.
pub(crate) struct WholeV6 {
    /// Source and destination, the upper halves first.
    pub addresses: [u64; 4],
    /// Ports, zone and protocol, as in [`Key::rest`](crate::key::Key::rest).
    pub rest: u64,
    /// Present for TCP.
    pub segment: Option<Segment>,
}

impl WholeV6 {
    /// Parses a frame that is tracked in `zone`; `None` leaves it to the full parse.
    #[inline(always)]
    pub fn of(frame: &Frame, zone: u16) -> Option<Self> {
        let fast = FastParseV6::of(frame)?;
        if fast.protocol == protocol::ICMPV6 {
            return None;
        }
        let shared = u64::from(zone_protocol(zone, fast.protocol, Family::V6));
        let rest = u64::from(fast.ports) << 32 | shared;
        Some(WholeV6 { addresses: fast.addresses, rest, segment: fast.tcp_segment() })
    }

    /// The hash of the packet's connection.
    #[inline(always)]
    pub fn hashed(&self, secrets: &Secrets) -> u32 {
        let [a, b, c, d] = self.addresses;
        let from = End6 { address: [a, b], port: (self.rest >> 48) as u16 };
        let to = End6 { address: [c, d], port: (self.rest >> 32) as u16 };
        secrets.v6(from, to, self.rest as u32)
    }

    /// What the full parse would extract from this packet.
    pub fn extracted(&self) -> Extracted {
        let [a, b, c, d] = self.addresses;
        let (src, dst) = (Address::from_words([a, b]), Address::from_words([c, d]));
        let key = Key::from_rest(src, dst, self.rest, Family::V6);
        Extracted { segment: self.segment, ..Extracted::of_key(key) }
    }
}

impl FastParseV6 {
    /// Parses a frame; `None` leaves it to the full parse.
    #[inline(always)]
    pub fn of(frame: &Frame) -> Option<Self> {
        if frame.key.eth_type() != ethertype::IPV6 || frame.layers.l4.is_none() {
            return None;
        }
        let ip = frame.packet.data().get(usize::from(frame.layers.l3)..)?;
        let header: &[u8; IP_HEADER] = ip.first_chunk()?;
        let (words, _) = header.as_chunks::<8>();
        let [first, addresses @ ..] = words.first_chunk::<5>()?.map(u64::from_be_bytes);
        let l4 = ip.get(IP_HEADER..)?.get(..(first >> 16 & 0xffff) as usize)?;
        let protocol = (first >> 8) as u8;
        let ports = match protocol {
            protocol::ICMPV6 => echo(l4.first_chunk()?)?,
            _ => u32::from_be_bytes(*l4.first_chunk()?),
        };
        let has_port_0 = protocol != protocol::ICMPV6 && (ports < 1 << 16 || ports as u16 == 0);
        if first >> 60 != 6 || has_port_0 {
            return None;
        }
        let is_verified = frame.packet.offload.checksum != Checksum::Unverified;
        let is_right = |segment: &[u8]| {
            is_verified || checksum::verify_v6(&addresses, protocol, segment) == Verdict::Good
        };
        let segment = match protocol {
            protocol::TCP => Some(Segment::of(l4).filter(|_| is_right(l4))?),
            protocol::UDP => {
                // UDP over IPv6 must have a checksum (RFC 8200 section 8.1).
                let (datagram, sum) = datagram(l4)?;
                if sum == 0 && !is_verified || !is_right(datagram) {
                    return None;
                }
                None
            }
            protocol::ICMPV6 if is_right(l4) => None,
            _ => return None,
        };
        Some(FastParseV6 { addresses, ports, protocol, segment })
    }

    /// Returns whether the packet is a reply of the connection in this zone, or `None` if it is not
    /// of that connection.
    #[inline(always)]
    pub fn direction(&self, record: &Record<'_>, zone: u16) -> Option<bool> {
        let shared = u64::from(zone_protocol(zone, self.protocol, Family::V6));
        record.direction_v6(&self.addresses, u64::from(self.ports) << 32 | shared)
    }

    /// The TCP segment, if the packet is TCP.
    pub fn tcp_segment(&self) -> Option<Segment> {
        self.segment
    }
}

/// Returns a whole UDP datagram, cut to its length, and its checksum.
#[inline]
fn datagram(l4: &[u8]) -> Option<(&[u8], u16)> {
    let &[_, _, _, _, high, low, sum @ ..] = l4.first_chunk::<8>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let datagram = l4.get(..length).filter(|it| it.len() >= 8)?;
    Some((datagram, u16::from_be_bytes(sum)))
}

/// Returns identifier, type and code of an echo request or reply with code 0.
#[inline]
fn echo(header: &[u8; 8]) -> Option<u32> {
    const TYPES: [u8; 2] = [icmpv6::ECHO_REQUEST, icmpv6::ECHO_REPLY];
    let [icmp_type, code, _, _, high, low, ..] = *header;
    let is_echo = TYPES.contains(&icmp_type) && code == 0;
    is_echo.then(|| u32::from_be_bytes([high, low, icmp_type, code]))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use base::PortNo;
    use packet::Packet;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the fast parse returns, the full parse returns too.
        #[test]
        fn a_first_look_agrees_with_the_whole_reading(
            kind in 0..6usize, len in 0..40usize, good: bool,
            damage in proptest::collection::vec((0..90usize, any::<u8>()), 0..3),
            cut in proptest::option::of(14..90usize),
        ) {
            let text = [
                format!("[fd00::1]:1000>[fd00::2]:80 S seq=5 win=100 len={len}"),
                format!("[fd00::1]:1000>[fd00::2]:80 udp len={len}"),
                format!("[fd00::1]:1000>[fd00::2]:80 A seq=5 ack=9 win=100 len={len}"),
                format!("[fd00::1]>[fd00::2] icmp-echo id=77 seq=1 len={len}"),
                format!("[fd00::1]:1000>[fd00::2]:80 udp len={len} vlan=5"),
                format!("10.0.0.1:1000>10.0.0.2:80 udp len={len}"),
            ];
            let mut bytes = wire::text::parse(&text[kind]).unwrap();
            for (at, flip) in damage {
                let at = at % bytes.len();
                bytes[at] ^= flip;
            }
            bytes.truncate(cut.unwrap_or(usize::MAX));
            let Ok(mut frame) = Frame::parse(Packet::from_bytes(&bytes), PortNo(1)) else {
                return Ok(());
            };
            if good {
                frame.packet.offload.checksum = Checksum::Good;
            }
            let extracted = Extracted::of(&frame, 9);
            match FastParseV6::of(&frame) {
                Some(fast) => {
                    let extracted = extracted.unwrap();
                    let ([a, b], [c, d]) = (extracted.key.src.words(), extracted.key.dst.words());
                    prop_assert_eq!(fast.addresses, [a, b, c, d]);
                    let shared = zone_protocol(9, fast.protocol, Family::V6);
                    let rest = u64::from(fast.ports) << 32 | u64::from(shared);
                    prop_assert_eq!(rest, extracted.key.rest());
                    prop_assert_eq!(fast.tcp_segment(), extracted.segment);
                    prop_assert!(!extracted.related);
                    let whole = WholeV6::of(&frame, 9);
                    prop_assert_eq!(whole.is_some(), fast.protocol != protocol::ICMPV6);
                    if let Some(whole) = whole {
                        let (secrets, again) = (Secrets::seed(3), whole.extracted());
                        prop_assert_eq!((again.key, again.segment), (extracted.key, extracted.segment));
                        prop_assert_eq!(whole.hashed(&secrets), extracted.key.hash(&secrets));
                    }
                }
                None => {
                    let usual = |it: &Extracted| it.key.family == Family::V6
                        && matches!(it.key.protocol, protocol::TCP | protocol::UDP | protocol::ICMPV6)
                        && !it.related;
                    let is_plain = frame.l3().get(6).is_some_and(|&next| next == frame.key.nw_proto());
                    prop_assert!(!is_plain || !extracted.is_ok_and(|it| usual(&it)));
                }
            }
        }
    }
}
