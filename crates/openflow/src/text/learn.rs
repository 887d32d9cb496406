//! `learn(...)` as text (ovs: `lib/learn.c`).

use super::format_actions::{bits, plain_value};
use super::span::{Pair, Span};
use super::{PortNames, TextError, assign, value};
use crate::action::{Action, Learn, LearnSource, LearnSpec, Subfield};
use crate::actions::learn_specs;
use crate::oxm::{Proto, for_field};
use base::{OfPort, TableId};
use flow::Field;

/// Parses the text between the parentheses.
pub(super) fn learn(span: Span<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    let mut learn = Learn::default();
    for pair in span.pairs()? {
        let number = |max: u64| value::number_to(pair.needed()?, max.into());
        let short = || number(0xffff).map(|value| value as u16);
        match pair.key.text {
            "table" => learn.table = TableId(number(254)? as u8),
            "priority" => learn.priority = short()?,
            "idle_timeout" => learn.idle_timeout_s = short()?,
            "hard_timeout" => learn.hard_timeout_s = short()?,
            "fin_idle_timeout" => learn.fin_idle_timeout_s = short()?,
            "fin_hard_timeout" => learn.fin_hard_timeout_s = short()?,
            "cookie" => learn.cookie = number(u64::MAX)? as u64,
            "send_flow_rem" => learn.send_flow_rem = true,
            "delete_learned" => learn.delete_learned = true,
            "limit" => learn.limit = number(u32::MAX.into())? as u32,
            "result_dst" => {
                let span = pair.needed()?;
                let target = assign::target(span)?;
                if target.bits != 1 {
                    return Err(span.error_with("the result is one bit", "result_dst=reg0[0]"));
                }
                learn.result = Some(target);
            }
            _ => learn.specs.push(spec(pair, ports)?),
        }
    }
    Ok(Action::Learn(Box::new(learn)))
}

/// `FIELD`, `FIELD=FIELD`, `FIELD=VALUE`, `load:FIELD->FIELD`, `load:VALUE->FIELD` or `output:FIELD`.
fn spec(pair: Pair<'_>, ports: PortNames<'_>) -> Result<LearnSpec, TextError> {
    match pair.key.text {
        "output" => return Ok(LearnSpec::Output(assign::subfield(pair.needed()?)?.0)),
        "load" => return load(pair.needed()?),
        _ => {}
    }
    let (target, spec) = assign::subfield(pair.key)?;
    fits_learn(pair.key, target)?;
    let Some(from) = pair.value.filter(|from| !from.is_empty()) else {
        return Ok(LearnSpec::Match { source: LearnSource::Field(target), target });
    };
    if let Ok((part, _)) = assign::subfield(from) {
        same_width(from, part, target)?;
        return Ok(LearnSpec::Match { source: LearnSource::Field(part), target });
    }
    let is_whole = target.offset == 0 && target.bits == spec.bits;
    let value = match value::number(from) {
        Ok(number) => number,
        Err(error) if !is_whole => return Err(error),
        Err(_) => match (target.field, value::masked(spec, from, ports)?.0) {
            (Field::InPortOxm, port) => OfPort(port as u16).to_wire32().into(),
            (_, value) => value,
        },
    };
    fits(from, value, target)?;
    Ok(LearnSpec::Match { source: LearnSource::Value(value), target })
}

fn load(span: Span<'_>) -> Result<LearnSpec, TextError> {
    let Some((from, to)) = span.split("->") else {
        return Err(span.error_with("where it goes to is missing", "load:VALUE->FIELD"));
    };
    let target = assign::target(to)?;
    fits_learn(to, target)?;
    let source = match value::number(from) {
        Ok(value) => {
            fits(from, value, target)?;
            LearnSource::Value(value)
        }
        Err(_) => {
            let part = assign::subfield(from)?.0;
            same_width(span, part, target)?;
            LearnSource::Field(part)
        }
    };
    Ok(LearnSpec::Load { source, target })
}

/// A part of a learned flow has at most 128 bits; a tunnel option may have more.
fn fits_learn(span: Span<'_>, target: Subfield) -> Result<(), TextError> {
    match target.bits {
        ..=128 => Ok(()),
        bits => Err(span.error_with(format!("{bits} bits are too many to learn"), "[0..127]")),
    }
}

fn fits(span: Span<'_>, value: u128, target: Subfield) -> Result<(), TextError> {
    if target.bits < 128 && value >> target.bits != 0 {
        return Err(span.error(format!("{} does not fit {} bits", span.text, target.bits)));
    }
    Ok(())
}

fn same_width(span: Span<'_>, from: Subfield, to: Subfield) -> Result<(), TextError> {
    if from.bits == to.bits {
        return Ok(());
    }
    Err(span.error(format!("{} bits can't become {}", from.bits, to.bits)))
}

/// Formats the action, in a flow of this protocol.
pub(super) fn format(learn: &Learn, proto: Proto) -> String {
    let mut parts = vec![format!("table={}", learn.table)];
    for (name, value) in [
        ("idle_timeout", learn.idle_timeout_s),
        ("hard_timeout", learn.hard_timeout_s),
        ("fin_idle_timeout", learn.fin_idle_timeout_s),
        ("fin_hard_timeout", learn.fin_hard_timeout_s),
    ] {
        if value != 0 {
            parts.push(format!("{name}={value}"));
        }
    }
    if learn.priority != crate::message::FlowMod::DEFAULT_PRIORITY {
        parts.push(format!("priority={}", learn.priority));
    }
    if learn.send_flow_rem {
        parts.push("send_flow_rem".to_owned());
    }
    if learn.delete_learned {
        parts.push("delete_learned".to_owned());
    }
    if learn.cookie != 0 {
        parts.push(format!("cookie={:#x}", learn.cookie));
    }
    if learn.limit != 0 {
        parts.push(format!("limit={}", learn.limit));
    }
    if let Some(result) = &learn.result {
        parts.push(format!("result_dst={}", bits(result, proto)));
    }
    parts.extend(learn_specs(learn).into_iter().map(|(spec, own)| format_spec(spec, proto, own)));
    format!("learn({})", parts.join(","))
}

/// `proto` is the protocol of the packet, `learned` that of the learned flow's match so far.
fn format_spec(spec: &LearnSpec, proto: Proto, learned: Proto) -> String {
    match spec {
        LearnSpec::Output(part) => format!("output:{}", bits(part, proto)),
        LearnSpec::Load { source: LearnSource::Field(part), target } => {
            format!("load:{}->{}", bits(part, proto), bits(target, learned))
        }
        LearnSpec::Load { source: LearnSource::Value(value), target } => {
            format!("load:{value:#x}->{}", bits(target, learned))
        }
        LearnSpec::Match { source: LearnSource::Field(part), target } if part == target => {
            bits(target, learned)
        }
        LearnSpec::Match { source: LearnSource::Field(part), target } => {
            format!("{}={}", bits(target, learned), bits(part, proto))
        }
        LearnSpec::Match { source: LearnSource::Value(value), target } => {
            let whole = for_field(target.field, learned)
                .filter(|spec| target.offset == 0 && target.bits == spec.bits);
            match whole {
                Some(spec) => format!("{}={}", spec.name, plain_value(target.field, *value)),
                None => format!("{}={value:#x}", bits(target, learned)),
            }
        }
    }
}
