//! Rewrites header fields and updates checksums.
//!
//! Every function takes the packet from its IP header on (for Ethernet addresses, the frame) and changes one
//! field ([`TupleV4`] changes several). It returns whether the packet has the field; otherwise the packet is
//! unchanged. No function panics. In truncated packets, packets with wrong lengths, and later fragments
//! (which have no transport header), they change the fields that are present. A packet without a checksum
//! (zero in UDP over IPv4) remains without one.
//!
//! With `l4_partial`, the transport checksum field contains only the sum of the pseudo-header, as in packets
//! that the kernel leaves for a network card to complete. New addresses then change that sum; new ports do
//! not.

mod tuple;

pub use tuple::TupleV4;

use std::net::{Ipv4Addr, Ipv6Addr};

use base::MacAddr;

use crate::checksum::{Change, crc32c_change, udp_nonzero};
use crate::ethernet::Ethernet;
use crate::numbers::protocol;
use crate::octets::{put, put_u16, range_mut, u8_at, u16_at};
use crate::upper::{Addresses, UpperLayer};
use crate::{Ipv4, Ipv6, Sctp, icmp, icmpv6, ipv4, tcp};

/// Sets the Ethernet source address of a frame.
pub fn set_eth_src(frame: &mut [u8], mac: MacAddr) -> bool {
    Ethernet::new_checked(frame).map(|mut eth| eth.set_source(mac)).is_ok()
}

/// Sets the Ethernet destination address of a frame.
pub fn set_eth_dst(frame: &mut [u8], mac: MacAddr) -> bool {
    Ethernet::new_checked(frame).map(|mut eth| eth.set_destination(mac)).is_ok()
}

/// Sets the source address of an IPv4 packet.
pub fn set_ipv4_src(packet: &mut [u8], new: Ipv4Addr, l4_partial: bool) -> bool {
    let Ok(old) = Ipv4::new_quoted(&*packet).map(|ip| ip.source()) else { return false };
    set_ipv4_address(packet, ipv4::field::SOURCE, old, new, l4_partial)
}

/// Sets the destination address of an IPv4 packet.
pub fn set_ipv4_dst(packet: &mut [u8], new: Ipv4Addr, l4_partial: bool) -> bool {
    let Ok(old) = Ipv4::new_quoted(&*packet).map(|ip| ip.destination()) else { return false };
    set_ipv4_address(packet, ipv4::field::DESTINATION, old, new, l4_partial)
}

/// Sets the source address of an IPv6 packet.
pub fn set_ipv6_src(packet: &mut [u8], new: Ipv6Addr, l4_partial: bool) -> bool {
    let Ok(old) = Ipv6::new_quoted(&*packet).map(|ip| ip.source()) else { return false };
    let change = Change::u128(old.to_bits(), new.to_bits());
    change_pseudo_header(packet, change, l4_partial, false);
    put(packet, crate::ipv6::field::SOURCE, new.octets())
}

/// Sets the destination address of an IPv6 packet. If a routing header has segments left, the pseudo-header
/// does not contain that address, so the transport checksum is unchanged (ovs: `lib/packets.c`,
/// `packet_set_ipv6`).
pub fn set_ipv6_dst(packet: &mut [u8], new: Ipv6Addr, l4_partial: bool) -> bool {
    let Ok(old) = Ipv6::new_quoted(&*packet).map(|ip| ip.destination()) else { return false };
    let change = Change::u128(old.to_bits(), new.to_bits());
    change_pseudo_header(packet, change, l4_partial, true);
    put(packet, crate::ipv6::field::DESTINATION, new.octets())
}

/// Sets the time to live of an IPv4 packet.
pub fn set_ttl(packet: &mut [u8], ttl: u8) -> bool {
    set_ipv4_byte(packet, ipv4::field::TTL, ttl)
}

/// Sets the type of service of an IPv4 packet, all eight bits.
pub fn set_tos(packet: &mut [u8], tos: u8) -> bool {
    set_ipv4_byte(packet, ipv4::field::TOS, tos)
}

/// Sets the hop limit of an IPv6 packet.
pub fn set_hop_limit(packet: &mut [u8], hop_limit: u8) -> bool {
    Ipv6::new_quoted(packet).map(|mut ip| ip.set_hop_limit(hop_limit)).is_ok()
}

/// Sets the traffic class of an IPv6 packet, all eight bits.
pub fn set_traffic_class(packet: &mut [u8], class: u8) -> bool {
    Ipv6::new_quoted(packet).map(|mut ip| ip.set_traffic_class(class)).is_ok()
}

/// Sets the flow label of an IPv6 packet to the low 20 bits of `label`.
pub fn set_flow_label(packet: &mut [u8], label: u32) -> bool {
    Ipv6::new_quoted(packet).map(|mut ip| ip.set_flow_label(label)).is_ok()
}

/// Sets the source port of a TCP, UDP or SCTP packet of either IP version.
pub fn set_tp_src(packet: &mut [u8], port: u16, l4_partial: bool) -> bool {
    set_port(packet, tcp::field::SOURCE, port, l4_partial)
}

/// Sets the destination port of a TCP, UDP or SCTP packet of either IP version.
pub fn set_tp_dst(packet: &mut [u8], port: u16, l4_partial: bool) -> bool {
    set_port(packet, tcp::field::DESTINATION, port, l4_partial)
}

/// Sets the identifier of an ICMP or ICMPv6 query or reply; other messages have none.
pub fn set_icmp_id(packet: &mut [u8], id: u16, l4_partial: bool) -> bool {
    let Some(upper) = find_icmp(packet) else { return false };
    let icmp_type = u8_at(packet, upper.start);
    let has_id = match upper.addresses {
        Addresses::V4 { .. } => icmp::has_id(icmp_type),
        Addresses::V6 { .. } => icmpv6::has_id(icmp_type),
    };
    has_id && set_transport_word(packet, &upper, icmp::field::ECHO_ID, id, l4_partial)
}

/// Sets type and code of an ICMP or ICMPv6 message.
pub fn set_icmp_type_code(packet: &mut [u8], icmp_type: u8, code: u8, l4_partial: bool) -> bool {
    let Some(upper) = find_icmp(packet) else { return false };
    let word = u16::from_be_bytes([icmp_type, code]);
    set_transport_word(packet, &upper, icmp::field::TYPE, word, l4_partial)
}

/// Sets the target of a neighbour solicitation or advertisement.
pub fn set_nd_target(packet: &mut [u8], target: Ipv6Addr, l4_partial: bool) -> bool {
    let Some((upper, old)) = find_nd(packet, |nd| nd.nd_target()) else { return false };
    let change = Change::u128(old.to_bits(), target.to_bits());
    if !l4_partial {
        change_checksum(packet, &upper, change, false);
    }
    put(packet, upper.start + icmpv6::field::ND_TARGET, target.octets())
}

/// Sets the reserved word of a neighbour solicitation or advertisement.
pub fn set_nd_reserved(packet: &mut [u8], reserved: u32, l4_partial: bool) -> bool {
    let find = |nd: &icmpv6::Icmpv6<&[u8]>| nd.is_neighbour_discovery().then(|| nd.rest());
    let Some((upper, old)) = find_nd(packet, find) else { return false };
    if !l4_partial {
        change_checksum(packet, &upper, Change::u32(old, reserved), false);
    }
    put(packet, upper.start + icmpv6::field::REST, reserved.to_be_bytes())
}

/// Sets the type of the first link-layer address option of a neighbour solicitation or advertisement, or of
/// the first option if there is no such option.
pub fn set_nd_option_kind(packet: &mut [u8], kind: u8, l4_partial: bool) -> bool {
    let is_link = |option: &icmpv6::NdOption<'_>| {
        let known = [icmpv6::OPTION_SOURCE_LINK, icmpv6::OPTION_TARGET_LINK];
        known.contains(&option.kind) && option.link_address().is_some()
    };
    let find = |nd: &icmpv6::Icmpv6<&[u8]>| {
        Some(nd.nd_options().find(is_link).or_else(|| nd.nd_options().next())?.at)
    };
    let Some((upper, at)) = find_nd(packet, find) else { return false };
    let at = upper.start + at;
    let (old, len) = (u16_at(packet, at), u8_at(packet, at + 1));
    let new = u16::from_be_bytes([kind, len]);
    if !l4_partial {
        change_checksum(packet, &upper, Change::u16(old, new), false);
    }
    put_u16(packet, at, new)
}

/// Sets the source link-layer address of a neighbour solicitation or advertisement that has one.
pub fn set_nd_sll(packet: &mut [u8], mac: MacAddr, l4_partial: bool) -> bool {
    set_nd_link(packet, icmpv6::OPTION_SOURCE_LINK, mac, l4_partial)
}

/// Sets the target link-layer address of a neighbour solicitation or advertisement that has one.
pub fn set_nd_tll(packet: &mut [u8], mac: MacAddr, l4_partial: bool) -> bool {
    set_nd_link(packet, icmpv6::OPTION_TARGET_LINK, mac, l4_partial)
}

fn set_nd_link(packet: &mut [u8], kind: u8, mac: MacAddr, l4_partial: bool) -> bool {
    let find = |nd: &icmpv6::Icmpv6<&[u8]>| {
        let option = nd.nd_options().find(|option| option.kind == kind)?;
        Some((option.at + 2, option.link_address()?))
    };
    let Some((upper, (at, old))) = find_nd(packet, find) else { return false };
    let change = Change::u128(old.to_u64().into(), mac.to_u64().into());
    if !l4_partial {
        change_checksum(packet, &upper, change, false);
    }
    put(packet, upper.start + at, mac.0)
}

fn set_ipv4_address(
    packet: &mut [u8],
    at: usize,
    old: Ipv4Addr,
    new: Ipv4Addr,
    l4_partial: bool,
) -> bool {
    let change = Change::u32(old.to_bits(), new.to_bits());
    change_pseudo_header(packet, change, l4_partial, false);
    let header_sum = u16_at(packet, ipv4::field::CHECKSUM);
    put_u16(packet, ipv4::field::CHECKSUM, change.checksum(header_sum));
    put(packet, at, new.octets())
}

/// Sets one byte of an IPv4 header and updates the checksum for the word that contains it.
fn set_ipv4_byte(packet: &mut [u8], at: usize, value: u8) -> bool {
    if Ipv4::new_quoted(&*packet).is_err() {
        return false;
    }
    let word_at = at & !1;
    let old = u16_at(packet, word_at);
    put(packet, at, [value]);
    let change = Change::u16(old, u16_at(packet, word_at));
    let header_sum = u16_at(packet, ipv4::field::CHECKSUM);
    put_u16(packet, ipv4::field::CHECKSUM, change.checksum(header_sum))
}

/// Updates the transport checksum for a changed address, if it covers a pseudo-header.
fn change_pseudo_header(packet: &mut [u8], change: Change, l4_partial: bool, is_v6_dst: bool) {
    let Ok(upper) = UpperLayer::find_quoted(packet) else { return };
    let covered = upper.has_pseudo_header() && !(is_v6_dst && upper.routed);
    if covered {
        change_checksum(packet, &upper, change, l4_partial);
    }
}

fn change_checksum(packet: &mut [u8], upper: &UpperLayer, change: Change, l4_partial: bool) {
    let Some(at) = upper.checksum_at() else { return };
    let old = u16_at(packet, at);
    let new = match (l4_partial, upper.protocol) {
        (true, _) => change.sum(old),
        (false, protocol::UDP) if old == 0 => return,
        (false, protocol::UDP) => udp_nonzero(change.checksum(old)),
        (false, _) => change.checksum(old),
    };
    put_u16(packet, at, new);
}

fn set_port(packet: &mut [u8], offset: usize, port: u16, l4_partial: bool) -> bool {
    match UpperLayer::find_quoted(packet) {
        Ok(upper) if matches!(upper.protocol, protocol::TCP | protocol::UDP) => {
            set_transport_word(packet, &upper, offset, port, l4_partial)
        }
        Ok(upper) if upper.protocol == protocol::SCTP => {
            set_sctp_port(packet, offset, port, l4_partial)
        }
        _ => false,
    }
}

/// Sets a port of an SCTP packet that is not truncated. A first fragment gets the CRC of its own bytes, since
/// the CRC of the datagram depends on the other fragments (ovs: `lib/packets.c`, `packet_set_sctp_port`).
fn set_sctp_port(packet: &mut [u8], offset: usize, port: u16, l4_partial: bool) -> bool {
    let Ok(upper) = UpperLayer::find(packet) else { return false };
    if !upper.fragment.has_transport_header() {
        return false;
    }
    let segment = range_mut(packet, upper.start, upper.end);
    let (old, behind) = (u16_at(segment, offset), segment.len().saturating_sub(offset + 2));
    let Ok(mut sctp) = Sctp::new_checked(&mut *segment) else { return false };
    if !l4_partial {
        sctp.set_checksum(sctp.checksum() ^ crc32c_change(old, port, behind));
    }
    put_u16(segment, offset, port)
}

/// Sets the 16-bit word at `offset` bytes of the transport header.
fn set_transport_word(
    packet: &mut [u8],
    upper: &UpperLayer,
    offset: usize,
    new: u16,
    l4_partial: bool,
) -> bool {
    let at = upper.start + offset;
    if !upper.fragment.has_transport_header() || at + 2 > upper.end {
        return false;
    }
    if !l4_partial {
        change_checksum(packet, upper, Change::u16(u16_at(packet, at), new), false);
    }
    put_u16(packet, at, new)
}

fn find_icmp(packet: &[u8]) -> Option<UpperLayer> {
    let upper = UpperLayer::find_quoted(packet).ok()?;
    let expected = match upper.addresses {
        Addresses::V4 { .. } => protocol::ICMP,
        Addresses::V6 { .. } => protocol::ICMPV6,
    };
    (upper.protocol == expected).then_some(upper)
}

/// Applies `look` to the ICMPv6 message of `packet`.
fn find_nd<R>(
    packet: &[u8],
    look: impl Fn(&icmpv6::Icmpv6<&[u8]>) -> Option<R>,
) -> Option<(UpperLayer, R)> {
    let upper = find_icmp(packet)?;
    let v6 = matches!(upper.addresses, Addresses::V6 { .. });
    if !v6 || !upper.fragment.has_transport_header() {
        return None;
    }
    let view = icmpv6::Icmpv6::new_checked(upper.segment(packet)).ok()?;
    look(&view).map(|found| (upper, found))
}

#[cfg(test)]
mod tests;
