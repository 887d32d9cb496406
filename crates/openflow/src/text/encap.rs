//! `encap` and `decap`, which add and remove a packet's outermost header.

use super::span::Span;
use super::{TextError, value};
use crate::action::Action;

/// `encap(ethernet)`
pub(super) fn encap(span: Span<'_>) -> Result<Action, TextError> {
    match span.text.trim_end_matches("()") {
        "ethernet" => Ok(Action::EncapEthernet { header_bytes: 0 }),
        other => Err(span.error_with(format!("encap: no header '{other}'"), "ethernet")),
    }
}

/// `decap()`, or `decap(packet_type(ns=1,type=0x800))`
pub(super) fn decap(span: Span<'_>) -> Result<Action, TextError> {
    let pairs = span.pairs()?;
    let Some(pair) = pairs.first() else { return Ok(Action::Decap(Action::NEXT_PROTOCOL)) };
    let hint = "packet_type(ns=1,type=ETHERTYPE)";
    if pair.key.text != "packet_type" {
        return Err(pair.key.error_with(format!("decap has no '{}'", pair.key.text), hint));
    }
    let (mut space, mut kind) = (None, None);
    for pair in pair.needed()?.pairs()? {
        match pair.key.text {
            "ns" => space = Some(value::number_to(pair.needed()?, 1)?),
            "type" => kind = Some(value::number_to(pair.needed()?, 0xffff)?),
            other => {
                return Err(pair.key.error_with(format!("a packet type has no '{other}'"), hint));
            }
        }
    }
    match (space, kind) {
        (Some(space), Some(kind)) => Ok(Action::Decap((space << 16 | kind) as u32)),
        _ => Err(span.error_with("a packet type has two parts", hint)),
    }
}

/// Formats one of the two actions.
pub(super) fn format(action: &Action) -> String {
    match action {
        Action::Decap(packet_type) => format_decap(*packet_type),
        _ => "encap(ethernet)".to_owned(),
    }
}

fn format_decap(packet_type: u32) -> String {
    if packet_type == Action::NEXT_PROTOCOL {
        return "decap()".to_owned();
    }
    let (space, kind) = (packet_type >> 16, packet_type & 0xffff);
    let kind = if kind == 0 { "0".to_owned() } else { format!("{kind:#x}") };
    format!("decap(packet_type(ns={space},type={kind}))")
}
