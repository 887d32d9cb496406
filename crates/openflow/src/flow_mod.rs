//! Flow-mods in their three formats: OpenFlow 1.0's, Nicira's, and OpenFlow 1.1's (ovs: `lib/ofp-flow.c`).

use crate::actions::{ActionForm, put_flow_actions, take_flow_actions};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::header::{DecodeOptions, EncodeOptions};
use crate::message::{FlowFlags, FlowMod, FlowModCommand};
use crate::oxm::{self, Cookie, MatchForm, Proto};
use crate::port::{put_port, take_port};
use crate::vendor::NICIRA;
use crate::version::Version;
use crate::{of10_match, of11_match};
use base::TableId;
use flow::Match;

/// OFPG_ANY
const ANY_GROUP: u32 = 0xffff_ffff;
/// NXT_FLOW_MOD
pub(crate) const NXT_FLOW_MOD: u32 = 13;
/// OFPFF10_EMERG, in the place of RESET_COUNTS.
const EMERGENCY: u16 = 4;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

fn command(raw: u8) -> Result<FlowModCommand, OfError> {
    Ok(match raw {
        0 => FlowModCommand::Add,
        1 => FlowModCommand::Modify,
        2 => FlowModCommand::ModifyStrict,
        3 => FlowModCommand::Delete,
        4 => FlowModCommand::DeleteStrict,
        _ => return Err(bad(ErrorCode::BadCommand, format!("flow-mod command {raw} is unknown"))),
    })
}

fn command_number(command: FlowModCommand) -> u8 {
    match command {
        FlowModCommand::Add => 0,
        FlowModCommand::Modify => 1,
        FlowModCommand::ModifyStrict => 2,
        FlowModCommand::Delete => 3,
        FlowModCommand::DeleteStrict => 4,
    }
}

impl FlowModCommand {
    /// Returns whether the command deletes flows.
    pub fn is_delete(self) -> bool {
        matches!(self, FlowModCommand::Delete | FlowModCommand::DeleteStrict)
    }
}

/// Returns the flags that a version has.
fn known_flags(version: Version) -> FlowFlags {
    match version {
        Version::V10 | Version::V11 => FlowFlags::SEND_FLOW_REM | FlowFlags::CHECK_OVERLAP,
        Version::V12 => known_flags(Version::V11) | FlowFlags::RESET_COUNTS,
        Version::V13 | Version::V14 | Version::V15 => FlowFlags::all(),
    }
}

fn flags(raw: u16, command: FlowModCommand, version: Version) -> Result<FlowFlags, OfError> {
    if version == Version::V10 && raw & EMERGENCY != 0 {
        return Err(bad(ErrorCode::TableFull, "there is no cache of emergency flows"));
    }
    let known = FlowFlags::from_bits(raw).filter(|flags| known_flags(version).contains(*flags));
    let Some(flags) = known else {
        return Err(bad(ErrorCode::BadFlags, format!("flow-mod flags {raw:#x}")));
    };
    if command == FlowModCommand::Add && version < Version::V12 {
        // Before OpenFlow 1.2, adding a flow again resets its counters.
        return Ok(flags | FlowFlags::RESET_COUNTS);
    }
    Ok(flags)
}

pub(crate) fn flags_number(flags: FlowFlags, version: Version) -> u16 {
    (flags & known_flags(version)).bits()
}

fn buffer(raw: u32) -> Option<u32> {
    (raw != u32::MAX).then_some(raw)
}

/// Connection addresses must be of the same family as the packet's.
fn check_ct_addresses(matching: &Match) -> Result<(), OfError> {
    if Proto::of(matching).fits_ct_addresses(matching) {
        return Ok(());
    }
    let reason = "a match on ct_nw_src/dst or ct_ipv6_src/dst needs one on eth_type";
    Err(bad(ErrorCode::ActionMatchInconsistent, reason))
}

/// Reads OFPT_FLOW_MOD.
pub(crate) fn take(
    input: &mut Input<'_>,
    version: Version,
    options: &DecodeOptions,
) -> Result<FlowMod, OfError> {
    if version == Version::V10 { take10(input, options) } else { take11(input, version) }
}

/// Splits OpenFlow 1.0's 16 bits into command and table.
fn command_and_table(
    raw: u16,
    options: &DecodeOptions,
) -> Result<(FlowModCommand, Option<TableId>), OfError> {
    let [table, low] = raw.to_be_bytes();
    if options.flow_mod_table_id {
        return Ok((command(low)?, (table != 0xff).then_some(TableId(table))));
    }
    if table != 0 {
        let reason = format!("flow-mod command {raw:#06x}: NXT_FLOW_MOD_TABLE_ID is not on");
        return Err(bad(ErrorCode::BadCommand, reason));
    }
    Ok((command(low)?, None))
}

/// Reads the part between match and actions in both formats of OpenFlow 1.0.
fn take_tail(
    input: &mut Input<'_>,
    matching: Match,
    new_cookie: u64,
    options: &DecodeOptions,
) -> Result<FlowMod, OfError> {
    let (command, table) = command_and_table(input.u16()?, options)?;
    let (idle_timeout_s, hard_timeout_s, priority) = (input.u16()?, input.u16()?, input.u16()?);
    let (buffer_id, out_port) = (buffer(input.u32()?), take_port(input, Version::V10)?);
    let flags = flags(input.u16()?, command, Version::V10)?;
    Ok(FlowMod {
        command,
        matching,
        priority,
        new_cookie,
        modify_cookie: new_cookie != u64::MAX,
        table,
        idle_timeout_s,
        hard_timeout_s,
        buffer_id,
        out_port,
        flags,
        ..FlowMod::default()
    })
}

fn take10(input: &mut Input<'_>, options: &DecodeOptions) -> Result<FlowMod, OfError> {
    let read = of10_match::take(input)?;
    let cookie = input.u64()?;
    let mut out = take_tail(input, read.matching, cookie, options)?;
    if read.exact {
        // OpenFlow 1.0, section 3.4: an exact-match flow has the highest priority.
        out.priority = u16::MAX;
    }
    out.actions = take_flow_actions(input.take(input.len())?, Version::V10)?;
    Ok(out)
}

/// Reads NXT_FLOW_MOD.
pub(crate) fn take_nicira(
    input: &mut Input<'_>,
    version: Version,
    options: &DecodeOptions,
) -> Result<FlowMod, OfError> {
    let cookie = input.u64()?;
    let mut out = take_tail(input, Match::any(), cookie, options)?;
    let match_len = usize::from(input.u16()?);
    input.skip(6)?;
    let mut select = Cookie::default();
    out.matching = oxm::take_nxm_match(input, match_len, Some(&mut select))?;
    if out.command == FlowModCommand::Add && select.mask != 0 {
        return Err(bad(ErrorCode::NxmInvalid, "a flow is added, but a cookie is matched by"));
    }
    check_ct_addresses(&out.matching)?;
    (out.cookie, out.cookie_mask) = (select.value, select.mask);
    out.actions = take_flow_actions(input.take(input.len())?, version)?;
    Ok(out)
}

/// Returns whether a modification adds a missing flow, as only OpenFlow 1.1's without a cookie mask does.
fn adds_what_is_missing(version: Version, command: FlowModCommand, cookie_mask: u64) -> bool {
    let modifies = matches!(command, FlowModCommand::Modify | FlowModCommand::ModifyStrict);
    version == Version::V11 && modifies && cookie_mask == 0
}

fn take11(input: &mut Input<'_>, version: Version) -> Result<FlowMod, OfError> {
    let (cookie, cookie_mask) = (input.u64()?, input.u64()?);
    let (table, command_number) = (input.u8()?, input.u8()?);
    let (idle_timeout_s, hard_timeout_s, priority) = (input.u16()?, input.u16()?, input.u16()?);
    let buffer_id = buffer(input.u32()?);
    let out_port = take_port(input, version)?;
    let (out_group, raw_flags, importance) = (input.u32()?, input.u16()?, input.u16()?);
    let matching = of11_match::take(input)?;
    check_ct_addresses(&matching)?;
    let command = command(command_number)?;
    if table == 0xff && (!command.is_delete() || version == Version::V11) {
        let reason = "all tables (255) stand only in a flow-mod that deletes, from OpenFlow 1.2 on";
        return Err(bad(ErrorCode::FlowModBadTableId, reason));
    }
    let actions = take_flow_actions(input.take(input.len())?, version)?;
    let add = command == FlowModCommand::Add;
    let flags = flags(raw_flags, command, version)?;
    let may_add = add || adds_what_is_missing(version, command, cookie_mask);
    let (select, mask, new_cookie) =
        if may_add { (0, 0, cookie) } else { (cookie & cookie_mask, cookie_mask, u64::MAX) };
    Ok(FlowMod {
        command,
        matching,
        priority,
        cookie: select,
        cookie_mask: mask,
        new_cookie,
        modify_cookie: false,
        table: (table != 0xff).then_some(TableId(table)),
        idle_timeout_s,
        hard_timeout_s,
        importance: if add && version >= Version::V14 { importance } else { 0 },
        buffer_id,
        out_port,
        // Only deletion uses it.
        out_group: (command.is_delete() && out_group != ANY_GROUP).then_some(out_group),
        flags,
        actions,
    })
}

/// Writes a flow-mod, in OpenFlow 1.0's own format if that can express it. Returns the type.
pub(crate) fn put(
    out: &mut Vec<u8>,
    version: Version,
    flow_mod: &FlowMod,
    options: &EncodeOptions,
) -> u8 {
    if version != Version::V10 {
        put11(out, version, flow_mod);
        return 14;
    }
    let table = flow_mod.table.filter(|_| options.flow_mod_table_id);
    let table = table.map_or(if options.flow_mod_table_id { 0xff } else { 0 }, |table| table.0);
    let command = u16::from_be_bytes([table, command_number(flow_mod.command)]);
    let nicira =
        flow_mod.cookie_mask != 0 || !of10_match::can_say(&flow_mod.matching, flow_mod.priority);
    if nicira {
        out.put_u32(NICIRA);
        out.put_u32(NXT_FLOW_MOD);
    } else {
        of10_match::put(out, &flow_mod.matching);
    }
    out.put_u64(flow_mod.new_cookie);
    out.put_u16(command);
    out.put_u16(flow_mod.idle_timeout_s);
    out.put_u16(flow_mod.hard_timeout_s);
    out.put_u16(flow_mod.priority);
    out.put_u32(flow_mod.buffer_id.unwrap_or(u32::MAX));
    out.put_u16(flow_mod.out_port.0);
    out.put_u16(flags_number(flow_mod.flags, version));
    if nicira {
        let at = out.len();
        out.put_zeros(8);
        let cookie = Cookie { value: flow_mod.cookie, mask: flow_mod.cookie_mask };
        let len = oxm::put_nxm_match(out, &flow_mod.matching, MatchForm::Nxm, cookie);
        out.set_u16(at, len);
    }
    let form = ActionForm { version, proto: Proto::of(&flow_mod.matching) };
    put_flow_actions(out, &flow_mod.actions, form);
    if nicira { 4 } else { 14 }
}

fn put11(out: &mut Vec<u8>, version: Version, flow_mod: &FlowMod) {
    let add = flow_mod.command == FlowModCommand::Add;
    let delete = flow_mod.command.is_delete();
    let may_add = add || adds_what_is_missing(version, flow_mod.command, flow_mod.cookie_mask);
    let cookie = if may_add { flow_mod.new_cookie } else { flow_mod.cookie & flow_mod.cookie_mask };
    out.put_u64(cookie);
    out.put_u64(flow_mod.cookie_mask);
    out.put_u8(flow_mod.table.map_or(if delete { 0xff } else { 0 }, |table| table.0));
    out.put_u8(command_number(flow_mod.command));
    out.put_u16(flow_mod.idle_timeout_s);
    out.put_u16(flow_mod.hard_timeout_s);
    out.put_u16(flow_mod.priority);
    out.put_u32(flow_mod.buffer_id.unwrap_or(u32::MAX));
    put_port(out, version, flow_mod.out_port);
    out.put_u32(flow_mod.out_group.unwrap_or(ANY_GROUP));
    out.put_u16(flags_number(flow_mod.flags, version));
    out.put_u16(if add && version >= Version::V14 { flow_mod.importance } else { 0 });
    of11_match::put(out, &flow_mod.matching, version);
    let form = ActionForm { version, proto: Proto::of(&flow_mod.matching) };
    put_flow_actions(out, &flow_mod.actions, form);
}
