//! Assignments (`set_field`, `load`), and the fields that other actions read and write.

use super::list::ActionForm;
use super::nicira_out;
use crate::action::{Action, SetForm, SetOption, Subfield};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::oxm::{self, Spec, for_field};
use crate::version::Version;
use flow::{Field, OptionMatch, Wide};

fn bad(code: ErrorCode, reason: impl Into<String>) -> OfError {
    OfError::new(code, reason)
}

/// Assigns the whole of a field.
pub(super) fn whole(field: Field, value: u128) -> Action {
    Action::Set { field, value, mask: assignable(field), form: SetForm::SetField }
}

/// Returns the bits of a field that an assignment can change: `nw_tos` is the DSCP in place, and `arp_op` has
/// 16 bits on the wire, of which the key stores the lower 8, because the others are always 0.
pub(crate) fn assignable(field: Field) -> u128 {
    match field {
        Field::NwTos => 0xfc,
        Field::ArpOp => 0xffff,
        field => field.all_ones(),
    }
}

/// Returns bits of a field that an action reads.
pub(super) fn source(spec: &Spec, offset: u32, bits: u32) -> Result<Subfield, OfError> {
    if bits == 0 || offset + bits > spec.bits {
        let reason = format!(
            "{} has {} bits; {bits} from bit {offset} on are too many",
            spec.name, spec.bits
        );
        return Err(bad(ErrorCode::ActionBadSetLen, reason));
    }
    Ok(Subfield::new(spec.bits_field(), offset, bits))
}

/// Returns bits of a field that an action writes.
pub(super) fn target(spec: &Spec, offset: u32, bits: u32) -> Result<Subfield, OfError> {
    let part = source(spec, offset, bits)?;
    writable(spec)?;
    Ok(part)
}

fn writable(spec: &Spec) -> Result<(), OfError> {
    if spec.writable {
        return Ok(());
    }
    Err(bad(ErrorCode::ActionBadSetArgument, format!("{} can't be written", spec.name)))
}

/// Reads number of bits, offsets and fields of `move` and of the forms of OpenFlow's copy-field, in which padding
/// stands between.
pub(super) fn take_copy(body: &mut Input<'_>, is_copy: bool) -> Result<Action, OfError> {
    let (bits, source_offset, target_offset) = (body.u16()?, body.u16()?, body.u16()?);
    body.skip(if is_copy { 2 } else { 0 })?;
    let (from, to) = (oxm::take_header(body)?, oxm::take_header(body)?);
    zeros(body, ErrorCode::MustBeZero, "move")?;
    let source = source(from, source_offset.into(), bits.into())?;
    let target = target(to, target_offset.into(), bits.into())?;
    Ok(Action::Move { source, target, is_copy })
}

/// Refuses bytes behind an action's fields that are not zero.
pub(super) fn zeros(body: &mut Input<'_>, code: ErrorCode, what: &str) -> Result<(), OfError> {
    match body.take(body.len())?.iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => Err(bad(code, format!("{what}: padding that is not zero"))),
    }
}

/// Unpacks offset (10 bits) and number of bits minus one (6 bits).
pub(super) fn offset_bits(packed: u16) -> (u32, u32) {
    (u32::from(packed >> 6), u32::from(packed & 0x3f) + 1)
}

pub(super) fn pack_offset_bits(subfield: &Subfield) -> u16 {
    (subfield.offset << 6 | (subfield.bits.saturating_sub(1) & 0x3f)) as u16
}

/// Reads field, value, mask and padding.
fn take_assignment(body: &mut Input<'_>, form: SetForm, may_mask: bool) -> Result<Action, OfError> {
    let (spec, entry) = oxm::take_entry(body)?;
    let (value, mask, has_mask) = (entry.value, entry.mask, entry.header.has_mask);
    if has_mask && !may_mask {
        let reason = format!("set_field of {} with a mask, before OpenFlow 1.5", spec.name);
        return Err(bad(ErrorCode::ActionBadSetMask, reason));
    }
    zeros(body, ErrorCode::ActionBadSetArgument, "set_field")?;
    if let Some(OptionMatch { index, len, value, mask, .. }) = entry.option {
        return Ok(Action::SetOption(Box::new(SetOption { index, len, value, mask, form })));
    }
    if spec.field == Field::InPort && spec.bytes == 4 {
        return Err(bad(ErrorCode::ActionBadSetArgument, "OpenFlow forbids to set OXM_OF_IN_PORT"));
    }
    writable(spec)?;
    let reach = assignable(spec.field);
    let form = match (form, mask) {
        (_, Some(mask)) if mask & reach != reach || mask == all_bytes(spec) => form,
        (SetForm::SetField, Some(_)) => SetForm::Masked,
        (SetForm::Load2, Some(_)) => SetForm::Load2Masked,
        _ => form,
    };
    let mask = mask.map_or(reach, |mask| mask & reach);
    let vlan = spec.field == Field::VlanVidPresent;
    let fits = value & !(reach & spec.field.all_ones()) == 0 && oxm::is_of_nsh(spec.field, value);
    if !fits || vlan && value & mask & 0x1000 == 0 {
        let reason = format!("{} can't be set to {value:#x}", spec.name);
        return Err(bad(ErrorCode::ActionBadSetArgument, reason));
    }
    Ok(Action::Set { field: spec.field, value: value & mask, mask, form })
}

/// Returns all bits of the bytes in which a field is sent.
fn all_bytes(spec: &Spec) -> u128 {
    u128::MAX >> (128 - 8 * spec.bytes.min(16))
}

/// `OFPAT_SET_FIELD`, after type and length.
pub(super) fn take_set_field(body: &mut Input<'_>, version: Version) -> Result<Action, OfError> {
    take_assignment(body, SetForm::SetField, version == Version::V15)
}

/// `NXAST_REG_LOAD2`, after its header: the entry replaces the padding.
pub(super) fn take_load2(body: &mut Input<'_>) -> Result<Action, OfError> {
    take_assignment(body, SetForm::Load2, true)
}

/// `NXAST_REG_LOAD`, after its header.
pub(super) fn take_load(body: &mut Input<'_>) -> Result<Action, OfError> {
    let (offset, bits) = offset_bits(body.u16()?);
    let target = target(oxm::take_id(body)?, offset, bits)?;
    let value = body.u64()?;
    if bits < 64 && value >> bits != 0 {
        let reason = format!("load: {value:#x} does not fit {bits} bits");
        return Err(bad(ErrorCode::ActionBadArgument, reason));
    }
    if target.field.tun_metadata_index().is_some() {
        return Ok(Action::assign(target, u128::from(value).into(), SetForm::Load));
    }
    // Bits are kept that an assignment does not change: the ECN of `nw_tos`, the upper half of `arp_op`.
    let (value, mask) = (u128::from(value) << offset, target.mask());
    Ok(Action::Set { field: target.field, value, mask, form: SetForm::Load })
}

/// Writes an assignment to the whole of a field as `OFPAT_SET_FIELD`.
pub(super) fn put_whole(out: &mut Vec<u8>, form: &ActionForm, field: Field, value: u128) {
    put_set_field(out, form, field, value, assignable(field), SetForm::SetField);
}

/// Writes `OFPAT_SET_FIELD` if the version supports it: with masks, and for `load`, only from 1.5 on.
pub(super) fn put_set_field(
    out: &mut Vec<u8>,
    form: &ActionForm,
    field: Field,
    value: u128,
    mask: u128,
    set_form: SetForm,
) -> bool {
    let Some(spec) = for_field(field, form.proto) else { return false };
    let exact = is_exact(spec, mask, set_form) && field != Field::VlanVid;
    let v15 = form.version == Version::V15;
    let is_load = matches!(set_form, SetForm::Load | SetForm::Load2 | SetForm::Load2Masked);
    if !v15 && (is_load || !exact) {
        return false;
    }
    let (mut value, mut mask) = (value, mask);
    if field == Field::VlanVid {
        // OpenFlow 1.5 requires the bit for the tag to be set.
        (value, mask) = (value | 0x1000, mask | 0x1000);
    }
    let start = out.len();
    out.put_u16(25);
    out.put_u16(0);
    oxm::put_entry(out, spec, form.version as u8, value, (!exact).then_some(mask));
    finish(out, start);
    true
}

/// Returns whether an assignment is written without a mask: a load only if it covers all bytes.
fn is_exact(spec: &Spec, mask: u128, set_form: SetForm) -> bool {
    match set_form {
        SetForm::Load => mask == all_bytes(spec),
        _ => mask == assignable(spec.field) && !set_form.is_masked(),
    }
}

/// Writes the assignment of a tunnel option as `OFPAT_SET_FIELD` if the version supports it.
pub(super) fn put_set_option(out: &mut Vec<u8>, form: &ActionForm, set: &SetOption) -> bool {
    let v15 = form.version == Version::V15;
    let is_old = form.version < Version::V12;
    if is_old || !v15 && (set.form != SetForm::SetField || !set.is_whole()) {
        return false;
    }
    let start = out.len();
    out.put_u16(25);
    out.put_u16(0);
    oxm::put_option(out, form.version as u8, &option_entry(set));
    finish(out, start);
    true
}

/// Writes it as `NXAST_REG_LOAD2`: the values are too long for `NXAST_REG_LOAD` (ovs:
/// `lib/ofp-actions.c`, `set_field_to_nxast`).
pub(super) fn put_option_load(out: &mut Vec<u8>, set: &SetOption) {
    nicira_out::action(out, 33, |out| oxm::put_option(out, 0, &option_entry(set)));
}

/// Returns the entry, which has no more bytes than value and mask need (ovs: `lib/meta-flow.c`, `mf_field_len`).
fn option_entry(set: &SetOption) -> OptionMatch {
    let SetOption { index, value, mut mask, .. } = *set;
    if set.form == SetForm::Load && set.is_whole() {
        mask = Wide::low_ones(u32::from(set.len) * 8);
    }
    let mask_len = if mask == Wide::ONES { 0 } else { mask.byte_len() };
    let len = value.byte_len().max(mask_len) as u8;
    OptionMatch { index, len, is_absent: false, value, mask }
}

fn finish(out: &mut Vec<u8>, start: usize) {
    out.pad8(start);
    let len = out.len() - start;
    out.set_u16(start + 2, len);
}

/// Returns the runs of set bits in a mask, at most 64 bits each, as `load` assigns them.
pub(crate) fn segments(field: Field, value: u128, mask: u128) -> Vec<(Subfield, u64)> {
    let reach = 128 - assignable(field).leading_zeros();
    let (field, bits) = match for_field(field, oxm::Proto::default()) {
        Some(spec) => (spec.bits_field(), spec.bits.min(reach)),
        None => (field, reach),
    };
    let mut out = Vec::new();
    let mut offset = 0;
    while offset < bits {
        if mask >> offset & 1 == 0 {
            offset += 1;
            continue;
        }
        let run = (!(mask >> offset)).trailing_zeros().min(bits - offset).min(64);
        let part = Subfield::new(field, offset, run);
        out.push((part, ((value & part.mask()) >> offset) as u64));
        offset += run;
    }
    out
}

/// Writes `NXAST_REG_LOAD`s, or a `NXAST_REG_LOAD2`, which also has room for an experimenter's fields.
pub(super) fn put_loads(
    out: &mut Vec<u8>,
    form: &ActionForm,
    field: Field,
    (value, mask): (u128, u128),
    set_form: SetForm,
) {
    let Some(spec) = for_field(field, form.proto) else { return };
    let is_load2 = matches!(set_form, SetForm::Load2 | SetForm::Load2Masked);
    if is_load2 || spec.first.class == 0xffff {
        let mask = (!is_exact(spec, mask, set_form)).then_some(mask);
        return nicira_out::action(out, 33, |out| oxm::put_entry(out, spec, 0, value, mask));
    }
    for (target, value) in segments(field, value, mask) {
        nicira_out::action(out, 7, |out| {
            out.put_u16(pack_offset_bits(&target));
            oxm::put_header(out, &target, form.proto, 0);
            out.put_u64(value);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `load` of a value into bits of a field, after the action's header.
    fn load(offset_bits: u16, nxm: u32, value: u64) -> Result<Action, ErrorCode> {
        let mut bytes = Vec::new();
        bytes.put_u16(offset_bits);
        bytes.put_u32(nxm);
        bytes.put_u64(value);
        take_load(&mut Input::new(&bytes, ErrorCode::ActionBadLen, "load"))
            .map_err(|error| error.code)
    }

    #[test]
    fn an_opcode_of_arp_has_16_bits_of_which_8_are_used() {
        const ARP_OP: u32 = 0x0000_1e02;
        let set =
            |value, mask| Ok(Action::Set { field: Field::ArpOp, value, mask, form: SetForm::Load });
        let cases = [
            // NXM_OF_ARP_OP[], [0..7] and [4..11].
            (15, 2, set(2, 0xffff)),
            (15, 0xff, set(0xff, 0xffff)),
            (15, 0x100, set(0x100, 0xffff)),
            (7, 2, set(2, 0xff)),
            (7, 0x100, Err(ErrorCode::ActionBadArgument)),
            (4 << 6 | 7, 0xf, set(0xf0, 0xff0)),
            (4 << 6 | 7, 0x10, set(0x100, 0xff0)),
        ];
        for (offset_bits, value, expect) in cases {
            assert_eq!(load(offset_bits, ARP_OP, value), expect, "{offset_bits:#x} {value:#x}");
        }
    }
}
