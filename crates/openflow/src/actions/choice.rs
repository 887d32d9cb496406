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
    let (mut field, reserved) = (body.part(4)?, body.u32()?);
    let target = if loads {
        // The reserved bytes are ignored.
        let (offset, bits) = set::offset_bits(packed);
        let field = oxm::take_id(&mut field)?;
        if bits < 16 {
            return Err(bad("bundle_load: a port's number needs 16 bits"));
        }
        Some(set::target(field, offset, bits)?)
    } else if packed != 0 || field.u32()? != 0 || reserved != 0 {
        return Err(bad("bundle: a field, which only bundle_load has"));
    } else {
        None
    };
    let members = (0..count).map(|_| body.u16().map(OfPort)).collect::<Result<Vec<_>, _>>()?;
    // What follows the members is ignored.
    body.take(body.len())?;
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
    let (fields, basis) = (body.u16()?, body.u16()?);
    body.skip(2)?;
    let (algorithm, max_link, arg) = (body.u16()?, body.u16()?, body.u32()?);
    body.skip(2)?;
    let (offset, bits) = set::offset_bits(body.u16()?);
    let field = oxm::take_id(body)?;
    let fields = HashFields::from_number(fields)
        .ok_or_else(|| bad(format!("hash fields {fields} are unknown")))?;
    let algorithm = MultipathAlgorithm::from_number(algorithm)
        .ok_or_else(|| bad(format!("multipath: algorithm {algorithm} is unknown")))?;
    if bits < 16 && u32::from(max_link) >= 1 << bits {
        return Err(bad(format!("multipath: {bits} bits can't hold link {max_link}")));
    }
    let target = set::target(field, offset, bits)?;
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
