//! The matches of OpenFlow 1.1 and later: 1.1's fixed format of 88 bytes, and OXM from 1.2 on (ovs:
//! `lib/ofp-match.c`).

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::oxm::{put_oxm_match, take_oxm_match};
use crate::port::{put_port, take_port};
use crate::version::Version;
use base::OfPort;
use flow::{Field, Match, VLAN_PRESENT};
use wire::ethertype;
use wire::protocol;

const IN_PORT: u32 = 1 << 0;
const DL_VLAN: u32 = 1 << 1;
const DL_VLAN_PCP: u32 = 1 << 2;
const DL_TYPE: u32 = 1 << 3;
const NW_TOS: u32 = 1 << 4;
const NW_PROTO: u32 = 1 << 5;
const TP_SRC: u32 = 1 << 6;
const TP_DST: u32 = 1 << 7;
const MPLS_LABEL: u32 = 1 << 8;
const MPLS_TC: u32 = 1 << 9;
/// OFPMT_STANDARD
const STANDARD: u16 = 0;
/// OFPMT11_STANDARD_LENGTH
const LEN: u16 = 88;
/// OFPVID11_ANY and OFPVID11_NONE
const VLAN_ANY: u16 = 0xfffe;
const VLAN_NONE: u16 = 0xffff;

/// Reads a match in either format.
pub(crate) fn take(input: &mut Input<'_>) -> Result<Match, OfError> {
    if input.rest().starts_with(&STANDARD.to_be_bytes()) {
        return take_standard(input);
    }
    take_oxm_match(input)
}

/// Writes a match in the version's format. OpenFlow 1.1's omits what it cannot express.
pub(crate) fn put(out: &mut Vec<u8>, matching: &Match, version: Version) {
    match version {
        Version::V11 => put_standard(out, matching),
        _ => {
            put_oxm_match(out, matching, version as u8);
        }
    }
}

fn bad(what: impl std::fmt::Display) -> OfError {
    OfError::new(ErrorCode::MatchBadValue, format!("a match of OpenFlow 1.1 can't have {what}"))
}

fn take_standard(input: &mut Input<'_>) -> Result<Match, OfError> {
    let as_match_error = |error| OfError { code: ErrorCode::MatchBadLen, ..error };
    let mut body = input.part(LEN.into()).map_err(as_match_error)?;
    body.skip(2)?;
    let len = body.u16()?;
    if len != LEN {
        let reason = format!("a standard match of {len} bytes in place of {LEN}");
        return Err(OfError::new(ErrorCode::MatchBadLen, reason));
    }
    let in_port = take_port(&mut body, Version::V11);
    let wildcards = body.u32()?;
    let mut matching = Match::any();
    if wildcards & IN_PORT == 0 {
        let port = in_port.map_err(|error| bad(error.reason))?;
        matching.set_masked(Field::InPort, port.0.into(), u128::MAX);
    }
    for field in [Field::EthSrc, Field::EthDst] {
        let (value, ignored) = (body.uint(6)?, body.uint(6)?);
        matching.set_masked(field, value, !ignored);
    }
    let (vid, pcp) = (body.u16()?, body.u8()?);
    body.skip(1)?;
    take_vlan(&mut matching, wildcards, vid, pcp)?;
    let (eth_type, tos, proto) = (body.u16()?, body.u8()?, body.u8()?);
    if wildcards & DL_TYPE == 0 {
        matching.set_masked(Field::EthType, eth_type.into(), u128::MAX);
    }
    let eth_type = matching.key().eth_type();
    let (is_ip, is_arp) =
        (eth_type == ethertype::IPV4, matches!(eth_type, ethertype::ARP | ethertype::RARP));
    if is_ip && wildcards & NW_TOS == 0 {
        if tos & 3 != 0 {
            return Err(bad(format!("the type of service {tos:#x}")));
        }
        matching.set_masked(Field::IpDscp, u128::from(tos >> 2), u128::MAX);
    }
    if (is_ip || is_arp) && wildcards & NW_PROTO == 0 {
        matching.set_masked(Field::NwProto, proto.into(), u128::MAX);
    }
    for field in [Field::Ipv4Src, Field::Ipv4Dst] {
        let (value, ignored) = (body.u32()?, body.u32()?);
        if is_ip || is_arp {
            matching.set_masked(field, value.into(), u128::from(!ignored));
        }
    }
    take_ports(&mut matching, wildcards, (body.u16()?, body.u16()?))?;
    let (label, tc) = (body.u32()?, body.u8()?);
    body.skip(3)?;
    for (field, value, wildcard) in
        [(Field::MplsLabel, label, MPLS_LABEL), (Field::MplsTc, tc.into(), MPLS_TC)]
    {
        if matching.key().is_mpls() && wildcards & wildcard == 0 {
            matching.set_masked(field, value.into(), u128::MAX);
        }
    }
    let (value, ignored) = (body.u64()?, body.u64()?);
    matching.set_masked(Field::Metadata, value.into(), u128::from(!ignored));
    Ok(matching)
}

fn take_vlan(matching: &mut Match, wildcards: u32, vid: u16, pcp: u8) -> Result<(), OfError> {
    if wildcards & DL_VLAN != 0 {
        return Ok(());
    }
    let present = u128::from(VLAN_PRESENT);
    let (value, mask) = match vid {
        VLAN_NONE => {
            matching.set_masked(Field::VlanTci, 0, 0xffff);
            return Ok(());
        }
        VLAN_ANY => (present, present),
        0..0x1000 => (present | u128::from(vid), present | 0xfff),
        _ => return Err(bad(format!("the VLAN {vid:#x}"))),
    };
    if wildcards & DL_VLAN_PCP != 0 {
        matching.set_masked(Field::VlanTci, value, mask);
    } else if pcp <= 7 {
        matching.set_masked(Field::VlanTci, value | u128::from(pcp) << 13, mask | 0xe000);
    } else {
        return Err(bad(format!("the VLAN priority {pcp}")));
    }
    Ok(())
}

/// Reads ports, or ICMP type and code. For other protocols they are ignored (OpenFlow 1.1, section A.2.3).
fn take_ports(matching: &mut Match, wildcards: u32, ports: (u16, u16)) -> Result<(), OfError> {
    if matching.key().eth_type() != ethertype::IPV4 {
        return Ok(());
    }
    let proto = matching.key().nw_proto();
    for (field, port, wildcard) in
        [(Field::TpSrc, ports.0, TP_SRC), (Field::TpDst, ports.1, TP_DST)]
    {
        if wildcards & wildcard != 0
            || !matches!(proto, protocol::ICMP | protocol::TCP | protocol::UDP | protocol::SCTP)
        {
            continue;
        }
        if proto == protocol::ICMP && port > 0xff {
            let reason = format!("{port:#x} is no ICMP type or code");
            return Err(OfError::new(ErrorCode::MatchBadField, reason));
        }
        matching.set_masked(field, port.into(), 0xffff);
    }
    Ok(())
}

fn put_standard(out: &mut Vec<u8>, matching: &Match) {
    let (key, mask) = (matching.key(), matching.mask());
    let v6 = key.eth_type() == ethertype::IPV6;
    let mut wildcards = 0;
    let is_mpls = key.is_mpls();
    for (field, wildcard) in [(Field::MplsLabel, MPLS_LABEL), (Field::MplsTc, MPLS_TC)] {
        if !is_mpls || !mask.has(field) {
            wildcards |= wildcard;
        }
    }
    for (field, wildcard) in [
        (Field::InPort, IN_PORT),
        (Field::EthType, DL_TYPE),
        (Field::IpDscp, NW_TOS),
        (Field::NwProto, NW_PROTO),
        (Field::TpSrc, TP_SRC),
        (Field::TpDst, TP_DST),
    ] {
        if !mask.has(field) {
            wildcards |= wildcard;
        }
    }
    let (tci, tci_mask) = (key.vlan_tci(), mask.get(Field::VlanTci) as u16);
    let (mut vid, mut pcp) = (0, 0);
    if tci_mask == 0 {
        wildcards |= DL_VLAN | DL_VLAN_PCP;
    } else if tci_mask & VLAN_PRESENT != 0 && tci & VLAN_PRESENT == 0 {
        (vid, wildcards) = (VLAN_NONE, wildcards | DL_VLAN_PCP);
    } else {
        vid = if tci_mask & 0xfff == 0 { VLAN_ANY } else { tci & 0xfff };
        match tci_mask & 0xe000 {
            0 => wildcards |= DL_VLAN_PCP,
            _ => pcp = (tci >> 13) as u8,
        }
    }
    out.put_u16(STANDARD);
    out.put_u16(LEN);
    if mask.has(Field::InPort) {
        put_port(out, Version::V11, OfPort(key.in_port_raw() as u16));
    } else {
        out.put_u32(0);
    }
    out.put_u32(wildcards);
    for field in [Field::EthSrc, Field::EthDst] {
        out.put_uint(key.get(field), 6);
        out.put_uint(!mask.get(field), 6);
    }
    out.put_u16(vid);
    out.put(&[pcp, 0]);
    out.put_u16(key.eth_type());
    out.put(&[(key.get(Field::IpDscp) as u8) << 2, key.get(Field::NwProto) as u8]);
    for field in [Field::Ipv4Src, Field::Ipv4Dst] {
        let (value, bits) = if v6 { (0, 0) } else { (key.get(field), mask.get(field)) };
        out.put_uint(value, 4);
        out.put_uint(!bits, 4);
    }
    out.put_u16(key.tp_src());
    out.put_u16(key.tp_dst());
    let of_mpls = |field| if is_mpls { key.get(field) } else { 0 };
    out.put_u32(of_mpls(Field::MplsLabel) as u32);
    out.put(&[of_mpls(Field::MplsTc) as u8, 0, 0, 0]);
    out.put_u64(key.metadata());
    out.put_u64(!(mask.get(Field::Metadata) as u64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fixed_match_reads_back_what_it_can_say() {
        use Field as F;
        let ip = Match::any().with(F::EthType, 0x800);
        let tcp = ip.clone().with(F::NwProto, 6);
        let cases = [
            Match::any(),
            Match::any().with(F::InPort, 0xfffe),
            Match::any().with_masked(F::EthDst, 0x0100_0000_0000, 0x0100_0000_0000),
            Match::any().with(F::VlanTci, 0),
            Match::any().with_masked(F::VlanTci, 0x1000, 0x1000),
            Match::any().with_masked(F::VlanTci, 0x1005, 0x1fff),
            Match::any().with_masked(F::VlanTci, 0x7005, 0xffff),
            Match::any().with_masked(F::Metadata, 0xff00, 0xff0f),
            ip.clone().with(F::IpDscp, 9).with_masked(F::Ipv4Src, 0x0a00_0001, 0xff00_00ff),
            ip.with(F::NwProto, 1).with(F::TpSrc, 8).with(F::TpDst, 0),
            tcp.with(F::TpDst, 80),
            Match::any().with(F::EthType, 0x806).with(F::NwProto, 2).with(F::Ipv4Src, 5),
            Match::any().with(F::EthType, 0x8847).with(F::MplsLabel, 0xf_fff1),
            Match::any().with(F::EthType, 0x8848).with(F::MplsLabel, 0).with(F::MplsTc, 5),
        ];
        for matching in cases {
            let mut out = Vec::new();
            put(&mut out, &matching, Version::V11);
            assert_eq!(out.len(), usize::from(LEN));
            let mut input = Input::new(&out, ErrorCode::BadLen, "the match");
            assert_eq!(take(&mut input), Ok(matching));
        }
    }

    #[test]
    fn what_a_field_can_not_be_is_refused() {
        let mut plain = Vec::new();
        put(&mut plain, &Match::any().with(Field::EthType, 0x800), Version::V11);
        let set = |changes: &[(usize, u8)]| {
            let mut bytes = plain.clone();
            changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
            let mut input = Input::new(&bytes, ErrorCode::BadLen, "the match");
            take(&mut input).map(|_| ()).map_err(|error| error.code)
        };
        let low_wildcards = 11;
        let cases: [(&[(usize, u8)], ErrorCode); 5] = [
            (&[(3, 87)], ErrorCode::MatchBadLen),
            (&[(low_wildcards, 0xf6), (4, 1)], ErrorCode::MatchBadValue),
            (&[(low_wildcards, 0xf5), (36, 0x20)], ErrorCode::MatchBadValue),
            (&[(low_wildcards, 0xf1), (38, 8)], ErrorCode::MatchBadValue),
            (&[(low_wildcards, 0xe7), (42, 1)], ErrorCode::MatchBadValue),
        ];
        for (changes, code) in cases {
            assert_eq!(set(changes), Err(code), "{changes:?}");
        }
    }
}
