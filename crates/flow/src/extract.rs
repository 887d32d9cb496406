//! Extracts a flow key from a frame's headers.
//!
//! Malformed frames are treated as in Open vSwitch (ovs: `lib/flow.c`, `miniflow_extract`): extraction ends
//! at a header that is truncated or whose length fields exceed the frame, and the rest of the key stays zero.

use crate::field::Field;
use crate::key::{ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, FlowKey, MPLS_LABELS, VLAN_PRESENT};
use crate::layers::Layers;
use crate::vlan_limit::VlanLimit;
use wire::ethernet::resolve_type;
use wire::nsh::MD_TYPE_1;
use wire::protocol::{ICMP, ICMPV6, IGMP, SCTP, TCP, UDP};
use wire::{LabelEntry, Nsh, ethertype};

const ETH_HEADER: usize = 14;

/// Extracts the headers of `data`, with at most `vlans` VLAN headers, into `key`. `None` if the frame is
/// shorter than an Ethernet header.
#[inline]
pub(crate) fn extract(data: &[u8], vlans: VlanLimit, key: &mut FlowKey) -> Option<Layers> {
    let header: &[u8; ETH_HEADER] = data.first_chunk()?;
    key.set(Field::EthDst, u128::from(be48(header, 0)));
    key.set(Field::EthSrc, u128::from(be48(header, 6)));
    let (eth_type, l3) = ethernet_type(data, vlans, key);
    key.set_eth_type(eth_type);
    let l4 = match eth_type {
        ethertype::IPV4 => ipv4(data, l3, key),
        ethertype::IPV6 => ipv6(data, l3, key),
        ethertype::ARP | ethertype::RARP => {
            arp(data, l3, key);
            None
        }
        ethertype::MPLS | ethertype::MPLS_MULTICAST => {
            mpls(data, l3, key);
            None
        }
        ethertype::NSH => {
            nsh(data, l3, key);
            None
        }
        _ => None,
    };
    Some(Layers { l3: l3 as u16, l4: l4.map(|at| at as u16) })
}

/// Returns the end of the IP packet that begins at `l3`, according to its length field; `None` for other
/// protocols and malformed headers.
pub(crate) fn ip_end(data: &[u8], l3: usize, eth_type: u16) -> Option<usize> {
    match eth_type {
        ethertype::IPV4 => Some(l3 + usize::from(be16(data, l3 + 2)?)),
        ethertype::IPV6 => Some(l3 + 40 + usize::from(be16(data, l3 + 4)?)),
        _ => None,
    }
}

/// Parses VLAN tags. Returns the Ethernet type after them, and the offset of its header.
#[inline]
fn ethernet_type(data: &[u8], vlans: VlanLimit, key: &mut FlowKey) -> (u16, usize) {
    let mut at = ETH_HEADER - 2;
    for depth in 0..vlans.headers() {
        let Some(tpid) = be16(data, at) else { return (ETH_TYPE_NONE, at) };
        let (ethertype::VLAN | ethertype::SERVICE_VLAN, Some(tci), Some(_)) =
            (tpid, be16(data, at + 2), be16(data, at + 4))
        else {
            break;
        };
        let (tpid_field, tci_field) = match depth {
            0 => (Field::VlanTpid, Field::VlanTci),
            _ => (Field::VlanTpid1, Field::VlanTci1),
        };
        key.set(tpid_field, tpid.into());
        key.set(tci_field, (tci | VLAN_PRESENT).into());
        at += 4;
    }
    let eth_type = be16(data, at).unwrap_or(ETH_TYPE_NONE);
    if eth_type >= ethertype::MIN { (eth_type, at + 2) } else { snap(data, at + 2) }
}

/// Parses the LLC and SNAP headers of an IEEE 802.3 frame. Returns the Ethernet type and the offset after them.
#[cold]
fn snap(data: &[u8], at: usize) -> (u16, usize) {
    let (eth_type, header_bytes) = resolve_type(0, data.get(at..).unwrap_or_default());
    (eth_type, at + header_bytes)
}

/// The label stack, as much of it as a key has (ovs: `lib/flow.c`, `parse_mpls`).
#[cold]
fn mpls(data: &[u8], l3: usize, key: &mut FlowKey) {
    let mut stack = [LabelEntry::default(); MPLS_LABELS];
    let read = wire::mpls::read_stack(data.get(l3..).unwrap_or_default());
    stack.iter_mut().zip(read).for_each(|(place, entry)| *place = entry);
    key.set_label_stack(&stack);
}

/// NSH (ovs: `lib/flow.c`, `parse_nsh`). The metadata of other MD types than 1 has no fields.
#[cold]
fn nsh(data: &[u8], l3: usize, key: &mut FlowKey) {
    let Ok(nsh) = Nsh::new_checked(data.get(l3..).unwrap_or_default()) else { return };
    let context = if nsh.md_type() == MD_TYPE_1 { nsh.context() } else { [0; 4] };
    for (field, value) in [
        (Field::NshFlags, nsh.flags().into()),
        (Field::NshTtl, nsh.ttl().into()),
        (Field::NshMdtype, nsh.md_type().into()),
        (Field::NshNp, nsh.next_protocol().into()),
        (Field::NshSpi, nsh.service_path()),
        (Field::NshSi, nsh.service_index().into()),
        (Field::NshC1, context[0]),
        (Field::NshC2, context[1]),
        (Field::NshC3, context[2]),
        (Field::NshC4, context[3]),
    ] {
        key.set(field, value.into());
    }
}

/// Returns the offset of the transport header, if there is one.
#[inline]
fn ipv4(data: &[u8], l3: usize, key: &mut FlowKey) -> Option<usize> {
    let header: &[u8; 20] = data.get(l3..)?.first_chunk()?;
    let header_bytes = usize::from(header[0] & 0xf) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4
        || header_bytes < 20
        || total_bytes < header_bytes
        || total_bytes > data.len() - l3
    {
        return None;
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    let frag = match (fragment & 0x1fff, fragment & 0x2000) {
        (0, 0) => 0,
        (0, _) => FRAG_ANY,
        _ => FRAG_ANY | FRAG_LATER,
    };
    key.set(Field::Ipv4Src, u128::from(be32(header, 12)));
    key.set(Field::Ipv4Dst, u128::from(be32(header, 16)));
    key.set_nw_proto(header[9]);
    key.set_nw_tos(header[1]);
    key.set_nw_ttl(header[8]);
    key.set_nw_frag(frag);
    if frag & FRAG_LATER != 0 {
        return None;
    }
    let l4 = l3 + header_bytes;
    transport(&data[l4..l3 + total_bytes], header[9], key).then_some(l4)
}

#[inline]
fn ipv6(data: &[u8], l3: usize, key: &mut FlowKey) -> Option<usize> {
    let header: &[u8; 40] = data.get(l3..)?.first_chunk()?;
    let payload_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || payload_bytes > data.len() - l3 - 40 {
        return None;
    }
    let version_class_label = be32(header, 0);
    let end = l3 + 40 + payload_bytes;
    key.set(Field::Ipv6Src, be128(header, 8));
    key.set(Field::Ipv6Dst, be128(header, 24));
    let (protocol, l4, frag) = extension_headers(&data[..end], l3 + 40, header[6])?;
    key.set_ipv6_label(version_class_label & 0xf_ffff);
    key.set_nw_tos((version_class_label >> 20) as u8);
    key.set_nw_ttl(header[7]);
    key.set_nw_frag(frag);
    key.set_nw_proto(protocol);
    if frag & FRAG_LATER != 0 {
        return None;
    }
    transport(&data[l4..end], protocol, key).then_some(l4)
}

/// Walks IPv6 extension headers (RFC 8200 section 4). Returns the first other protocol, the offset of its
/// header, and the fragment bits; `None` if they are truncated. The walk terminates because each header has
/// at least 8 bytes.
#[inline]
fn extension_headers(data: &[u8], start: usize, first: u8) -> Option<(u8, usize, u8)> {
    let (mut at, mut next, mut frag) = (start, first, 0);
    loop {
        match next {
            // Hop-by-hop options, routing, destination options, mobility.
            0 | 43 | 60 | 135 => {
                let header = data.get(at..at + 2)?;
                next = header[0];
                at += (usize::from(header[1]) + 1) * 8;
            }
            // Authentication header (RFC 4302): its length is in words of 4 bytes.
            51 => {
                let header = data.get(at..at + 2)?;
                next = header[0];
                at += (usize::from(header[1]) + 2) * 4;
            }
            44 => {
                let header = data.get(at..at + 8)?;
                let offset = u16::from_be_bytes([header[2], header[3]]);
                next = header[0];
                at += 8;
                // An atomic fragment (RFC 6946) is not a fragment.
                frag = match (offset & 0xfff8, offset & 1) {
                    (0, 0) => frag,
                    (0, _) => FRAG_ANY,
                    _ => FRAG_ANY | FRAG_LATER,
                };
                // A later fragment does not contain the protocol's header (ovs: `lib/flow.c`,
                // `parse_ipv6_ext_hdrs__`).
                if frag & FRAG_LATER != 0 {
                    return Some((44, at, frag));
                }
            }
            _ => return (at <= data.len()).then_some((next, at, frag)),
        }
        if at > data.len() {
            return None;
        }
    }
}

/// Parses the transport header. Returns whether it is there.
#[inline]
fn transport(l4: &[u8], protocol: u8, key: &mut FlowKey) -> bool {
    match protocol {
        TCP => {
            let Some(header) = l4.first_chunk::<20>() else { return false };
            // A data offset inside the fixed header or beyond the packet invalidates the whole header (ovs:
            // `lib/flow.c`, `miniflow_extract`).
            let header_bytes = usize::from(header[12] >> 4) * 4;
            if header_bytes < 20 || header_bytes > l4.len() {
                return false;
            }
            set_ports(header, key);
            key.set_tcp_flags(u16::from_be_bytes([header[12], header[13]]) & 0xfff);
        }
        UDP => {
            let Some(header) = l4.first_chunk::<8>() else { return false };
            set_ports(header, key);
        }
        SCTP => {
            let Some(header) = l4.first_chunk::<12>() else { return false };
            set_ports(header, key);
        }
        ICMP | IGMP if key.eth_type() == ethertype::IPV4 => {
            let Some(header) = l4.first_chunk::<8>() else { return false };
            key.set_tp_src(header[0].into());
            key.set_tp_dst(header[1].into());
        }
        ICMPV6 if key.eth_type() == ethertype::IPV6 => return icmpv6(l4, key),
        _ => {}
    }
    true
}

#[inline]
fn set_ports<const N: usize>(header: &[u8; N], key: &mut FlowKey) {
    key.set_tp_src(u16::from_be_bytes([header[0], header[1]]));
    key.set_tp_dst(u16::from_be_bytes([header[2], header[3]]));
}

#[inline]
fn icmpv6(l4: &[u8], key: &mut FlowKey) -> bool {
    let Some(header) = l4.first_chunk::<8>() else { return false };
    key.set_tp_src(header[0].into());
    key.set_tp_dst(header[1].into());
    if matches!(header[..2], [135 | 136, 0]) {
        key.set(Field::NdReserved, be32(header, 4).into());
        neighbour_discovery(l4, key);
    }
    true
}

/// Parses an ICMPv6 message again after a rewrite: its type decides which fields there are, and the type of
/// an option which address it contains.
pub(crate) fn reread_icmpv6(l4: &[u8], key: &mut FlowKey) {
    for field in
        [Field::NdReserved, Field::NdTarget, Field::NdOptionsType, Field::NdSll, Field::NdTll]
    {
        key.set(field, 0);
    }
    icmpv6(l4, key);
}

/// Neighbour solicitation (135) and advertisement (136), RFC 4861 section 4: the target and the link-layer
/// address options, of which the first sets the type. A repeated address option invalidates target and
/// addresses; a malformed option ends the parsing (ovs: `lib/flow.c`, `parse_icmpv6`).
#[cold]
fn neighbour_discovery(l4: &[u8], key: &mut FlowKey) {
    let Some(target) = l4.get(8..24) else { return };
    let (mut kind, mut sll, mut tll) = (0, 0, 0);
    let mut twice = false;
    let mut options = &l4[24..];
    while options.len() >= 8 && !twice {
        let bytes = usize::from(options[1]) * 8;
        if bytes == 0 || bytes > options.len() {
            break;
        }
        let slot = match (options[0], bytes) {
            (1, 8) => Some(&mut sll),
            (2, 8) => Some(&mut tll),
            _ => None,
        };
        if let Some(slot) = slot {
            twice = *slot != 0;
            *slot = be48(options, 2);
            kind = if kind == 0 { options[0] } else { kind };
        }
        options = &options[bytes..];
    }
    key.set(Field::NdOptionsType, kind.into());
    if !twice {
        key.set(Field::NdTarget, be128(target, 0));
        key.set(Field::NdSll, sll.into());
        key.set(Field::NdTll, tll.into());
    }
}

/// ARP and RARP for Ethernet and IPv4 (RFC 826); the fields of other kinds stay zero.
fn arp(data: &[u8], l3: usize, key: &mut FlowKey) {
    let Some(header) = data.get(l3..).and_then(|rest| rest.first_chunk::<28>()) else { return };
    if header[..6] != [0, 1, 8, 0, 6, 4] {
        return;
    }
    key.set(Field::ArpSpa, u128::from(be32(header, 14)));
    key.set(Field::ArpTpa, u128::from(be32(header, 24)));
    if header[6] == 0 {
        key.set_nw_proto(header[7]);
    }
    key.set(Field::ArpSha, u128::from(be48(header, 8)));
    key.set(Field::ArpTha, u128::from(be48(header, 18)));
}

#[inline]
fn be16(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*data.get(at..)?.first_chunk()?))
}

/// The caller ensures that the array is long enough.
#[inline]
fn be32(data: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

#[inline]
fn be48(data: &[u8], at: usize) -> u64 {
    u64::from(be32(data, at)) << 16 | u64::from(u16::from_be_bytes([data[at + 4], data[at + 5]]))
}

#[inline]
fn be128(data: &[u8], at: usize) -> u128 {
    let high = u128::from(be32(data, at)) << 96 | u128::from(be32(data, at + 4)) << 64;
    high | u128::from(be32(data, at + 8)) << 32 | u128::from(be32(data, at + 12))
}

#[cfg(test)]
mod tests;
