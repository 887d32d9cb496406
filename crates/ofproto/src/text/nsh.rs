//! NSH in keys and actions (ovs: `lib/odp-util.c`, `format_nsh_key_mask` and `format_odp_push_nsh_action`).

use super::parse::{ParseError, error, number};
use flow::{Field, FlowKey, Mask};
use std::fmt::Write;
use std::sync::Arc;
use wire::Nsh;
use wire::nsh::{MD_TYPE_1, MD_TYPE_2, next_protocol};

/// The fields in order, with their names, and whether they are printed in decimal.
pub(super) const FIELDS: [(&str, Field, bool); 10] = [
    ("flags", Field::NshFlags, true),
    ("ttl", Field::NshTtl, true),
    ("mdtype", Field::NshMdtype, true),
    ("np", Field::NshNp, true),
    ("spi", Field::NshSpi, false),
    ("si", Field::NshSi, true),
    ("c1", Field::NshC1, false),
    ("c2", Field::NshC2, false),
    ("c3", Field::NshC3, false),
    ("c4", Field::NshC4, false),
];

/// The fields with mask bits: `flags=0,ttl=63,spi=0x123456`.
pub(super) fn format_fields(key: &FlowKey, mask: &Mask) -> String {
    let mut parts = Vec::new();
    for (name, field, is_decimal) in FIELDS {
        let (value, bits) = (key.get(field), mask.get(field));
        parts.push(match (bits == field.all_ones(), is_decimal) {
            _ if bits == 0 => continue,
            (true, true) => format!("{name}={value}"),
            (true, false) => format!("{name}=0x{value:x}"),
            (false, true) => format!("{name}=0x{value:02x}/0x{bits:02x}"),
            (false, false) => format!("{name}=0x{value:x}/0x{bits:08x}"),
        });
    }
    parts.join(",")
}

/// The header that an action adds.
pub(super) fn format_header(header: &[u8]) -> String {
    let Ok(nsh) = Nsh::new_checked(header) else { return String::new() };
    let mut out = format!(
        "flags={},ttl={},mdtype={},np={},spi=0x{:x},si={}",
        nsh.flags(),
        nsh.ttl(),
        nsh.md_type(),
        nsh.next_protocol(),
        nsh.service_path(),
        nsh.service_index()
    );
    match nsh.md_type() {
        MD_TYPE_1 => {
            for (i, word) in nsh.context().iter().enumerate() {
                let _ = write!(out, ",c{}=0x{word:x}", i + 1);
            }
        }
        MD_TYPE_2 if nsh.metadata().is_empty() => out += ",md2=0",
        MD_TYPE_2 => {
            out += ",md2=0x";
            for byte in nsh.metadata() {
                let _ = write!(out, "{byte:02x}");
            }
        }
        _ => out += ",<error: unknown mdtype>",
    }
    out
}

/// Parses the output of [`format_header`]; omitted parts have their defaults.
pub(super) fn parse_header(inside: &str) -> Result<Arc<[u8]>, ParseError> {
    let mut key = FlowKey::new();
    key.set(Field::NshTtl, 63);
    key.set(Field::NshMdtype, MD_TYPE_1.into());
    key.set(Field::NshNp, next_protocol::ETHERNET.into());
    key.set(Field::NshSi, 255);
    let mut metadata = Vec::new();
    for part in inside.split([',', ' ']).filter(|part| !part.is_empty()) {
        let (name, text) = part.split_once('=').unwrap_or((part, ""));
        if name == "md2" {
            metadata = bytes(text)?;
            continue;
        }
        let Some((_, field, _)) = FIELDS.iter().find(|(known, ..)| *known == name) else {
            return error(part, "push_nsh() has no such field");
        };
        let value = number(text)?;
        if value > field.all_ones() {
            return error(part, "is too large for its field");
        }
        key.set(*field, value);
    }
    let get = |field| key.get(field) as u32;
    let md_type = get(Field::NshMdtype) as u8;
    let metadata = match md_type {
        MD_TYPE_1 => vec![0; 16],
        MD_TYPE_2 => metadata,
        _ => return error(inside, "mdtype is 1 or 2"),
    };
    let Some(mut header) = Nsh::build(md_type, &metadata) else {
        return error(inside, "md2 is too long");
    };
    header.set_flags_ttl(get(Field::NshFlags) as u8, get(Field::NshTtl) as u8);
    header.set_next_protocol(get(Field::NshNp) as u8);
    header.set_path(get(Field::NshSpi), get(Field::NshSi) as u8);
    if md_type == MD_TYPE_1 {
        let context = [Field::NshC1, Field::NshC2, Field::NshC3, Field::NshC4];
        header.set_context(&context.map(get));
    }
    Ok(header.into_inner().into())
}

/// Hexadecimal digits, padded to 4 bytes; `0` for none.
fn bytes(text: &str) -> Result<Vec<u8>, ParseError> {
    let digits = text.strip_prefix("0x").unwrap_or("");
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let Some(mut bytes) = pairs.map(byte).collect::<Option<Vec<u8>>>() else {
        return error(text, "is no number of whole bytes");
    };
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    Ok(bytes)
}
