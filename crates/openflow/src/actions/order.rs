//! The order of instructions and actions (ovs: `lib/ofp-actions.c`, `ofpacts_verify`).
//!
//! From OpenFlow 1.1 on the order of instructions is fixed. In OpenFlow 1.0 `write_metadata` is an ordinary
//! action, but its position must follow the same order, because the flow may be dumped in another version.

use crate::action::Action;
use crate::error::{ErrorCode, OfError};

/// The instruction of an action, in order of execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Instruction {
    ApplyActions,
    ClearActions,
    WriteActions,
    WriteMetadata,
    GotoTable,
}

impl Instruction {
    pub fn of(action: &Action) -> Self {
        match action {
            Action::ClearActions => Instruction::ClearActions,
            Action::WriteActions(_) => Instruction::WriteActions,
            Action::WriteMetadata { .. } => Instruction::WriteMetadata,
            Action::GotoTable(_) => Instruction::GotoTable,
            _ => Instruction::ApplyActions,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Instruction::ApplyActions => "apply_actions",
            Instruction::ClearActions => "clear_actions",
            Instruction::WriteActions => "write_actions",
            Instruction::WriteMetadata => "write_metadata",
            Instruction::GotoTable => "goto_table",
        }
    }
}

/// Checks a flow's instructions: in order, each at most once.
pub(crate) fn check_flow(actions: &[Action]) -> Result<(), OfError> {
    let mut last = Instruction::ApplyActions;
    for next in actions.iter().map(Instruction::of) {
        if next < last || next == last && next != Instruction::ApplyActions {
            let reason = format!("{} can't stand behind {}", next.name(), last.name());
            return Err(OfError::new(ErrorCode::ActionUnsupportedOrder, reason));
        }
        last = next;
    }
    check_conjunction(actions)
}

/// A flow with `conjunction` has no other actions (ovs: `lib/ofp-actions.c`, `ofpacts_verify`).
fn check_conjunction(actions: &[Action]) -> Result<(), OfError> {
    let is_conjunction = |action: &&Action| matches!(action, Action::Conjunction(_));
    let other = |action: &&Action| !is_conjunction(action) && !matches!(action, Action::Note(_));
    if actions.iter().any(|action| is_conjunction(&action)) && actions.iter().any(|a| other(&a)) {
        let reason = "conjunction stands only beside conjunctions and notes";
        return Err(OfError::new(ErrorCode::BadConjunction, reason));
    }
    Ok(())
}

/// Checks a list without instructions: a packet-out's, or one within another action.
pub(crate) fn check_list(actions: &[Action]) -> Result<(), OfError> {
    let mut instructions = actions.iter().map(Instruction::of);
    match instructions.find(|instruction| *instruction != Instruction::ApplyActions) {
        Some(instruction) => {
            let reason = format!("{} can't be part of this list", instruction.name());
            Err(OfError::new(ErrorCode::InstructionUnsupported, reason))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TableId;

    #[test]
    fn instructions_stand_in_order_and_once() {
        let metadata = Action::WriteMetadata { value: 1, mask: 1 };
        let (exit, clear) = (Action::Exit, Action::ClearActions);
        let write = Action::WriteActions(vec![]);
        let goto = Action::GotoTable(TableId(1));
        let cases = [
            (vec![], true),
            (vec![&exit, &exit, &clear, &write, &metadata, &goto], true),
            (vec![&metadata, &exit], false),
            (vec![&metadata, &metadata], false),
            (vec![&exit, &goto, &metadata], false),
            (vec![&write, &clear], false),
        ];
        for (actions, expect) in cases {
            let actions: Vec<Action> = actions.into_iter().cloned().collect();
            let code = check_flow(&actions).map_err(|error| error.code);
            let refused = Err(ErrorCode::ActionUnsupportedOrder);
            assert_eq!(code, if expect { Ok(()) } else { refused }, "{actions:?}");
        }
        let listed = check_list(&[Action::Exit, metadata]).map_err(|error| error.code);
        assert_eq!(listed, Err(ErrorCode::InstructionUnsupported));
    }
}
