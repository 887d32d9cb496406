//! OpenFlow's own actions (`OFPAT_*`).

use super::list::ActionForm;
use super::set;
use crate::action::{Action, SetForm, Subfield};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::message::Version;
use base::{MacAddr, OfPort};
use flow::Field;
use std::net::Ipv4Addr;

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Reads the action after its type and length.
pub(super) fn take(
    kind: u16,
    body: &mut Input<'_>,
    version: Version,
    actions: &mut Vec<Action>,
) -> Result<(), OfError> {
    let action =
        if version == Version::V10 { take10(kind, body)? } else { take13(kind, body, version)? };
    body.done()?;
    actions.push(action);
    Ok(())
}

fn take10(kind: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    Ok(match kind {
        0 => Action::Output { port: OfPort(body.u16()?), max_len: body.u16()? },
        1 => {
            let vid = padded(body, 2)?;
            if vid > 0xfff {
                return Err(bad(ErrorCode::ActionBadArgument, format!("{vid} is no VLAN id")));
            }
            Action::SetVlanVid(vid as u16)
        }
        2 => {
            let pcp = padded(body, 1)?;
            if pcp > 7 {
                return Err(bad(
                    ErrorCode::ActionBadArgument,
                    format!("{pcp} is no VLAN priority"),
                ));
            }
            Action::SetVlanPcp(pcp as u8)
        }
        3 => empty(body, Action::StripVlan)?,
        4..=10 => take_old_set(kind - 4, body)?,
        11 => return Err(bad(ErrorCode::ActionBadType, "enqueue: queues are not supported")),
        _ => return Err(bad(ErrorCode::ActionBadType, format!("action {kind} is unknown"))),
    })
}

/// A number of `bytes` bytes at the start of 4.
fn padded(body: &mut Input<'_>, bytes: usize) -> Result<u32, OfError> {
    let value = body.uint(bytes)? as u32;
    body.skip(4 - bytes)?;
    Ok(value)
}

fn empty(body: &mut Input<'_>, action: Action) -> Result<Action, OfError> {
    body.skip(4)?;
    Ok(action)
}

/// `mod_dl_src` to `mod_tp_dst`, by their place among them in OpenFlow 1.0.
fn take_old_set(place: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    Ok(match place {
        0 | 1 => {
            let mac = MacAddr(body.array()?);
            body.skip(6)?;
            if place == 0 { Action::SetEthSrc(mac) } else { Action::SetEthDst(mac) }
        }
        2 => Action::SetIpv4Src(Ipv4Addr::from(body.u32()?)),
        3 => Action::SetIpv4Dst(Ipv4Addr::from(body.u32()?)),
        4 => {
            let tos = padded(body, 1)? as u8;
            if tos & 3 != 0 {
                return Err(bad(
                    ErrorCode::ActionBadArgument,
                    format!("{tos:#x} is no DSCP in place"),
                ));
            }
            Action::SetIpDscp(tos)
        }
        5 => Action::SetTpSrc(padded(body, 2)? as u16),
        _ => Action::SetTpDst(padded(body, 2)? as u16),
    })
}

fn take13(kind: u16, body: &mut Input<'_>, version: Version) -> Result<Action, OfError> {
    Ok(match kind {
        0 => {
            let raw = body.u32()?;
            let Some(port) = OfPort::from_wire32(raw) else {
                return Err(bad(ErrorCode::ActionBadOutPort, format!("port {raw:#x} can't be")));
            };
            let max_len = body.u16()?;
            body.skip(6)?;
            Action::Output { port, max_len }
        }
        1 => {
            let vid = padded(body, 2)?;
            if vid > 0xfff {
                return Err(bad(ErrorCode::ActionBadArgument, format!("{vid} is no VLAN id")));
            }
            set::whole(Field::VlanVidPresent, 0x1000 | u128::from(vid))
        }
        2 => {
            let pcp = padded(body, 1)?;
            if pcp > 7 {
                return Err(bad(
                    ErrorCode::ActionBadArgument,
                    format!("{pcp} is no VLAN priority"),
                ));
            }
            set::whole(Field::VlanPcp, pcp.into())
        }
        3..=7 => take_old_set(kind - 3, body)?,
        8 => Action::SetIpEcn(padded(body, 1)? as u8 & 3),
        9 | 10 => take_old_set(kind - 4, body)?,
        17 => {
            let tpid = padded(body, 2)? as u16;
            if !matches!(tpid, 0x8100 | 0x88a8) {
                let reason = format!("push_vlan: {tpid:#06x} is no Ethernet type of a VLAN tag");
                return Err(bad(ErrorCode::ActionBadArgument, reason));
            }
            Action::PushVlan(tpid)
        }
        18 => empty(body, Action::StripVlan)?,
        21 => return Err(bad(ErrorCode::ActionBadType, "set_queue: queues are not supported")),
        22 => return Err(bad(ErrorCode::ActionBadOutGroup, "group: there are no groups")),
        23 => Action::SetIpTtl(padded(body, 1)? as u8),
        24 => empty(body, Action::DecTtl(vec![0]))?,
        25 => set::take_set_field(body, version)?,
        28 if version == Version::V15 => take_copy_field(body)?,
        29 if version == Version::V15 => {
            return Err(bad(ErrorCode::MeterInvalid, "meter: there are no meters"));
        }
        _ => return Err(bad(ErrorCode::ActionBadType, format!("action {kind} is unknown"))),
    })
}

fn take_copy_field(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (bits, source_offset, target_offset) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(2)?;
    let source = set::take_source(body, source_offset.into(), bits.into())?;
    let target = set::take_target(body, target_offset.into(), bits.into())?;
    body.take(body.len())?;
    Ok(Action::Move { source, target })
}

/// Writes the action if OpenFlow itself has it in this version.
pub(super) fn put(out: &mut Vec<u8>, action: &Action, form: &mut ActionForm) -> bool {
    if form.version == Version::V10 { put10(out, action) } else { put13(out, action, form) }
}

/// Type, length 8, and a number at the start of the 4 bytes that are left.
fn short(out: &mut Vec<u8>, kind: u16, value: u128, bytes: usize) {
    out.put_u16(kind);
    out.put_u16(8);
    out.put_uint(value, bytes);
    out.put_zeros(4 - bytes);
}

fn mac(out: &mut Vec<u8>, kind: u16, mac: MacAddr) {
    out.put_u16(kind);
    out.put_u16(16);
    out.put(&mac.0);
    out.put_zeros(6);
}

fn put10(out: &mut Vec<u8>, action: &Action) -> bool {
    match action {
        Action::Output { port, max_len } => {
            short(out, 0, u128::from(port.0) << 16 | u128::from(*max_len), 4);
        }
        Action::SetVlanVid(vid) => short(out, 1, (*vid).into(), 2),
        Action::SetVlanPcp(pcp) => short(out, 2, (*pcp).into(), 1),
        Action::StripVlan => short(out, 3, 0, 0),
        Action::SetEthSrc(address) => mac(out, 4, *address),
        Action::SetEthDst(address) => mac(out, 5, *address),
        Action::SetIpv4Src(address) => short(out, 6, u32::from(*address).into(), 4),
        Action::SetIpv4Dst(address) => short(out, 7, u32::from(*address).into(), 4),
        Action::SetIpDscp(tos) => short(out, 8, (*tos).into(), 1),
        Action::SetTpSrc(port) => short(out, 9, (*port).into(), 2),
        Action::SetTpDst(port) => short(out, 10, (*port).into(), 2),
        // Setting a VLAN id adds a tag in OpenFlow 1.0.
        Action::PushVlan(_) => {}
        Action::Set { field, value, mask, form: SetForm::SetField } => {
            return put10_set(out, *field, *value, *mask);
        }
        _ => return false,
    }
    true
}

/// A `set_field` that OpenFlow 1.0 has an action for.
fn put10_set(out: &mut Vec<u8>, field: Field, value: u128, mask: u128) -> bool {
    if mask != field.all_ones() && field != Field::NwTos {
        return false;
    }
    let address = MacAddr::from_u64(value as u64);
    match field {
        Field::VlanTci if value & 0x1000 != 0 => {
            short(out, 1, value & 0xfff, 2);
            short(out, 2, value >> 13, 1);
        }
        Field::VlanTci => short(out, 3, 0, 0),
        Field::VlanVid | Field::VlanVidPresent => short(out, 1, value & 0xfff, 2),
        Field::VlanPcp => short(out, 2, value, 1),
        Field::EthSrc => mac(out, 4, address),
        Field::EthDst => mac(out, 5, address),
        Field::Ipv4Src => short(out, 6, value, 4),
        Field::Ipv4Dst => short(out, 7, value, 4),
        Field::NwTos => short(out, 8, value & 0xfc, 1),
        Field::IpDscp => short(out, 8, value << 2, 1),
        Field::TpSrc => short(out, 9, value, 2),
        Field::TpDst => short(out, 10, value, 2),
        _ => return false,
    }
    true
}

fn put13(out: &mut Vec<u8>, action: &Action, form: &mut ActionForm) -> bool {
    let port_number = |kind: u16| (form.proto.nw_proto, kind);
    match action {
        Action::Output { port, max_len } => {
            out.put_u16(0);
            out.put_u16(16);
            out.put_u32(port.to_wire32());
            out.put_u16(*max_len);
            out.put_zeros(6);
        }
        Action::SetVlanVid(vid) => {
            ensure_vlan(out, form);
            set::put_whole(out, form, Field::VlanVidPresent, 0x1000 | u128::from(*vid));
        }
        Action::SetVlanPcp(pcp) => {
            ensure_vlan(out, form);
            set::put_whole(out, form, Field::VlanPcp, (*pcp).into());
        }
        Action::StripVlan => {
            form.proto.has_vlan = false;
            short(out, 18, 0, 0);
        }
        Action::PushVlan(tpid) => {
            form.proto.has_vlan = true;
            short(out, 17, (*tpid).into(), 2);
        }
        Action::SetEthSrc(mac) => set::put_whole(out, form, Field::EthSrc, mac.to_u64().into()),
        Action::SetEthDst(mac) => set::put_whole(out, form, Field::EthDst, mac.to_u64().into()),
        Action::SetIpv4Src(ip) => set::put_whole(out, form, Field::Ipv4Src, u32::from(*ip).into()),
        Action::SetIpv4Dst(ip) => set::put_whole(out, form, Field::Ipv4Dst, u32::from(*ip).into()),
        Action::SetIpDscp(tos) => set::put_whole(out, form, Field::IpDscp, u128::from(tos >> 2)),
        Action::SetIpEcn(ecn) => set::put_whole(out, form, Field::IpEcn, (*ecn).into()),
        Action::SetTpSrc(port) => match port_number(9) {
            (6 | 17 | 132, _) => set::put_whole(out, form, Field::TpSrc, (*port).into()),
            (_, kind) => short(out, kind, (*port).into(), 2),
        },
        Action::SetTpDst(port) => match port_number(10) {
            (6 | 17 | 132, _) => set::put_whole(out, form, Field::TpDst, (*port).into()),
            (_, kind) => short(out, kind, (*port).into(), 2),
        },
        Action::SetIpTtl(ttl) => short(out, 23, (*ttl).into(), 1),
        Action::DecTtl(ids) if ids.as_slice() == [0] => short(out, 24, 0, 0),
        Action::Set { field, value, mask, form: set_form } => {
            return set::put_set_field(out, form, *field, *value, *mask, *set_form);
        }
        Action::Move { source, target } if form.version == Version::V15 => {
            put_copy_field(out, source, target, form);
        }
        _ => return false,
    }
    true
}

/// `mod_vlan_vid` adds a tag where none is; later versions must be told to.
fn ensure_vlan(out: &mut Vec<u8>, form: &mut ActionForm) {
    if !form.proto.has_vlan {
        short(out, 17, 0x8100, 2);
        form.proto.has_vlan = true;
    }
}

fn put_copy_field(out: &mut Vec<u8>, source: &Subfield, target: &Subfield, form: &ActionForm) {
    let start = out.len();
    out.put_u16(28);
    out.put_u16(0);
    out.put_u16(target.bits as u16);
    out.put_u16(source.offset as u16);
    out.put_u16(target.offset as u16);
    out.put_zeros(2);
    crate::oxm::put_header(out, source.field, form.proto, form.version as u8);
    crate::oxm::put_header(out, target.field, form.proto, form.version as u8);
    out.pad8(start);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
}
