//! Classifies a flow by its actions, once when it is installed.

use base::PortNo;
use flow::{Action, Field, TunnelPush};
use std::sync::Arc;

/// How the unified cache can represent a flow.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum FlowKind {
    /// At most one `ct`, then `recirc`.
    Recirculates,
    /// `tnl_pop` alone.
    Decapsulates,
    /// At most one `ct`, then these final actions.
    Terminal(FinalActions),
    /// Anything else: its packets are not cached.
    Uncacheable,
}

/// The actions that end a flow path.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum FinalActions {
    /// Sends it out of one port.
    Output(PortNo),
    /// `tnl_push`, and the outer packet out of one port.
    Push(Arc<TunnelPush>, PortNo),
    /// None after `ct`. (A flow without any action is a drop, which is counted.)
    Nothing,
    /// Other actions.
    Actions(Arc<[Action]>),
}

impl FlowKind {
    pub fn of(actions: &Arc<[Action]>) -> FlowKind {
        let ct_passes = actions.iter().take_while(|it| is_ct(it)).count();
        let tracked = actions[..ct_passes].iter().filter(|it| matches!(it, Action::Ct(_))).count();
        let ends_clear = ct_passes > 0 && matches!(actions[ct_passes - 1], Action::CtClear);
        // An entry holds one connection per flow, and the connection fields must still be in the key
        // afterwards.
        if tracked > 1 || (tracked == 1 && ends_clear) {
            return FlowKind::Uncacheable;
        }
        match &actions[ct_passes..] {
            [Action::Recirc(_)] => FlowKind::Recirculates,
            [Action::TunnelPop { .. }] if ct_passes == 0 => FlowKind::Decapsulates,
            [Action::TunnelPush(to), Action::Output(port)] => {
                FlowKind::Terminal(FinalActions::Push(Arc::clone(to), *port))
            }
            [] if ct_passes > 0 => FlowKind::Terminal(FinalActions::Nothing),
            [Action::Output(port)] => FlowKind::Terminal(FinalActions::Output(*port)),
            rest if !rest.iter().all(|action| is_plain(action, tracked > 0)) => {
                FlowKind::Uncacheable
            }
            _ if ct_passes == 0 => FlowKind::Terminal(FinalActions::Actions(Arc::clone(actions))),
            rest => FlowKind::Terminal(FinalActions::Actions(rest.into())),
        }
    }
}

fn is_ct(action: &Action) -> bool {
    matches!(action, Action::Ct(_) | Action::CtClear)
}

/// Whether an action has the same effect on all packets of a cached path. With `tracked` it must not change
/// the fields that NAT writes, since these are read from the packet after its last action or before
/// encapsulation.
fn is_plain(action: &Action, tracked: bool) -> bool {
    match action {
        Action::OutputCut { .. } => true,
        Action::Output(_) | Action::PushVlan { .. } | Action::PopVlan | Action::Drop(_) => true,
        Action::PushEth { .. } | Action::PopEth => true,
        // After these, addresses and ports cannot be read.
        Action::PushMpls { .. } | Action::AddMpls { .. } | Action::PushNsh(_) => !tracked,
        Action::PopMpls { .. } | Action::PopNsh => false,
        Action::Set(set) => !(tracked && is_tuple(set.field)),
        Action::Clone(actions) => actions.iter().all(|action| is_plain(action, false)),
        // The hash in the key is not part of the headers that key entries.
        Action::Hash { .. } => false,
        Action::Ct(_) | Action::CtClear | Action::Recirc(_) => false,
        Action::Controller(_) | Action::Protocol(_) => false,
        Action::TunnelPush(_) => true,
        Action::TunnelPop { .. } | Action::SetTunnel(_) => false,
        Action::CloneCut { .. } | Action::CheckLen(_) | Action::Meter(_) => false,
    }
}

/// Whether a field is one of the addresses and ports that connections have.
pub(crate) fn is_tuple(field: Field) -> bool {
    use Field::{Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Src, TpDst, TpSrc};
    matches!(field, Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | TpSrc | TpDst)
}
