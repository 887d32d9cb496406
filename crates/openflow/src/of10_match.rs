//! OpenFlow 1.0's fixed match of 40 bytes (ovs: `lib/ofp-match.c`).

use crate::bytes::{Input, Output};
use crate::error::OfError;
use crate::oxm::eth_type;
use base::OfPort;
use flow::{Field, Match, VLAN_PRESENT};
use wire::{ethertype, protocol};

const IN_PORT: u32 = 1 << 0;
const DL_VLAN: u32 = 1 << 1;
const DL_SRC: u32 = 1 << 2;
const DL_DST: u32 = 1 << 3;
const DL_TYPE: u32 = 1 << 4;
const NW_PROTO: u32 = 1 << 5;
const TP_SRC: u32 = 1 << 6;
const TP_DST: u32 = 1 << 7;
/// The shift of the numbers of wildcarded address bits.
const NW_SRC_SHIFT: u32 = 8;
const NW_DST_SHIFT: u32 = 14;
const DL_VLAN_PCP: u32 = 1 << 20;
const NW_TOS: u32 = 1 << 21;
/// All wildcards.
pub(crate) const ALL: u32 = (1 << 22) - 1;
/// `dl_vlan` of packets without a tag.
const VLAN_NONE: u16 = 0xffff;

/// A decoded match, and whether it was exact in every field.
pub(crate) struct Of10Match {
    pub matching: Match,
    pub exact: bool,
}

/// Reads 40 bytes.
pub(crate) fn take(input: &mut Input<'_>) -> Result<Of10Match, OfError> {
    let wildcards = input.u32()? & ALL;
    let in_port = input.u16()?;
    let (dl_src, dl_dst) = (input.uint(6)?, input.uint(6)?);
    let (dl_vlan, pcp) = (input.u16()?, input.u8()?);
    input.skip(1)?;
    let (dl_type, tos, nw_proto) = (input.u16()?, input.u8()?, input.u8()?);
    input.skip(2)?;
    let (nw_src, nw_dst) = (input.u32()?, input.u32()?);
    let (tp_src, tp_dst) = (input.u16()?, input.u16()?);

    let mut matching = Match::any();
    let mut exact = |field, value: u128, wildcard| {
        if wildcards & wildcard == 0 {
            matching.set_masked(field, value, u128::MAX);
        }
    };
    exact(Field::InPort, in_port.into(), IN_PORT);
    exact(Field::EthSrc, dl_src, DL_SRC);
    exact(Field::EthDst, dl_dst, DL_DST);
    exact(Field::EthType, dl_type.into(), DL_TYPE);
    exact(Field::IpDscp, u128::from(tos >> 2), NW_TOS);
    exact(Field::NwProto, nw_proto.into(), NW_PROTO);
    exact(Field::TpSrc, tp_src.into(), TP_SRC);
    exact(Field::TpDst, tp_dst.into(), TP_DST);
    for (field, address, shift) in
        [(Field::Ipv4Src, nw_src, NW_SRC_SHIFT), (Field::Ipv4Dst, nw_dst, NW_DST_SHIFT)]
    {
        let ignored = (wildcards >> shift) & 0x3f;
        let mask = u32::MAX.checked_shl(ignored).unwrap_or(0);
        matching.set_masked(field, address.into(), mask.into());
    }
    take_vlan(&mut matching, wildcards, dl_vlan, pcp);
    normalize(&mut matching);
    Ok(Of10Match { matching, exact: wildcards == 0 })
}

fn take_vlan(matching: &mut Match, wildcards: u32, vid: u16, pcp: u8) {
    if wildcards & DL_VLAN == 0 && vid == VLAN_NONE {
        matching.set_masked(Field::VlanTci, 0, 0xffff);
        return;
    }
    let present = u128::from(VLAN_PRESENT);
    if wildcards & DL_VLAN == 0 {
        let value = u128::from(vid & 0xfff) | present;
        matching.set_masked(Field::VlanTci, value, 0xfff | present);
    }
    if wildcards & DL_VLAN_PCP == 0 {
        let value = u128::from(pcp & 7) << 13 | present;
        matching.set_masked(Field::VlanTci, value, 0xe000 | present);
    }
}

/// The fields of NSH; the first two have places that ARP does not use.
const NSH: [Field; 10] = [
    Field::NshFlags,
    Field::NshMdtype,
    Field::NshTtl,
    Field::NshNp,
    Field::NshSpi,
    Field::NshSi,
    Field::NshC1,
    Field::NshC2,
    Field::NshC3,
    Field::NshC4,
];

/// Wildcards fields whose prerequisites the match lacks, because OpenFlow 1.0 ignores them.
pub(crate) fn normalize(matching: &mut Match) {
    let key = matching.key();
    let (eth_type, proto) = (eth_type(matching), key.nw_proto());
    let has_ct_proto = matching.mask().has(Field::CtNwProto);
    let (icmp, arp) = (key.tp_src(), matches!(eth_type, ethertype::ARP | ethertype::RARP));
    let (v4, v6) = (eth_type == ethertype::IPV4, eth_type == ethertype::IPV6);
    let ports = match proto {
        protocol::TCP | protocol::UDP | protocol::SCTP => v4 || v6,
        protocol::ICMP => v4,
        protocol::ICMPV6 => v6,
        _ => false,
    };
    let nd = v6 && proto == protocol::ICMPV6;
    // These share places with ARP and neighbour discovery, and with each other.
    let of_header: &[Field] = match eth_type {
        ethertype::MPLS | ethertype::MPLS_MULTICAST => &[Field::MplsLse0],
        ethertype::NSH => &NSH,
        _ => &[],
    };
    let kept: Vec<_> = of_header
        .iter()
        .map(|&field| (field, matching.key().get(field), matching.mask().get(field)))
        .collect();
    let mut forget = |fields: &[Field], keep: bool| {
        for &field in fields {
            if !keep {
                matching.wildcard(field);
            }
        }
    };
    forget(&[Field::Ipv6Label], v6);
    forget(&[Field::NwProto], v4 || v6 || arp);
    forget(&[Field::NwTos, Field::NwTtl], v4 || v6);
    forget(&[Field::TpSrc, Field::TpDst], ports);
    forget(&[Field::TcpFlags], proto == protocol::TCP && (v4 || v6));
    forget(&[Field::ArpSha], arp || nd && icmp == 135);
    forget(&[Field::ArpTha], arp || nd && icmp == 136);
    let nd_fields = [Field::NdTarget, Field::NdReserved, Field::NdOptionsType];
    forget(&nd_fields, nd && matches!(icmp, 135 | 136));
    forget(&NSH[..2], false);
    for (field, value, mask) in kept {
        matching.set_masked(field, value, mask);
    }
    let mut forget = |fields: &[Field], keep: bool| {
        for &field in fields.iter().filter(|_| !keep) {
            matching.wildcard(field);
        }
    };
    // Without the protocol Open vSwitch neither sends nor prints the ports.
    forget(&[Field::CtTpSrc, Field::CtTpDst], has_ct_proto);
    if !v6 {
        // IPv4 addresses are stored in the bits of the IPv6 ones.
        for (wide, narrow) in [(Field::Ipv6Src, Field::Ipv4Src), (Field::Ipv6Dst, Field::Ipv4Dst)] {
            let (value, mask) = (matching.key().get(narrow), matching.mask().get(narrow));
            matching.wildcard(wide);
            if v4 || arp {
                matching.set_masked(narrow, value, mask);
            }
        }
    }
}

/// Writes 40 bytes, omitting what this format cannot express.
pub(crate) fn put(out: &mut Vec<u8>, matching: &Match) {
    let (key, mask) = (matching.key(), matching.mask());
    let v6 = key.eth_type() == ethertype::IPV6;
    let mut wildcards = 0;
    for (field, wildcard) in [
        (Field::InPort, IN_PORT),
        (Field::EthSrc, DL_SRC),
        (Field::EthDst, DL_DST),
        (Field::EthType, DL_TYPE),
        (Field::NwProto, NW_PROTO),
        (Field::TpSrc, TP_SRC),
        (Field::TpDst, TP_DST),
        (Field::IpDscp, NW_TOS),
    ] {
        if !mask.has(field) {
            wildcards |= wildcard;
        }
    }
    for (field, shift) in [(Field::Ipv4Src, NW_SRC_SHIFT), (Field::Ipv4Dst, NW_DST_SHIFT)] {
        let bits = if v6 { 0 } else { mask.get(field) as u32 };
        wildcards |= (32 - bits.leading_ones()) << shift;
    }
    let (tci, tci_mask) = (key.vlan_tci(), mask.get(Field::VlanTci) as u16);
    let (mut vid, mut pcp) = (0, 0);
    if tci_mask == 0 {
        wildcards |= DL_VLAN | DL_VLAN_PCP;
    } else if tci_mask & VLAN_PRESENT != 0 && tci & VLAN_PRESENT == 0 {
        vid = VLAN_NONE;
    } else {
        if tci_mask & 0xfff == 0 {
            wildcards |= DL_VLAN;
        }
        if tci_mask & 0xe000 == 0 {
            wildcards |= DL_VLAN_PCP;
        }
        (vid, pcp) = (tci & 0xfff, (tci >> 13) as u8);
    }
    out.put_u32(wildcards);
    out.put_u16(OfPort(key.in_port_raw() as u16).0);
    out.put_uint(key.get(Field::EthSrc), 6);
    out.put_uint(key.get(Field::EthDst), 6);
    out.put_u16(vid);
    out.put(&[pcp, 0]);
    out.put_u16(key.eth_type());
    out.put(&[(key.get(Field::IpDscp) as u8) << 2, key.get(Field::NwProto) as u8, 0, 0]);
    for field in [Field::Ipv4Src, Field::Ipv4Dst] {
        out.put_uint(if v6 { 0 } else { key.get(field) }, 4);
    }
    out.put_u16(key.tp_src());
    out.put_u16(key.tp_dst());
}

/// Returns whether 40 bytes can express the match for a flow of this priority: a match that is exact in all
/// fields implies the highest priority.
pub(crate) fn can_say(matching: &Match, priority: u16) -> bool {
    let mut out = Vec::with_capacity(40);
    put(&mut out, matching);
    let mut input = Input::new(&out, crate::error::ErrorCode::BadLen, "the match");
    take(&mut input)
        .is_ok_and(|read| read.matching == *matching && (!read.exact || priority == u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_in_40_bytes_is_noticed() {
        use Field as F;
        let tcp = Match::any().with(F::EthType, 0x800).with(F::NwProto, 6);
        let exact = tcp
            .clone()
            .with(F::InPort, 1)
            .with(F::EthSrc, 2)
            .with(F::EthDst, 3)
            .with(F::VlanTci, 0x3004)
            .with(F::IpDscp, 5)
            .with(F::Ipv4Src, 6)
            .with(F::Ipv4Dst, 7)
            .with(F::TpSrc, 8)
            .with(F::TpDst, 9);
        let cases: &[(Match, u16, bool)] = &[
            (Match::any(), 1, true),
            (tcp.clone(), 1, true),
            (tcp.clone().with_masked(F::Ipv4Src, 0x0a00_0000, 0xff00_0000), 1, true),
            (tcp.clone().with_masked(F::Ipv4Src, 0x0a00_0000, 0xff00_ff00), 1, false),
            (tcp.clone().with_masked(F::TpDst, 0x8000, 0x8000), 1, false),
            (tcp.clone().with(F::Reg0, 1), 1, false),
            (Match::any().with(F::VlanTci, 0), 1, true),
            (Match::any().with_masked(F::VlanTci, 0x1005, 0x1fff), 1, true),
            (Match::any().with_masked(F::VlanTci, 0x1000, 0x1000), 1, false),
            (Match::any().with(F::EthType, 0x86dd).with(F::Ipv6Src, 1), 1, false),
            (exact.clone(), 1, false),
            (exact, u16::MAX, true),
        ];
        for (matching, priority, expect) in cases {
            assert_eq!(can_say(matching, *priority), *expect, "{matching:?} {priority}");
        }
    }
}
