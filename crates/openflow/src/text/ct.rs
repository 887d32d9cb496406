//! `ct(...)` and the `nat(...)` in it.

use super::actions::{Nesting, list};
use super::span::Span;
use super::{PortNames, TextError, assign, value};
use crate::action::{Action, Ct, ZoneSource};
use base::TableId;
use flow::{NatKind, NatRange, PortSelection};
use std::net::IpAddr;

/// Parses the text between the parentheses of `ct`.
pub(super) fn ct(
    span: Span<'_>,
    ports: PortNames<'_>,
    nesting: Nesting,
) -> Result<Action, TextError> {
    let mut ct = Ct {
        commit: false,
        force: false,
        zone: ZoneSource::Immediate(0),
        table: None,
        alg: 0,
        exec: Vec::new(),
    };
    let mut nat = None;
    for pair in span.pairs()? {
        match pair.key.text {
            "commit" => ct.commit = true,
            "force" => ct.force = true,
            "table" => {
                let table = value::number_to(pair.needed()?, 254)?;
                ct.table = Some(TableId(table as u8));
            }
            "zone" => ct.zone = zone(pair.needed()?)?,
            "alg" => {
                let name = pair.needed()?;
                ct.alg = match name.text {
                    "ftp" => 21,
                    "tftp" => 69,
                    _ => value::number_to(name, 0xffff)? as u16,
                };
            }
            "nat" => {
                let range = pair.value.unwrap_or(Span { text: "", ..pair.key });
                nat = Some(Action::Nat(nat_range(range)?));
            }
            "exec" => ct.exec = list(pair.needed()?, ports, nesting.deeper(pair.key)?)?,
            other => {
                let hint = "commit, force, table=, zone=, nat, exec(), alg=";
                return Err(pair.key.error_with(format!("ct has no '{other}'"), hint));
            }
        }
    }
    if ct.force && !ct.commit {
        return Err(span.error_with("ct: force goes only with commit", "add commit"));
    }
    // As in Open vSwitch, `nat` comes first, wherever it was written.
    if let Some(nat) = nat {
        ct.exec.insert(0, nat);
    }
    crate::actions::ct_nesting(&ct).map_err(|error| span.error(error.reason))?;
    Ok(Action::Ct(ct))
}

fn zone(span: Span<'_>) -> Result<ZoneSource, TextError> {
    if span.text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(ZoneSource::Immediate(value::number_to(span, 0xffff)? as u16));
    }
    let (part, _) = assign::subfield(span)?;
    if part.bits != 16 {
        let what = format!("a zone has 16 bits, and this has {}", part.bits);
        return Err(span.error_with(what, "zone=NXM_NX_REG0[0..15]"));
    }
    Ok(ZoneSource::Field(part))
}

/// Parses the text between the parentheses of `nat`; `None` if it is empty.
fn nat_range(span: Span<'_>) -> Result<Option<NatRange>, TextError> {
    let mut kind = None;
    let (mut addresses, mut ports) = (None, None);
    let (mut selection, mut persistent) = (PortSelection::Default, false);
    for pair in span.pairs()? {
        match pair.key.text {
            side @ ("src" | "dst") => {
                if kind.is_some() {
                    return Err(pair.key.error("nat changes src or dst, not both"));
                }
                kind = Some(if side == "src" { NatKind::Src } else { NatKind::Dst });
                if let Some(range) = pair.value.filter(|range| !range.is_empty()) {
                    (addresses, ports) = address_range(range)?;
                }
            }
            "persistent" => persistent = true,
            "hash" => selection = PortSelection::Hash,
            "random" => selection = PortSelection::Random,
            other => {
                let hint = "src=, dst=, persistent, hash, random";
                return Err(pair.key.error_with(format!("nat has no '{other}'"), hint));
            }
        }
    }
    let Some(kind) = kind else {
        if persistent || selection != PortSelection::Default {
            return Err(
                span.error_with("nat: flags go only with src or dst", "nat(src=ADDRESS,random)")
            );
        }
        return Ok(None);
    };
    Ok(Some(NatRange { kind, addresses, ports, selection, persistent }))
}

type Range<T> = Option<(T, T)>;

/// `ADDRESS[-ADDRESS][:PORT[-PORT]]`; IPv6 addresses are in brackets if a port follows.
fn address_range(span: Span<'_>) -> Result<(Range<IpAddr>, Range<u16>), TextError> {
    let (addresses, ports) = split_ports(span);
    let (first, last) = match addresses.split("-") {
        Some((first, last)) => (address(first)?, address(last)?),
        None => (address(addresses)?, address(addresses)?),
    };
    if first.is_ipv4() != last.is_ipv4() || last < first || first.is_unspecified() {
        return Err(addresses.error(format!("{first} to {last} is no range of addresses")));
    }
    let Some(ports) = ports else { return Ok((Some((first, last)), None)) };
    let one = |span| value::number_to(span, 0xffff).map(|port| port as u16);
    let (low, high) = match ports.split("-") {
        Some((low, high)) => (one(low)?, one(high)?),
        None => (one(ports)?, one(ports)?),
    };
    if low == 0 || high < low {
        return Err(ports.error(format!("{low} to {high} is no range of ports")));
    }
    Ok((Some((first, last)), Some((low, high))))
}

fn split_ports(span: Span<'_>) -> (Span<'_>, Option<Span<'_>>) {
    if let Some(at) = span.text.rfind("]:") {
        return (span.until(at + 1), Some(span.from(at + 2)));
    }
    if span.text.contains('[') || span.text.matches(':').count() > 1 {
        return (span, None);
    }
    match span.split(":") {
        Some((addresses, ports)) => (addresses, Some(ports)),
        None => (span, None),
    }
}

fn address(span: Span<'_>) -> Result<IpAddr, TextError> {
    let span = span.trim();
    let bare = span.text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().map_err(|_| span.error(format!("'{}' is not an IP address", span.text)))
}
