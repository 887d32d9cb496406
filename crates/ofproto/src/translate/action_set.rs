//! The action set, executed after the last table.

use super::context::Context;
use super::report::NoteKind;
use base::OfPort;
use flow::{Field, Match};
use openflow::Action as OfAction;

impl Context<'_> {
    /// Adds actions to the set.
    pub fn write_actions(&mut self, actions: &[OfAction]) {
        let mut has_group = self.action_set.iter().any(is_group);
        for action in actions {
            match action {
                // A group takes precedence over an output.
                OfAction::Group(_) => {
                    has_group = true;
                    self.key.set(Field::ActsetOutput, OfPort::UNSET.0.into());
                }
                OfAction::Output { port, .. } if !has_group => {
                    self.key.set(Field::ActsetOutput, port.0.into());
                }
                _ => {}
            }
        }
        self.action_set.extend_from_slice(actions);
    }

    /// Notes the set as it will be executed; `verb` is "is" or "was".
    pub fn report_action_set(&mut self, verb: &str) {
        let set = &self.action_set;
        self.notes.add(NoteKind::Detail, || match &in_order(set)[..] {
            [] => format!("action set {verb} empty"),
            set => {
                let actions = openflow::text::format_actions(set, &Match::any());
                format!("action set {verb}: {actions}")
            }
        });
    }

    /// Executes the set and empties it.
    pub fn execute_action_set(&mut self) {
        if self.action_set.is_empty() {
            return;
        }
        let set = std::mem::take(&mut self.action_set);
        let actions = in_order(&set);
        if actions.is_empty() || self.error.is_some() {
            return;
        }
        self.notes.enter(NoteKind::Table, || "--. Executing action set:".to_owned());
        self.in_action_set = true;
        self.execute(&actions, true);
        self.in_action_set = false;
        self.notes.leave();
    }
}

fn is_group(action: &OfAction) -> bool {
    matches!(action, OfAction::Group(_))
}

/// The order of OpenFlow 1.3.5 section 5.10: one action of each kind, the one written last; assignments in
/// the order of writing; then a group, else an output, else Open vSwitch's own kinds (ovs:
/// `lib/ofp-actions.c`, `ofpacts_execute_action_set`). A set without any of these drops the packet, so the
/// rest of it is omitted.
pub(super) fn in_order(set: &[OfAction]) -> Vec<OfAction> {
    let mut actions = Vec::new();
    let mut last_of = |is_kind: fn(&OfAction) -> bool| {
        actions.extend(set.iter().rev().find(|action| is_kind(action)).cloned());
    };
    last_of(|action| matches!(action, OfAction::StripVlan));
    last_of(|action| matches!(action, OfAction::PopMpls(_)));
    last_of(|action| matches!(action, OfAction::Decap(_)));
    last_of(|action| {
        matches!(
            action,
            OfAction::EncapEthernet { .. } | OfAction::EncapMpls { .. } | OfAction::EncapNsh { .. }
        )
    });
    last_of(|action| matches!(action, OfAction::PushMpls(_)));
    last_of(|action| matches!(action, OfAction::PushVlan(_)));
    last_of(|action| matches!(action, OfAction::DecTtl(_)));
    last_of(|action| matches!(action, OfAction::DecMplsTtl));
    last_of(|action| matches!(action, OfAction::DecNshTtl));
    actions.extend(set.iter().filter(|action| is_assignment(action)).cloned());
    let last_of = |is_kind: fn(&OfAction) -> bool| set.iter().rev().find(|it| is_kind(it));
    let output = last_of(is_group)
        .or_else(|| last_of(|action| matches!(action, OfAction::Output { .. })))
        .or_else(|| last_of(|action| matches!(action, OfAction::Resubmit { .. })))
        .or_else(|| last_of(|action| matches!(action, OfAction::Ct(_))));
    match output {
        Some(output) if !sends_nowhere(output) => actions.push(output.clone()),
        _ => actions.clear(),
    }
    actions
}

fn sends_nowhere(action: &OfAction) -> bool {
    matches!(action, OfAction::Output { port: OfPort::NONE, .. })
}

fn is_assignment(action: &OfAction) -> bool {
    matches!(
        action,
        OfAction::Set { .. }
            | OfAction::Move { .. }
            | OfAction::SetVlanVid(_)
            | OfAction::SetVlanPcp(_)
            | OfAction::SetEthSrc(_)
            | OfAction::SetEthDst(_)
            | OfAction::SetIpv4Src(_)
            | OfAction::SetIpv4Dst(_)
            | OfAction::SetIpDscp(_)
            | OfAction::SetIpEcn(_)
            | OfAction::SetIpTtl(_)
            | OfAction::SetTpSrc(_)
            | OfAction::SetTpDst(_)
            | OfAction::SetMplsLabel(_)
            | OfAction::SetMplsTc(_)
            | OfAction::SetMplsTtl(_)
            | OfAction::SetQueue(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MacAddr;

    #[test]
    fn one_of_a_kind_in_openflows_order() {
        let output = |port| OfAction::Output { port: OfPort(port), max_len: 0 };
        let mac = |last| OfAction::SetEthSrc(MacAddr([2, 0, 0, 0, 0, last]));
        let set = [
            output(1),
            mac(1),
            OfAction::PushVlan(0x8100),
            mac(2),
            output(2),
            OfAction::StripVlan,
            OfAction::PushVlan(0x88a8),
        ];
        let expect = [OfAction::StripVlan, OfAction::PushVlan(0x88a8), mac(1), mac(2), output(2)];
        assert_eq!(in_order(&set), expect);
        assert_eq!(in_order(&set[1..4]), []);
    }
}
