//! Parses the outer headers of tunnel packets and validates every length (ovs: `lib/netdev-native-tnl.c`).

use crate::encapsulate::pseudo;
use flow::{TunnelEnd, TunnelKind};
use std::net::IpAddr;
use wire::checksum::{combine, sum};
use wire::{
    Erspan, Ethernet, Geneve, Gre, Gtpu, Ipv4, Ipv6, Srv6, Udp, Vxlan, ethertype, gre, gtpu,
    protocol, vxlan,
};

/// A parsed tunnel packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decapsulated<'a> {
    /// The length of the outer headers in bytes.
    pub header_len: usize,
    /// The offset of the end of the inner packet in the frame. Padding may follow.
    pub end: usize,
    /// The type of the inner packet.
    pub inner: Inner,
    /// The fields of the outer headers.
    pub metadata: Metadata<'a>,
}

/// The type of an inner packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inner {
    /// An Ethernet frame.
    Frame,
    /// A packet of this Ethernet type, without an Ethernet header.
    Packet(u16),
}

/// The fields of the outer headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metadata<'a> {
    /// The remote address.
    pub source: IpAddr,
    /// The local address.
    pub destination: IpAddr,
    /// The outer TOS.
    pub tos: u8,
    /// The outer TTL.
    pub ttl: u8,
    /// The key.
    pub key: Option<u64>,
    /// The packet has a UDP or GRE checksum, and it is correct or trusted.
    pub checksum: bool,
    /// The OAM flag of Geneve (RFC 8926 section 3.4).
    pub oam: bool,
    /// The group policy of VXLAN: flags and group.
    pub group: (u8, u16),
    /// Version, index, direction and hardware identifier of ERSPAN.
    pub erspan: (u8, u32, u8, u8),
    /// Flags and message type of GTP-U.
    pub gtpu: (u8, u8),
    /// The options of Geneve.
    pub options: &'a [u8],
}

/// Why a packet cannot be decapsulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PopError {
    /// A header is truncated, a length is wrong, or a field has a value that the protocol does not define.
    Malformed,
    /// A checksum is wrong.
    Checksum,
    /// Tunnels of this kind do not support the inner packet type.
    Payload,
}

impl From<wire::Malformed> for PopError {
    fn from(_: wire::Malformed) -> Self {
        PopError::Malformed
    }
}

/// The outer Ethernet and IP headers.
struct Network<'a> {
    metadata: Metadata<'a>,
    /// The offset of the transport header in bytes.
    len: usize,
    /// The payload of IP, without padding.
    payload: &'a [u8],
}

/// Parses the outer headers of a frame to this end of tunnels. With `trusted`, UDP and GRE checksums are not
/// verified, because a device verified them or the sender left them to an offload. A GTP-U message without a
/// user packet is returned whole, with its outer headers.
///
/// # Errors
/// The frame cannot be decapsulated.
pub fn decapsulate(
    tunnel_end: impl Into<TunnelEnd>,
    frame: &[u8],
    trusted: bool,
) -> Result<Decapsulated<'_>, PopError> {
    let tunnel_end = tunnel_end.into();
    let kind = tunnel_end.kind;
    if kind == TunnelKind::Srv6 {
        return of_srv6(frame);
    }
    let Network { mut metadata, len, payload } = network(Some(kind.protocol()), frame)?;
    let (inner, before, after) = match kind.protocol() {
        protocol::UDP => {
            let udp = Udp::new_checked(payload)?;
            let datagram = payload.get(..udp.length()).ok_or(PopError::Malformed)?;
            if udp.checksum() != 0 {
                let pseudo = pseudo(frame, protocol::UDP, datagram.len());
                let is_right =
                    pseudo.is_some_and(|pseudo| combine(pseudo, sum(datagram)) == TO_ALL);
                if !trusted && !is_right {
                    return Err(PopError::Checksum);
                }
                metadata.checksum = true;
            }
            let body = &datagram[wire::udp::HEADER_LEN..];
            let (inner, rest) = of_udp(tunnel_end, body, &mut metadata)?;
            if kind == TunnelKind::Gtpu && inner == Inner::Frame {
                return Ok(Decapsulated { header_len: 0, end: frame.len(), inner, metadata });
            }
            (inner, len + datagram.len() - rest.len(), rest.len())
        }
        _ => {
            let header = Gre::new_checked(payload)?;
            if header.flags() & gre::FLAG_CHECKSUM != 0 {
                if !trusted && sum(payload) != TO_ALL {
                    return Err(PopError::Checksum);
                }
                metadata.checksum = true;
            }
            let behind = &payload[header.header_len()..];
            let (inner, rest) = of_gre(kind, &header, behind, &mut metadata)?;
            (inner, len + payload.len() - rest.len(), rest.len())
        }
    };
    Ok(Decapsulated { header_len: before, end: before + after, inner, metadata })
}

/// The ones' complement sum of bytes that include their correct checksum (RFC 1071 section 1).
const TO_ALL: u16 = 0xffff;

/// Parses an SRv6 packet at its last segment (ovs: `netdev_srv6_pop_header`).
fn of_srv6(frame: &[u8]) -> Result<Decapsulated<'_>, PopError> {
    let Network { metadata, len, payload } = network(None, frame)?;
    let next = frame.get(wire::ethernet::HEADER_LEN + 6).copied().unwrap_or_default();
    let header = Srv6::find(next, payload)?;
    let inner = match header.next_header() {
        protocol::IPV4 => Inner::Packet(ethertype::IPV4),
        protocol::IPV6 => Inner::Packet(ethertype::IPV6),
        _ => return Err(PopError::Payload),
    };
    if header.segments_left() != 0 || metadata.source.is_ipv4() {
        return Err(PopError::Payload);
    }
    let header_len = len + header.extensions_len();
    Ok(Decapsulated { header_len, end: len + payload.len(), inner, metadata })
}

/// Parses the Ethernet and IP headers of a packet in which `protocol` follows IPv4, or IPv6 and its extension
/// headers. With `None`, IPv6 is required and any next header is accepted.
fn network(protocol: Option<u8>, frame: &[u8]) -> Result<Network<'_>, PopError> {
    let ethernet = Ethernet::new_checked(frame)?;
    let bytes = frame.get(wire::ethernet::HEADER_LEN..).ok_or(PopError::Malformed)?;
    let metadata = |source, destination, tos, ttl| Metadata {
        source,
        destination,
        tos,
        ttl,
        key: None,
        checksum: false,
        oam: false,
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        options: &[],
    };
    match ethernet.ethertype() {
        ethertype::IPV4 => {
            let ip = Ipv4::new_checked(bytes)?;
            // Options are not supported on outer packets, as in Open vSwitch.
            if Some(ip.protocol()) != protocol
                || ip.header_len() != 20
                || ip.fragment() != wire::Fragment::None
            {
                return Err(PopError::Malformed);
            }
            // Counted with other broken headers, as in Open vSwitch.
            if sum(ip.header()) != TO_ALL {
                return Err(PopError::Malformed);
            }
            let metadata =
                metadata(ip.source().into(), ip.destination().into(), ip.tos(), ip.ttl());
            let payload = bytes.get(20..ip.total_len()).ok_or(PopError::Malformed)?;
            Ok(Network { metadata, len: wire::ethernet::HEADER_LEN + 20, payload })
        }
        ethertype::IPV6 => {
            let ip = Ipv6::new_checked(bytes)?;
            let mut start = 40;
            if let Some(protocol) = protocol {
                // Extension headers are skipped, as in Open vSwitch. A packet that is not whole, or not at the last
                // of its addresses, does not end here.
                let extensions = ip.extensions()?;
                let is_whole = extensions.fragment == wire::Fragment::None;
                if extensions.protocol != protocol || !is_whole || extensions.routed {
                    return Err(PopError::Malformed);
                }
                start += extensions.len;
            }
            let (source, destination) = (ip.source().into(), ip.destination().into());
            let metadata = metadata(source, destination, ip.traffic_class(), ip.hop_limit());
            let end = 40 + ip.payload_len();
            let payload = bytes.get(start..end).ok_or(PopError::Malformed)?;
            Ok(Network { metadata, len: wire::ethernet::HEADER_LEN + start, payload })
        }
        _ => Err(PopError::Malformed),
    }
}

fn of_udp<'a>(
    tunnel_end: TunnelEnd,
    body: &'a [u8],
    metadata: &mut Metadata<'a>,
) -> Result<(Inner, &'a [u8]), PopError> {
    match tunnel_end.kind {
        TunnelKind::Geneve => {
            let header = Geneve::new_checked(body)?;
            if header.protocol() != ethertype::TRANSPARENT_ETHERNET {
                return Err(PopError::Payload);
            }
            metadata.key = Some(header.vni().into());
            metadata.oam = header.flags() & wire::geneve::FLAG_OAM != 0;
            metadata.options = &body[wire::geneve::HEADER_LEN..header.header_len()];
            Ok((Inner::Frame, &body[header.header_len()..]))
        }
        TunnelKind::Gtpu => {
            let header = Gtpu::new_checked(body)?;
            metadata.key = Some(header.endpoint().into());
            metadata.gtpu = (header.flags(), header.message_type());
            if header.message_type() != gtpu::G_PDU {
                return Ok((Inner::Frame, body));
            }
            // User packets with extension headers are not decapsulated.
            if header.next_extension() != 0 {
                return Err(PopError::Payload);
            }
            let end = gtpu::HEADER_LEN + header.length();
            let rest = body.get(header.header_len()..end).ok_or(PopError::Malformed)?;
            Ok((of_version(rest)?, rest))
        }
        TunnelKind::Bareudp => match (body.first(), tunnel_end.payload_type) {
            (None, _) => Err(PopError::Malformed),
            (_, 0) => Ok((of_version(body).unwrap_or(Inner::Packet(ethertype::MPLS)), body)),
            (_, ethertype::IPV4) => Ok((of_version(body)?, body)),
            // Linux distinguishes the two types in the same way (`drivers/net/bareudp.c`).
            (_, ethertype::MPLS) if metadata.destination.is_multicast() => {
                Ok((Inner::Packet(ethertype::MPLS_MULTICAST), body))
            }
            (_, payload_type) => Ok((Inner::Packet(payload_type), body)),
        },
        _ => {
            let header = Vxlan::new_checked(body)?;
            let inner = match header.next_protocol() {
                Some(_) if header.flags() & vxlan::FLAG_OAM != 0 => return Err(PopError::Payload),
                None | Some(3) => Inner::Frame,
                Some(1) => Inner::Packet(ethertype::IPV4),
                Some(2) => Inner::Packet(ethertype::IPV6),
                Some(4) => Inner::Packet(ethertype::NSH),
                Some(_) => return Err(PopError::Payload),
            };
            if header.group_policy().is_some() && !tunnel_end.group_policy {
                return Err(PopError::Payload);
            }
            metadata.key = Some(header.vni().into());
            metadata.group = header.group_policy().unwrap_or_default();
            Ok((inner, &body[vxlan::HEADER_LEN..]))
        }
    }
}

fn of_gre<'a>(
    kind: TunnelKind,
    header: &Gre<&[u8]>,
    behind: &'a [u8],
    metadata: &mut Metadata<'a>,
) -> Result<(Inner, &'a [u8]), PopError> {
    if matches!(kind, TunnelKind::Erspan | TunnelKind::Ip6Erspan) {
        let is_erspan = matches!(header.protocol(), ethertype::ERSPAN_II | ethertype::ERSPAN_III);
        if !is_erspan || header.flags() & !gre::FLAG_SEQUENCE != 0 {
            return Err(PopError::Payload);
        }
        let mirror = Erspan::new_checked(behind)?;
        metadata.key = Some(mirror.session().into());
        metadata.erspan = (mirror.version(), mirror.index(), mirror.direction(), mirror.hardware());
        return Ok((Inner::Frame, &behind[mirror.header_len()..]));
    }
    metadata.key = header.key().map(u64::from);
    match header.protocol() {
        ethertype::TRANSPARENT_ETHERNET => Ok((Inner::Frame, behind)),
        ethertype::ERSPAN_II | ethertype::ERSPAN_III => Err(PopError::Payload),
        kind if kind >= ethertype::MIN => Ok((Inner::Packet(kind), behind)),
        _ => Err(PopError::Payload),
    }
}

/// Returns IPv4 or IPv6, according to the version field of the packet.
fn of_version(packet: &[u8]) -> Result<Inner, PopError> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => Ok(Inner::Packet(ethertype::IPV4)),
        Some(6) => Ok(Inner::Packet(ethertype::IPV6)),
        _ => Err(PopError::Payload),
    }
}

#[cfg(test)]
mod tests;
