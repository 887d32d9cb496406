//! What kind of steps a flow has, worked out once when it is put.

use base::PortNo;
use flow::{Action, Field};
use std::sync::Arc;

/// What can be remembered of a flow's packets.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Manner {
    /// They are tracked, if anything, and go round again.
    GoesOn,
    /// They are tracked, if at all, and then these steps end their way.
    Ends(Steps),
    /// Something that only the steps themselves can do.
    Particular,
}

/// The steps that end a packet's way.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Steps {
    /// Sends it out of one port.
    Output(PortNo),
    /// None: connection tracking was all that it came for. (No steps from the start are a drop,
    /// which is counted.)
    Nothing,
    /// Whatever they are.
    Actions(Arc<[Action]>),
}

impl Manner {
    pub fn of(actions: &Arc<[Action]>) -> Manner {
        let visits = actions.iter().take_while(|it| is_visit(it)).count();
        let tracked = actions[..visits].iter().filter(|it| matches!(it, Action::Ct(_))).count();
        let ends_clear = visits > 0 && matches!(actions[visits - 1], Action::CtClear);
        // One connection can be remembered, and what is found of it must still be there behind.
        if tracked > 1 || (tracked == 1 && ends_clear) {
            return Manner::Particular;
        }
        match &actions[visits..] {
            [Action::Recirc(_)] => Manner::GoesOn,
            [] if visits > 0 => Manner::Ends(Steps::Nothing),
            [Action::Output(port)] => Manner::Ends(Steps::Output(*port)),
            rest if !rest.iter().all(|action| is_plain(action, tracked > 0)) => Manner::Particular,
            _ if visits == 0 => Manner::Ends(Steps::Actions(Arc::clone(actions))),
            rest => Manner::Ends(Steps::Actions(rest.into())),
        }
    }
}

fn is_visit(action: &Action) -> bool {
    matches!(action, Action::Ct(_) | Action::CtClear)
}

/// Whether a step does the same to all packets of a remembered way. With `tracked`, it must leave
/// alone what translation writes, which is read off the packet after its last step.
fn is_plain(action: &Action, tracked: bool) -> bool {
    match action {
        Action::OutputCut { .. } => true,
        Action::Output(_) | Action::PushVlan { .. } | Action::PopVlan | Action::Drop(_) => true,
        Action::Set(set) => !(tracked && is_tuple(set.field)),
        Action::Clone(actions) => actions.iter().all(|action| is_plain(action, false)),
        // The key's hash is none of the headers by which ways are remembered.
        Action::Hash { .. } => false,
        Action::Ct(_) | Action::CtClear | Action::Recirc(_) | Action::Controller(_) => false,
        Action::TunnelPush(_) | Action::TunnelPop { .. } => false,
    }
}

/// Whether a field is one of the addresses and ports that connections have.
pub(crate) fn is_tuple(field: Field) -> bool {
    use Field::{Ipv4Dst, Ipv4Src, Ipv6Dst, Ipv6Src, TpDst, TpSrc};
    matches!(field, Ipv4Src | Ipv4Dst | Ipv6Src | Ipv6Dst | TpSrc | TpDst)
}
