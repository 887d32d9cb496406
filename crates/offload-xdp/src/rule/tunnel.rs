//! Adds decapsulation and encapsulation.

use super::address;
use crate::layout::{
    CHECKSUM_IN, CHECKSUM_OUT, DECAPSULATE, ENCAPSULATE, OUTER_V4_BYTES, OUTER_V6_BYTES, Rule,
};
use flow::{OffloadRule, OffloadTunnel, Refusal, TunnelKind, TunnelPush};
use wire::protocol::UDP;
use wire::{ethertype, vxlan};

/// The length of the UDP and VXLAN headers.
const UDP_VXLAN_BYTES: usize = wire::udp::HEADER_LEN + vxlan::HEADER_LEN;

/// The remote end of a tunnel in the key of its packets. Without a tunnel all fields are zero.
#[derive(Clone, Copy, Default)]
pub(super) struct Remote {
    /// The address in the byte order in which the program reads it, the first byte lowest; for IPv6, the XOR of
    /// its four words.
    pub address: u32,
    pub vni: u32,
    /// The number of bytes before the inner frame.
    pub outer_bytes: u32,
}

/// Adds the outer packets to decapsulate: those with the addresses, UDP port and VXLAN header of the
/// packet that was offered, which may be fewer than its flows match.
pub(super) fn decapsulate(from: &OffloadTunnel, rule: &mut Rule) -> Result<Remote, Refusal> {
    let bytes = if from.headers.is_ipv6() { OUTER_V6_BYTES } else { OUTER_V4_BYTES };
    let is_plain = from.kind == TunnelKind::Vxlan
        && from.header_bytes == bytes
        && from.word & !vxlan::VNI_MASK == vxlan::VNI_ALONE
        && from.headers.protocol() == UDP
        && from.headers.tag_type().is_none();
    if !is_plain {
        return Err(Refusal::Tunnel);
    }
    // The key contains the in-port. The program cannot match flow labels.
    if from.mask.tcp_flags() != 0 || from.mask.flow_label() != 0 {
        return Err(Refusal::Match);
    }
    rule.outer_match = from.headers.link_to_ports();
    rule.outer_mask = from.mask.link_to_ports();
    rule.outer_mask[2] |= 0xffff;
    let [source_high, source, destination_high, destination] = from.headers.key_addresses();
    rule.outer_src = address(source_high, source);
    rule.outer_dst = address(destination_high, destination);
    rule.vxlan = from.word.swap_bytes();
    rule.does |= DECAPSULATE | if from.has_checksum { CHECKSUM_IN } else { 0 };
    let address = rule.outer_src.iter().fold(0, |all, word| all ^ word);
    let vni = ((from.word & vxlan::VNI_MASK) >> 8) as u32;
    Ok(Remote { address, vni, outer_bytes: bytes as u32 })
}

/// Adds the outer headers to add. Returns the maximum length of a frame that is encapsulated.
pub(super) fn encapsulate(
    to: &TunnelPush,
    from: &OffloadRule,
    rule: &mut Rule,
) -> Result<u32, Refusal> {
    let header = &*to.header;
    let is_v4 = header.len() == OUTER_V4_BYTES
        && header[12..14] == ethertype::IPV4.to_be_bytes()
        && (header[14], header[23]) == (0x45, UDP);
    let is_v6 = header.len() == OUTER_V6_BYTES
        && header[12..14] == ethertype::IPV6.to_be_bytes()
        && header[20] == UDP;
    if to.kind != TunnelKind::Vxlan || to.strips_ethernet || !(is_v4 || is_v6) {
        return Err(Refusal::Tunnel);
    }
    let source_port = from.source_port(to);
    let udp = header.len() - UDP_VXLAN_BYTES;
    rule.header[..header.len()].copy_from_slice(header);
    rule.header_bytes = header.len() as u32;
    rule.header[udp..udp + 2].copy_from_slice(&source_port.to_be_bytes());
    // A non-zero checksum field means that a checksum must be computed.
    let has_checksum = header[udp + 6..udp + 8] != [0, 0];
    rule.header[udp + 6..udp + 8].fill(0);
    rule.does |= ENCAPSULATE | if has_checksum { CHECKSUM_OUT } else { 0 };
    Ok(to.frame_max)
}
