//! Requests and updates of flow monitors (ovs: `lib/ofp-monitor.c`): Nicira's format up to OpenFlow 1.2, the
//! ONF's extension in 1.3, OpenFlow's own from 1.4 on.

use super::{Kind, kind};
use crate::actions::{ActionForm, put_actions, put_flow_actions, take_actions, take_flow_actions};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::flow_removed::{reason, reason_number};
use crate::header::{Xid, finish};
use crate::message::{
    FlowEvent, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowStatsRequest, FlowUpdate,
    Message, StatsReply, WatchedFlow,
};
use crate::of11_match;
use crate::oxm::{self, Cookie, MatchForm, Proto};
use crate::port::{put_port, take_port};
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;
use base::{OfPort, TableId};
use flow::Match;

/// NXT_FLOW_MONITOR_CANCEL, _PAUSED and _RESUMED.
const NICIRA_CANCEL: u32 = 21;
const NICIRA_PAUSED: u32 = 22;
const NICIRA_RESUMED: u32 = 23;
/// The ONF's numbers of the same messages.
const ONF_CANCEL: u32 = 1870;
const ONF_PAUSED: u32 = 1871;
const ONF_RESUMED: u32 = 1872;
/// OFPT_VENDOR
const VENDOR: u8 = 4;
/// NXFME_*; OpenFlow 1.4's OFPFME_* begin with OFPFME_INITIAL, and are one higher.
const ADDED: u16 = 0;
const REMOVED: u16 = 1;
const MODIFIED: u16 = 2;
const ABBREVIATED: u16 = 3;
/// OFPFME_*
const INITIAL14: u16 = 0;
const PAUSED14: u16 = 5;
const RESUMED14: u16 = 6;
/// The bit of [`FlowMonitorFlags::OWN`] from OpenFlow 1.4 on: the standard's OFPFMF_ONLY_OWN has another
/// meaning, but Open vSwitch uses the bit like this (ovs: `ofproto/connmgr.c`, `ofmonitor_report`). The
/// standard's OFPFMF_NO_ABBREV, the bit of earlier versions, is also accepted.
const OWN14: u16 = 1 << 6;
/// OFPG_ANY
const ANY: u32 = 0xffff_ffff;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads one monitor of a request.
pub(super) fn take_request(
    input: &mut Input<'_>,
    version: Version,
) -> Result<FlowMonitor, OfError> {
    let id = input.u32()?;
    let mut out_group = None;
    let mut command = FlowMonitorCommand::Add;
    let (flags, out_port, table, matching);
    match version {
        Version::V10 | Version::V11 | Version::V12 => {
            flags = input.u16()?;
            out_port = OfPort(input.u16()?);
            let match_len = usize::from(input.u16()?);
            table = input.u8()?;
            take_zeros(input, 5)?;
            matching = oxm::take_nxm_match(input, match_len, None)?;
        }
        Version::V13 => {
            flags = input.u16()?;
            input.skip(2)?;
            out_port = take_port(input, version)?;
            table = input.u8()?;
            take_zeros(input, 3)?;
            matching = of11_match::take(input)?;
        }
        Version::V14 | Version::V15 => {
            out_port = take_port(input, version)?;
            out_group = Some(input.u32()?).filter(|&group| group != ANY);
            flags = input.u16()?;
            table = input.u8()?;
            command = take_command(input)?;
            matching = of11_match::take(input)?;
        }
    }
    let flags = take_flags(flags, version, command)?;
    let flows = FlowStatsRequest {
        matching,
        table: (table != 0xff).then_some(TableId(table)),
        out_port,
        out_group,
        cookie: 0,
        cookie_mask: 0,
    };
    Ok(FlowMonitor { id, command, flags, flows })
}

fn take_zeros(input: &mut Input<'_>, count: usize) -> Result<(), OfError> {
    if input.take(count)?.iter().any(|&byte| byte != 0) {
        return Err(bad(ErrorCode::MustBeZero, "padding that is not zero"));
    }
    Ok(())
}

fn take_command(input: &mut Input<'_>) -> Result<FlowMonitorCommand, OfError> {
    Ok(match input.u8()? {
        0 => FlowMonitorCommand::Add,
        1 => FlowMonitorCommand::Modify,
        2 => FlowMonitorCommand::Delete,
        other => {
            let reason = format!("a flow monitor's command {other} is unknown");
            return Err(bad(ErrorCode::MonitorBadCommand, reason));
        }
    })
}

/// A monitor must include some type of change; only its deletion needs no flags.
fn take_flags(
    raw: u16,
    version: Version,
    command: FlowMonitorCommand,
) -> Result<FlowMonitorFlags, OfError> {
    if command == FlowMonitorCommand::Delete {
        return Ok(FlowMonitorFlags::from_bits_truncate(raw));
    }
    let bits = match raw & OWN14 {
        OWN14 if version >= Version::V14 => raw & !OWN14 | FlowMonitorFlags::OWN.bits(),
        _ => raw,
    };
    let known = FlowMonitorFlags::from_bits(bits);
    known.filter(|flags| flags.intersects(FlowMonitorFlags::CHANGES)).ok_or_else(|| {
        bad(ErrorCode::MonitorBadFlags, format!("a flow monitor can't have flags {raw:#x}"))
    })
}

/// Writes one monitor of a request.
pub(super) fn put_request(out: &mut Vec<u8>, version: Version, monitor: &FlowMonitor) {
    let flows = &monitor.flows;
    let table = flows.table.map_or(0xff, |table| table.0);
    out.put_u32(monitor.id);
    match version {
        Version::V10 | Version::V11 | Version::V12 => {
            out.put_u16(monitor.flags.bits());
            out.put_u16(flows.out_port.0);
            let at = out.len();
            out.put_u16(0);
            out.put_u8(table);
            out.put_zeros(5);
            let len = put_match(out, version, &flows.matching);
            out.set_u16(at, len);
        }
        Version::V13 => {
            out.put_u16(monitor.flags.bits());
            let at = out.len();
            out.put_u16(0);
            put_port(out, version, flows.out_port);
            out.put_u8(table);
            out.put_zeros(3);
            let len = put_match(out, version, &flows.matching);
            out.set_u16(at, len);
        }
        Version::V14 | Version::V15 => {
            put_port(out, version, flows.out_port);
            out.put_u32(flows.out_group.unwrap_or(ANY));
            let own = if monitor.flags.contains(FlowMonitorFlags::OWN) { OWN14 } else { 0 };
            out.put_u16((monitor.flags - FlowMonitorFlags::OWN).bits() | own);
            out.put_u8(table);
            out.put_u8(monitor.command as u8);
            put_match(out, version, &flows.matching);
        }
    }
}

/// Writes a match. Returns its length without padding.
fn put_match(out: &mut Vec<u8>, version: Version, matching: &Match) -> usize {
    if version < Version::V13 {
        return oxm::put_nxm_match(out, matching, MatchForm::Nxm, Cookie::default());
    }
    oxm::put_oxm_match(out, matching, version as u8)
}

/// Reads one update.
pub(super) fn take_update(input: &mut Input<'_>, version: Version) -> Result<FlowUpdate, OfError> {
    let v14 = version >= Version::V14;
    let (len, event) = (usize::from(input.u16()?), input.u16()?);
    let Some(body) = len.checked_sub(4).filter(|_| len.is_multiple_of(8)) else {
        return Err(bad(ErrorCode::BadLen, format!("a flow update of {len} bytes")));
    };
    let body = &mut input.part(body)?;
    let update = match if v14 { event.checked_sub(1) } else { Some(event) } {
        Some(ABBREVIATED) => FlowUpdate::Abbreviated { xid: body.u32()? },
        _ if v14 && matches!(event, PAUSED14 | RESUMED14) => {
            body.skip(4)?;
            if event == PAUSED14 { FlowUpdate::Paused } else { FlowUpdate::Resumed }
        }
        _ if v14 => take_flow14(body, version, event)?,
        _ => take_flow(body, version, event)?,
    };
    body.done()?;
    Ok(update)
}

fn event(raw: u16, why: u8) -> Result<FlowEvent, OfError> {
    Ok(match raw {
        ADDED => FlowEvent::Added,
        REMOVED => FlowEvent::Removed(reason(why)?),
        MODIFIED => FlowEvent::Modified,
        _ => {
            let reason = format!("a flow update's event {raw} is unknown");
            return Err(bad(ErrorCode::MonitorBadEvent, reason));
        }
    })
}

fn take_flow(input: &mut Input<'_>, version: Version, raw: u16) -> Result<FlowUpdate, OfError> {
    let why = input.u16()? as u8;
    let priority = input.u16()?;
    let (idle_timeout_s, hard_timeout_s) = (input.u16()?, input.u16()?);
    let match_len = usize::from(input.u16()?);
    let table = TableId(input.u8()?);
    input.skip(1)?;
    let cookie = input.u64()?;
    let (matching, actions);
    if version == Version::V13 {
        matching = of11_match::take(input)?;
        actions = take_flow_actions(input.take(input.len())?, version)?;
    } else {
        matching = oxm::take_nxm_match(input, match_len, None)?;
        actions = take_actions(input.take(input.len())?, version)?;
    }
    let event = event(raw, why)?;
    let flow =
        WatchedFlow { table, matching, priority, cookie, idle_timeout_s, hard_timeout_s, actions };
    Ok(FlowUpdate::Flow { event, flow: Box::new(flow) })
}

fn take_flow14(input: &mut Input<'_>, version: Version, raw: u16) -> Result<FlowUpdate, OfError> {
    let table = TableId(input.u8()?);
    let why = input.u8()?;
    let event = match raw.checked_sub(1) {
        None => FlowEvent::Initial,
        Some(raw) => event(raw, why)?,
    };
    let (idle_timeout_s, hard_timeout_s) = (input.u16()?, input.u16()?);
    let priority = input.u16()?;
    input.skip(4)?;
    let flow = WatchedFlow {
        table,
        priority,
        idle_timeout_s,
        hard_timeout_s,
        cookie: input.u64()?,
        matching: of11_match::take(input)?,
        actions: take_flow_actions(input.take(input.len())?, version)?,
    };
    Ok(FlowUpdate::Flow { event, flow: Box::new(flow) })
}

/// Writes one update. Before OpenFlow 1.4 pausing and resuming are not part of a reply.
pub(super) fn put_update(out: &mut Vec<u8>, version: Version, update: &FlowUpdate) {
    let v14 = version >= Version::V14;
    let start = out.len();
    let first = if v14 { 1 } else { 0 };
    let mut put_start = |event: u16| {
        out.put_u16(0);
        out.put_u16(event);
    };
    match update {
        FlowUpdate::Abbreviated { xid } => {
            put_start(first + ABBREVIATED);
            out.put_u32(*xid);
        }
        FlowUpdate::Paused | FlowUpdate::Resumed if v14 => {
            put_start(if *update == FlowUpdate::Paused { PAUSED14 } else { RESUMED14 });
            out.put_zeros(4);
        }
        FlowUpdate::Paused | FlowUpdate::Resumed => return,
        FlowUpdate::Flow { event, flow } => {
            put_start(match event {
                FlowEvent::Initial if v14 => INITIAL14,
                FlowEvent::Initial | FlowEvent::Added => first + ADDED,
                FlowEvent::Removed(_) => first + REMOVED,
                FlowEvent::Modified => first + MODIFIED,
            });
            let why = match event {
                FlowEvent::Removed(why) => reason_number(*why),
                _ => 0,
            };
            put_flow(out, version, flow, why);
        }
    }
    let len = out.len() - start;
    out.set_u16(start, len);
}

fn put_flow(out: &mut Vec<u8>, version: Version, flow: &WatchedFlow, why: u8) {
    let form = ActionForm { version, proto: Proto::of(&flow.matching) };
    if version >= Version::V14 {
        out.put(&[flow.table.0, why]);
        out.put_u16(flow.idle_timeout_s);
        out.put_u16(flow.hard_timeout_s);
        out.put_u16(flow.priority);
        out.put_zeros(4);
        out.put_u64(flow.cookie);
        put_match(out, version, &flow.matching);
        return put_flow_actions(out, &flow.actions, form);
    }
    out.put_u16(why.into());
    out.put_u16(flow.priority);
    out.put_u16(flow.idle_timeout_s);
    out.put_u16(flow.hard_timeout_s);
    let at = out.len();
    out.put_u16(0);
    out.put(&[flow.table.0, 0]);
    out.put_u64(flow.cookie);
    let len = put_match(out, version, &flow.matching);
    out.set_u16(at, len);
    match version {
        // Nicira's format has no instructions.
        Version::V11 | Version::V12 => put_actions(out, &flow.actions, form),
        _ => put_flow_actions(out, &flow.actions, form),
    }
}

/// Returns the vendor and the numbers of cancel, pause and resume messages before OpenFlow 1.4.
fn numbers(version: Version) -> (u32, [u32; 3]) {
    if version == Version::V13 {
        return (ONF, [ONF_CANCEL, ONF_PAUSED, ONF_RESUMED]);
    }
    (NICIRA, [NICIRA_CANCEL, NICIRA_PAUSED, NICIRA_RESUMED])
}

/// Reads a vendor message about flow monitors, if it is one.
pub(crate) fn take_vendor(
    vendor: u32,
    subtype: u32,
    input: &mut Input<'_>,
    version: Version,
) -> Option<Result<Message, OfError>> {
    let (own, [cancel, paused, resumed]) = numbers(version);
    let update = |update| Ok(Message::StatsReply(StatsReply::FlowMonitor(vec![update])));
    match subtype {
        _ if vendor != own || version >= Version::V14 => None,
        kind if kind == cancel => Some(input.u32().map(Message::FlowMonitorCancel)),
        kind if kind == paused => Some(update(FlowUpdate::Paused)),
        kind if kind == resumed => Some(update(FlowUpdate::Resumed)),
        _ => None,
    }
}

/// Writes the body of a message that cancels a monitor. Returns the type. From OpenFlow 1.4 on it is a
/// statistics request.
pub(crate) fn put_cancel(out: &mut Vec<u8>, version: Version, id: u32) -> u8 {
    if version >= Version::V14 {
        Kind::of(kind::FLOW_MONITOR, version).put(out, version);
        let flows = FlowStatsRequest::default();
        let command = FlowMonitorCommand::Delete;
        let flags = FlowMonitorFlags::empty();
        put_request(out, version, &FlowMonitor { id, command, flags, flows });
        return 18;
    }
    let (vendor, [cancel, ..]) = numbers(version);
    out.put_u32(vendor);
    out.put_u32(cancel);
    out.put_u32(id);
    VENDOR
}

/// Returns the message for a reply that only pauses or resumes, before OpenFlow 1.4.
pub(super) fn put_pause(version: Version, xid: Xid, updates: &[FlowUpdate]) -> Option<Vec<u8>> {
    let (vendor, [_, paused, resumed]) = numbers(version);
    let subtype = match updates {
        _ if version >= Version::V14 => return None,
        [FlowUpdate::Paused] => paused,
        [FlowUpdate::Resumed] => resumed,
        _ => return None,
    };
    let mut out = vec![version as u8, 0, 0, 0];
    out.put_u32(xid);
    out.put_u32(vendor);
    out.put_u32(subtype);
    finish(&mut out, VENDOR);
    Some(out)
}
