//! Outer headers, which are built once per flow and finished for each packet (ovs:
//! `lib/netdev-native-tnl.c`).

use crate::config::{FlowLabel, TunnelConfig};
use base::{Instant, MacAddr};
use flow::{TunnelKind, TunnelSequence};
use std::net::IpAddr;
use wire::checksum::{Change, checksum, combine, pseudo_v4, pseudo_v6, sum, udp_nonzero};
use wire::{erspan, ethertype, geneve, gre, gtpu, protocol, srv6, vxlan};

/// The length of an Ethernet header without tags, in bytes.
const ETHERNET: usize = 14;
/// The offset of the last byte of the IPv6 flow label.
const LABEL_END: usize = ETHERNET + 3;
/// A checksum that [`finish`] must compute.
const TO_DO: u16 = 0xffff;

/// The outer headers of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outer<'a> {
    /// Ethernet source and destination.
    pub ethernet: (MacAddr, MacAddr),
    /// The local address.
    pub source: IpAddr,
    /// The remote address, of the same family.
    pub destination: IpAddr,
    /// TOS with the ECN bits.
    pub tos: u8,
    /// TTL.
    pub ttl: u8,
    /// IPv4 packets must not be fragmented.
    pub dont_fragment: bool,
    /// UDP or GRE has a checksum.
    pub checksum: bool,
    /// The OAM flag of Geneve (RFC 8926 section 3.4).
    pub oam: bool,
    /// The key.
    pub key: u64,
    /// The options of Geneve, a multiple of four bytes.
    pub options: &'a [u8],
    /// The group policy of VXLAN: flags and group.
    pub group: (u8, u16),
    /// Version, index, direction and hardware identifier of ERSPAN.
    pub erspan: (u8, u32, u8, u8),
    /// Flags and message type of GTP-U; 0 stands for the default.
    pub gtpu: (u8, u8),
    /// The Ethernet type of inner packets without an Ethernet header, or `None` for frames.
    pub packet: Option<u16>,
}

/// Builds the outer headers, without the lengths and checksums of packets. Returns `None` if the protocol
/// does not support the key (too large) or the inner packet type.
pub fn build(config: &TunnelConfig, outer: &Outer<'_>) -> Option<Box<[u8]>> {
    let mut header = Vec::with_capacity(128);
    network(&mut header, config.kind.protocol(), outer)?;
    if config.kind.is_udp() {
        for word in [0, config.udp_port, 0, if outer.checksum { TO_DO } else { 0 }] {
            header.extend(word.to_be_bytes());
        }
    }
    match config.kind {
        TunnelKind::Vxlan => header.extend(vxlan_header(config, outer)?),
        TunnelKind::Geneve => {
            if outer.packet.is_some() || outer.options.len() > geneve::OPTIONS_LEN_MAX {
                return None;
            }
            let critical = geneve::has_critical(outer.options);
            let flags = if outer.oam { geneve::FLAG_OAM } else { 0 };
            let flags = flags | if critical { geneve::FLAG_CRITICAL } else { 0 };
            let (kind, vni) = (ethertype::TRANSPARENT_ETHERNET, key24(outer.key)?);
            header.extend(geneve::header(flags, kind, vni, outer.options.len()));
            header.extend(outer.options);
        }
        TunnelKind::Gre | TunnelKind::Ip6Gre => gre_header(&mut header, config, outer)?,
        TunnelKind::Erspan | TunnelKind::Ip6Erspan => erspan_header(&mut header, outer)?,
        TunnelKind::Gtpu => {
            outer.packet?;
            let (flags, kind) = outer.gtpu;
            // The optional fields are not sent, so no flag announces them.
            let flags = if flags == 0 { gtpu::FLAGS } else { flags & !gtpu::FLAGS_OPTIONAL };
            let kind = if kind == 0 { gtpu::G_PDU } else { kind };
            header.extend(gtpu::header(flags, kind, 0, u32::try_from(outer.key).ok()?));
        }
        TunnelKind::Bareudp => {
            let is_carried = carries(config.payload_type, outer.packet?);
            is_carried.then_some(())?;
        }
        TunnelKind::Srv6 => srv6_header(&mut header, config, outer)?,
    }
    Some(header.into())
}

fn network(header: &mut Vec<u8>, next: u8, outer: &Outer<'_>) -> Option<()> {
    let (source, destination) = outer.ethernet;
    header.extend(destination.0);
    header.extend(source.0);
    match (outer.source, outer.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header.extend(ethertype::IPV4.to_be_bytes());
            let fragment = if outer.dont_fragment { 0x40 } else { 0 };
            header.extend([0x45, outer.tos, 0, 0, 0, 0, fragment, 0, outer.ttl, next, 0, 0]);
            header.extend(source.octets());
            header.extend(destination.octets());
            let computed = checksum(&header[ETHERNET..]).to_be_bytes();
            header[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&computed);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            header.extend(ethertype::IPV6.to_be_bytes());
            header.extend((6 << 28 | u32::from(outer.tos) << 20).to_be_bytes());
            header.extend([0, 0, next, outer.ttl]);
            header.extend(source.octets());
            header.extend(destination.octets());
        }
        _ => return None,
    }
    Some(())
}

/// Returns whether a bareudp tunnel of this payload type carries packets of an Ethernet type.
fn carries(payload_type: u16, packet: u16) -> bool {
    match payload_type {
        0 => true,
        ethertype::IPV4 => matches!(packet, ethertype::IPV4 | ethertype::IPV6),
        ethertype::MPLS => matches!(packet, ethertype::MPLS | ethertype::MPLS_MULTICAST),
        other => packet == other,
    }
}

fn key24(key: u64) -> Option<u32> {
    u32::try_from(key).ok().filter(|key| *key < 1 << 24)
}

fn vxlan_header(config: &TunnelConfig, outer: &Outer<'_>) -> Option<[u8; vxlan::HEADER_LEN]> {
    let mut flags = vxlan::FLAG_VNI;
    let (policy, group) = outer.group;
    if config.generic_protocol {
        let next = match outer.packet {
            None | Some(ethertype::TRANSPARENT_ETHERNET) => 3,
            Some(ethertype::IPV4) => 1,
            Some(ethertype::IPV6) => 2,
            Some(ethertype::NSH) => 4,
            Some(_) => return None,
        };
        flags |= vxlan::FLAG_GPE | next;
    } else if outer.packet.is_some() {
        return None;
    } else if config.group_policy && (policy, group) != (0, 0) {
        flags |= vxlan::FLAG_GROUP_POLICY | u32::from(policy & 0x48) << 16 | u32::from(group);
    }
    Some(vxlan::header(flags, key24(outer.key)?))
}

fn gre_header(header: &mut Vec<u8>, config: &TunnelConfig, outer: &Outer<'_>) -> Option<()> {
    let has_key = config.out_key != crate::Key::Absent;
    let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
    let flags = flag(outer.checksum, gre::FLAG_CHECKSUM)
        | flag(has_key, gre::FLAG_KEY)
        | flag(config.sequence, gre::FLAG_SEQUENCE);
    header.extend(flags.to_be_bytes());
    header.extend(outer.packet.unwrap_or(ethertype::TRANSPARENT_ETHERNET).to_be_bytes());
    if outer.checksum {
        header.extend([0; 4]);
    }
    if has_key {
        header.extend(u32::try_from(outer.key).ok()?.to_be_bytes());
    }
    if config.sequence {
        header.extend([0; 4]);
    }
    Some(())
}

fn erspan_header(header: &mut Vec<u8>, outer: &Outer<'_>) -> Option<()> {
    let session = u16::try_from(outer.key).ok().filter(|it| *it <= erspan::SESSION_MAX)?;
    let (version, index, direction, hardware) = outer.erspan;
    let kind = match version {
        1 => ethertype::ERSPAN_II,
        2 => ethertype::ERSPAN_III,
        _ => return None,
    };
    if outer.packet.is_some() {
        return None;
    }
    header.extend(gre::FLAG_SEQUENCE.to_be_bytes());
    header.extend(kind.to_be_bytes());
    header.extend([0; 4]);
    match version {
        1 => header.extend(erspan::header_1(session, index)),
        _ => header.extend(erspan::header_2(session, direction, hardware)),
    }
    Some(())
}

/// Appends the segment routing header. Until [`finish`], the last byte of the flow label contains the
/// [`FlowLabel`] setting (as in ovs: `netdev_srv6_build_header`).
fn srv6_header(header: &mut Vec<u8>, config: &TunnelConfig, outer: &Outer<'_>) -> Option<()> {
    let IpAddr::V6(end) = outer.destination else { return None };
    let next = match outer.packet? {
        ethertype::IPV4 => protocol::IPV4,
        ethertype::IPV6 => protocol::IPV6,
        _ => return None,
    };
    let only = [end];
    let segments = if config.segments.is_empty() { &only } else { &config.segments[..] };
    if segments.first() != Some(&end) {
        return None;
    }
    *header.get_mut(LABEL_END)? = config.flow_label as u8;
    srv6::header(header, next, segments);
    Some(())
}

/// Writes the outer flow label. A computed label has the 16 bits of `hash`.
fn finish_srv6(frame: &mut [u8], hash: u16) -> Option<()> {
    let inner = ETHERNET + 40 + srv6_len(frame)?;
    let how = *frame.get(LABEL_END)?;
    let low_bits = |word: u32| word & 0xf_ffff;
    let label = match how {
        _ if how == FlowLabel::Compute as u8 => hash.into(),
        _ if how == FlowLabel::Copy as u8 && frame.get(inner)? >> 4 == 6 => {
            low_bits(u32::from_be_bytes(frame.get(inner..inner + 4)?.try_into().ok()?))
        }
        _ => 0,
    };
    let place = frame.get_mut(ETHERNET..ETHERNET + 4)?;
    let word = u32::from_be_bytes(<[u8; 4]>::try_from(&*place).ok()?);
    place.copy_from_slice(&(word & !0xf_ffff | label).to_be_bytes());
    Some(())
}

/// Returns the length of the segment routing header that [`build`] made, in bytes.
fn srv6_len(frame: &[u8]) -> Option<usize> {
    Some((usize::from(*frame.get(ETHERNET + 41)?) + 1) * 8)
}

/// Writes the fields of the outer headers that differ between packets: lengths, UDP source port, sequence
/// number, timestamp and checksums. The frame begins with the headers that [`build`] made. `sequence` gives
/// the sequence number, if the headers have one. Returns `None` if the packet is too long for IP.
pub fn finish(
    frame: &mut [u8],
    kind: TunnelKind,
    source_port: u16,
    sequence: &TunnelSequence,
    now: Instant,
) -> Option<()> {
    let is_ipv6 = u16_at(frame, 12) == ethertype::IPV6;
    let network = ETHERNET;
    let transport = network + if is_ipv6 { 40 } else { 20 };
    let length = frame.len().checked_sub(transport)?;
    if is_ipv6 {
        put_u16(frame, network + 4, u16::try_from(length).ok()?)?;
    } else {
        let total = u16::try_from(length + 20).ok()?;
        put_u16(frame, network + 2, total)?;
        let computed = Change::u16(0, total).checksum(u16_at(frame, network + 10));
        put_u16(frame, network + 10, computed)?;
    }
    match kind {
        TunnelKind::Gre | TunnelKind::Ip6Gre | TunnelKind::Erspan | TunnelKind::Ip6Erspan => {
            finish_gre(frame, transport, sequence, now)
        }
        TunnelKind::Srv6 => finish_srv6(frame, source_port),
        _ => {
            if kind == TunnelKind::Gtpu {
                let payload = length.checked_sub(16)?;
                put_u16(frame, transport + 10, u16::try_from(payload).ok()?)?;
            }
            finish_udp(frame, transport, source_port)
        }
    }
}

fn finish_udp(frame: &mut [u8], transport: usize, source_port: u16) -> Option<()> {
    let length = frame.len().checked_sub(transport)?;
    put_u16(frame, transport, source_port)?;
    put_u16(frame, transport + 4, u16::try_from(length).ok()?)?;
    if u16_at(frame, transport + 6) == 0 {
        return Some(());
    }
    put_u16(frame, transport + 6, 0)?;
    let total = combine(pseudo(frame, protocol::UDP, length)?, sum(frame.get(transport..)?));
    put_u16(frame, transport + 6, udp_nonzero(!total))
}

fn finish_gre(
    frame: &mut [u8],
    transport: usize,
    sequence: &TunnelSequence,
    now: Instant,
) -> Option<()> {
    let flags = u16_at(frame, transport);
    if flags & gre::FLAG_SEQUENCE != 0 {
        // It is always the last of the optional words (RFC 2890 section 2).
        let at = transport + gre::header_len(flags) - 4;
        frame.get_mut(at..at + 4)?.copy_from_slice(&sequence.next().to_be_bytes());
        if u16_at(frame, transport + 2) == ethertype::ERSPAN_III {
            let at = at + 4 + erspan::TIME_AT;
            frame.get_mut(at..at + 4)?.copy_from_slice(&erspan::time(now.as_nanos()));
        }
    }
    if flags & gre::FLAG_CHECKSUM != 0 {
        let computed = checksum(frame.get(transport..)?);
        put_u16(frame, transport + 4, computed)?;
    }
    Some(())
}

/// Returns the sum of the pseudo-header of an outer packet.
pub(crate) fn pseudo(frame: &[u8], protocol: u8, length: usize) -> Option<u16> {
    if u16_at(frame, 12) == ethertype::IPV6 {
        let address = |at: usize| Some(<[u8; 16]>::try_from(frame.get(at..at + 16)?).ok()?.into());
        return Some(pseudo_v6(address(ETHERNET + 8)?, address(ETHERNET + 24)?, protocol, length));
    }
    let address = |at: usize| Some(<[u8; 4]>::try_from(frame.get(at..at + 4)?).ok()?.into());
    Some(pseudo_v4(address(ETHERNET + 12)?, address(ETHERNET + 16)?, protocol, length))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..at + 2).and_then(|it| <[u8; 2]>::try_from(it).ok());
    u16::from_be_bytes(two.unwrap_or_default())
}

fn put_u16(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    bytes.get_mut(at..at + 2)?.copy_from_slice(&value.to_be_bytes());
    Some(())
}
