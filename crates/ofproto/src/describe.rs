//! Flows, actions and values as traces print them.

use crate::bridge::Bridge;
use crate::rule::Rule;
use crate::text::{self, PortNames};
use base::{MacAddr, OfPort};
use flow::{Field, FlowKey, Match, Wide};
use openflow::Action as OfAction;
use openflow::action::Subfield;
use openflow::message::{FlowFlags, FlowMod};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A flow in a trace: match, priority and cookie.
pub(crate) fn describe_rule(rule: &Rule, bridge: &Bridge, names: bool) -> String {
    describe_match(&rule.matching.unpack(), rule.priority, rule.cookie, bridge, names)
}

/// A flow that is not in its table yet.
pub(crate) fn describe_flow(flow: &FlowMod, bridge: &Bridge, names: bool) -> String {
    describe_match(&flow.matching, flow.priority, flow.new_cookie, bridge, names)
}

/// A flow made by `learn` (ovs: `ofproto/ofproto-dpif-xlate.c`, `xlate_learn_action`).
pub(crate) fn describe_learned(flow: &FlowMod) -> String {
    let table = flow.table.map_or(0, |table| table.0);
    let matching = openflow::text::format_match(&flow.matching, None);
    let mut out = format!("table={table} {matching}");
    let _ = write!(out, " priority={}", flow.priority);
    if flow.new_cookie != 0 {
        let _ = write!(out, " cookie={:#x}", flow.new_cookie);
    }
    for (name, seconds) in [("idle", flow.idle_timeout_s), ("hard", flow.hard_timeout_s)] {
        if seconds != 0 {
            let _ = write!(out, " {name}={seconds}");
        }
    }
    if flow.flags.contains(FlowFlags::SEND_FLOW_REM) {
        out.push_str(" send_flow_rem");
    }
    let actions = openflow::text::format_actions(&flow.actions, &flow.matching);
    let _ = write!(out, " actions={actions}");
    out
}

fn describe_match(
    matching: &Match,
    priority: u16,
    cookie: u64,
    bridge: &Bridge,
    names: bool,
) -> String {
    let in_bridge = |port: OfPort| Some(bridge.port(port).filter(|_| names)?.spec.name.clone());
    let options = bridge.tunnel_options();
    let names = PortNames { device: None, bridge: Some(&in_bridge), options };
    let mut out = text::format_match(matching, names);
    if !out.is_empty() {
        out.push_str(", ");
    }
    let _ = write!(out, "priority {priority}");
    if cookie != 0 {
        let _ = write!(out, ", cookie {cookie:#x}");
    }
    out
}

/// An action in a trace.
pub(crate) fn describe_action(action: &OfAction, key: &FlowKey, names: Option<&Bridge>) -> String {
    if let (OfAction::Output { port, .. }, Some(bridge)) = (action, names)
        && let Some(port) = bridge.port(*port)
    {
        return format!("output:{}", port.spec.name);
    }
    // The protocol determines which name of a field is printed.
    let packet = Match::any()
        .with(Field::EthType, key.eth_type().into())
        .with(Field::NwProto, key.nw_proto().into());
    openflow::text::format_actions(std::slice::from_ref(action), &packet)
}

/// The current value of some bits of a field.
pub(crate) fn describe_value(target: Subfield, value: Wide) -> String {
    let push = OfAction::StackPush(target);
    let name = openflow::text::format_actions(&[push], &Match::any());
    let name = name.strip_prefix("push:").unwrap_or(&name);
    let whole = target.bits == target.field.bits();
    let wide = value;
    let value = value.low();
    let value = match target.field {
        Field::EthSrc | Field::EthDst | Field::ArpSha | Field::ArpTha if whole => {
            MacAddr::from_u64(value as u64).to_string()
        }
        Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa if whole => {
            Ipv4Addr::from(value as u32).to_string()
        }
        Field::Ipv6Src | Field::Ipv6Dst | Field::NdTarget if whole => {
            Ipv6Addr::from(value).to_string()
        }
        _ => format!("{wide:#x}"),
    };
    format!("{name} is now {value}")
}
