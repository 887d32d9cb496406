//! `learn` on the wire (ovs: `lib/ofp-actions.c`, `nx_action_learn`).

use super::list::ActionForm;
use super::{nicira_out, set};
use crate::action::{Action, Learn, LearnSource, LearnSpec, Subfield, match_bits};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::oxm::{self, Proto};
use base::TableId;
use flow::Match;

const SEND_FLOW_REM: u16 = 1;
const DELETE_LEARNED: u16 = 2;
const WRITE_RESULT: u16 = 4;

/// Fields of a specification's header: number of bits, source type, destination type.
const BITS: u16 = 0x3ff;
const FROM_VALUE: u16 = 1 << 13;
const TO: u16 = 3 << 11;
const TO_MATCH: u16 = 0;
const TO_LOAD: u16 = 1 << 11;
const TO_OUTPUT: u16 = 2 << 11;

fn bad(reason: impl Into<String>) -> OfError {
    OfError::new(ErrorCode::ActionBadArgument, format!("learn: {}", reason.into()))
}

/// Reads `NXAST_LEARN` or, with a limit and a result, `NXAST_LEARN2` after its header.
pub(super) fn take(with_limit: bool, body: &mut Input<'_>) -> Result<Action, OfError> {
    let mut learn = Learn {
        idle_timeout_s: body.u16()?,
        hard_timeout_s: body.u16()?,
        priority: body.u16()?,
        cookie: body.u64()?,
        ..Learn::default()
    };
    let flags = body.u16()?;
    learn.table = TableId(body.u8()?);
    let padding = body.u8()?;
    (learn.fin_idle_timeout_s, learn.fin_hard_timeout_s) = (body.u16()?, body.u16()?);
    (learn.send_flow_rem, learn.delete_learned) =
        (flags & SEND_FLOW_REM != 0, flags & DELETE_LEARNED != 0);
    let result_offset = if with_limit { take_limit(&mut learn, body)? } else { 0 };
    let known = SEND_FLOW_REM | DELETE_LEARNED | if with_limit { WRITE_RESULT } else { 0 };
    if padding != 0 || learn.table.0 == 0xff || flags & !known != 0 {
        let table = learn.table;
        return Err(bad(format!("table {table}, flags {flags:#x} or padding that can't be")));
    }
    if flags & WRITE_RESULT != 0 {
        let field = oxm::take_header(body)?;
        learn.result = Some(set::target(field, result_offset.into(), 1)?);
    } else if result_offset != 0 {
        return Err(bad("a result's bit without a result"));
    }
    while body.len() >= 2 {
        match body.u16()? {
            0 => break,
            header => learn.specs.push(take_spec(header, body)?),
        }
    }
    set::zeros(body, ErrorCode::ActionBadArgument, "learn")?;
    Ok(Action::Learn(Box::new(learn)))
}

/// Returns the offset of the result's bit.
fn take_limit(learn: &mut Learn, body: &mut Input<'_>) -> Result<u16, OfError> {
    learn.limit = body.u32()?;
    let (offset, padding) = (body.u16()?, body.u16()?);
    if padding != 0 {
        return Err(OfError::new(ErrorCode::ActionMustBeZero, "learn: padding that is not zero"));
    }
    Ok(offset)
}

fn take_spec(header: u16, body: &mut Input<'_>) -> Result<LearnSpec, OfError> {
    let bits = u32::from(header & BITS);
    let is_value = header & FROM_VALUE != 0;
    if header & TO == TO || header & TO == TO_OUTPUT && is_value {
        return Err(bad(format!("a part of kind {header:#06x}")));
    }
    let source = if is_value {
        // A value is a multiple of two bytes long. One of no or too many bits is refused with its target.
        let value = body.take(2 * bits.div_ceil(16) as usize)?;
        let value = value.iter().fold(0, |all, &byte| all << 8 | u128::from(byte));
        LearnSource::Value(value & u128::MAX.checked_shr(128u32.saturating_sub(bits)).unwrap_or(0))
    } else {
        LearnSource::Field(take_part(body, bits)?)
    };
    Ok(match (header & TO, source) {
        (TO_MATCH, source) => LearnSpec::Match { source, target: take_part(body, bits)? },
        (TO_LOAD, source) => {
            let (field, offset) = (oxm::take_id(body)?, body.u16()?);
            LearnSpec::Load { source, target: set::target(field, offset.into(), bits)? }
        }
        (_, LearnSource::Field(part)) => LearnSpec::Output(part),
        _ => return Err(bad("an output without a field")),
    })
}

/// Reads a four-byte field header and the offset of the first bit.
fn take_part(body: &mut Input<'_>, bits: u32) -> Result<Subfield, OfError> {
    let (field, offset) = (oxm::take_id(body)?, body.u16()?);
    set::source(field, offset.into(), bits)
}

/// Writes a learn action.
pub(super) fn put(out: &mut Vec<u8>, learn: &Learn, form: &ActionForm) {
    let with_limit = learn.limit != 0 || learn.result.is_some();
    nicira_out::action(out, if with_limit { 45 } else { 16 }, |out| {
        out.put_u16(learn.idle_timeout_s);
        out.put_u16(learn.hard_timeout_s);
        out.put_u16(learn.priority);
        out.put_u64(learn.cookie);
        let flag = |is: bool, flag: u16| if is { flag } else { 0 };
        out.put_u16(
            flag(learn.send_flow_rem, SEND_FLOW_REM)
                | flag(learn.delete_learned, DELETE_LEARNED)
                | flag(learn.result.is_some(), WRITE_RESULT),
        );
        out.put(&[learn.table.0, 0]);
        out.put_u16(learn.fin_idle_timeout_s);
        out.put_u16(learn.fin_hard_timeout_s);
        if with_limit {
            out.put_u32(learn.limit);
            out.put_u16(learn.result.map_or(0, |result| result.offset as u16));
            out.put_zeros(2);
        }
        if let Some(result) = learn.result {
            oxm::put_header(out, &result, form.proto, 0);
        }
        put_specs(out, learn, form.proto);
    });
}

fn put_specs(out: &mut Vec<u8>, learn: &Learn, proto: Proto) {
    let put_part = |out: &mut Vec<u8>, part: Subfield, proto| {
        oxm::put_header(out, &part, proto, 0);
        out.put_u16(part.offset as u16);
    };
    let put_source = |out: &mut Vec<u8>, source: LearnSource, bits: u32, to: u16| match source {
        LearnSource::Field(part) => {
            out.put_u16(bits as u16 | to);
            put_part(out, part, proto);
        }
        LearnSource::Value(value) => {
            out.put_u16(bits as u16 | to | FROM_VALUE);
            out.put_uint(value, 2 * bits.div_ceil(16) as usize);
        }
    };
    for (spec, learned) in with_protocol(learn) {
        match *spec {
            LearnSpec::Match { source, target } => {
                put_source(out, source, target.bits, TO_MATCH);
                put_part(out, target, learned);
            }
            LearnSpec::Load { source, target } => {
                put_source(out, source, target.bits, TO_LOAD);
                put_part(out, target, learned);
            }
            LearnSpec::Output(part) => {
                put_source(out, LearnSource::Field(part), part.bits, TO_OUTPUT);
            }
        }
    }
}

/// Returns each element with the protocol that the previous elements match, which determines the names of its
/// fields.
pub(crate) fn with_protocol(learn: &Learn) -> Vec<(&LearnSpec, Proto)> {
    let mut matching = Match::any();
    let specs = learn.specs.iter().map(|spec| {
        let proto = Proto::of(&matching);
        if let LearnSpec::Match { source: LearnSource::Value(value), target } = *spec {
            match_bits(&mut matching, target, value);
        }
        (spec, proto)
    });
    specs.collect()
}
