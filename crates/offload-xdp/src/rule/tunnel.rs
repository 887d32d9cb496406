//! Translates tunnels: which outer packets are decapsulated, and what is put in front of inner ones.

use crate::layout::{DECAPSULATE, ENCAPSULATE, OUTER_BYTES, Rule};
use flow::{OffloadRule, OffloadTunnel, Refusal, TunnelKind, TunnelPush, VLAN_PRESENT};
use wire::ethertype;
use wire::protocol::UDP;

/// The VXLAN header without the VNI: the flag that says that there is one (RFC 7348 section 5).
const VXLAN_FLAGS: u64 = 0x0800_0000 << 32;
const VNI: u64 = 0xffff_ff00;

/// The far end of a tunnel, as the key of its packets has it. None is zero.
#[derive(Clone, Copy, Default)]
pub(super) struct Remote {
    /// As the program reads it, the first byte lowest.
    pub address: u32,
    pub vni: u32,
}

/// Writes down which outer packets are decapsulated. Of addresses, UDP port and VXLAN header these are
/// exactly those of the packet that was offered, which may be fewer than its flows match.
pub(super) fn decapsulate(from: &OffloadTunnel, rule: &mut Rule) -> Result<Remote, Refusal> {
    let (words, mask) = (from.headers.words(), from.mask.words());
    let is_plain = from.kind == TunnelKind::Vxlan
        && from.header_bytes == OUTER_BYTES
        && from.word & !VNI == VXLAN_FLAGS
        && !from.has_checksum
        && !from.headers.is_ipv6()
        && from.headers.protocol() == UDP
        && words[2] as u16 & VLAN_PRESENT == 0;
    if !is_plain {
        return Err(Refusal::Tunnel);
    }
    if mask[0] & 0xffff_ffff != 0 {
        return Err(Refusal::Match);
    }
    rule.outer_match = [words[1], words[2], words[3]];
    rule.outer_mask = [mask[1], mask[2], mask[3] | 0xffff];
    rule.outer_dst = (words[4] as u32).swap_bytes();
    rule.vxlan = from.word.swap_bytes();
    rule.does |= DECAPSULATE;
    let address = ((words[4] >> 32) as u32).swap_bytes();
    Ok(Remote { address, vni: ((from.word & VNI) >> 8) as u32 })
}

/// Writes down the outer headers that are put in front; gives the longest frame that they may be put in
/// front of.
pub(super) fn encapsulate(
    to: &TunnelPush,
    from: &OffloadRule,
    rule: &mut Rule,
) -> Result<u32, Refusal> {
    let header: [u8; OUTER_BYTES] = (*to.header).try_into().map_err(|_| Refusal::Tunnel)?;
    let is_plain = to.kind == TunnelKind::Vxlan
        && !to.strips_ethernet
        && header[12..14] == ethertype::IPV4.to_be_bytes()
        && (header[14], header[23]) == (0x45, UDP)
        && header[40..42] == [0, 0];
    if !is_plain {
        return Err(Refusal::Tunnel);
    }
    let headers = &from.headers;
    let (addresses, ports) = from
        .translated
        .map_or((headers.key_addresses(), headers.key_ports()), |it| (it.addresses, it.ports));
    let source_port = to.source_port(addresses, ports, headers.protocol());
    rule.header = header;
    rule.header[34..36].copy_from_slice(&source_port.to_be_bytes());
    rule.does |= ENCAPSULATE;
    Ok(to.frame_max)
}
