//! What a traced packet causes in the datapath, beside its output (ovs: `ofproto/ofproto-dpif-trace.c`,
//! `execute_actions_except_outputs`).

use base::PortNo;
use flow::{Action, CheckLen, Execute, FlowKey};
use packet::Packet;
use std::sync::Arc;

/// Returns the order that sends the packet to controllers and through connection tracking, if its actions do.
pub(super) fn of(
    bytes: &[u8],
    key: &FlowKey,
    device: PortNo,
    actions: &[Action],
) -> Option<Execute> {
    let actions = without_outputs(actions);
    if !actions.iter().any(has_effect) {
        return None;
    }
    let mut key = Box::new(key.clone());
    key.set_in_port_raw(device.0);
    let (packet, actions) = (Packet::from_bytes(bytes), actions.into());
    Some(Execute { packet, key, actions, flow: None, trace: None, stamps: None })
}

/// Recirculated copies are traced on their own.
fn without_outputs(actions: &[Action]) -> Vec<Action> {
    let kept = actions.iter().filter_map(|action| {
        Some(match action {
            Action::Output(_)
            | Action::OutputCut { .. }
            | Action::Recirc(_)
            | Action::TunnelPop { .. } => return None,
            Action::Clone(inner) => Action::Clone(without_outputs(inner).into()),
            Action::CloneCut { max_len, actions } => {
                Action::CloneCut { max_len: *max_len, actions: without_outputs(actions).into() }
            }
            Action::CheckLen(check) => Action::CheckLen(Arc::new(CheckLen {
                bytes: check.bytes,
                greater: without_outputs(&check.greater).into(),
                less_equal: without_outputs(&check.less_equal).into(),
            })),
            other => other.clone(),
        })
    });
    kept.collect()
}

fn has_effect(action: &Action) -> bool {
    match action {
        Action::Controller(_) | Action::Ct(_) => true,
        Action::Clone(inner) | Action::CloneCut { actions: inner, .. } => {
            inner.iter().any(has_effect)
        }
        Action::CheckLen(check) => check.greater.iter().chain(&check.less_equal).any(has_effect),
        _ => false,
    }
}
