//! Flow-removed messages in their four formats.

use crate::bytes::{Input, Output};
use crate::duration::{put_duration, take_duration};
use crate::error::{ErrorCode, OfError};
use crate::message::{FlowFlags, FlowStatsEntry, Message, RemovedReason};
use crate::oxm::{self, Cookie, MatchForm};
use crate::oxs;
use crate::vendor::NICIRA;
use crate::version::Version;
use crate::{of10_match, of11_match};
use base::TableId;
use flow::Match;

/// NXT_FLOW_REMOVED
pub(crate) const NXT_FLOW_REMOVED: u32 = 14;

pub(crate) fn reason(raw: u8) -> Result<RemovedReason, OfError> {
    Ok(match raw {
        0 => RemovedReason::IdleTimeout,
        1 => RemovedReason::HardTimeout,
        3 => RemovedReason::GroupDelete,
        2 => RemovedReason::Delete,
        4 => RemovedReason::MeterDelete,
        5 => RemovedReason::Eviction,
        _ => {
            let reason = format!("flow removed for reason {raw}");
            return Err(OfError::new(ErrorCode::BadLen, reason));
        }
    })
}

pub(crate) fn reason_number(reason: RemovedReason) -> u8 {
    match reason {
        RemovedReason::IdleTimeout => 0,
        RemovedReason::HardTimeout => 1,
        RemovedReason::Delete => 2,
        RemovedReason::GroupDelete => 3,
        RemovedReason::MeterDelete => 4,
        RemovedReason::Eviction => 5,
    }
}

/// Returns a flow with default values.
pub(crate) fn blank_flow() -> FlowStatsEntry {
    FlowStatsEntry {
        table: TableId(0),
        matching: Match::any(),
        priority: 0,
        cookie: 0,
        duration_ns: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        idle_age_s: 0,
        hard_age_s: 0,
        importance: 0,
        flags: FlowFlags::empty(),
        packets: 0,
        bytes: 0,
        actions: Vec::new(),
    }
}

/// Reads OFPT_FLOW_REMOVED. OpenFlow 1.0's has no table; it is set to 0.
pub(crate) fn take(input: &mut Input<'_>, version: Version) -> Result<Message, OfError> {
    let mut flow = blank_flow();
    let why;
    match version {
        Version::V10 => {
            flow.matching = of10_match::take(input)?.matching;
            flow.cookie = input.u64()?;
            flow.priority = input.u16()?;
            why = reason(input.u8()?)?;
            input.skip(1)?;
            flow.duration_ns = take_duration(input)?;
            flow.idle_timeout_s = input.u16()?;
            input.skip(2)?;
            (flow.packets, flow.bytes) = (input.u64()?, input.u64()?);
        }
        Version::V11 | Version::V12 | Version::V13 | Version::V14 => {
            (flow.cookie, flow.priority) = (input.u64()?, input.u16()?);
            why = reason(input.u8()?)?;
            flow.table = TableId(input.u8()?);
            flow.duration_ns = take_duration(input)?;
            (flow.idle_timeout_s, flow.hard_timeout_s) = (input.u16()?, input.u16()?);
            (flow.packets, flow.bytes) = (input.u64()?, input.u64()?);
            flow.matching = of11_match::take(input)?;
        }
        Version::V15 => {
            flow.table = TableId(input.u8()?);
            why = reason(input.u8()?)?;
            flow.priority = input.u16()?;
            (flow.idle_timeout_s, flow.hard_timeout_s) = (input.u16()?, input.u16()?);
            flow.cookie = input.u64()?;
            flow.matching = of11_match::take(input)?;
            oxs::take(input)?.store(&mut flow);
        }
    }
    Ok(Message::FlowRemoved { flow, reason: why, nicira: false })
}

/// Reads NXT_FLOW_REMOVED.
pub(crate) fn take_nicira(input: &mut Input<'_>) -> Result<Message, OfError> {
    let mut flow = blank_flow();
    (flow.cookie, flow.priority) = (input.u64()?, input.u16()?);
    let why = reason(input.u8()?)?;
    // The table's number plus one; 0 means unknown.
    flow.table = TableId(input.u8()?.saturating_sub(1));
    flow.duration_ns = take_duration(input)?;
    flow.idle_timeout_s = input.u16()?;
    let match_len = usize::from(input.u16()?);
    (flow.packets, flow.bytes) = (input.u64()?, input.u64()?);
    flow.matching = oxm::take_nxm_match(input, match_len, None)?;
    Ok(Message::FlowRemoved { flow, reason: why, nicira: true })
}

/// Writes a flow-removed message. Returns the type.
pub(crate) fn put(
    out: &mut Vec<u8>,
    version: Version,
    flow: &FlowStatsEntry,
    why: RemovedReason,
    nicira: bool,
) -> u8 {
    let why = reason_number(why);
    if nicira {
        out.put_u32(NICIRA);
        out.put_u32(NXT_FLOW_REMOVED);
        out.put_u64(flow.cookie);
        out.put_u16(flow.priority);
        out.put(&[why, flow.table.0.wrapping_add(1)]);
        put_duration(out, flow.duration_ns);
        out.put_u16(flow.idle_timeout_s);
        let at = out.len();
        out.put_u16(0);
        out.put_u64(flow.packets);
        out.put_u64(flow.bytes);
        let len = oxm::put_nxm_match(out, &flow.matching, MatchForm::Nxm, Cookie::default());
        out.set_u16(at, len);
        return 4;
    }
    match version {
        Version::V10 => {
            of10_match::put(out, &flow.matching);
            out.put_u64(flow.cookie);
            out.put_u16(flow.priority);
            out.put(&[why, 0]);
            put_duration(out, flow.duration_ns);
            out.put_u16(flow.idle_timeout_s);
            out.put_u16(0);
            out.put_u64(flow.packets);
            out.put_u64(flow.bytes);
        }
        Version::V11 | Version::V12 | Version::V13 | Version::V14 => {
            out.put_u64(flow.cookie);
            out.put_u16(flow.priority);
            out.put(&[why, flow.table.0]);
            put_duration(out, flow.duration_ns);
            out.put_u16(flow.idle_timeout_s);
            out.put_u16(flow.hard_timeout_s);
            out.put_u64(flow.packets);
            out.put_u64(flow.bytes);
            of11_match::put(out, &flow.matching, version);
        }
        Version::V15 => {
            out.put(&[flow.table.0, why]);
            out.put_u16(flow.priority);
            out.put_u16(flow.idle_timeout_s);
            out.put_u16(flow.hard_timeout_s);
            out.put_u64(flow.cookie);
            of11_match::put(out, &flow.matching, version);
            oxs::put_flow(out, flow, false);
        }
    }
    11
}
