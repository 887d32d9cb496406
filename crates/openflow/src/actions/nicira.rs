//! Decoding of Nicira's actions (`NXAST_*`; ovs: `lib/ofp-actions.c`).

use super::list::take_nested;
use super::{choice, encap, learn, mpls, sample, set};
use crate::action::{Action, Conjunction, Ct, SetForm, Subfield, ToController, ZoneSource};
use crate::bytes::Input;
use crate::error::{ErrorCode, OfError};
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;
use base::{OfPort, TableId};
use flow::{Field, NatKind, NatRange, PortSelection};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

/// The ONF's copy_field.
pub(super) const COPY_FIELD: u16 = 3200;
/// Minimum of `output(max_len=)`: an Ethernet header.
pub(crate) const MAX_LEN_MIN: u32 = 14;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads a vendor's action after type and length.
pub(super) fn take(
    body: &mut Input<'_>,
    version: Version,
    depth: u32,
    actions: &mut Vec<Action>,
) -> Result<(), OfError> {
    let (vendor, subtype) = (body.u32()?, body.u16()?);
    match vendor {
        NICIRA => {}
        // The ONF's copy_field of OpenFlow 1.3.
        ONF if subtype == COPY_FIELD => {
            body.skip(2)?;
            actions.push(set::take_copy(body, true)?);
            return Ok(());
        }
        _ => return Err(unsupported(subtype)),
    }
    let action = match subtype {
        2 => {
            body.skip(2)?;
            tunnel(body.u32()?.into(), SetForm::SetTunnel)
        }
        9 => {
            body.skip(6)?;
            tunnel(body.u64()?, SetForm::SetTunnel64)
        }
        6 => set::take_copy(body, false)?,
        7 => set::take_load(body)?,
        33 => set::take_load2(body)?,
        1 | 14 | 44 => take_resubmit(subtype, body)?,
        8 => Action::Note(body.take(body.len())?.to_vec()),
        4 | 5 => take_queue(subtype, body)?,
        10 => choice::take_multipath(body)?,
        12 | 13 => choice::take_bundle(subtype == 13, body)?,
        16 | 45 => learn::take(subtype == 45, body)?,
        19 => take_fin_timeout(body)?,
        34 => take_conjunction(body)?,
        15 | 32 => take_output_reg(subtype, body)?,
        17 | 18 | 43 | 254 | 255 => take_void(subtype, body)?,
        20 => take_controller(body)?,
        37 => take_controller2(body)?,
        21 => take_dec_ttl(body)?,
        22 => take_write_metadata(body)?,
        27 | 28 => take_stack(subtype, body)?,
        35 => take_ct(body, version, depth)?,
        36 => Action::Nat(take_nat(body)?),
        42 => {
            body.skip(6)?;
            Action::Clone(take_nested(body.take(body.len())?, version, depth)?)
        }
        39 => take_output_trunc(body)?,
        46..=48 => encap::take(subtype, body)?,
        49 => take_check_pkt_larger(body)?,
        50 => take_delete_field(body)?,
        40 => take_group(body)?,
        sample::SAMPLE | sample::SAMPLE2 | sample::SAMPLE3 | sample::SAMPLE4 => {
            sample::take(subtype, body)?
        }
        _ => match mpls::take_nicira(subtype, body)? {
            Some(action) => action,
            None => return Err(unsupported(subtype)),
        },
    };
    body.done()?;
    actions.push(action);
    Ok(())
}

fn unsupported(subtype: u16) -> OfError {
    let reason = format!("Nicira's action {subtype} is not supported");
    bad(ErrorCode::ActionBadVendorType, reason)
}

fn take_write_metadata(body: &mut Input<'_>) -> Result<Action, OfError> {
    if body.array()? != [0; 6] {
        return Err(bad(ErrorCode::MustBeZero, "write_metadata: padding that is not zero"));
    }
    Ok(Action::WriteMetadata { value: body.u64()?, mask: body.u64()? })
}

fn take_group(body: &mut Input<'_>) -> Result<Action, OfError> {
    body.skip(2)?;
    Ok(Action::Group(super::standard::group_number(body.u32()?)?))
}

fn void(body: &mut Input<'_>, action: Action) -> Result<Action, OfError> {
    body.skip(6)?;
    Ok(action)
}

/// Actions without arguments.
fn take_void(subtype: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    let action = match subtype {
        17 => Action::Exit,
        18 => Action::DecTtl(vec![0]),
        43 => Action::CtClear,
        254 => Action::DebugSlow,
        _ => Action::DebugRecirc,
    };
    void(body, action)
}

fn tunnel(id: u64, form: SetForm) -> Action {
    let field = Field::TunId;
    Action::Set { field, value: id.into(), mask: field.all_ones(), form }
}

fn take_resubmit(subtype: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    let port = OfPort(body.u16()?);
    let table = body.u8()?;
    // The form without a table has other padding.
    if body.array()? != [0; 3] && subtype != 1 {
        return Err(bad(ErrorCode::ActionBadArgument, "resubmit: padding that is not zero"));
    }
    let table = (subtype != 1 && table != 0xff).then_some(TableId(table));
    let in_port = (port != OfPort::IN_PORT).then_some(port);
    Ok(Action::Resubmit { in_port, table, with_ct_orig: subtype == 44 })
}

fn take_output_reg(subtype: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    let (offset, bits) = set::offset_bits(body.u16()?);
    if subtype == 15 {
        let mut field = body.part(4)?;
        let max_len = body.u16()?;
        set::zeros(body, ErrorCode::ActionBadArgument, "output:REG")?;
        let source = set::source(crate::oxm::take_id(&mut field)?, offset, bits)?;
        return Ok(Action::OutputReg { source, max_len });
    }
    let max_len = body.u16()?;
    let field = crate::oxm::take_header(body)?;
    set::zeros(body, ErrorCode::MustBeZero, "output:REG")?;
    Ok(Action::OutputReg { source: set::source(field, offset, bits)?, max_len })
}

fn take_output_trunc(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (port, max_len) = (OfPort(body.u16()?), body.u32()?);
    if max_len < MAX_LEN_MIN {
        let reason = format!("output: max_len of {max_len} is less than {MAX_LEN_MIN}");
        return Err(bad(ErrorCode::ActionBadArgument, reason));
    }
    Ok(Action::OutputTrunc { port, max_len })
}

fn take_check_pkt_larger(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (bytes, offset) = (body.u16()?, body.u16()?);
    let field = crate::oxm::take_header(body)?;
    set::zeros(body, ErrorCode::MustBeZero, "check_pkt_larger")?;
    Ok(Action::CheckPktLarger { bytes, target: set::target(field, offset.into(), 1)? })
}

fn take_delete_field(body: &mut Input<'_>) -> Result<Action, OfError> {
    let field = crate::oxm::take_header(body)?;
    body.take(body.len())?;
    Ok(Action::DeleteField(Subfield::whole(field.field)))
}

fn take_queue(subtype: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    if subtype == 5 {
        return void(body, Action::PopQueue);
    }
    body.skip(2)?;
    Ok(Action::SetQueue(body.u32()?))
}

fn take_fin_timeout(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (idle_s, hard_s) = (body.u16()?, body.u16()?);
    body.skip(2)?;
    Ok(Action::FinTimeout { idle_s, hard_s })
}

fn take_conjunction(body: &mut Input<'_>) -> Result<Action, OfError> {
    let conjunction = Conjunction { clause: body.u8()?, clauses: body.u8()?, id: body.u32()? };
    let Conjunction { clause, clauses, .. } = conjunction;
    if !(2..=64).contains(&clauses) || clause >= clauses {
        let reason = format!("conjunction: clause {clause} (from 0) of {clauses}");
        return Err(bad(ErrorCode::BadConjunction, reason));
    }
    Ok(Action::Conjunction(conjunction))
}

fn take_controller(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (max_len, controller_id) = (body.u16()?, body.u16()?);
    let reason = body.u8()?;
    body.skip(1)?;
    let to = ToController { max_len, controller_id, reason, ..ToController::default() };
    Ok(Action::Controller(to))
}

fn take_controller2(body: &mut Input<'_>) -> Result<Action, OfError> {
    if body.array()? != [0; 6] {
        return Err(bad(ErrorCode::MustBeZero, "controller: padding that is not zero"));
    }
    let mut out = ToController::default();
    while !body.is_empty() {
        let (kind, mut value) = body.property()?;
        match kind {
            0 => out.max_len = value.u16()?,
            1 => out.controller_id = value.u16()?,
            2 => out.reason = value.u8()?,
            3 => out.userdata = value.rest().to_vec(),
            4 => out.pause = true,
            5 => {
                out.meter = NonZeroU32::new(value.u32()?);
                value.done()?;
            }
            _ => {
                let reason = format!("controller: property {kind} is unknown");
                return Err(bad(ErrorCode::PropertyBadType, reason));
            }
        }
    }
    Ok(Action::Controller(out))
}

fn take_dec_ttl(body: &mut Input<'_>) -> Result<Action, OfError> {
    let count = body.u16()?;
    if body.array()? != [0; 4] {
        return Err(bad(ErrorCode::MustBeZero, "dec_ttl: padding that is not zero"));
    }
    let ids = (0..count).map(|_| body.u16()).collect::<Result<Vec<_>, _>>()?;
    // OVN gives no controller, so that packets whose TTL expires are dropped without a message.
    body.take(body.len())?;
    Ok(Action::DecTtl(ids))
}

fn take_stack(subtype: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    let offset = body.u16()?.into();
    let field = crate::oxm::take_header(body)?;
    let bits = body.u16()?.into();
    set::zeros(body, ErrorCode::MustBeZero, "push/pop")?;
    Ok(if subtype == 27 {
        Action::StackPush(set::source(field, offset, bits)?)
    } else {
        Action::StackPop(set::target(field, offset, bits)?)
    })
}

fn take_ct(body: &mut Input<'_>, version: Version, depth: u32) -> Result<Action, OfError> {
    let flags = body.u16()?;
    let (commit, force) = (flags & 1 != 0, flags & 2 != 0);
    if force && !commit {
        return Err(bad(ErrorCode::ActionBadArgument, "ct: force without commit"));
    }
    let source = body.rest().get(..4) != Some(&[0; 4]);
    let mut header = body.part(4)?;
    let packed = body.u16()?;
    let zone = if source {
        let (offset, bits) = set::offset_bits(packed);
        let part = set::source(crate::oxm::take_id(&mut header)?, offset, bits)?;
        if part.bits != 16 {
            let reason = format!("ct: a zone of {} bits in place of 16", part.bits);
            return Err(bad(ErrorCode::ActionBadSetLen, reason));
        }
        ZoneSource::Field(part)
    } else {
        ZoneSource::Immediate(packed)
    };
    let table = body.u8()?;
    body.skip(3)?;
    let alg = body.u16()?;
    let exec = take_nested(body.take(body.len())?, version, depth)?;
    let table = (table != 0xff).then_some(TableId(table));
    let ct = Ct { commit, force, zone, table, alg, exec };
    super::check::ct_nesting(&ct)?;
    Ok(Action::Ct(ct))
}

/// Returns `None` for `nat` without arguments.
fn take_nat(body: &mut Input<'_>) -> Result<Option<NatRange>, OfError> {
    let wrong = |reason: &str| bad(ErrorCode::ActionBadArgument, format!("nat: {reason}"));
    body.skip(2)?;
    let (flags, present) = (body.u16()?, body.u16()?);
    let has = |bit: u16| present & 1 << bit != 0;
    let (src, dst, hash, random) =
        (flags & 1 != 0, flags & 2 != 0, flags & 8 != 0, flags & 16 != 0);
    if flags & !0x1f != 0 || src && dst || hash && random {
        return Err(wrong(&format!("flags {flags:#x} don't go together")));
    }
    let (v4, v6) = (has(0), has(2));
    if v4 && (v6 || has(3)) || has(1) && !v4 || has(3) && !v6 {
        return Err(wrong("addresses of both families, or a last one without a first"));
    }
    let address = |body: &mut Input<'_>| -> Result<IpAddr, OfError> {
        Ok(if v4 {
            Ipv4Addr::from(body.u32()?).into()
        } else {
            Ipv6Addr::from(body.uint(16)?).into()
        })
    };
    let mut addresses = None;
    if v4 || v6 {
        let first = address(body)?;
        let last = if has(1) || has(3) { address(body)? } else { first };
        if first.is_unspecified() || last < first {
            return Err(wrong(&format!("{first} to {last} is no range of addresses")));
        }
        addresses = Some((first, last));
    }
    let mut ports = None;
    if has(4) {
        let first = body.u16()?;
        let last = if has(5) { body.u16()? } else { first };
        if addresses.is_none() || first == 0 || last < first {
            return Err(wrong(&format!(
                "{first} to {last} is no range of ports behind an address"
            )));
        }
        ports = Some((first, last));
    } else if has(5) {
        return Err(wrong("a last port without a first"));
    }
    body.take(body.len())?;
    if !src && !dst {
        return match addresses {
            None => Ok(None),
            Some(_) => Err(wrong("addresses without src or dst")),
        };
    }
    let kind = if src { NatKind::Src } else { NatKind::Dst };
    let selection = match (hash, random) {
        (true, _) => PortSelection::Hash,
        (_, true) => PortSelection::Random,
        _ => PortSelection::Default,
    };
    Ok(Some(NatRange { kind, addresses, ports, selection, persistent: flags & 4 != 0 }))
}
