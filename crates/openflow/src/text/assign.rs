//! Fields and their bits in actions: `load:1->NXM_NX_REG0[0..15]`, `set_field:1->reg0`.

use super::span::Span;
use super::{PortNames, TextError, value};
use crate::action::{Action, SetForm, SetOption, Subfield};
use crate::actions::assignable;
use crate::oxm::{Spec, by_name};
use base::OfPort;
use flow::{Field, OptionMatch, Wide};

/// Parses a field by any of its names.
fn field(span: Span<'_>) -> Result<&'static Spec, TextError> {
    by_name(span.text).ok_or_else(|| {
        span.error_with(format!("there is no field '{}'", span.text), "see ovs-fields(7)")
    })
}

/// `NAME[]`, `NAME[3]`, `NAME[0..15]` or `NAME`.
pub(super) fn subfield(span: Span<'_>) -> Result<(Subfield, &'static Spec), TextError> {
    let span = span.trim();
    let Some((name, bits)) = span.split("[") else {
        let spec = field(span)?;
        return Ok((Subfield::new(spec.bits_field(), 0, spec.bits), spec));
    };
    let spec = field(name)?;
    let Some(bits) = bits.text.strip_suffix(']').map(|text| Span { text, ..bits }) else {
        return Err(bits.error_with("a range of bits ends with ]", "NAME[0..15]"));
    };
    let (first, last) = if bits.is_empty() {
        (0, spec.bits - 1)
    } else if let Some((first, last)) = bits.split("..") {
        (value::number_to(first, 0xffff)? as u32, value::number_to(last, 0xffff)? as u32)
    } else {
        let bit = value::number_to(bits, 0xffff)? as u32;
        (bit, bit)
    };
    if last < first || last >= spec.bits {
        let what = format!("{} has bits 0 to {}, not {first} to {last}", spec.name, spec.bits - 1);
        return Err(bits.error(what));
    }
    Ok((Subfield::new(spec.bits_field(), first, last - first + 1), spec))
}

/// Parses the same for bits that an action writes.
pub(super) fn target(span: Span<'_>) -> Result<Subfield, TextError> {
    let (part, spec) = subfield(span)?;
    writable(spec, span)?;
    Ok(part)
}

fn writable(spec: &Spec, span: Span<'_>) -> Result<(), TextError> {
    if spec.writable {
        return Ok(());
    }
    Err(span.error(format!("{} can't be written", spec.name)))
}

fn arrow<'a>(span: Span<'a>) -> Result<(Span<'a>, Span<'a>), TextError> {
    span.split("->")
        .map(|(from, to)| (from.trim(), to.trim()))
        .ok_or_else(|| span.error_with("where it goes to is missing", "VALUE->FIELD"))
}

/// `set_field:VALUE[/MASK]->FIELD`
pub(super) fn set_field(span: Span<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    let (from, to) = arrow(span)?;
    if to.text.contains('[') {
        return Err(to.error_with("set_field takes no range of bits", "use a mask, or load"));
    }
    let spec = field(to)?;
    writable(spec, to)?;
    if let Some(index) = spec.option() {
        let OptionMatch { len, value, mask, .. } = value::option(index, from)?;
        let form = SetForm::SetField;
        return Ok(Action::SetOption(Box::new(SetOption { index, len, value, mask, form })));
    }
    let (mut value, mut mask) = value::masked(spec, from, ports)?;
    if spec.field == Field::NwTos {
        if value & 3 != 0 {
            return Err(from.error("nw_tos has bits outside of the DSCP"));
        }
        mask &= assignable(spec.field);
    }
    if spec.field == Field::ArpOp && !from.text.contains('/') {
        mask = assignable(spec.field);
    }
    if spec.field == Field::VlanVidPresent && value & 0x1000 == 0 {
        // Users mean the plain VLAN id (ovs: `lib/ofp-actions.c`, `set_field_parse__`).
        value |= 0x1000;
        mask |= 0x1000;
    }
    Ok(Action::Set { field: spec.field, value, mask, form: SetForm::SetField })
}

/// `load:VALUE->FIELD[BITS]`
pub(super) fn load(span: Span<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    let (from, to) = arrow(span)?;
    let part = target(to)?;
    if part.field.tun_metadata_index().is_some() {
        let value = value::wide(from)?;
        if value.shift_right(part.bits) != Wide::ZERO {
            return Err(from.error(format!("{} does not fit {} bits", from.text, part.bits)));
        }
        return Ok(Action::assign(part, value, SetForm::Load));
    }
    // Numbers, or the field's own syntax (addresses, port names).
    let value = match value::number(from) {
        Ok(value) => value,
        Err(_) => {
            let value = value::masked(subfield(to)?.1, from, ports)?.0;
            match part.field {
                Field::InPortOxm => OfPort(value as u16).to_wire32().into(),
                _ => value,
            }
        }
    };
    if part.bits < 128 && value >> part.bits != 0 {
        return Err(from.error(format!("{} does not fit {} bits", from.text, part.bits)));
    }
    let (value, mask) = (value << part.offset, part.mask());
    Ok(Action::Set { field: part.field, value, mask, form: SetForm::Load })
}

/// `move:FIELD[BITS]->FIELD[BITS]`
pub(super) fn move_bits(span: Span<'_>) -> Result<Action, TextError> {
    let (from, to) = arrow(span)?;
    let (source, target) = (subfield(from)?.0, target(to)?);
    if source.bits != target.bits {
        return Err(span.error(format!("{} bits can't become {}", source.bits, target.bits)));
    }
    Ok(Action::Move { source, target, is_copy: false })
}
