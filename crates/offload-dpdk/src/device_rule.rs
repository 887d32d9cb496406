//! Makes of the switch's rules those of `rte_flow`.

mod actions;
mod pattern;

use base::PortNo;
use flow::{Action, Headers, MARK_IN_WINDOW, OffloadRule, OffloadTunnel, Refusal, TunnelPush};
use port_dpdk::flow_rule::{CHANGES_STATE, FlowRule, IN_WINDOW, Item, ObjectHandle, RuleAction};

/// The group of the rules that look at what a connection object said of a packet.
pub const CHECKED_GROUP: u32 = 1;

/// A rule for a device, with what hangs on its ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceRule {
    /// DPDK's number of the port that the packets come in on.
    pub in_port: u16,
    /// The rule.
    pub rule: FlowRule,
    /// The port that the packets leave by; `None` where they are dropped.
    pub out: Option<PortNo>,
    /// The longest frame, with its Ethernet header, that may be encapsulated.
    pub encapsulated_max: Option<u32>,
    /// Bytes in front of the inner frame that the rule takes away.
    pub decapsulated_bytes: u32,
    /// VLAN tags that packets come with and leave with, within tunnels.
    pub tags: [u32; 2],
}

/// Makes a device's rule. `number` is DPDK's number of a port, if the port is DPDK's.
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

/// The rule by which a port marks packets for the switch, which looks at all else by itself: only addresses, ports
/// and the tunnel tell the packets apart.
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

/// The two rules of a direction whose segments a connection object checks: the one of the first group has all of the
/// connection's segments checked; the other one does with those within the windows what `device_rule` says.
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

/// The rules by which a port receives what the rules of [`CHECKED_GROUP`] do not forward: with a mark where the segment
/// is within the windows, without one where it is not. What becomes of a packet that no rule of a group describes is a
/// device's own matter (DPDK's programmer's guide, "Action: `JUMP`").
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

/// The encapsulation among a rule's steps.
fn push(from: &OffloadRule) -> Option<&TunnelPush> {
    from.actions.iter().find_map(|action| match action {
        Action::TunnelPush(to) => Some(&**to),
        _ => None,
    })
}
