//! Matches: `tcp,nw_src=10.0.0.0/8,tp_dst=80`.

use super::span::{Pair, Span};
use super::{PortNames, TextError, value};
use crate::of10_match::normalize;
use crate::oxm::{Prerequisite, Proto, Spec, by_name, leave_out_default, tunnel_address};
use flow::{Field, Match, OptionMapping, OptionMatch, Wide};
use wire::{ethertype, protocol};

/// Protocol keywords: Ethernet type and IP protocol.
const PROTOCOLS: &[(&str, u16, u8)] = &[
    ("ip", ethertype::IPV4, 0),
    ("ipv4", ethertype::IPV4, 0),
    ("icmp", ethertype::IPV4, protocol::ICMP),
    ("tcp", ethertype::IPV4, protocol::TCP),
    ("udp", ethertype::IPV4, protocol::UDP),
    ("sctp", ethertype::IPV4, protocol::SCTP),
    ("arp", ethertype::ARP, 0),
    ("rarp", ethertype::RARP, 0),
    ("mpls", ethertype::MPLS, 0),
    ("mplsm", ethertype::MPLS_MULTICAST, 0),
    ("ipv6", ethertype::IPV6, 0),
    ("ip6", ethertype::IPV6, 0),
    ("icmp6", ethertype::IPV6, protocol::ICMPV6),
    ("tcp6", ethertype::IPV6, protocol::TCP),
    ("udp6", ethertype::IPV6, protocol::UDP),
    ("sctp6", ethertype::IPV6, protocol::SCTP),
];

/// Parses a match.
///
/// # Errors
/// An unknown field, an invalid value, or a field whose prerequisite is missing.
pub fn parse_match(text: &str, ports: PortNames<'_>) -> Result<Match, TextError> {
    let span = Span::new(text);
    let mut matching = Match::any();
    for pair in span.pairs()? {
        add(&mut matching, pair, ports)?;
    }
    check_prerequisites(&matching, span)?;
    leave_out_default(&mut matching);
    Ok(matching)
}

/// Adds one pair to a match.
pub(super) fn add(
    matching: &mut Match,
    pair: Pair<'_>,
    ports: PortNames<'_>,
) -> Result<(), TextError> {
    let name = pair.key.text;
    if pair.value.is_none() {
        if let Some((_, eth_type, proto)) = PROTOCOLS.iter().find(|(known, ..)| *known == name) {
            matching.set_masked(Field::EthType, (*eth_type).into(), u128::MAX);
            if *proto != 0 {
                matching.set_masked(Field::NwProto, (*proto).into(), u128::MAX);
            }
            return Ok(());
        }
        if name == "eth" {
            matching.set_masked(Field::PacketType, 0, u128::MAX);
            return Ok(());
        }
    }
    match name {
        "dl_vlan" => return dl_vlan(matching, pair.needed()?),
        "dl_vlan_pcp" => {
            let pcp = value::number_to(pair.needed()?, 7)?;
            matching.set_masked(Field::VlanTci, pcp << 13 | 0x1000, 0xf000);
            return Ok(());
        }
        _ => {}
    }
    let Some(spec) = by_name(name) else {
        let what = format!("'{name}' is no field that can be matched");
        return Err(pair.key.error_with(what, "see ovs-fields(7)"));
    };
    if let Some(index) = spec.option() {
        return option(matching, index, pair);
    }
    let (value, mask) = value::masked(spec, pair.needed()?, ports)?;
    store(matching, spec, value, mask, pair)
}

/// `tun_metadata1=0xa/0xf`, or without a value to match on the option's presence.
fn option(matching: &mut Match, index: u8, pair: Pair<'_>) -> Result<(), TextError> {
    if matching.options().iter().any(|it| it.index == index) {
        return Err(pair.key.error(format!("field {} set multiple times", pair.key.text)));
    }
    matching.set_option(match pair.value {
        Some(span) => value::option(index, span)?,
        None => OptionMatch::new(index, Wide::ZERO, Wide::ZERO),
    });
    let used: u32 = matching.options().iter().map(|it| u32::from(it.len)).sum();
    let max = OptionMapping::SLOTS * 4;
    if used > max {
        let name = pair.key.text;
        let what = format!("field {name} exceeds maximum size for tunnel metadata");
        return Err(pair.key.error(format!("{what} (used {used}, max {max})")));
    }
    Ok(())
}

fn store(
    matching: &mut Match,
    spec: &Spec,
    value: u128,
    mask: u128,
    pair: Pair<'_>,
) -> Result<(), TextError> {
    if mask == 0 {
        return Ok(());
    }
    // For fields that the key stores in bits of another field.
    let (field, value, mask) = match spec.field {
        Field::NwTos if value & 3 != 0 => {
            let hint = "the lower two bits are nw_ecn's";
            return Err(pair.key.error_with("nw_tos has bits outside of the DSCP", hint));
        }
        Field::NwTos => (Field::IpDscp, value >> 2, 0x3f),
        Field::IcmpType => (Field::TpSrc, value, 0xffff),
        Field::IcmpCode => (Field::TpDst, value, 0xffff),
        Field::VlanPcp => (Field::VlanTci, value << 13 | 0x1000, 0xf000),
        Field::TunSrc | Field::TunDst => tunnel_address(spec.field, value, mask),
        field => (field, value, mask),
    };
    if matching.mask().get(field) & mask != 0 && field != Field::VlanTci {
        return Err(pair.key.error(format!("{} is given twice", spec.name)));
    }
    matching.set_masked(field, value, mask);
    Ok(())
}

fn dl_vlan(matching: &mut Match, span: Span<'_>) -> Result<(), TextError> {
    match value::number(span)? {
        // OpenFlow 1.0's value for "no tag".
        0xffff => matching.set_masked(Field::VlanTci, 0, 0xffff),
        vid @ 0..=0xfff => matching.set_masked(Field::VlanTci, vid | 0x1000, 0x1fff),
        other => {
            return Err(span
                .error_with(format!("{other} is no VLAN id"), "0 to 4095, or 0xffff for no tag"));
        }
    }
    Ok(())
}

/// Rejects a field whose prerequisite the match does not satisfy.
pub(super) fn check_prerequisites(matching: &Match, span: Span<'_>) -> Result<(), TextError> {
    check_connection(matching, span)?;
    check_icmp(matching, span)?;
    let mut kept = matching.clone();
    normalize(&mut kept);
    if kept == *matching {
        return Ok(());
    }
    let is_lost = |field: &&Field| kept.mask().get(**field) != matching.mask().get(**field);
    // Fields share places; the one named in the text is meant.
    let is_written = |field: &&Field| is_lost(field) && span.text.contains(field.name());
    let lost = Field::ALL.iter().find(is_written).or_else(|| Field::BASIC.iter().find(is_lost));
    let name = lost.map_or("a field", |field| field.name());
    let what = format!("the match on {name} does not promise the protocol that has it");
    Err(span.error_with(what, "add tcp, udp, icmp, ip, arp, ipv6, tcp6, mpls or the like"))
}

/// The original direction requires a `ct_state` of tracked packets, and addresses of the same family as the
/// packet's.
fn check_connection(matching: &Match, span: Span<'_>) -> Result<(), TextError> {
    let tuple =
        [Field::CtNwProto, Field::CtTpSrc, Field::CtTpDst, Field::CtIpv6Src, Field::CtIpv6Dst];
    let Some(field) = tuple.into_iter().find(|field| matching.mask().has(*field)) else {
        return Ok(());
    };
    if !Prerequisite::Ct.met_by(matching) {
        let what = match field {
            Field::CtIpv6Src | Field::CtIpv6Dst => "a connection's addresses",
            field => field.name(),
        };
        let what = format!("the match on {what} does not promise a connection");
        return Err(span.error_with(what, "add ct_state=+trk-inv, or +new, +est, +rel or +rpl"));
    }
    if !Proto::of(matching).fits_ct_addresses(matching) {
        let what = "the match on a connection's addresses does not promise their family";
        return Err(span.error_with(what, "add ip to ct_nw_src or dst, ipv6 to ct_ipv6_src or dst"));
    }
    Ok(())
}

/// ICMP type and code, which OpenFlow 1.0 calls ports, are bytes and are matched completely.
fn check_icmp(matching: &Match, span: Span<'_>) -> Result<(), TextError> {
    let proto = Proto::of(matching);
    if !proto.is_icmp4() && !proto.is_icmp6() {
        return Ok(());
    }
    for (field, name) in [(Field::TpSrc, "type"), (Field::TpDst, "code")] {
        let (value, mask) = (matching.key().get(field), matching.mask().get(field));
        if mask != 0 && (mask != 0xffff || value > 0xff) {
            let what = format!("an ICMP {name} is matched as {value:#x}/{mask:#x}");
            return Err(span.error_with(what, "0 to 255, without a mask"));
        }
    }
    Ok(())
}
