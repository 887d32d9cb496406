//! Whole flows: `table=1,priority=10,tcp,actions=NORMAL`.

use super::span::{Pair, Span};
use super::{PortNames, TextError, actions, format_actions, format_match, matching, value};
use crate::message::{FlowFlags, FlowMod, FlowModCommand, FlowStatsEntry};
use crate::oxm::leave_out_default;
use base::TableId;
use std::fmt::Write;

/// Flags by name.
const FLAGS: [(&str, FlowFlags); 5] = [
    ("send_flow_rem", FlowFlags::SEND_FLOW_REM),
    ("check_overlap", FlowFlags::CHECK_OVERLAP),
    ("reset_counts", FlowFlags::RESET_COUNTS),
    ("no_packet_counts", FlowFlags::NO_PKT_COUNTS),
    ("no_byte_counts", FlowFlags::NO_BYT_COUNTS),
];

/// Parses a flow in the syntax of `ovs-ofctl add-flow`, `mod-flows` or `del-flows`, according to `command`.
/// Statistics, as printed by `dump-flows`, are ignored.
///
/// # Errors
/// The position, the reason and a hint. Whether the actions suit the match is checked by [`crate::check`].
pub fn parse_flow(
    text: &str,
    command: FlowModCommand,
    ports: PortNames<'_>,
) -> Result<FlowMod, TextError> {
    let span = Span::new(text);
    let (match_part, action_part) = split_actions(span)?;
    let mut flow = FlowMod { command, new_cookie: u64::MAX, ..FlowMod::default() };
    for pair in match_part.pairs()? {
        if !setting(&mut flow, pair, ports)? {
            matching::add(&mut flow.matching, pair, ports)?;
        }
    }
    matching::check_prerequisites(&flow.matching, match_part)?;
    leave_out_default(&mut flow.matching);
    match action_part {
        Some(part) => flow.actions = actions::parse(part, ports)?,
        None if command.is_delete() => {}
        None => return Err(span.error_with("a flow needs actions", "actions=drop")),
    }
    if flow.cookie_mask == 0 && flow.new_cookie == u64::MAX && !command.is_delete() {
        // A modification without a cookie adds a missing flow with cookie 0.
        flow.new_cookie = 0;
    }
    Ok(flow)
}

/// Splits the text at `actions=`.
fn split_actions(span: Span<'_>) -> Result<(Span<'_>, Option<Span<'_>>), TextError> {
    let Some((before, behind)) = span.split("action") else { return Ok((span, None)) };
    let rest = behind.text.strip_prefix('s').unwrap_or(behind.text).trim_start();
    let skipped = behind.text.len() - rest.len();
    match rest.strip_prefix(['=', ' ']) {
        Some(list) => Ok((before, Some(behind.from(skipped + rest.len() - list.len())))),
        None => Err(behind.error_with("a = is missing behind actions", "actions=drop")),
    }
}

/// Parses a pair that is not a match. Returns whether it was one.
fn setting(flow: &mut FlowMod, pair: Pair<'_>, ports: PortNames<'_>) -> Result<bool, TextError> {
    let name = pair.key.text;
    if let Some((_, flag)) = FLAGS.iter().find(|(known, _)| *known == name) {
        flow.flags |= *flag;
        return Ok(true);
    }
    let short = |max: u16| pair.needed().and_then(|span| value::number_to(span, max.into()));
    match name {
        "table" => {
            let table = short(255)? as u8;
            flow.table = (table != 255).then_some(TableId(table));
        }
        "priority" => flow.priority = short(u16::MAX)? as u16,
        "idle_timeout" => flow.idle_timeout_s = short(u16::MAX)? as u16,
        "hard_timeout" => flow.hard_timeout_s = short(u16::MAX)? as u16,
        "importance" => flow.importance = short(u16::MAX)? as u16,
        "out_port" => flow.out_port = value::port(pair.needed()?, ports)?,
        "out_group" => {
            let group = value::number_to(pair.needed()?, u32::MAX.into())? as u32;
            flow.out_group = (group != u32::MAX).then_some(group);
        }
        "cookie" => cookie(flow, pair.needed()?)?,
        "duration" | "n_packets" | "n_bytes" | "idle_age" | "hard_age" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

fn cookie(flow: &mut FlowMod, span: Span<'_>) -> Result<(), TextError> {
    let number = |span: Span<'_>| match span.text {
        "-1" => Ok(u64::MAX),
        _ => value::number_to(span, u64::MAX.into()).map(|value| value as u64),
    };
    match span.split("/") {
        Some(_) if flow.command == FlowModCommand::Add => {
            Err(span.error_with("a flow that is added has a cookie, not a mask", "cookie=VALUE"))
        }
        Some((value, mask)) => {
            flow.cookie_mask = number(mask)?;
            flow.cookie = number(value)? & flow.cookie_mask;
            Ok(())
        }
        None if flow.command.is_delete() => {
            Err(span.error_with("flows are deleted by a cookie with its mask", "cookie=VALUE/-1"))
        }
        None => {
            flow.new_cookie = number(span)?;
            flow.modify_cookie = flow.command != FlowModCommand::Add;
            Ok(())
        }
    }
}

/// Formats a flow as `ovs-ofctl dump-flows` prints it, without the leading space; with `statistics`, or
/// without (as `--no-stats`).
pub fn format_flow(flow: &FlowStatsEntry, statistics: bool) -> String {
    let mut out = format!("cookie={:#x}, ", flow.cookie);
    // Writing to a String cannot fail.
    if statistics {
        let _ = write!(out, "duration={}, ", duration(flow.duration_ns));
    }
    if statistics || flow.table.0 != 0 {
        let _ = write!(out, "table={}, ", flow.table);
    }
    if statistics {
        let _ = write!(out, "n_packets={}, n_bytes={}, ", flow.packets, flow.bytes);
    }
    if flow.idle_timeout_s != 0 {
        let _ = write!(out, "idle_timeout={}, ", flow.idle_timeout_s);
    }
    if flow.hard_timeout_s != 0 {
        let _ = write!(out, "hard_timeout={}, ", flow.hard_timeout_s);
    }
    for (name, flag) in FLAGS {
        if flow.flags.contains(flag) {
            let _ = write!(out, "{name} ");
        }
    }
    if flow.importance != 0 {
        let _ = write!(out, "importance={}, ", flow.importance);
    }
    if statistics {
        let _ = write!(out, "idle_age={}, ", flow.idle_age_s);
        if flow.hard_age_s != 0 && flow.hard_age_s != flow.duration_ns / 1_000_000_000 {
            let _ = write!(out, "hard_age={}, ", flow.hard_age_s);
        }
    }
    let matching = format_match(&flow.matching, Some(flow.priority));
    if !matching.is_empty() {
        let _ = write!(out, "{matching} ");
    }
    let _ = write!(out, "actions={}", format_actions(&flow.actions, &flow.matching));
    out
}

/// Formats seconds with milliseconds, without trailing zeros, as Open vSwitch does.
fn duration(ns: u64) -> String {
    let (s, ms) = (ns / 1_000_000_000, ns % 1_000_000_000 / 1_000_000);
    if ns % 1_000_000_000 >= 1_000_000 {
        return format!("{s}.{ms:03}s");
    }
    match ns % 1_000_000_000 {
        0 => format!("{s}s"),
        rest => format!("{s}.{rest:09}s"),
    }
}
