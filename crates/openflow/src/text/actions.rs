//! Lists of actions: `ct(table=1,zone=5),resubmit(,2)`.

use super::length::{check_pkt_larger, output_trunc};
use super::span::{Pair, Span};
use super::{PortNames, TextError, assign, choice, ct, encap, learn, mpls, sample, value};
use crate::action::{Action, Conjunction, SetForm, Subfield, ToController};
use crate::actions::{check_order, fits_action_set};
use crate::message::{GROUP_MAX, METER_MAX};
use base::{MacAddr, OfPort, TableId};
use flow::Field;
use std::num::NonZeroU32;
use wire::ethertype;

/// Nesting depth of parentheses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nesting(u32);

impl Nesting {
    pub fn top() -> Self {
        Nesting(16)
    }

    pub fn deeper(self, at: Span<'_>) -> Result<Self, TextError> {
        self.0.checked_sub(1).map(Nesting).ok_or_else(|| at.error("actions nest too deep"))
    }
}

/// Parses actions, without `actions=` before them.
///
/// # Errors
/// An unknown or unsupported action, or an invalid argument.
pub fn parse_actions(text: &str, ports: PortNames<'_>) -> Result<Vec<Action>, TextError> {
    parse(Span::new(text), ports)
}

pub(super) fn parse(span: Span<'_>, ports: PortNames<'_>) -> Result<Vec<Action>, TextError> {
    let actions = list(span, ports, Nesting::top())?;
    check_order(&actions).map_err(|error| {
        let hint = "actions, clear_actions, write_actions, write_metadata, goto_table";
        span.error_with(error.reason, hint)
    })?;
    Ok(actions)
}

/// Parses a list, at the top level or within parentheses.
pub(super) fn list(
    span: Span<'_>,
    ports: PortNames<'_>,
    nesting: Nesting,
) -> Result<Vec<Action>, TextError> {
    let pairs = span.pairs()?;
    let mut out = Vec::new();
    for pair in &pairs {
        if pair.key.text == "drop" {
            if pairs.len() > 1 {
                let what = "drop stands alone";
                return Err(pair.key.error_with(what, "leave out drop or the other actions"));
            }
            continue;
        }
        out.push(one(*pair, ports, nesting)?);
    }
    Ok(out)
}

pub(super) fn one(
    pair: Pair<'_>,
    ports: PortNames<'_>,
    nesting: Nesting,
) -> Result<Action, TextError> {
    if let Some(action) = plain(pair)? {
        return Ok(action);
    }
    if let Some(action) = old_set(pair)? {
        return Ok(action);
    }
    Ok(match pair.key.text {
        "output" => output(pair.needed()?, ports)?,
        "controller" | "CONTROLLER" => controller(pair)?,
        "set_field" => assign::set_field(pair.needed()?, ports)?,
        "load" => assign::load(pair.needed()?, ports)?,
        "move" => assign::move_bits(pair.needed()?)?,
        "push" => Action::StackPush(assign::subfield(pair.needed()?)?.0),
        "pop" => Action::StackPop(assign::target(pair.needed()?)?),
        "set_tunnel" | "set_tunnel64" => Action::Set {
            field: Field::TunId,
            value: value::number_to(pair.needed()?, u64::MAX.into())?,
            mask: Field::TunId.all_ones(),
            form: match pair.key.text {
                "set_tunnel" => SetForm::SetTunnel,
                _ => SetForm::SetTunnel64,
            },
        },
        "check_pkt_larger" => check_pkt_larger(pair.needed()?)?,
        "encap" => encap::encap(pair.needed()?)?,
        "decap" => encap::decap(pair.rest())?,
        "delete_field" => {
            Action::DeleteField(Subfield::whole(assign::subfield(pair.needed()?)?.1.field))
        }
        "resubmit" => resubmit(pair, ports)?,
        "ct" => ct::ct(pair.rest(), ports, nesting)?,
        "clone" => Action::Clone(list(pair.rest(), ports, nesting.deeper(pair.key)?)?),
        "set_queue" => Action::SetQueue(value::number_to(pair.needed()?, u32::MAX.into())? as u32),
        "enqueue" => enqueue(pair, ports)?,
        "learn" => learn::learn(pair.rest(), ports)?,
        "conjunction" => conjunction(pair)?,
        "bundle" => choice::bundle(pair, false, ports)?,
        "bundle_load" => choice::bundle(pair, true, ports)?,
        "multipath" => choice::multipath(pair)?,
        "fin_timeout" => fin_timeout(pair.rest())?,
        "note" => Action::Note(note(pair.rest())?),
        "write_actions" => write_actions(pair, ports, nesting)?,
        "write_metadata" => {
            let span = pair.needed()?;
            let (bits, mask) = match span.split("/") {
                Some((bits, mask)) => (
                    value::number_to(bits, u64::MAX.into())?,
                    value::number_to(mask, u64::MAX.into())?,
                ),
                None => (value::number_to(span, u64::MAX.into())?, u64::MAX.into()),
            };
            Action::WriteMetadata { value: bits as u64, mask: mask as u64 }
        }
        "goto_table" => Action::GotoTable(TableId(value::number_to(pair.needed()?, 254)? as u8)),
        "nat" => return Err(pair.key.error_with("nat outside of ct", "ct(commit,nat(...))")),
        "group" => Action::Group(value::number_to(pair.needed()?, GROUP_MAX.into())? as u32),
        "meter" => meter(pair.needed()?)?,
        "sample" => sample::sample(pair, ports)?,
        _ if pair.value.is_none() => match value::port(pair.key, ports) {
            Ok(port) => output_to(port),
            Err(_) => return Err(unknown(pair)),
        },
        _ => return Err(unknown(pair)),
    })
}

/// Parses a meter's number.
fn meter(span: Span<'_>) -> Result<Action, TextError> {
    match value::number_to(span, METER_MAX.into())? as u32 {
        0 => Err(span.error("meters are numbered from 1")),
        meter => Ok(Action::Meter(meter)),
    }
}

fn unknown(pair: Pair<'_>) -> TextError {
    let what = format!("there is no action '{}'", pair.key.text);
    pair.key.error_with(what, "see ovs-actions(7)")
}

/// Actions without arguments.
fn plain(pair: Pair<'_>) -> Result<Option<Action>, TextError> {
    let action = match pair.key.text {
        "strip_vlan" | "pop_vlan" => Action::StripVlan,
        "ct_clear" => Action::CtClear,
        "exit" => Action::Exit,
        "debug_recirc" => Action::DebugRecirc,
        "debug_slow" => Action::DebugSlow,
        "pop_queue" => Action::PopQueue,
        "clear_actions" => Action::ClearActions,
        "dec_ttl" if pair.rest().is_empty() => Action::DecTtl(vec![0]),
        "dec_mpls_ttl" => Action::DecMplsTtl,
        "dec_nsh_ttl" => Action::DecNshTtl,
        _ => return Ok(None),
    };
    match pair.value {
        Some(value) if !value.is_empty() => {
            Err(value.error(format!("{} takes no argument", pair.key.text)))
        }
        _ => Ok(Some(action)),
    }
}

/// Actions of OpenFlow 1.0 and 1.1 that set one field each.
fn old_set(pair: Pair<'_>) -> Result<Option<Action>, TextError> {
    let needed = || pair.needed();
    let number = |max: u16| needed().and_then(|span| value::number_to(span, max.into()));
    let mac = || -> Result<MacAddr, TextError> {
        let span = needed()?;
        span.text.parse().map_err(|error| span.error(format!("{error}")))
    };
    let ip = || -> Result<std::net::Ipv4Addr, TextError> {
        let span = needed()?;
        span.text.parse().map_err(|_| span.error(format!("'{}' is no IPv4 address", span.text)))
    };
    let set = |field: Field, value: u128| Action::Set {
        field,
        value,
        mask: field.all_ones(),
        form: SetForm::SetField,
    };
    Ok(Some(match pair.key.text {
        "mod_vlan_vid" => Action::SetVlanVid(number(0xfff)? as u16),
        "mod_vlan_pcp" => Action::SetVlanPcp(number(7)? as u8),
        "set_vlan_vid" => set(Field::VlanVidPresent, number(0xfff)? | 0x1000),
        "set_vlan_pcp" => set(Field::VlanPcp, number(7)?),
        "push_vlan" => {
            let tpid = number(0xffff)? as u16;
            if !ethertype::is_vlan(tpid) {
                let what = format!("{tpid:#06x} is no Ethernet type of a VLAN tag");
                return Err(pair.needed()?.error_with(what, "0x8100 or 0x88a8"));
            }
            Action::PushVlan(tpid)
        }
        "mod_dl_src" => Action::SetEthSrc(mac()?),
        "mod_dl_dst" => Action::SetEthDst(mac()?),
        "mod_nw_src" => Action::SetIpv4Src(ip()?),
        "mod_nw_dst" => Action::SetIpv4Dst(ip()?),
        "mod_nw_tos" => {
            let tos = number(0xff)? as u8;
            if tos & 3 != 0 {
                let hint = "the lower two bits are set by mod_nw_ecn";
                return Err(pair.needed()?.error_with("mod_nw_tos takes a DSCP in place", hint));
            }
            Action::SetIpDscp(tos)
        }
        "mod_nw_ecn" => Action::SetIpEcn(number(3)? as u8),
        "mod_nw_ttl" => Action::SetIpTtl(number(0xff)? as u8),
        "mod_tp_src" => Action::SetTpSrc(number(0xffff)? as u16),
        "mod_tp_dst" => Action::SetTpDst(number(0xffff)? as u16),
        "dec_ttl" => {
            let ids = pair.needed()?.pairs()?;
            if ids.is_empty() {
                return Err(pair.key.error("dec_ttl with parentheses needs a controller's id"));
            }
            let ids = ids.iter().map(|id| value::number_to(id.key, 0xffff).map(|id| id as u16));
            Action::DecTtl(ids.collect::<Result<_, _>>()?)
        }
        _ => return mpls::parse(pair),
    }))
}

fn output_to(port: OfPort) -> Action {
    // A controller receives the whole packet unless a length is given (OFPCML_NO_BUFFER).
    Action::Output { port, max_len: if port == OfPort::CONTROLLER { u16::MAX } else { 0 } }
}

fn output(span: Span<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    if span.text.contains("port") && span.text.contains("max_len") {
        return output_trunc(span, ports);
    }
    match value::port(span, ports) {
        Ok(port) => Ok(output_to(port)),
        Err(error) => match assign::subfield(span) {
            Ok((source, _)) => Ok(Action::OutputReg { source, max_len: u16::MAX }),
            Err(_) => Err(error),
        },
    }
}

fn controller(pair: Pair<'_>) -> Result<Action, TextError> {
    let plain = |max_len| Action::Output { port: OfPort::CONTROLLER, max_len };
    let Some(span) = pair.value.filter(|value| !value.is_empty()) else {
        return Ok(plain(u16::MAX));
    };
    if !pair.nested {
        return Ok(plain(value::number_to(span, 0xffff)? as u16));
    }
    let mut to = ToController::default();
    for pair in span.pairs()? {
        match pair.key.text {
            "max_len" => to.max_len = value::number_to(pair.needed()?, 0xffff)? as u16,
            "id" => to.controller_id = value::number_to(pair.needed()?, 0xffff)? as u16,
            "reason" => {
                let name = pair.needed()?;
                let number = REASONS.iter().position(|known| *known == name.text);
                let unknown = || name.error(format!("unknown reason \"{}\"", name.text));
                to.reason = number.ok_or_else(unknown)? as u8;
            }
            "userdata" => to.userdata = note(pair.needed()?)?,
            "pause" => to.pause = true,
            "meter_id" => {
                let number = value::number_to(pair.needed()?, u32::MAX.into())? as u32;
                to.meter = NonZeroU32::new(number);
            }
            other => {
                let hint = "max_len=, id=, reason=, userdata=, pause, meter_id=";
                return Err(pair.key.error_with(format!("controller has no '{other}'"), hint));
            }
        }
    }
    if to.is_plain() {
        return Ok(plain(to.max_len));
    }
    Ok(Action::Controller(to))
}

/// Reasons of packet-ins by number (ovs: `lib/ofp-packet.c`). The last two, for table misses, are internal to
/// Open vSwitch and have no name.
pub(super) const REASONS: [&str; 8] =
    ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out", "", ""];

fn resubmit(pair: Pair<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    let span = pair.needed()?;
    let mut parts = Vec::new();
    let mut rest = span;
    while let Some((part, behind)) = rest.split(",") {
        parts.push(part.trim());
        rest = behind;
    }
    parts.push(rest.trim());
    let (mut in_port, mut table, mut with_ct_orig) = (None, None, false);
    for (i, part) in parts.iter().enumerate() {
        match i {
            _ if part.is_empty() => {}
            0 => in_port = Some(value::port(*part, ports)?).filter(|&port| port != OfPort::IN_PORT),
            1 if pair.nested => {
                let id = value::number_to(*part, 255)? as u8;
                table = (id != 255).then_some(TableId(id));
            }
            2 if pair.nested && part.text == "ct" => with_ct_orig = true,
            _ => {
                return Err(
                    part.error_with("resubmit does not take this", "resubmit(PORT,TABLE,ct)")
                );
            }
        }
    }
    if in_port.is_none() && table.is_none() {
        return Err(span.error_with("resubmit to the same table and port", "resubmit(,TABLE)"));
    }
    Ok(Action::Resubmit { in_port, table, with_ct_orig })
}

/// `conjunction(ID,CLAUSE/CLAUSES)`
fn conjunction(pair: Pair<'_>) -> Result<Action, TextError> {
    let span = pair.needed()?;
    let parts = span.split(",").and_then(|(id, rest)| Some((id, rest.split("/")?)));
    let Some((id, (clause, clauses))) = parts else {
        return Err(span.error_with("a conjunction has three numbers", "conjunction(ID,1/2)"));
    };
    let id = value::number_to(id, u32::MAX.into())? as u32;
    let (number, count) = (value::number_to(clause, 64)?, value::number_to(clauses, 64)?);
    if count < 2 || number < 1 || number > count {
        return Err(clause.error(format!("clause {number} of {count}: clauses are 2 to 64")));
    }
    let (clause, clauses) = (number as u8 - 1, count as u8);
    Ok(Action::Conjunction(Conjunction { id, clause, clauses }))
}

/// `enqueue:PORT:QUEUE`, or with a comma.
fn enqueue(pair: Pair<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    let span = pair.needed()?;
    let parts = span.split(":").or_else(|| span.split(","));
    let Some((port, queue)) = parts else {
        return Err(span.error_with("the queue is missing", "enqueue:PORT:QUEUE"));
    };
    let queue = value::number_to(queue, u32::MAX.into())? as u32;
    Ok(Action::Enqueue { port: value::port(port, ports)?, queue })
}

fn fin_timeout(span: Span<'_>) -> Result<Action, TextError> {
    let (mut idle_s, mut hard_s) = (0, 0);
    for pair in span.pairs()? {
        let place = match pair.key.text {
            "idle_timeout" => &mut idle_s,
            "hard_timeout" => &mut hard_s,
            other => {
                let what = format!("fin_timeout has no '{other}'");
                return Err(pair.key.error_with(what, "idle_timeout=, hard_timeout="));
            }
        };
        *place = value::number_to(pair.needed()?, 0xffff)? as u16;
    }
    Ok(Action::FinTimeout { idle_s, hard_s })
}

/// Parses bytes in hexadecimal, with optional dots between them.
pub(super) fn note(span: Span<'_>) -> Result<Vec<u8>, TextError> {
    let digits: String = span.text.chars().filter(|c| *c != '.').collect();
    let bad = || span.error_with("bytes are two hexadecimal digits each", "00.11.22");
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|c| c.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let byte =
        |at: usize| digits.get(at..at + 2).and_then(|text| u8::from_str_radix(text, 16).ok());
    (0..digits.len()).step_by(2).map(|at| byte(at).ok_or_else(bad)).collect()
}

fn write_actions(
    pair: Pair<'_>,
    ports: PortNames<'_>,
    nesting: Nesting,
) -> Result<Action, TextError> {
    let span = pair.rest();
    let actions = list(span, ports, nesting.deeper(pair.key)?)?;
    if !actions.iter().all(fits_action_set) {
        return Err(span.error("an action that can't be part of an action set"));
    }
    Ok(Action::WriteActions(actions))
}
