//! Values of fields: numbers, addresses, flags, port names.

use super::span::Span;
use super::{PortNames, TextError};
use crate::oxm::{Spec, is_of_nsh, packet_type_to_key};
use base::{MacAddr, OfPort};
use flow::{CtState, Field, OptionMapping, OptionMatch, Wide};
use std::net::{Ipv4Addr, Ipv6Addr};

/// TCP flags from the lowest bit (ovs: `lib/packets.c`, `packet_tcp_flag_to_string`).
pub(super) const TCP_FLAGS: [&str; 12] =
    ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"];

/// Tunnel flags from the lowest bit (ovs: `lib/packets.c`, `flow_tun_flag_to_string`). Only the first is
/// visible to flows.
pub(super) const TUNNEL_FLAGS: [&str; 4] = ["oam", "df", "csum", "key"];

/// Parses a number: decimal, hexadecimal with `0x`, or octal with `0`.
pub(super) fn number(span: Span<'_>) -> Result<u128, TextError> {
    let span = span.trim();
    let text = span.text;
    let parsed = if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        u128::from_str_radix(hex, 16)
    } else if let Some(octal) = text.strip_prefix('0').filter(|rest| !rest.is_empty()) {
        u128::from_str_radix(octal, 8)
    } else {
        text.parse()
    };
    match parsed {
        // Rust's parser accepts a sign, which is invalid here.
        Ok(value) if !text.contains(['+', '-']) => Ok(value),
        _ => Err(span.error(format!("'{text}' is not a number"))),
    }
}

/// Parses a number of up to 124 bytes: any form of [`number`], or hexadecimal with `0x`.
pub(super) fn wide(span: Span<'_>) -> Result<Wide, TextError> {
    let span = span.trim();
    let hex = span.text.strip_prefix("0x").and_then(Wide::from_hex);
    match hex.filter(|value| value.byte_len() <= OptionMapping::LEN_MAX.into()) {
        Some(value) => Ok(value),
        None => number(span).map(Wide::from),
    }
}

/// Parses value and mask of a tunnel option.
pub(super) fn option(index: u8, span: Span<'_>) -> Result<OptionMatch, TextError> {
    if matches!(span.text, "*" | "ANY") {
        return Ok(OptionMatch::new(index, Wide::ZERO, Wide::ZERO));
    }
    let (value, mask) = match span.split("/") {
        Some((value, mask)) => (wide(value)?, wide(mask)?),
        None => (wide(span)?, Wide::ONES),
    };
    Ok(OptionMatch::new(index, value, mask))
}

/// Parses a number of at most `max`.
pub(super) fn number_to(span: Span<'_>, max: u128) -> Result<u128, TextError> {
    let value = number(span)?;
    if value > max {
        return Err(span.error(format!("{value} is more than {max}")));
    }
    Ok(value)
}

/// Parses a port number or name.
pub(super) fn port(span: Span<'_>, names: PortNames<'_>) -> Result<OfPort, TextError> {
    let span = span.trim();
    let text = span.text.trim_matches('"');
    if let Ok(value) = number(Span { text, at: span.at }) {
        let raw = u32::try_from(value).ok().and_then(|raw| match u16::try_from(raw) {
            Ok(raw) => Some(OfPort(raw)),
            Err(_) => OfPort::from_wire32(raw),
        });
        return raw.ok_or_else(|| span.error(format!("{value} is no port number")));
    }
    let reserved = match text.to_ascii_lowercase().as_str() {
        "in_port" => OfPort::IN_PORT,
        "table" => OfPort::TABLE,
        "normal" => OfPort::NORMAL,
        "flood" => OfPort::FLOOD,
        "all" => OfPort::ALL,
        "controller" => OfPort::CONTROLLER,
        "local" => OfPort::LOCAL,
        "any" | "none" => OfPort::NONE,
        "unset" => OfPort::UNSET,
        _ => {
            return names(text).ok_or_else(|| {
                span.error_with(format!("there is no port '{text}'"), "name or number of a port")
            });
        }
    };
    Ok(reserved)
}

fn ipv4(span: Span<'_>) -> Result<Ipv4Addr, TextError> {
    span.text.parse().map_err(|_| span.error(format!("'{}' is not an IPv4 address", span.text)))
}

fn ipv6(span: Span<'_>) -> Result<Ipv6Addr, TextError> {
    span.text.parse().map_err(|_| span.error(format!("'{}' is not an IPv6 address", span.text)))
}

fn mac(span: Span<'_>) -> Result<u128, TextError> {
    let mac: MacAddr = span.text.parse().map_err(|e| span.error(format!("{e}")))?;
    Ok(mac.to_u64().into())
}

/// Parses a prefix length. Returns the mask of `bits` bits.
fn prefix(span: Span<'_>, bits: u32) -> Result<u128, TextError> {
    let len = number_to(span, bits.into())? as u32;
    let ones = u128::MAX >> (128 - bits);
    Ok(ones ^ ones.checked_shr(len).unwrap_or(0))
}

/// Parses value and mask of a field. Without a mask, all bits of the field are set in it.
pub(super) fn masked(
    spec: &Spec,
    span: Span<'_>,
    names: PortNames<'_>,
) -> Result<(u128, u128), TextError> {
    let whole = spec.field.all_ones();
    match spec.field {
        Field::InPort | Field::ActsetOutput => return Ok((port(span, names)?.0.into(), whole)),
        Field::CtState => return flags(span, &ct_state_names(), 0xff),
        Field::TcpFlags => return flags(span, &TCP_FLAGS, 0xfff),
        Field::NwFrag => return fragment(span),
        Field::PacketType => return packet_type(span),
        Field::TunFlags => return flags(span, &TUNNEL_FLAGS[..1], 1),
        _ => {}
    }
    if matches!(span.text, "*" | "ANY") {
        return Ok((0, 0));
    }
    let (value, mask) = match span.split("/") {
        Some((value, mask)) => (value, Some(mask)),
        None => (span, None),
    };
    let plain = |span: Span<'_>| -> Result<u128, TextError> {
        Ok(match spec.field {
            _ if is_mac(spec.field) => mac(span)?,
            _ if is_ipv4(spec.field) => u32::from(ipv4(span)?).into(),
            _ if is_ipv6(spec.field) => u128::from(ipv6(span)?),
            _ => number(span)?,
        })
    };
    let parsed = plain(value)?;
    let mask = match mask {
        None => whole,
        Some(mask) if is_ipv4(spec.field) && !mask.text.contains('.') => prefix(mask, 32)?,
        Some(mask) if is_ipv6(spec.field) && !mask.text.contains(':') => prefix(mask, 128)?,
        Some(mask) => plain(mask)? & wire_ones(spec),
    };
    if parsed & !whole != 0 {
        let what =
            format!("{} does not fit {} ({} bits)", value.text, spec.name, spec.field.bits());
        return Err(value.error(what));
    }
    if !is_of_nsh(spec.field, parsed) {
        return Err(value.error(format!("{} is no {}", value.text, spec.name)));
    }
    if mask & whole != whole && !spec.maskable && mask != 0 {
        return Err(span.error(format!("{} can't be masked", spec.name)));
    }
    Ok((parsed & mask, mask & whole))
}

fn wire_ones(spec: &Spec) -> u128 {
    u128::MAX >> (128 - spec.bytes * 8)
}

pub(super) fn is_mac(field: Field) -> bool {
    use Field as F;
    matches!(field, F::EthSrc | F::EthDst | F::ArpSha | F::ArpTha | F::NdSll | F::NdTll)
}

pub(super) fn is_ipv4(field: Field) -> bool {
    use Field as F;
    matches!(
        field,
        F::Ipv4Src
            | F::Ipv4Dst
            | F::ArpSpa
            | F::ArpTpa
            | F::CtNwSrc
            | F::CtNwDst
            | F::TunSrc
            | F::TunDst
    )
}

pub(super) fn is_ipv6(field: Field) -> bool {
    use Field as F;
    matches!(
        field,
        F::Ipv6Src
            | F::Ipv6Dst
            | F::NdTarget
            | F::CtIpv6Src
            | F::CtIpv6Dst
            | F::TunIpv6Src
            | F::TunIpv6Dst
    )
}

pub(super) fn ct_state_names() -> [&'static str; 8] {
    CtState::NAMES.map(|(_, name)| name)
}

/// Parses `+a-b`, `a|b`, or a number with an optional mask; `ones` are the valid bits.
fn flags(span: Span<'_>, names: &[&str], ones: u128) -> Result<(u128, u128), TextError> {
    if span.text.starts_with(|c: char| c.is_ascii_digit()) {
        let (value, mask) = match span.split("/") {
            Some((value, mask)) => (number(value)?, number(mask)?),
            None => (number(span)?, ones),
        };
        if value & !ones != 0 {
            return Err(span.error(format!("{value:#x} has bits beyond {ones:#x}")));
        }
        return Ok((value & mask, mask & ones));
    }
    let bit = |name: Span<'_>| -> Result<u128, TextError> {
        let place = names.iter().position(|known| *known == name.text);
        place.map(|place| 1 << place).ok_or_else(|| {
            name.error_with(format!("there is no flag '{}'", name.text), names.join(", "))
        })
    };
    if !span.text.starts_with(['+', '-']) {
        let mut value = 0;
        let mut rest = span;
        while let Some((name, behind)) = rest.split("|") {
            value |= bit(name)?;
            rest = behind;
        }
        return Ok((value | bit(rest)?, ones));
    }
    let (mut value, mut mask) = (0, 0);
    let mut rest = span;
    while !rest.is_empty() {
        let set = rest.text.starts_with('+');
        let name = rest.from(1);
        let end = name.text.find(['+', '-']).unwrap_or(name.text.len());
        let this = bit(name.until(end))?;
        if mask & this != 0 {
            return Err(name.error(format!("'{}' stands here twice", name.until(end).text)));
        }
        mask |= this;
        if set {
            value |= this;
        }
        rest = name.from(end);
    }
    Ok((value, mask))
}

/// `(NAMESPACE,TYPE)`: `(0,0)` for frames, or `(1,ETHERTYPE)`.
fn packet_type(span: Span<'_>) -> Result<(u128, u128), TextError> {
    let text = span.text.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    let inside = text.map(|text| Span { text, at: span.at + 1 });
    let Some((space, kind)) = inside.and_then(|it| it.split(",")) else {
        return Err(span.error_with("a packet type is two numbers", "(0,0) or (1,ETHERTYPE)"));
    };
    let (space, kind) = (number_to(space, 0xffff)?, number_to(kind, 0xffff)?);
    match packet_type_to_key((space << 16 | kind) as u32) {
        Some(packet_type) => Ok((packet_type.into(), Field::PacketType.all_ones())),
        None => {
            let what = format!("there are no packets of type ({space},{kind:#x})");
            Err(span.error_with(what, "(0,0) or (1,ETHERTYPE)"))
        }
    }
}

fn fragment(span: Span<'_>) -> Result<(u128, u128), TextError> {
    Ok(match span.text {
        "no" => (0, 1),
        "yes" => (1, 1),
        "first" => (1, 3),
        "later" => (3, 3),
        "not_later" => (0, 2),
        _ => {
            let hint = "no, yes, first, later, not_later";
            return Err(span.error_with(format!("'{}' says nothing of fragments", span.text), hint));
        }
    })
}
