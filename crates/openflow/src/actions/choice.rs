//! `bundle`, `bundle_load` and `multipath` on the wire (ovs: `lib/ofp-actions.c`).

use super::list::ActionForm;
use super::{nicira_out, set};
use crate::action::{Action, Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::oxm;
use base::OfPort;

/// `NXM_OF_IN_PORT`, the only type of member.
const MEMBER: u32 = 0x0000_0002;
/// ovs: `include/openvswitch/ofp-actions.h`, `BUNDLE_MAX_MEMBERS`.
const MEMBERS: u16 = 2048;

fn bad(reason: impl Into<String>) -> OfError {
    OfError::new(ErrorCode::ActionBadArgument, reason)
}

fn take_fields(body: &mut Input<'_>) -> Result<HashFields, OfError> {
    let number = body.u16()?;
    HashFields::from_number(number).ok_or_else(|| bad(format!("hash fields {number} are unknown")))
}

/// Reads `NXAST_BUNDLE` or `NXAST_BUNDLE_LOAD` after its header.
pub(super) fn take_bundle(loads: bool, body: &mut Input<'_>) -> Result<Action, OfError> {
    let algorithm = match body.u16()? {
        0 => BundleAlgorithm::ActiveBackup,
        1 => BundleAlgorithm::HighestRandomWeight,
        other => return Err(bad(format!("bundle: algorithm {other} is unknown"))),
    };
    let (fields, basis) = (take_fields(body)?, body.u16()?);
    let (kind, count, packed) = (body.u32()?, body.u16()?, body.u16()?);
    if kind != MEMBER || count > MEMBERS {
        return Err(bad(format!("bundle: {count} members of kind {kind:#010x}")));
    }
    // An experimenter's field would also need the following bytes.
    let (mut header, zero) = (body.part(4)?, body.u32()?);
    let target = if loads {
        let (offset, bits) = set::offset_bits(packed);
        let target = set::take_target(&mut header, offset, bits)?;
        if target.bits < 16 {
            return Err(bad("bundle_load: a port's number needs 16 bits"));
        }
        Some(target)
    } else if packed != 0 || header.u32()? != 0 {
        return Err(bad("bundle: a field, which only bundle_load has"));
    } else {
        None
    };
    let members = (0..count).map(|_| body.u16().map(OfPort)).collect::<Result<Vec<_>, _>>()?;
    if zero != 0 || body.take(body.len())?.iter().any(|&byte| byte != 0) {
        return Err(bad("bundle: padding that is not zero"));
    }
    Ok(Action::Bundle(Box::new(Bundle { algorithm, fields, basis, target, members })))
}

/// Writes a bundle.
pub(super) fn put_bundle(out: &mut Vec<u8>, bundle: &Bundle, form: &ActionForm) {
    nicira_out::action(out, if bundle.target.is_some() { 13 } else { 12 }, |out| {
        out.put_u16(bundle.algorithm as u16);
        out.put_u16(bundle.fields.number());
        out.put_u16(bundle.basis);
        out.put_u32(MEMBER);
        out.put_u16(bundle.members.len() as u16);
        match &bundle.target {
            Some(target) => {
                out.put_u16(set::pack_offset_bits(target));
                oxm::put_header(out, target, form.proto, 0);
            }
            None => out.put_zeros(6),
        }
        out.put_zeros(4);
        bundle.members.iter().for_each(|member| out.put_u16(member.0));
    });
}

/// Reads `NXAST_MULTIPATH` after its header.
pub(super) fn take_multipath(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (fields, basis) = (take_fields(body)?, body.u16()?);
    body.skip(2)?;
    let algorithm = body.u16()?;
    let algorithm = MultipathAlgorithm::from_number(algorithm)
        .ok_or_else(|| bad(format!("multipath: algorithm {algorithm} is unknown")))?;
    let (max_link, arg) = (body.u16()?, body.u32()?);
    body.skip(2)?;
    let (offset, bits) = set::offset_bits(body.u16()?);
    let target = set::take_target(body, offset, bits)?;
    if target.bits < 16 && u32::from(max_link) >= 1 << target.bits {
        let reason = format!("multipath: {} bits can't hold link {max_link}", target.bits);
        return Err(bad(reason));
    }
    Ok(Action::Multipath(Multipath { fields, basis, algorithm, max_link, arg, target }))
}

/// Writes a multipath.
pub(super) fn put_multipath(out: &mut Vec<u8>, multipath: &Multipath, form: &ActionForm) {
    nicira_out::action(out, 10, |out| {
        out.put_u16(multipath.fields.number());
        out.put_u16(multipath.basis);
        out.put_zeros(2);
        out.put_u16(multipath.algorithm.number());
        out.put_u16(multipath.max_link);
        out.put_u32(multipath.arg);
        out.put_zeros(2);
        out.put_u16(set::pack_offset_bits(&multipath.target));
        oxm::put_header(out, &multipath.target, form.proto, 0);
    });
}
