//! Converts rules of the switch to rules of `rte_flow`.

mod actions;
mod pattern;

use base::PortNo;
use flow::{Action, Headers, MARK_IN_WINDOW, OffloadRule, OffloadTunnel, Refusal, TunnelPush};
use port_dpdk::flow_rule::{CHANGES_STATE, FlowRule, IN_WINDOW, Item, ObjectHandle, RuleAction};

/// The group of the rules that match the verdict of a connection object.
pub const CHECKED_GROUP: u32 = 1;

/// A rule for a device, with the properties that depend on its ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceRule {
    /// DPDK's number of the input port.
    pub in_port: u16,
    /// The rule.
    pub rule: FlowRule,
    /// The output port; `None` for a drop.
    pub out: Option<PortNo>,
    /// The longest frame, with its Ethernet header, that may be encapsulated.
    pub encapsulated_max: Option<u32>,
    /// Bytes in front of the inner frame that the rule removes.
    pub decapsulated_bytes: u32,
    /// VLAN tags of packets at the input and at the output, within tunnels.
    pub tags: [u32; 2],
}

/// Makes a device rule. `number` returns DPDK's number of a port, if it is a DPDK port.
///
/// # Errors
/// What of it `rte_flow` cannot say, or a port that is not DPDK's.
pub fn device_rule(
    from: &OffloadRule,
    number: &dyn Fn(PortNo) -> Option<u16>,
) -> Result<DeviceRule, Refusal> {
    let in_port = number(from.in_port()).ok_or(Refusal::InPort)?;
    let out = match from.actions.last() {
        Some(Action::Output(out)) => Some(*out),
        Some(Action::Drop(_)) | None => None,
        Some(_) => return Err(Refusal::Actions),
    };
    let mut rule = FlowRule { transfers: out.is_some(), ..FlowRule::default() };
    if rule.transfers {
        rule.items.push(Item::RepresentedPort(in_port));
    }
    rule.actions.push(RuleAction::Count);
    let mut decapsulated_bytes = 0;
    if let Some(tunnel) = &from.tunnel {
        pattern::outer(tunnel, &mut rule.items)?;
        decapsulated_bytes = tunnel.header_bytes as u32;
        rule.actions.extend(out.map(|_| RuleAction::VxlanDecap));
    }
    pattern::connection(from, &mut rule.items)?;
    let mut steps = Vec::new();
    actions::nat_rewrite(from, &mut steps);
    let tags = actions::steps(from, &mut steps)?;
    if out.is_some() {
        rule.actions.append(&mut steps);
    }
    rule.actions.push(match out {
        Some(out) => RuleAction::RepresentedPort(number(out).ok_or(Refusal::OutPort)?),
        None => RuleAction::Drop,
    });
    let encapsulated_max = push(from).map(|to| to.frame_max);
    Ok(DeviceRule { in_port, rule, out, encapsulated_max, decapsulated_bytes, tags })
}

/// Returns the rule by which a port marks packets for the switch. It matches only addresses, ports and the
/// tunnel; the switch checks all other fields itself.
///
/// # Errors
/// The worker has no mark for them, or a tunnel that `rte_flow` does not know.
pub fn marking(from: &OffloadRule) -> Result<FlowRule, Refusal> {
    let mark = from.mark.ok_or(Refusal::Device)?;
    let mut items = Vec::new();
    if let Some(tunnel) = &from.tunnel {
        pattern::outer(&OffloadTunnel { mask: Headers::none(), ..tunnel.clone() }, &mut items)?;
    }
    let mask = from.headers.tuple_mask();
    pattern::connection(&OffloadRule { mask, ..from.clone() }, &mut items)?;
    items.iter_mut().for_each(pattern::loosen);
    let actions = vec![RuleAction::Mark(mark), RuleAction::Rss];
    Ok(FlowRule { items, actions, ..FlowRule::default() })
}

/// Returns the two rules of a direction whose segments a connection object checks: the rule of the first
/// group passes all segments of the connection to the object; the other one executes `device_rule`'s actions
/// for those within the windows.
///
/// # Errors
/// The packets are not of one connection that the device could recognize.
pub fn checking(
    from: &OffloadRule,
    device_rule: &DeviceRule,
    object: ObjectHandle,
) -> Result<[FlowRule; 2], Refusal> {
    let mut items = vec![Item::RepresentedPort(device_rule.in_port)];
    pattern::connection(from, &mut items)?;
    items.iter_mut().for_each(pattern::widen);
    let actions =
        vec![RuleAction::Count, RuleAction::Check(object), RuleAction::Jump(CHECKED_GROUP)];
    let check = FlowRule { transfers: true, items, actions, ..FlowRule::default() };
    let mut forward = FlowRule { group: CHECKED_GROUP, ..device_rule.rule.clone() };
    forward.items.push(Item::Connection(IN_WINDOW));
    Ok([check, forward])
}

/// Returns the rules by which a port receives segments that the rules of [`CHECKED_GROUP`] do not forward:
/// with a mark if the segment is within the windows, without one if it is not. The API leaves open what
/// happens to packets that no rule of a group matches (DPDK's programmer's guide, "Action: `JUMP`").
pub fn leaving(port: u16) -> [FlowRule; 3] {
    let rule = |priority, said: Option<u32>| {
        let said = said.map(Item::Connection);
        let mark = said.map(|_| RuleAction::Mark(MARK_IN_WINDOW));
        FlowRule {
            group: CHECKED_GROUP,
            priority,
            transfers: true,
            items: std::iter::once(Item::RepresentedPort(port)).chain(said).collect(),
            actions: std::iter::once(RuleAction::Count)
                .chain(mark)
                .chain([RuleAction::PortRepresentor(port)])
                .collect(),
        }
    };
    [rule(1, Some(IN_WINDOW)), rule(1, Some(CHANGES_STATE)), rule(2, None)]
}

/// Returns the encapsulation among a rule's actions.
fn push(from: &OffloadRule) -> Option<&TunnelPush> {
    from.actions.iter().find_map(|action| match action {
        Action::TunnelPush(to) => Some(&**to),
        _ => None,
    })
}
