//! Keys and megaflows in OpenFlow's syntax, as `ofproto/trace` prints them.

use super::PortNames;
use crate::exact::packet_fields;
use base::OfPort;
use flow::{Field, FlowKey, Match};
use openflow::text;
use std::borrow::Cow;
use wire::ethertype;

/// A match in the syntax of `ovs-ofctl`. A match on the recirculation id also prints that the packet is
/// Ethernet (ovs: `lib/match.c`, `match_format`).
pub fn format_match(matching: &Match, names: PortNames<'_>) -> String {
    let matching = &*tunnel_told(matching, names);
    let text = text::format_match(matching, None);
    let mut parts: Vec<String> = text.split(',').map(str::to_owned).collect();
    let says_type = matching.key().get(Field::PacketType) != 0;
    if matching.mask().has(Field::RecircId) && !says_type {
        const BEFORE: [&str; 6] =
            ["pkt_mark=", "recirc_id=", "dp_hash=", "conj_id=", "actset_output=", "ct_"];
        let is_before = |part: &&String| BEFORE.iter().any(|start| part.starts_with(start));
        let place = parts.iter().take_while(is_before).count();
        parts.insert(place, "eth".to_owned());
    }
    let port = OfPort(matching.key().in_port_raw() as u16);
    for part in &mut parts {
        if part.starts_with("in_port=") {
            *part = format!("in_port={}", names.bridge(port));
        }
        // A megaflow matches only the lower byte of ICMP's type; the field has no upper byte. Open vSwitch
        // stores the type of an option in 16 bits, too.
        for (name, field) in [
            ("icmp_type", Field::TpSrc),
            ("icmp_code", Field::TpDst),
            ("nd_options_type", Field::NdOptionsType),
        ] {
            let low_byte =
                matching.mask().has(Field::RecircId) && matching.mask().get(field) == 0xff;
            if low_byte && part.starts_with(name) {
                *part = format!("{name}={:#x}/0xff", matching.key().get(field));
            }
        }
    }
    parts.join(",")
}

/// A match with tunnel options split from the key. An IPv4 tunnel address is stored in the low bits of an
/// IPv6 one; a megaflow may match only these bits, so the others are added as zeros.
fn tunnel_told<'a>(matching: &'a Match, names: PortNames<'_>) -> Cow<'a, Match> {
    let mask = matching.mask();
    let is_ipv4 = |&field: &Field| matches!(u32::try_from(mask.get(field)), Ok(1..));
    let ends = [Field::TunIpv6Src, Field::TunIpv6Dst];
    if !mask.has(Field::TunMetadataPresent) && !ends.iter().any(is_ipv4) {
        return Cow::Borrowed(matching);
    }
    let mut told = matching.clone();
    for field in ends.into_iter().filter(is_ipv4) {
        told.set_masked(field, matching.key().get(field), mask.get(field) | !0xffff_ffff);
    }
    Cow::Owned(told.with_options_apart(names.options))
}

/// A whole key: all fields that the packet has, and its non-zero metadata (ovs: `lib/flow.c`, `flow_format`).
pub fn format_key(key: &FlowKey, names: PortNames<'_>) -> String {
    let mut mask = packet_fields(key);
    for &field in Field::BASIC {
        let is_metadata = field.is_pipeline()
            || field.is_ct()
            || matches!(field, Field::PktMark | Field::DpHash | Field::RecircId)
            || field.is_tunnel();
        // IPv4 addresses are stored in the places of IPv6 ones.
        let v4 = matches!(field, Field::CtNwSrc | Field::CtNwDst);
        let v6 = matches!(field, Field::CtIpv6Src | Field::CtIpv6Dst);
        let v6_tunnel = matches!(field, Field::TunIpv6Src | Field::TunIpv6Dst);
        let is_v4_tunnel = u32::try_from(key.get(Field::TunIpv6Dst)).is_ok();
        let v4_tunnel = matches!(field, Field::TunSrc | Field::TunDst);
        let other = (v4 && key.eth_type() == ethertype::IPV6)
            || (v6 && key.eth_type() != ethertype::IPV6)
            || (v6_tunnel && is_v4_tunnel)
            || (v4_tunnel && !is_v4_tunnel);
        if is_metadata && !other && key.get(field) != 0 {
            mask.add(field);
        }
    }
    // Only the options that the packet has.
    mask.set(Field::TunMetadataPresent, key.get(Field::TunMetadataPresent));
    format_match(&Match::new(key, &mask), names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::Mask;

    #[test]
    fn ends_of_tunnels_are_told_as_addresses_of_their_version() {
        let check = |src: &str, dst: &str, expect: &str| {
            let bits = |text: &str| match text.parse::<std::net::IpAddr>().unwrap() {
                std::net::IpAddr::V4(ip) => u128::from(ip.to_bits()),
                std::net::IpAddr::V6(ip) => ip.to_bits(),
            };
            let mut key = FlowKey::new();
            key.set(Field::TunIpv6Src, bits(src));
            key.set(Field::TunIpv6Dst, bits(dst));
            let told = format_key(&key, PortNames::default());
            assert!(told.starts_with(expect), "{told}");
        };
        check("172.31.1.2", "172.31.1.1", "tun_src=172.31.1.2,tun_dst=172.31.1.1,in_port");
        check("fd00::2", "fd00::1", "tun_ipv6_src=fd00::2,tun_ipv6_dst=fd00::1,in_port");
        let low = Mask::of(Field::TunDst);
        let mut key = FlowKey::new();
        key.set(Field::TunDst, 0x0101_0101);
        let megaflow = format_match(&Match::new(&key, &low), PortNames::default());
        assert_eq!(megaflow, "tun_dst=1.1.1.1");
    }
}
