//! Checks of a flow-mod.

use base::{RecircId, TableId, limits};
use flow::{Field, Match};
use openflow::action::Action;
use openflow::message::{FlowMod, FlowModCommand};
use openflow::{ErrorCode, OfError};

/// The checks that do not depend on existing flows.
pub(crate) fn check(flow_mod: &FlowMod) -> Result<(), OfError> {
    let deletes = matches!(flow_mod.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
    if flow_mod.buffer_id.is_some() && !deletes {
        let reason = "flow-mod: no packets are buffered here; send the packet in a packet-out";
        return Err(OfError::new(ErrorCode::BufferUnknown, reason));
    }
    if !deletes {
        check_writable(flow_mod.table)?;
        check_hidden(&flow_mod.matching)?;
    }
    Ok(())
}

pub(crate) fn check_table(table: Option<TableId>) -> Result<(), OfError> {
    match table {
        Some(table) if usize::from(table.0) >= limits::TABLES => {
            let reason = format!("flow-mod: table {table} is not there; tables are 0 to 254");
            Err(OfError::new(ErrorCode::BadTableId, reason))
        }
        _ => Ok(()),
    }
}

/// The last table is internal: requests do not change it (ovs: `ofproto/ofproto-dpif.c`, `TBL_INTERNAL`;
/// `ofproto/ofproto.c`, `add_flow_init`).
fn check_writable(table: Option<TableId>) -> Result<(), OfError> {
    check_table(table)?;
    match table {
        Some(table) if usize::from(table.0) + 1 == limits::TABLES => {
            let reason = format!("flow-mod: table {table} is read-only; use tables 0 to 253");
            Err(OfError::new(ErrorCode::RequestEperm, reason))
        }
        _ => Ok(()),
    }
}

/// Flows may not match `dp_hash`, nor `recirc_id` except 0, the packet's first pass (ovs: `lib/match.c`,
/// `minimatch_has_default_hidden_fields`).
fn check_hidden(matching: &Match) -> Result<(), OfError> {
    let is_anew = matching.key().recirc_id() == RecircId(0)
        && matches!(matching.mask().get(Field::RecircId), 0 | 0xffff_ffff);
    if is_anew && !matching.mask().has(Field::DpHash) {
        return Ok(());
    }
    let reason = "flow-mod: flows can't match recirc_id (but for 0) or dp_hash; leave them out";
    Err(OfError::new(ErrorCode::RequestEperm, reason))
}

/// `goto_table` only leads to later tables (OpenFlow 1.3.5 section 5.1).
pub(crate) fn check_goto(actions: &[Action], table: TableId) -> Result<(), OfError> {
    for action in actions {
        if let Action::GotoTable(to) = action
            && to.0 <= table.0
        {
            let reason = format!("flow-mod: goto_table:{to} in table {table} does not go forward");
            return Err(OfError::new(ErrorCode::InstructionBadTableId, reason));
        }
    }
    Ok(())
}
