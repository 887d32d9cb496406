//! Flows with their statistics.

use crate::actions::{ActionForm, put_flow_actions, take_flow_actions};
use crate::bytes::{Input, Output};
use crate::duration::{put_duration, take_duration};
use crate::error::{ErrorCode, OfError};
use crate::flow_mod::flags_number;
use crate::flow_removed::blank_flow;
use crate::message::{FlowFlags, FlowStatsEntry};
use crate::oxm::{self, Cookie, MatchForm, Proto};
use crate::oxs;
use crate::version::Version;
use crate::{of10_match, of11_match};
use base::TableId;

/// Returns a reader of the next entry, which begins with its length.
fn entry<'a>(input: &mut Input<'a>) -> Result<Input<'a>, OfError> {
    let len = usize::from(input.u16()?);
    let Some(body) = len.checked_sub(2) else {
        return Err(OfError::new(ErrorCode::BadLen, "a flow of no length"));
    };
    input.part(body)
}

/// Reads an entry of OFPST_FLOW. Before OpenFlow 1.5 it has no idle time, which is set to 0.
pub(super) fn take(input: &mut Input<'_>, version: Version) -> Result<FlowStatsEntry, OfError> {
    let input = &mut entry(input)?;
    let mut flow = blank_flow();
    match version {
        Version::V10 => {
            flow.table = TableId(input.u8()?);
            input.skip(1)?;
            flow.matching = of10_match::take(input)?.matching;
            flow.duration_ns = take_duration(input)?;
            flow.priority = input.u16()?;
            (flow.idle_timeout_s, flow.hard_timeout_s) = (input.u16()?, input.u16()?);
            input.skip(6)?;
            (flow.cookie, flow.packets, flow.bytes) = (input.u64()?, input.u64()?, input.u64()?);
        }
        Version::V11 | Version::V12 | Version::V13 | Version::V14 => {
            flow.table = TableId(input.u8()?);
            input.skip(1)?;
            flow.duration_ns = take_duration(input)?;
            flow.priority = input.u16()?;
            (flow.idle_timeout_s, flow.hard_timeout_s) = (input.u16()?, input.u16()?);
            let flags = FlowFlags::from_bits_truncate(input.u16()?);
            flow.flags = if version >= Version::V13 { flags } else { FlowFlags::empty() };
            flow.importance = input.u16()?;
            input.skip(2)?;
            (flow.cookie, flow.packets, flow.bytes) = (input.u64()?, input.u64()?, input.u64()?);
            flow.matching = of11_match::take(input)?;
        }
        Version::V15 => {
            input.skip(2)?;
            flow.table = TableId(input.u8()?);
            input.skip(1)?;
            flow.priority = input.u16()?;
            (flow.idle_timeout_s, flow.hard_timeout_s) = (input.u16()?, input.u16()?);
            flow.flags = FlowFlags::from_bits_truncate(input.u16()?);
            (flow.importance, flow.cookie) = (input.u16()?, input.u64()?);
            flow.matching = of11_match::take(input)?;
            oxs::take(input)?.store(&mut flow);
        }
    }
    flow.actions = take_flow_actions(input.take(input.len())?, version)?;
    Ok(flow)
}

/// Reads an entry of NXST_FLOW.
pub(super) fn take_nicira(input: &mut Input<'_>) -> Result<FlowStatsEntry, OfError> {
    let input = &mut entry(input)?;
    let mut flow = blank_flow();
    flow.table = TableId(input.u8()?);
    input.skip(1)?;
    flow.duration_ns = take_duration(input)?;
    flow.priority = input.u16()?;
    (flow.idle_timeout_s, flow.hard_timeout_s) = (input.u16()?, input.u16()?);
    let match_len = usize::from(input.u16()?);
    // The age plus one; 0 means unknown.
    flow.idle_age_s = u64::from(input.u16()?.saturating_sub(1));
    flow.hard_age_s = u64::from(input.u16()?.saturating_sub(1));
    (flow.cookie, flow.packets, flow.bytes) = (input.u64()?, input.u64()?, input.u64()?);
    flow.matching = oxm::take_nxm_match(input, match_len, None)?;
    flow.actions = take_flow_actions(input.take(input.len())?, Version::V10)?;
    Ok(flow)
}

/// Writes an entry.
pub(super) fn put(out: &mut Vec<u8>, version: Version, flow: &FlowStatsEntry, nicira: bool) {
    let start = out.len();
    out.put_u16(0);
    let form = ActionForm { version, proto: Proto::of(&flow.matching) };
    match version {
        Version::V10 if nicira => {
            put_nicira(out, flow);
            put_flow_actions(out, &flow.actions, form);
        }
        Version::V10 => {
            put10(out, flow);
            put_flow_actions(out, &flow.actions, form);
        }
        Version::V11 | Version::V12 | Version::V13 | Version::V14 => {
            put11(out, version, flow);
            put_flow_actions(out, &flow.actions, form);
        }
        Version::V15 => {
            put15(out, flow);
            put_flow_actions(out, &flow.actions, form);
        }
    }
    let len = out.len() - start;
    out.set_u16(start, len);
}

fn put_counters(out: &mut Vec<u8>, flow: &FlowStatsEntry) {
    out.put_u64(flow.cookie);
    out.put_u64(flow.packets);
    out.put_u64(flow.bytes);
}

fn put10(out: &mut Vec<u8>, flow: &FlowStatsEntry) {
    out.put(&[flow.table.0, 0]);
    of10_match::put(out, &flow.matching);
    put_duration(out, flow.duration_ns);
    out.put_u16(flow.priority);
    out.put_u16(flow.idle_timeout_s);
    out.put_u16(flow.hard_timeout_s);
    out.put_zeros(6);
    put_counters(out, flow);
}

fn put_nicira(out: &mut Vec<u8>, flow: &FlowStatsEntry) {
    let age = |seconds: u64| u16::try_from(seconds.saturating_add(1)).unwrap_or(u16::MAX);
    out.put(&[flow.table.0, 0]);
    put_duration(out, flow.duration_ns);
    out.put_u16(flow.priority);
    out.put_u16(flow.idle_timeout_s);
    out.put_u16(flow.hard_timeout_s);
    let at = out.len();
    out.put_u16(0);
    out.put_u16(age(flow.idle_age_s));
    out.put_u16(age(flow.hard_age_s));
    put_counters(out, flow);
    let len = oxm::put_nxm_match(out, &flow.matching, MatchForm::Nxm, Cookie::default());
    out.set_u16(at, len);
}

fn put11(out: &mut Vec<u8>, version: Version, flow: &FlowStatsEntry) {
    out.put(&[flow.table.0, 0]);
    put_duration(out, flow.duration_ns);
    out.put_u16(flow.priority);
    out.put_u16(flow.idle_timeout_s);
    out.put_u16(flow.hard_timeout_s);
    // Flags exist from 1.3 on, the importance from 1.4 on.
    out.put_u16(if version < Version::V13 { 0 } else { flags_number(flow.flags, version) });
    out.put_u16(if version < Version::V14 { 0 } else { flow.importance });
    out.put_zeros(2);
    put_counters(out, flow);
    of11_match::put(out, &flow.matching, version);
}

fn put15(out: &mut Vec<u8>, flow: &FlowStatsEntry) {
    out.put_zeros(2);
    out.put(&[flow.table.0, 0]);
    out.put_u16(flow.priority);
    out.put_u16(flow.idle_timeout_s);
    out.put_u16(flow.hard_timeout_s);
    out.put_u16(flags_number(flow.flags, Version::V15));
    out.put_u16(flow.importance);
    out.put_u64(flow.cookie);
    oxm::put_oxm_match(out, &flow.matching, Version::V15 as u8);
    oxs::put_flow(out, flow, true);
}
