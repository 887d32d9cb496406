//! Actions on MPLS labels: Nicira's in OpenFlow 1.0, OpenFlow's own in later versions (ovs:
//! `lib/ofp-actions.c`, `enum ofp_raw_action_type`).

use super::list::ActionForm;
use super::standard_out::short;
use super::{nicira_out, set};
use crate::action::Action;
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::version::Version;
use flow::Field;
use wire::ethertype;

/// Numbers of Nicira's actions, and OpenFlow's.
const PUSH: (u16, u16) = (23, 19);
const POP: (u16, u16) = (24, 20);
const SET_TTL: (u16, u16) = (25, 15);
const DEC_TTL: (u16, u16) = (26, 16);
const SET_LABEL: (u16, u16) = (30, 13);
const SET_TC: (u16, u16) = (31, 14);

/// Reads Nicira's action after its subtype; `None` for others.
pub(super) fn take_nicira(subtype: u16, body: &mut Input<'_>) -> Result<Option<Action>, OfError> {
    const KINDS: [(u16, u16); 6] = [PUSH, POP, SET_TTL, DEC_TTL, SET_LABEL, SET_TC];
    let Some((_, kind)) = KINDS.iter().find(|(nicira, _)| *nicira == subtype) else {
        return Ok(None);
    };
    // Numbers of 4 bytes are aligned.
    if subtype == SET_LABEL.0 {
        body.skip(2)?;
        return take(*kind, body);
    }
    let action = take(*kind, body)?;
    body.skip(2)?;
    Ok(action)
}

/// Reads OpenFlow's action of 8 bytes after its type and length; `None` for others.
pub(super) fn take(kind: u16, body: &mut Input<'_>) -> Result<Option<Action>, OfError> {
    let mut number = |bytes: usize| {
        let value = body.uint(bytes)? as u32;
        body.skip(4 - bytes)?;
        Ok(value)
    };
    Ok(Some(match kind {
        _ if kind == SET_LABEL.1 => Action::SetMplsLabel(number(4)?),
        _ if kind == SET_TC.1 => Action::SetMplsTc(number(1)? as u8),
        _ if kind == SET_TTL.1 => Action::SetMplsTtl(number(1)? as u8),
        _ if kind == DEC_TTL.1 => {
            number(0)?;
            Action::DecMplsTtl
        }
        _ if kind == PUSH.1 => {
            let ethertype = number(2)? as u16;
            if !ethertype::is_mpls(ethertype) {
                let reason = format!("push_mpls: {ethertype:#06x} is no Ethernet type of MPLS");
                return Err(OfError::new(ErrorCode::ActionBadArgument, reason));
            }
            Action::PushMpls(ethertype)
        }
        _ if kind == POP.1 => Action::PopMpls(number(2)? as u16),
        _ => return Ok(None),
    }))
}

/// Writes the action if it is one of these. Returns whether it is.
pub(super) fn put(out: &mut Vec<u8>, action: &Action, form: &ActionForm) -> bool {
    let is_settable = form.version >= Version::V12;
    match action {
        Action::SetMplsLabel(label) if is_settable => {
            set::put_whole(out, form, Field::MplsLabel, (*label).into());
        }
        Action::SetMplsTc(tc) if is_settable => {
            set::put_whole(out, form, Field::MplsTc, (*tc).into());
        }
        Action::SetMplsLabel(label) => number(out, form, SET_LABEL, (*label).into(), 4),
        Action::SetMplsTc(tc) => number(out, form, SET_TC, (*tc).into(), 1),
        Action::SetMplsTtl(ttl) => number(out, form, SET_TTL, (*ttl).into(), 1),
        Action::DecMplsTtl => number(out, form, DEC_TTL, 0, 0),
        Action::PushMpls(ethertype) => number(out, form, PUSH, (*ethertype).into(), 2),
        Action::PopMpls(ethertype) => number(out, form, POP, (*ethertype).into(), 2),
        _ => return false,
    }
    true
}

/// Writes an action with a number of `bytes` bytes.
fn number(
    out: &mut Vec<u8>,
    form: &ActionForm,
    (nicira, openflow): (u16, u16),
    value: u128,
    bytes: usize,
) {
    if form.version != Version::V10 {
        return short(out, openflow, value, bytes);
    }
    nicira_out::action(out, nicira, |out| {
        if bytes == 4 {
            out.put_zeros(2);
        }
        out.put_uint(value, bytes);
    });
}
