//! Makes of the switch's rules those of the program.

mod tunnel;

use crate::layout::{
    CHECKSUM_IN, COPY_ECN, DECAPSULATE, DROP, ENCAPSULATE, KeyV4, KeyV6, NAT_REWRITE, POP_VLAN,
    PUSH_VLAN, Rule, SET_ETH_DST, SET_ETH_SRC, SET_TOS, SET_TTL,
};
use base::PortNo;
use flow::{Action, Field, OffloadRule, Refusal, SetField, VLAN_PRESENT};
use tunnel::Remote;
use wire::protocol::{TCP, UDP};

/// The ECN bits in the last of [`flow::Headers::link_to_ports`].
const ECN_BITS: u64 = 3 << 48;

/// The key of a rule in its map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    V4(KeyV4),
    V6(KeyV6),
}

/// A rule of the program, without the fields that depend on ports and slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceRule {
    /// The key without the device.
    pub key: Key,
    pub rule: Rule,
    /// The output port, or `None` for a drop.
    pub out: Option<PortNo>,
    /// The maximum length of a frame that is encapsulated, or `None` without encapsulation.
    pub frame_max: Option<u32>,
    /// The length of the outer headers of received packets, or 0.
    pub outer_bytes: u32,
}

/// Makes a rule of the program.
///
/// # Errors
/// The part of the rule that the program does not support.
pub(crate) fn device_rule(from: &OffloadRule) -> Result<DeviceRule, Refusal> {
    if !matches!(from.headers.protocol(), TCP | UDP) {
        return Err(Refusal::Protocol);
    }
    if from.mask.tcp_flags() != 0 || from.mask.flow_label() != 0 {
        return Err(Refusal::Match);
    }
    if !from.mask.is_of_one_tuple(from.headers.is_ipv6()) {
        return Err(Refusal::Match);
    }
    let upper = !u64::from(u32::MAX);
    // The ports are part of the key.
    let without_ports = |[a, b, ports]: [u64; 3]| [a, b, ports & upper];
    let mut rule = Rule {
        matching: without_ports(from.headers.link_to_ports()),
        mask: without_ports(from.mask.link_to_ports()),
        ..Rule::NONE
    };
    let remote = from.tunnel.as_ref().map(|it| tunnel::decapsulate(it, &mut rule)).transpose()?;
    let remote = remote.unwrap_or_default();
    let key = key(from, remote);
    if let Some(to) = &from.nat_rewrite {
        rule.does |= NAT_REWRITE;
        let [source_high, source, destination_high, destination] = to.addresses;
        (rule.src, rule.dst) =
            (address(source_high, source), address(destination_high, destination));
        rule.ports = to.ports.swap_bytes();
    }
    let (out, frame_max) = steps(from, &mut rule)?;
    if from.copies_ecn && rule.does & ENCAPSULATE != 0 {
        rule.mask[2] &= !ECN_BITS;
        rule.does |= COPY_ECN;
    }
    Ok(DeviceRule { key, rule, out, frame_max, outer_bytes: remote.outer_bytes })
}

fn key(from: &OffloadRule, Remote { address: remote, vni, .. }: Remote) -> Key {
    let ports = from.headers.ports().swap_bytes();
    let kind = u32::from(from.headers.protocol()) | vni << 8;
    if from.headers.is_ipv6() {
        let [source_high, source, destination_high, destination] = from.headers.key_addresses();
        let (src, dst) = (address(source_high, source), address(destination_high, destination));
        return Key::V6(KeyV6 { port: 0, ports, src, dst, kind, remote });
    }
    let [src, dst] = from.headers.ipv4_ends().map(|ip| ip.to_bits().swap_bytes());
    Key::V4(KeyV4 { port: 0, ports, src, dst, kind, remote })
}

/// Returns the words of an address in the byte order in which the program reads them, the first byte lowest.
/// The last word is that of an IPv4 address.
fn address(high: u64, low: u64) -> [u32; 4] {
    [high >> 32, high, low >> 32, low].map(|word| (word as u32).swap_bytes())
}

/// Adds the actions. Returns the output port, if there is one, and the maximum length of a frame that
/// they encapsulate.
fn steps(from: &OffloadRule, rule: &mut Rule) -> Result<(Option<PortNo>, Option<u32>), Refusal> {
    let (out, before) = match from.actions.split_last() {
        Some((Action::Output(out), before)) => (Some(*out), before),
        Some((Action::Drop(_), before)) => (None, before),
        None => (None, &[][..]),
        Some(_) => return Err(Refusal::Actions),
    };
    // Whether the frame has a known tag now, and whether it had one at first.
    let had_tag = from.headers.tag_type().is_some();
    let (mut has_tag, mut frame_max) = (had_tag, None);
    for action in before {
        match action {
            // The outer headers are added last.
            _ if frame_max.is_some() => return Err(Refusal::Actions),
            Action::PopVlan if has_tag => {
                has_tag = false;
                rule.does = rule.does & !PUSH_VLAN | if had_tag { POP_VLAN } else { 0 };
            }
            // Pushing a second tag is not supported.
            Action::PushVlan { tpid, tci } if !has_tag => {
                has_tag = true;
                rule.does |= PUSH_VLAN;
                (rule.tpid, rule.tci) = (tpid.swap_bytes(), (tci & !VLAN_PRESENT).swap_bytes());
            }
            Action::Set(set) => set_field(set, rule)?,
            Action::TunnelPush(to) => frame_max = Some(tunnel::encapsulate(to, from, rule)?),
            _ => return Err(Refusal::Actions),
        }
    }
    if out.is_none() {
        rule.does = rule.does & (DECAPSULATE | CHECKSUM_IN) | DROP;
    }
    Ok((out, frame_max))
}

fn set_field(set: &SetField, rule: &mut Rule) -> Result<(), Refusal> {
    const ADDRESS: u128 = 0xffff_ffff_ffff;
    let (value, mask) = (set.value, set.mask);
    let six = |value: u128| {
        let [.., a, b, c, d, e, f] = (value as u64).to_be_bytes();
        [a, b, c, d, e, f]
    };
    match (set.field, mask) {
        (Field::EthDst, ADDRESS) => {
            (rule.eth_dst, rule.does) = (six(value), rule.does | SET_ETH_DST);
        }
        (Field::EthSrc, ADDRESS) => {
            (rule.eth_src, rule.does) = (six(value), rule.does | SET_ETH_SRC);
        }
        (Field::NwTtl, 0xff) => (rule.ttl, rule.does) = (value as u8, rule.does | SET_TTL),
        (Field::NwTos, 1..=0xff) => {
            let mask = mask as u8;
            rule.tos = rule.tos & !mask | value as u8 & mask;
            (rule.tos_mask, rule.does) = (rule.tos_mask | mask, rule.does | SET_TOS);
        }
        _ => return Err(Refusal::Actions),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
