//! Decoding of OpenFlow's own actions (`OFPAT_*`).

use super::{mpls, set};
use crate::action::Action;
use crate::bytes::Input;
use crate::error::{ErrorCode, OfError};
use crate::message::{GROUP_MAX, METER_MAX};
use crate::version::Version;
use base::{MacAddr, OfPort};
use flow::Field;
use std::net::Ipv4Addr;
use wire::ethertype;

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
        if version == Version::V10 { take10(kind, body)? } else { take11(kind, body, version)? };
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
        11 => {
            let port = OfPort(body.u16()?);
            body.skip(6)?;
            Action::Enqueue { port, queue: body.u32()? }
        }
        _ => return Err(bad(ErrorCode::ActionBadType, format!("action {kind} is unknown"))),
    })
}

/// Reads a number of `bytes` bytes and padding to 4 bytes.
fn padded(body: &mut Input<'_>, bytes: usize) -> Result<u32, OfError> {
    let value = body.uint(bytes)? as u32;
    body.skip(4 - bytes)?;
    Ok(value)
}

fn empty(body: &mut Input<'_>, action: Action) -> Result<Action, OfError> {
    body.skip(4)?;
    Ok(action)
}

/// `mod_dl_src` to `mod_tp_dst`, by their order in OpenFlow 1.0.
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

fn take11(kind: u16, body: &mut Input<'_>, version: Version) -> Result<Action, OfError> {
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
            if !ethertype::is_vlan(tpid) {
                let reason = format!("push_vlan: {tpid:#06x} is no Ethernet type of a VLAN tag");
                return Err(bad(ErrorCode::ActionBadArgument, reason));
            }
            Action::PushVlan(tpid)
        }
        18 => empty(body, Action::StripVlan)?,
        21 => Action::SetQueue(body.u32()?),
        22 => Action::Group(group_number(body.u32()?)?),
        23 => Action::SetIpTtl(padded(body, 1)? as u8),
        24 => empty(body, Action::DecTtl(vec![0]))?,
        25 if version >= Version::V12 => set::take_set_field(body, version)?,
        28 if version == Version::V15 => set::take_copy(body, true)?,
        29 if version == Version::V15 => Action::Meter(meter_number(body.u32()?)?),
        _ => match mpls::take(kind, body)? {
            Some(action) => action,
            None => {
                return Err(bad(ErrorCode::ActionBadType, format!("action {kind} is unknown")));
            }
        },
    })
}

/// Checks the number of a meter.
pub(super) fn meter_number(meter: u32) -> Result<u32, OfError> {
    if (1..=METER_MAX).contains(&meter) {
        return Ok(meter);
    }
    Err(bad(ErrorCode::MeterInvalid, format!("meter {meter:#x} can't be")))
}

/// Checks the number of a group.
pub(super) fn group_number(group: u32) -> Result<u32, OfError> {
    if group <= GROUP_MAX {
        return Ok(group);
    }
    Err(bad(ErrorCode::ActionBadOutGroup, format!("group {group:#x} can't be")))
}
