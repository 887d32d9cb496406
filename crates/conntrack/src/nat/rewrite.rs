//! Rewrites a frame's bytes and key with its connection's addresses and ports (NAT).

use crate::key::{Address, Family, Key};
use flow::{Field, Frame, NatKind};
use packet::Checksum;
use wire::{UpperLayer, icmp, rewrite};

/// Rewrites the source or destination (`kind`) of a packet so that its tuple becomes `target`. In a
/// `related` packet, an ICMP error, the other side of the quoted packet is rewritten too, since
/// that one runs in the other direction (ovs: `lib/conntrack.c`, `nat_packet`, `nat_inner_packet`).
pub(crate) fn rewrite_nat(frame: &mut Frame, kind: NatKind, target: &Key, related: bool) {
    let partial = frame.packet.offload.checksum == Checksum::Partial;
    let address = match kind {
        NatKind::Src => target.src,
        NatKind::Dst => target.dst,
    };
    set_address(frame.l3_mut(), target.family, kind, address, partial);
    frame.key.set(address_field(target.family, kind), address.bits());
    if related {
        rewrite_icmp_error(frame, kind, target, partial);
    } else if target.is_icmp() {
        rewrite::set_icmp_id(frame.l3_mut(), target.l4[0], partial);
    } else if target.has_nat_ports() {
        let [source, destination] = target.l4;
        let l3 = frame.l3_mut();
        rewrite::set_tp_src(l3, source, partial);
        rewrite::set_tp_dst(l3, destination, partial);
        frame.key.set_tp_src(source);
        frame.key.set_tp_dst(destination);
    }
}

fn rewrite_icmp_error(frame: &mut Frame, kind: NatKind, target: &Key, partial: bool) {
    let Some(l4) = frame.layers.l4 else { return };
    let at = usize::from(l4.saturating_sub(frame.layers.l3)) + icmp::HEADER_LEN;
    let l3 = frame.l3_mut();
    let Ok(upper) = UpperLayer::find(l3) else { return };
    let Some(inner) = l3.get_mut(at..upper.end) else { return };
    let quoted = target.reversed();
    let (kind, address) = match kind {
        NatKind::Src => (NatKind::Dst, quoted.dst),
        NatKind::Dst => (NatKind::Src, quoted.src),
    };
    set_address(inner, quoted.family, kind, address, false);
    if quoted.is_icmp() {
        rewrite::set_icmp_id(inner, quoted.l4[0], false);
    } else if quoted.has_nat_ports() {
        let found = rewrite::set_tp_src(inner, quoted.l4[0], false)
            && rewrite::set_tp_dst(inner, quoted.l4[1], false);
        // The quoted packet may be cut, and a CRC over missing bytes cannot be updated.
        if !found && let Ok(cut) = UpperLayer::find_quoted(inner) {
            let [source, destination] = quoted.l4.map(u16::to_be_bytes);
            if let Some(ports) = inner.get_mut(cut.start..cut.start + 4) {
                ports.copy_from_slice(&[source[0], source[1], destination[0], destination[1]]);
            }
        }
    }
    if !partial {
        upper.fill_checksum(l3);
    }
}

fn set_address(packet: &mut [u8], family: Family, kind: NatKind, to: Address, partial: bool) {
    match (family, kind) {
        (Family::V4, NatKind::Src) => rewrite::set_ipv4_src(packet, to.v4(), partial),
        (Family::V4, NatKind::Dst) => rewrite::set_ipv4_dst(packet, to.v4(), partial),
        (Family::V6, NatKind::Src) => rewrite::set_ipv6_src(packet, to.v6(), partial),
        (Family::V6, NatKind::Dst) => rewrite::set_ipv6_dst(packet, to.v6(), partial),
    };
}

fn address_field(family: Family, kind: NatKind) -> Field {
    match (family, kind) {
        (Family::V4, NatKind::Src) => Field::Ipv4Src,
        (Family::V4, NatKind::Dst) => Field::Ipv4Dst,
        (Family::V6, NatKind::Src) => Field::Ipv6Src,
        (Family::V6, NatKind::Dst) => Field::Ipv6Dst,
    }
}
