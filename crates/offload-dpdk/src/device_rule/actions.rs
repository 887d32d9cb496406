//! Datapath actions as `rte_flow` actions.

use base::MacAddr;
use flow::{Action, Field, Headers, OffloadRule, Refusal, SetField, TunnelKind, TunnelPush};
use port_dpdk::flow_rule::{Ipv4, RuleAction, VxlanEncap};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{ethernet, ethertype, vxlan};

/// Bits of TOS that are the DSCP.
const DSCP: u128 = 0xfc;
/// The VLAN identifier's and the priority's part of a tag.
const VID: u16 = 0xfff;
const PCP_SHIFT: u16 = 13;

/// Adds the NAT rewrite: the addresses and ports that differ after connection tracking.
pub fn nat_rewrite(from: &OffloadRule, actions: &mut Vec<RuleAction>) {
    let Some(to) = &from.nat_rewrite else { return };
    let (before, after) = (from.headers.key_addresses(), to.addresses);
    let is_ipv6 = from.headers.is_ipv6();
    let v4 = |low: u64| Ipv4Addr::from_bits(low as u32);
    let v6 = |high: u64, low: u64| Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
    if before[..2] != after[..2] {
        actions.push(if is_ipv6 {
            RuleAction::SetIpv6Source(v6(after[0], after[1]))
        } else {
            RuleAction::SetIpv4Source(v4(after[1]))
        });
    }
    if before[2..] != after[2..] {
        actions.push(if is_ipv6 {
            RuleAction::SetIpv6Destination(v6(after[2], after[3]))
        } else {
            RuleAction::SetIpv4Destination(v4(after[3]))
        });
    }
    let halves = |ports: u32| ((ports >> 16) as u16, ports as u16);
    let ((source, destination), after) = (halves(from.headers.ports()), halves(to.ports));
    if source != after.0 {
        actions.push(RuleAction::SetPortSource(after.0));
    }
    if destination != after.1 {
        actions.push(RuleAction::SetPortDestination(after.1));
    }
}

/// The steps before the last, which sends or drops. Returns how many VLAN tags packets come with and leave with.
///
/// # Errors
/// `rte_flow` cannot carry out one of them.
pub fn steps(from: &OffloadRule, actions: &mut Vec<RuleAction>) -> Result<[u32; 2], Refusal> {
    let had_tags = u32::from(from.headers.tag_type().is_some());
    let Some((_, before)) = from.actions.split_last() else { return Ok([had_tags; 2]) };
    let mut tags = Tags { depth: had_tags, first: actions.len() };
    for (at, action) in before.iter().enumerate() {
        match action {
            Action::PopVlan => tags.pop(actions)?,
            Action::PushVlan { tpid, tci } => tags.push(from, actions, *tpid, *tci),
            Action::Set(set) => set_field(set, &from.headers, actions)?,
            // Later actions would apply to the outer headers.
            Action::TunnelPush(to) if at + 1 == before.len() => {
                let encap = encapsulation(to, from).ok_or(Refusal::Tunnel)?;
                actions.push(RuleAction::VxlanEncap(Box::new(encap)));
            }
            _ => return Err(Refusal::Actions),
        }
    }
    Ok([had_tags, tags.depth])
}

/// The VLAN tags of packets during the actions.
struct Tags {
    depth: u32,
    /// The index of the first of them among the actions.
    first: usize,
}

impl Tags {
    fn pop(&mut self, actions: &mut Vec<RuleAction>) -> Result<(), Refusal> {
        self.depth = self.depth.checked_sub(1).ok_or(Refusal::Actions)?;
        match actions[self.first..] {
            // A tag that was pushed before.
            [.., RuleAction::PushVlan(_), RuleAction::SetVlanVid(_), RuleAction::SetVlanPcp(_)] => {
                actions.truncate(actions.len() - 3);
            }
            _ => actions.push(RuleAction::PopVlan),
        }
        Ok(())
    }

    fn push(&mut self, from: &OffloadRule, actions: &mut Vec<RuleAction>, tpid: u16, tci: u16) {
        let is_same_type = from.mask.has_tag_type() && from.headers.tag_type() == Some(tpid);
        // The packet's own tag, which was popped before, is replaced by another one of the same type.
        let replaces = is_same_type
            && self.depth == 0
            && actions[self.first..].last() == Some(&RuleAction::PopVlan);
        if replaces {
            actions.pop();
        } else {
            actions.push(RuleAction::PushVlan(tpid));
        }
        self.depth += 1;
        actions.push(RuleAction::SetVlanVid(tci & VID));
        actions.push(RuleAction::SetVlanPcp((tci >> PCP_SHIFT) as u8));
    }
}

fn set_field(
    set: &SetField,
    headers: &Headers,
    actions: &mut Vec<RuleAction>,
) -> Result<(), Refusal> {
    const ADDRESS: u128 = 0xffff_ffff_ffff;
    let mac = MacAddr::from_u64(set.value as u64);
    actions.push(match (set.field, set.mask) {
        (Field::EthSrc, ADDRESS) => RuleAction::SetMacSource(mac),
        (Field::EthDst, ADDRESS) => RuleAction::SetMacDestination(mac),
        (Field::NwTtl, 0xff) => RuleAction::SetTtl(set.value as u8),
        (Field::NwTos, DSCP) if headers.is_ipv6() => RuleAction::SetIpv6Dscp(set.value as u8 >> 2),
        (Field::NwTos, DSCP) => RuleAction::SetIpv4Dscp(set.value as u8 >> 2),
        _ => return Err(Refusal::Actions),
    });
    Ok(())
}

/// Returns the VXLAN encapsulation; `None` if a device would not do the same as the switch.
fn encapsulation(to: &TunnelPush, from: &OffloadRule) -> Option<VxlanEncap> {
    if to.kind != TunnelKind::Vxlan || to.strips_ethernet {
        return None;
    }
    let (ethernet, rest) = to.header.split_first_chunk::<{ ethernet::HEADER_LEN }>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, type_high, type_low] = *ethernet;
    // UDP over IPv6 has a checksum, which a device does not compute.
    if u16::from_be_bytes([type_high, type_low]) != ethertype::IPV4 {
        return None;
    }
    let (ip, rest) = encap_ip(rest)?;
    let &[_, _, port_high, port_low, _, _, 0, 0, f0, f1, f2, f3, v0, v1, v2, _] = rest else {
        return None;
    };
    if u32::from_be_bytes([f0, f1, f2, f3]) != vxlan::FLAG_VNI {
        return None;
    }
    Some(VxlanEncap {
        mac_source: MacAddr([s0, s1, s2, s3, s4, s5]),
        mac_destination: MacAddr([d0, d1, d2, d3, d4, d5]),
        ip,
        udp_source: from.source_port(to),
        udp_destination: u16::from_be_bytes([port_high, port_low]),
        vni: u32::from_be_bytes([0, v0, v1, v2]),
    })
}

fn encap_ip(bytes: &[u8]) -> Option<(Ipv4, &[u8])> {
    let (&[0x45, tos, _, _, _, _, fragment, 0, ttl, protocol, _, _, a, b, c, d, e, f, g, h], rest) =
        bytes.split_first_chunk::<20>()?
    else {
        return None;
    };
    let (source, destination) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
    let fragment = u16::from(fragment) << 8;
    Some((Ipv4 { tos, ttl, protocol, fragment, source, destination }, rest))
}
