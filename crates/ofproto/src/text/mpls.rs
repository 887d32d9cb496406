//! MPLS label stack entries in keys and actions (ovs: `lib/odp-util.c`, `format_mpls`).

use super::parse::{ParseError, error, number};
use flow::{FlowKey, MPLS_LABELS, Mask};
use wire::LabelEntry;
use wire::mpls::LABEL_MAX;

/// A label stack entry and its mask.
type Masked = (LabelEntry, LabelEntry);

/// The label stack of a key: `label=5,tc=0,ttl=64,bos=1` for each entry. Empty if the mask is, unless
/// `verbose`.
pub(super) fn format_stack(key: &FlowKey, mask: &Mask, verbose: bool) -> String {
    let mut masks = FlowKey::new();
    masks.words_mut().copy_from_slice(mask.words());
    let count = key.count_labels();
    let entries = key.label_stack().into_iter().zip(masks.label_stack()).take(count);
    let entries: Vec<Masked> = entries.collect();
    if !verbose && entries.iter().all(|(_, mask)| mask.0 == 0) {
        return String::new();
    }
    let is_exact = entries.iter().all(|(_, mask)| mask.0 == u32::MAX);
    let text = |(entry, mask): &Masked| match is_exact {
        true => format_entry(*entry),
        false => format!(
            "label={}/0x{:x},tc={}/{:x},ttl={}/0x{:x},bos={}/{:x}",
            entry.label(),
            mask.label(),
            entry.tc(),
            mask.tc(),
            entry.ttl(),
            mask.ttl(),
            u8::from(entry.is_bottom()),
            u8::from(mask.is_bottom())
        ),
    };
    entries.iter().map(text).collect::<Vec<_>>().join(",")
}

/// One exact entry.
pub(super) fn format_entry(entry: LabelEntry) -> String {
    let bottom = u8::from(entry.is_bottom());
    format!("label={},tc={},ttl={},bos={bottom}", entry.label(), entry.tc(), entry.ttl())
}

/// Parses a label stack; omitted parts of an entry have no mask bits.
pub(super) fn parse_stack(inside: &str) -> Result<Vec<Masked>, ParseError> {
    let mut entries: Vec<Masked> = Vec::new();
    let mut seen = "";
    for part in inside.split(',').filter(|part| !part.is_empty()) {
        let (name, text) = part.split_once('=').unwrap_or((part, ""));
        let Some(place) = PARTS.iter().position(|(known, ..)| *known == name) else {
            return error(part, "mpls() has label, tc, ttl and bos");
        };
        // A part out of order, or repeated, begins a new entry.
        let is_later =
            PARTS.iter().position(|(known, ..)| *known == seen).is_some_and(|it| it < place);
        if !is_later {
            entries.push(Masked::default());
        }
        seen = name;
        let (_, shift, max) = PARTS[place];
        let (value, mask) = text.split_once('/').map_or((text, None), |(v, m)| (v, Some(m)));
        let value = fitting(value, max)?;
        let mask = mask.map_or(Ok(max), |mask| hex(mask, max))?;
        if let Some((entry, bits)) = entries.last_mut() {
            entry.0 |= value << shift;
            bits.0 |= mask << shift;
        }
    }
    if entries.is_empty() || entries.len() > MPLS_LABELS {
        return error(inside, format!("mpls() has 1 to {MPLS_LABELS} labels"));
    }
    Ok(entries)
}

/// The parts of an entry in order: name, bit position and largest value.
const PARTS: [(&str, u32, u32); 4] =
    [("label", 12, LABEL_MAX), ("tc", 9, 7), ("ttl", 0, 0xff), ("bos", 8, 1)];

/// `label=5,tc=0,ttl=64,bos=1,eth_type=0x8847`: the entry and the Ethernet type.
pub(super) fn parse_push(inside: &str) -> Result<(LabelEntry, u16), ParseError> {
    let Some((entry, ethertype)) = inside.split_once(",eth_type=") else {
        return error(inside, "wants label=,tc=,ttl=,bos=,eth_type=");
    };
    let ethertype = parse_ethertype(ethertype)?;
    match parse_stack(entry)?.as_slice() {
        [(entry, mask)] if mask.0 == u32::MAX && wire::ethertype::is_mpls(ethertype) => {
            Ok((*entry, ethertype))
        }
        _ => error(inside, "wants one whole label and an Ethernet type of MPLS"),
    }
}

/// An Ethernet type.
pub(super) fn parse_ethertype(text: &str) -> Result<u16, ParseError> {
    Ok(fitting(text, 0xffff)? as u16)
}

fn fitting(text: &str, max: u32) -> Result<u32, ParseError> {
    let value = number(text)?;
    let fits = u32::try_from(value).ok().filter(|value| *value <= max);
    fits.map_or_else(|| error(text, "is too large for its field"), Ok)
}

/// A mask, which dumps print in hexadecimal, with or without `0x`.
fn hex(text: &str, max: u32) -> Result<u32, ParseError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match u32::from_str_radix(digits, 16) {
        Ok(mask) => Ok(mask & max),
        Err(_) => error(text, "is no number"),
    }
}
