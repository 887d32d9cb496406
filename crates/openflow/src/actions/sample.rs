//! `sample` on the wire (ovs: `lib/ofp-actions.c`, `nx_action_sample` to `nx_action_sample4`).

use super::list::ActionForm;
use super::{nicira_out, set};
use crate::action::{Action, ObservationId, Sample, SampleDirection};
use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::oxm;
use base::OfPort;
use std::num::NonZeroU16;

/// Subtypes: the first form, with a port, with a direction, with fields.
pub(super) const SAMPLE: u16 = 29;
pub(super) const SAMPLE2: u16 = 38;
pub(super) const SAMPLE3: u16 = 41;
pub(super) const SAMPLE4: u16 = 51;

fn bad(reason: impl Into<String>) -> OfError {
    OfError::new(ErrorCode::ActionBadArgument, format!("sample: {}", reason.into()))
}

/// Reads any of the four forms after its header.
pub(super) fn take(subtype: u16, body: &mut Input<'_>) -> Result<Action, OfError> {
    let probability = NonZeroU16::new(body.u16()?);
    let collector_set = body.u32()?;
    // The direction and the padding are checked before the fields.
    let mut behind = *body;
    behind.skip(if subtype == SAMPLE4 { 16 } else { 8 })?;
    let (port, direction) = match subtype {
        SAMPLE => (OfPort::NONE, SampleDirection::Unspecified),
        _ => (OfPort(behind.u16()?), take_direction(subtype, &mut behind)?),
    };
    behind.done()?;
    let Some(probability) = probability else { return Err(bad("a probability of 0")) };
    let (domain, point) = match subtype {
        SAMPLE4 => (take_id(body)?, take_id(body)?),
        _ => (ObservationId::Immediate(body.u32()?), ObservationId::Immediate(body.u32()?)),
    };
    body.take(body.len())?;
    let sample = Sample { probability, collector_set, domain, point, port, direction };
    Ok(Action::Sample(Box::new(sample)))
}

fn take_direction(subtype: u16, body: &mut Input<'_>) -> Result<SampleDirection, OfError> {
    let (direction, padding) = (body.u8()?, body.array::<5>()?);
    if subtype == SAMPLE2 {
        return Ok(SampleDirection::Unspecified);
    }
    if padding != [0; 5] {
        return Err(OfError::new(ErrorCode::MustBeZero, "sample: padding that is not zero"));
    }
    Ok(match direction {
        0 => SampleDirection::Unspecified,
        1 => SampleDirection::Ingress,
        2 => SampleDirection::Egress,
        other => return Err(bad(format!("direction {other} is unknown"))),
    })
}

/// Reads a field with its bits, or after four zero bytes a constant.
fn take_id(body: &mut Input<'_>) -> Result<ObservationId, OfError> {
    let (mut header, mut value) = (body.part(4)?, body.part(4)?);
    if header.rest() == [0; 4] {
        return Ok(ObservationId::Immediate(value.u32()?));
    }
    let (offset, bits) = set::offset_bits(value.u16()?);
    let part = set::source(oxm::take_id(&mut header)?, offset, bits)?;
    if part.bits > Sample::ID_BITS {
        return Err(bad(format!("{} bits of a field, more than 32", part.bits)));
    }
    Ok(ObservationId::Field(part))
}

/// Writes the oldest form that holds it.
pub(super) fn put(out: &mut Vec<u8>, sample: &Sample, form: &ActionForm) {
    let has_field = sample.domain.field().or(sample.point.field()).is_some();
    let subtype = match sample.direction {
        _ if has_field => SAMPLE4,
        SampleDirection::Unspecified if sample.port == OfPort::NONE => SAMPLE,
        SampleDirection::Unspecified => SAMPLE2,
        SampleDirection::Ingress | SampleDirection::Egress => SAMPLE3,
    };
    nicira_out::action(out, subtype, |out| {
        out.put_u16(sample.probability.get());
        out.put_u32(sample.collector_set);
        for id in [&sample.domain, &sample.point] {
            match id {
                ObservationId::Immediate(id) => {
                    out.put_zeros(if has_field { 4 } else { 0 });
                    out.put_u32(*id);
                }
                ObservationId::Field(part) => {
                    let mut header = Vec::new();
                    oxm::put_header(&mut header, part, form.proto, 0);
                    // A field with a longer header has no form here.
                    out.put(if header.len() == 4 { &header } else { &[0; 4] });
                    out.put_u16(set::pack_offset_bits(part));
                    out.put_zeros(2);
                }
            }
        }
        if subtype != SAMPLE {
            out.put_u16(sample.port.0);
            out.put_u8(sample.direction as u8);
            out.put_zeros(5);
        }
    });
}
