//! Lists of actions, and OpenFlow 1.1's instructions around them.

use super::length::{self, EXPERIMENTER};
use super::order::{self, Instruction};
use super::{encap, mpls, nicira, nicira_out, set, standard, standard_out};
use crate::action::{Action, SetForm};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::oxm::Proto;
use crate::version::Version;
use base::TableId;
use flow::Field;

/// Maximum nesting of `clone` and `ct`.
const DEPTH: u32 = 16;

/// The context on which the encoding of actions depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionForm {
    pub version: Version,
    /// The protocol that the flow's match specifies, for fields numbered by protocol.
    pub proto: Proto,
}

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads actions up to the end of `bytes`; instructions are not allowed.
pub(crate) fn take_actions(bytes: &[u8], version: Version) -> Result<Vec<Action>, OfError> {
    take_nested(bytes, version, DEPTH)
}

/// Reads a list within `clone` or `ct`.
pub(super) fn take_nested(
    bytes: &[u8],
    version: Version,
    depth: u32,
) -> Result<Vec<Action>, OfError> {
    let actions = take_list(bytes, version, depth)?;
    order::check_list(&actions)?;
    Ok(actions)
}

/// Reads a list whose order the caller checks.
fn take_list(bytes: &[u8], version: Version, depth: u32) -> Result<Vec<Action>, OfError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(bad(ErrorCode::ActionTooMany, "actions nest too deep"));
    };
    let mut input = Input::new(bytes, ErrorCode::ActionBadLen, "the actions");
    let mut actions = Vec::new();
    while !input.is_empty() {
        let mut body = input.part(length::check(input.rest(), version)?)?;
        let kind = body.u16()?;
        body.skip(2)?;
        if kind == EXPERIMENTER {
            nicira::take(&mut body, version, depth, &mut actions)?;
        } else {
            standard::take(kind, &mut body, version, &mut actions)?;
        }
    }
    Ok(actions)
}

/// Reads a flow's actions (OpenFlow 1.0) or instructions (later versions).
pub(crate) fn take_flow_actions(bytes: &[u8], version: Version) -> Result<Vec<Action>, OfError> {
    let actions = match version {
        Version::V10 => take_list(bytes, version, DEPTH)?,
        _ => take_instructions(bytes, version)?,
    };
    order::check_flow(&actions)?;
    Ok(actions)
}

/// Reads instructions, each at most once. Returns them in order of execution.
fn take_instructions(bytes: &[u8], version: Version) -> Result<Vec<Action>, OfError> {
    let mut input = Input::new(bytes, ErrorCode::InstructionBadLen, "the instructions");
    let mut slots: [Option<Vec<Action>>; 6] = Default::default();
    while !input.is_empty() {
        let (kind, len) = (input.u16()?, usize::from(input.u16()?));
        if len < 8 || len % 8 != 0 {
            let reason = format!("an instruction is {len} bytes long, no multiple of 8");
            return Err(bad(ErrorCode::InstructionBadLen, reason));
        }
        let mut body = input.part(len - 4)?;
        let (slot, read) = take_instruction(kind, &mut body, version)?;
        body.done()?;
        let Some(place) = slots.get_mut(slot) else { continue };
        if place.replace(read).is_some() {
            let reason = format!("instruction {kind} is given twice");
            return Err(bad(ErrorCode::InstructionDuplicate, reason));
        }
    }
    Ok(slots.into_iter().flatten().flatten().collect())
}

fn take_instruction(
    kind: u16,
    body: &mut Input<'_>,
    version: Version,
) -> Result<(usize, Vec<Action>), OfError> {
    Ok(match kind {
        1 => {
            let table = TableId(body.u8()?);
            body.skip(3)?;
            (5, vec![Action::GotoTable(table)])
        }
        2 => {
            body.skip(4)?;
            (4, vec![Action::WriteMetadata { value: body.u64()?, mask: body.u64()? }])
        }
        3 => {
            body.skip(4)?;
            let actions = take_list(body.take(body.len())?, version, DEPTH)?;
            if let Some(action) = actions.iter().find(|action| !fits_action_set(action)) {
                let reason = format!("{action:?} can't be part of an action set");
                return Err(bad(ErrorCode::ActionBadType, reason));
            }
            (3, vec![Action::WriteActions(actions)])
        }
        4 => {
            body.skip(4)?;
            (1, take_list(body.take(body.len())?, version, DEPTH)?)
        }
        5 => {
            body.skip(4)?;
            (2, vec![Action::ClearActions])
        }
        6 if matches!(version, Version::V13 | Version::V14) => {
            (0, vec![Action::Meter(standard::meter_number(body.u32()?)?)])
        }
        EXPERIMENTER => {
            let code = ErrorCode::InstructionBadExperimenter;
            return Err(bad(code, "no experimenter's instruction is supported"));
        }
        _ => {
            return Err(bad(
                ErrorCode::InstructionUnknown,
                format!("instruction {kind} is unknown"),
            ));
        }
    })
}

/// Returns whether an action is valid in `write_actions` (ovs: `lib/ofp-actions.c`, the action set).
pub(crate) fn fits_action_set(action: &Action) -> bool {
    !matches!(
        action,
        Action::OutputReg { .. }
            | Action::OutputTrunc { .. }
            | Action::CheckPktLarger { .. }
            | Action::DeleteField(_)
            | Action::DebugRecirc
            | Action::DebugSlow
            | Action::Controller(_)
            | Action::StackPush(_)
            | Action::StackPop(_)
            | Action::Nat(_)
            | Action::Clone(_)
            | Action::Note(_)
            | Action::PopQueue
            | Action::Enqueue { .. }
            | Action::Learn(_)
            | Action::Conjunction(_)
            | Action::Bundle(_)
            | Action::Multipath(_)
            | Action::Sample(_)
            | Action::FinTimeout { .. }
            | Action::Meter(_)
            | Action::Exit
            | Action::ClearActions
            | Action::WriteActions(_)
            | Action::WriteMetadata { .. }
            | Action::GotoTable(_)
    )
}

/// Writes actions. Instructions are written if the version can express them as actions.
pub(crate) fn put_actions(out: &mut Vec<u8>, actions: &[Action], mut form: ActionForm) {
    for action in actions {
        put_action(out, action, &mut form);
    }
}

pub(super) fn put_action(out: &mut Vec<u8>, action: &Action, form: &mut ActionForm) {
    let is_written = mpls::put(out, action, form) || encap::put(out, action);
    if !is_written && !standard_out::put(out, action, form) {
        nicira_out::put(out, action, form);
    }
}

/// Writes a flow's actions (OpenFlow 1.0) or instructions (later versions).
pub(crate) fn put_flow_actions(out: &mut Vec<u8>, actions: &[Action], form: ActionForm) {
    if form.version == Version::V10 {
        return put_flow_actions10(out, actions, form);
    }
    if matches!(form.version, Version::V13 | Version::V14) {
        let meters = actions.iter().filter_map(|action| match action {
            Action::Meter(meter) => Some(*meter),
            _ => None,
        });
        // Only one is possible: of several meters of OpenFlow 1.5 the first is kept.
        meters.take(1).for_each(|meter| put_instruction(out, 6, |out| out.put_u32(meter)));
    }
    let is_instruction = |action: &&Action| {
        let has_no_form = form.version < Version::V15 && matches!(action, Action::Meter(_));
        Instruction::of(action) != Instruction::ApplyActions || has_no_form
    };
    if actions.iter().any(|action| !is_instruction(&action)) {
        put_instruction(out, 4, |out| {
            out.put_zeros(4);
            let mut form = form;
            for action in actions.iter().filter(|action| !is_instruction(action)) {
                put_action(out, action, &mut form);
            }
        });
    }
    for action in actions.iter().filter(is_instruction) {
        match action {
            Action::ClearActions => put_instruction(out, 5, |out| out.put_zeros(4)),
            Action::WriteActions(actions) => put_instruction(out, 3, |out| {
                out.put_zeros(4);
                put_actions(out, actions, form);
            }),
            Action::WriteMetadata { value, mask } => put_instruction(out, 2, |out| {
                out.put_zeros(4);
                out.put_u64(*value);
                out.put_u64(*mask);
            }),
            Action::GotoTable(table) => put_instruction(out, 1, |out| out.put(&[table.0, 0, 0, 0])),
            _ => {}
        }
    }
}

/// Writes a flow's actions in OpenFlow 1.0. `goto_table` becomes a resubmit, an action, which must not follow
/// `write_metadata`; that becomes assignments to the field.
fn put_flow_actions10(out: &mut Vec<u8>, actions: &[Action], mut form: ActionForm) {
    for (i, action) in actions.iter().enumerate() {
        let before_goto = matches!(actions.get(i + 1), Some(Action::GotoTable(_)));
        match action {
            Action::WriteMetadata { value, mask } if before_goto => {
                let (value, mask) = (u128::from(value & mask), u128::from(*mask));
                set::put_loads(out, &form, Field::Metadata, (value, mask), SetForm::Load);
            }
            _ => put_action(out, action, &mut form),
        }
    }
}

fn put_instruction(out: &mut Vec<u8>, kind: u16, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u16(kind);
    out.put_u16(0);
    body(out);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
}
