//! Parses frames. Any bytes yield a result, never a panic.

use crate::address::Address;
use crate::checksum::Sum;
use crate::frame::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, Flow, PROTOCOL_ICMPV6,
    PROTOCOL_TCP, PROTOCOL_UDP,
};
use base::MacAddr;

/// A parsed frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrived<'a> {
    pub source_mac: MacAddr,
    pub source: Address,
    pub destination: Address,
    pub content: Content<'a>,
}

impl Arrived<'_> {
    /// Returns the frame's connection as its receiver sees it; ports are 0 where the protocol has none.
    #[inline]
    pub fn flow(&self) -> Flow {
        let (local_port, remote_port, protocol) = match &self.content {
            Content::Tcp(it) => (it.destination_port, it.source_port, PROTOCOL_TCP),
            Content::Udp(it) => (it.destination_port, it.source_port, PROTOCOL_UDP),
            Content::Question | Content::Answer { .. } => (0, 0, 0),
        };
        Flow { local: self.destination, remote: self.source, local_port, remote_port, protocol }
    }
}

/// The contents of a parsed frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Tcp(Segment<'a>),
    Udp(Datagram<'a>),
    /// ARP request or neighbour solicitation for `destination`.
    Question,
    /// ARP reply or neighbour advertisement: `source` has the MAC address `mac`.
    Answer {
        mac: MacAddr,
    },
}

/// A TCP segment.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Segment<'a> {
    pub source_port: u16,
    pub destination_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub payload: &'a [u8],
}

/// A UDP datagram.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct Datagram<'a> {
    pub source_port: u16,
    pub destination_port: u16,
    pub payload: &'a [u8],
}

/// Why a frame was discarded.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Discard {
    Malformed,
    BadChecksum,
    Foreign,
}

/// Reads addresses and ports at their usual offsets, without checks, so that the connection can be prefetched
/// before the frame is parsed. Returns `None` unless the frame looks like plain TCP or UDP over IPv4.
#[inline]
pub(crate) fn likely_flow(frame: &[u8], vlan: Option<u16>) -> Option<Flow> {
    let at = if vlan.is_some() { 16 } else { 12 };
    let it = frame.get(at..)?.first_chunk::<26>()?;
    if it[..3] != [8, 0, 0x45] || !matches!(it[11], PROTOCOL_TCP | PROTOCOL_UDP) {
        return None;
    }
    Some(Flow {
        local: Address::v4([it[18], it[19], it[20], it[21]]),
        remote: Address::v4([it[14], it[15], it[16], it[17]]),
        local_port: u16::from_be_bytes([it[24], it[25]]),
        remote_port: u16::from_be_bytes([it[22], it[23]]),
        protocol: it[11],
    })
}

/// Fast parse of the most frequent frames: an untagged, unfragmented TCP segment with a correct checksum over
/// IPv4 without options. Returns the sender's MAC address, the connection as its receiver sees it, and the
/// segment. For `None`, [`read`] decides.
#[inline(always)]
pub(crate) fn read_plain(frame: &[u8], verify: bool) -> Option<(MacAddr, Flow, Segment<'_>)> {
    let it = frame.first_chunk::<54>()?;
    let is_plain = it[12..15] == [8, 0, 0x45] && it[23] == PROTOCOL_TCP;
    if !is_plain || u16::from_be_bytes([it[20], it[21]]) & 0x3fff != 0 {
        return None;
    }
    let transport_bytes = u16::from_be_bytes([it[16], it[17]]).checked_sub(20)?;
    let transport = frame.get(34..34 + usize::from(transport_bytes))?;
    if verify {
        let addresses = Sum::default().bytes(&it[26..34]);
        let ip = addresses.bytes(&it[14..26]).finish();
        let sum = addresses.number(u16::from(PROTOCOL_TCP)).number(transport_bytes);
        if ip != 0 || sum.bytes(transport).finish() != 0 {
            return None;
        }
    }
    let segment = tcp(transport).ok()?;
    let flow = Flow {
        local: Address::v4([it[30], it[31], it[32], it[33]]),
        remote: Address::v4([it[26], it[27], it[28], it[29]]),
        local_port: segment.destination_port,
        remote_port: segment.source_port,
        protocol: PROTOCOL_TCP,
    };
    Some((MacAddr([it[6], it[7], it[8], it[9], it[10], it[11]]), flow, segment))
}

/// Parses a frame. `verify` says whether to check its transport checksum.
pub(crate) fn read(frame: &[u8], vlan: Option<u16>, verify: bool) -> Result<Arrived<'_>, Discard> {
    let mut source_mac = [0; 6];
    source_mac.copy_from_slice(bytes(frame, 6, 6)?);
    let source_mac = MacAddr(source_mac);
    let mut ethertype = u16_at(frame, 12)?;
    let mut rest = tail(frame, 14)?;
    if let Some(vlan) = vlan {
        if ethertype != ETHERTYPE_VLAN || u16_at(rest, 0)? & 0xfff != vlan {
            return Err(Discard::Foreign);
        }
        ethertype = u16_at(rest, 2)?;
        rest = tail(rest, 4)?;
    }
    match ethertype {
        ETHERTYPE_IPV4 => ipv4(source_mac, rest, verify),
        ETHERTYPE_IPV6 => ipv6(source_mac, rest, verify),
        ETHERTYPE_ARP => arp(source_mac, rest),
        _ => Err(Discard::Foreign),
    }
}

#[inline]
fn ipv4(source_mac: MacAddr, packet: &[u8], verify: bool) -> Result<Arrived<'_>, Discard> {
    let fixed = packet.first_chunk::<20>().ok_or(Discard::Malformed)?;
    let header_bytes = usize::from(fixed[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if fixed[0] >> 4 != 4 || header_bytes < 20 || total < header_bytes {
        return Err(Discard::Malformed);
    }
    let options = bytes(packet, 20, header_bytes - 20)?;
    if verify && Sum::default().bytes(fixed).bytes(options).finish() != 0 {
        return Err(Discard::BadChecksum);
    }
    // The generator's hosts set "don't fragment", so a fragment is not theirs.
    if u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0 {
        return Err(Discard::Foreign);
    }
    let transport = bytes(packet, header_bytes, total - header_bytes)?;
    let pseudo = Sum::default().bytes(&fixed[12..20]);
    let source = Address::v4([fixed[12], fixed[13], fixed[14], fixed[15]]);
    let destination = Address::v4([fixed[16], fixed[17], fixed[18], fixed[19]]);
    let content = transport_of(fixed[9], transport, pseudo, verify)?;
    Ok(Arrived { source_mac, source, destination, content })
}

fn ipv6(source_mac: MacAddr, packet: &[u8], verify: bool) -> Result<Arrived<'_>, Discard> {
    let fixed = packet.first_chunk::<40>().ok_or(Discard::Malformed)?;
    if fixed[0] >> 4 != 6 {
        return Err(Discard::Malformed);
    }
    let length = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let payload = bytes(packet, 40, length)?;
    let pseudo = Sum::default().bytes(&fixed[8..40]);
    let (source, destination) = (address_at(fixed, 8)?, address_at(fixed, 24)?);
    if fixed[6] != PROTOCOL_ICMPV6 {
        let content = transport_of(fixed[6], payload, pseudo, verify)?;
        return Ok(Arrived { source_mac, source, destination, content });
    }
    check(PROTOCOL_ICMPV6, payload, pseudo, verify)?;
    // Neighbour discovery messages that passed a router are forged (RFC 4861 section 7.1).
    if fixed[7] != 255 {
        return Err(Discard::Foreign);
    }
    match u16_at(payload, 0)?.to_be_bytes() {
        [135, 0] => {
            let destination = address_at(payload, 8)?;
            Ok(Arrived { source_mac, source, destination, content: Content::Question })
        }
        [136, 0] => {
            let source = address_at(payload, 8)?;
            // Without the target link-layer address option the frame's source address is used.
            let mac = match payload.get(24..32) {
                Some(&[2, 1, a, b, c, d, e, f]) => MacAddr([a, b, c, d, e, f]),
                _ => source_mac,
            };
            Ok(Arrived { source_mac, source, destination, content: Content::Answer { mac } })
        }
        _ => Err(Discard::Foreign),
    }
}

fn arp(source_mac: MacAddr, packet: &[u8]) -> Result<Arrived<'_>, Discard> {
    let fixed = packet.first_chunk::<28>().ok_or(Discard::Malformed)?;
    let [0, 1, 8, 0, 6, 4, 0, operation, a, b, c, d, e, f, ..] = *fixed else {
        return Err(Discard::Foreign);
    };
    let source = Address::v4([fixed[14], fixed[15], fixed[16], fixed[17]]);
    let destination = Address::v4([fixed[24], fixed[25], fixed[26], fixed[27]]);
    let content = match operation {
        1 => Content::Question,
        2 => Content::Answer { mac: MacAddr([a, b, c, d, e, f]) },
        _ => return Err(Discard::Foreign),
    };
    Ok(Arrived { source_mac, source, destination, content })
}

#[inline]
fn check(protocol: u8, transport: &[u8], pseudo: Sum, verify: bool) -> Result<(), Discard> {
    let length = u16::try_from(transport.len()).map_err(|_| Discard::Malformed)?;
    let sum = pseudo.number(u16::from(protocol)).number(length);
    if verify && sum.bytes(transport).finish() != 0 {
        return Err(Discard::BadChecksum);
    }
    Ok(())
}

#[inline(always)]
fn transport_of(
    protocol: u8,
    transport: &[u8],
    pseudo: Sum,
    verify: bool,
) -> Result<Content<'_>, Discard> {
    match protocol {
        PROTOCOL_TCP => {
            check(protocol, transport, pseudo, verify)?;
            Ok(Content::Tcp(tcp(transport)?))
        }
        PROTOCOL_UDP => {
            let has_checksum = u16_at(transport, 6)? != 0;
            let length = usize::from(u16_at(transport, 4)?);
            let covered = bytes(transport, 0, length)?;
            check(protocol, covered, pseudo, verify && has_checksum)?;
            Ok(Content::Udp(Datagram {
                source_port: u16_at(covered, 0)?,
                destination_port: u16_at(covered, 2)?,
                payload: tail(covered, 8)?,
            }))
        }
        _ => Err(Discard::Foreign),
    }
}

#[inline(always)]
fn tcp(bytes: &[u8]) -> Result<Segment<'_>, Discard> {
    let fixed = bytes.first_chunk::<20>().ok_or(Discard::Malformed)?;
    let header_bytes = usize::from(fixed[12] >> 4) * 4;
    let (Some(mut options), Some(payload)) =
        (bytes.get(20..header_bytes), bytes.get(header_bytes..))
    else {
        return Err(Discard::Malformed);
    };
    let (mut mss, mut scale) = (None, None);
    while let [kind, rest @ ..] = options {
        options = match (*kind, rest) {
            (0, _) => break,
            (1, rest) => rest,
            (kind, [length, ..]) => {
                match (kind, rest) {
                    (2, [4, high, low, ..]) => mss = Some(u16::from_be_bytes([*high, *low])),
                    (3, [3, shift, ..]) => scale = Some(*shift),
                    _ => {}
                }
                let skip = usize::from(*length).checked_sub(1).filter(|&n| n > 0);
                match skip.and_then(|skip| rest.get(skip..)) {
                    Some(rest) => rest,
                    None => return Err(Discard::Malformed),
                }
            }
            _ => return Err(Discard::Malformed),
        };
    }
    Ok(Segment {
        source_port: u16::from_be_bytes([fixed[0], fixed[1]]),
        destination_port: u16::from_be_bytes([fixed[2], fixed[3]]),
        seq: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
        ack: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
        flags: fixed[13],
        window: u16::from_be_bytes([fixed[14], fixed[15]]),
        mss,
        scale,
        payload,
    })
}

#[inline]
fn bytes(from: &[u8], at: usize, length: usize) -> Result<&[u8], Discard> {
    from.get(at..at + length).ok_or(Discard::Malformed)
}

#[inline]
fn tail(from: &[u8], at: usize) -> Result<&[u8], Discard> {
    from.get(at..).ok_or(Discard::Malformed)
}

#[inline]
fn u16_at(from: &[u8], at: usize) -> Result<u16, Discard> {
    match from.get(at..at + 2) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(Discard::Malformed),
    }
}

fn address_at(from: &[u8], at: usize) -> Result<Address, Discard> {
    let sixteen = from.get(at..).and_then(|rest| rest.first_chunk::<16>());
    sixteen.map(|sixteen| Address(*sixteen)).ok_or(Discard::Malformed)
}

#[cfg(test)]
mod tests;
