//! `encap` and `decap`, which add and remove a packet's outermost header.

use super::actions::note;
use super::span::{Pair, Span};
use super::{TextError, value};
use crate::action::{Action, NshProperty};
use wire::ethertype;

/// The longest value of a TLV, in hexadecimal digits (ovs: `lib/ofp-ed-props.c`, `parse_ed_prop_value`).
const DIGITS_MAX: usize = 2 * NshProperty::VALUE_MAX;

/// `encap(ethernet)`, `encap(mpls)`, `encap(mpls_mc)`, `encap(nsh(md_type=2,tlv(0x1000,10,0x12345678)))`
pub(super) fn encap(span: Span<'_>) -> Result<Action, TextError> {
    let hint = "ethernet, mpls, mpls_mc, nsh or nsh(md_type=,tlv(CLASS,TYPE,VALUE))";
    let pairs = span.pairs()?;
    let [pair] = pairs.as_slice() else {
        return Err(span.error_with("encap adds one header", hint));
    };
    let header_bytes = 0;
    let encap = match pair.key.text {
        "ethernet" => Action::EncapEthernet { header_bytes },
        "mpls" => Action::EncapMpls { ethertype: ethertype::MPLS, header_bytes },
        "mpls_mc" => Action::EncapMpls { ethertype: ethertype::MPLS_MULTICAST, header_bytes },
        "nsh" => {
            let properties = pair.rest().pairs()?.into_iter().map(property);
            let properties = properties.collect::<Result<_, _>>()?;
            return Ok(Action::EncapNsh { header_bytes, properties });
        }
        other => return Err(span.error_with(format!("encap: no header '{other}'"), hint)),
    };
    match pair.rest().is_empty() {
        true => Ok(encap),
        false => Err(pair.rest().error(format!("{} has no properties", pair.key.text))),
    }
}

/// `md_type=1` or `tlv(0x1000,10,0x12345678)`
fn property(pair: Pair<'_>) -> Result<NshProperty, TextError> {
    let value = pair.needed()?;
    match pair.key.text {
        "md_type" => match value::number_to(value, 2)? as u8 {
            0 => Err(value.error("an MD type is 1 or 2")),
            md_type => Ok(NshProperty::MdType(md_type)),
        },
        "tlv" => {
            let parts = value.split(",").and_then(|(class, rest)| {
                let (kind, bytes) = rest.split(",")?;
                Some((class, kind, bytes.trim()))
            });
            let hint = "tlv(CLASS,TYPE,0x0123)";
            let Some((class, kind, bytes)) = parts else {
                return Err(value.error_with("a TLV has three parts", hint));
            };
            let bytes = bytes.text.strip_prefix("0x").map(|text| Span { text, at: bytes.at + 2 });
            let bytes = bytes.filter(|bytes| bytes.text.len() <= DIGITS_MAX);
            let Some(bytes) = bytes else {
                return Err(value.error_with("the value is no hexadecimal number", hint));
            };
            let class = value::number_to(class, 0xffff)? as u16;
            let kind = value::number_to(kind, 0xff)? as u8;
            Ok(NshProperty::Tlv { class, kind, value: note(bytes)? })
        }
        other => {
            Err(pair.key.error_with(format!("nsh has no property '{other}'"), "md_type=, tlv()"))
        }
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

/// Formats one of these actions; `None` for others.
pub(super) fn format(action: &Action) -> Option<String> {
    Some(match action {
        Action::Decap(packet_type) => format_decap(*packet_type),
        Action::EncapEthernet { .. } => "encap(ethernet)".to_owned(),
        Action::EncapMpls { ethertype: ethertype::MPLS, .. } => "encap(mpls)".to_owned(),
        Action::EncapMpls { .. } => "encap(mpls_mc)".to_owned(),
        Action::EncapNsh { properties, .. } if properties.is_empty() => "encap(nsh)".to_owned(),
        Action::EncapNsh { properties, .. } => {
            let properties: Vec<String> = properties.iter().map(format_property).collect();
            format!("encap(nsh({}))", properties.join(","))
        }
        _ => return None,
    })
}

fn format_property(property: &NshProperty) -> String {
    match property {
        NshProperty::MdType(md_type) => format!("md_type={md_type}"),
        NshProperty::Tlv { class, kind, value } => {
            // All bytes: their number is part of the value.
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("tlv({class:#06x},{kind},0x{digits})")
        }
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
