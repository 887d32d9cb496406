//! `sample(...)` as text (ovs: `lib/ofp-actions.c`, `parse_SAMPLE`, `format_SAMPLE`).

use super::format_actions::bits;
use super::span::{Pair, Span};
use super::{PortNames, TextError, assign, value};
use crate::action::{Action, ObservationId, Sample, SampleDirection};
use crate::oxm::Proto;
use base::OfPort;
use std::num::NonZeroU16;

const OPTIONS: &str = "probability=, collector_set_id=, obs_domain_id=, obs_point_id=, sampling_port=, ingress, egress";

/// Parses `sample(...)`.
pub(super) fn sample(pair: Pair<'_>, ports: PortNames<'_>) -> Result<Action, TextError> {
    let mut probability = None;
    let mut collector_set = 0;
    let (mut domain, mut point) = (ObservationId::Immediate(0), ObservationId::Immediate(0));
    let (mut port, mut direction) = (OfPort::NONE, SampleDirection::Unspecified);
    for option in pair.rest().pairs()? {
        match option.key.text {
            "probability" => {
                let span = option.needed()?;
                probability = NonZeroU16::new(value::number_to(span, 0xffff)? as u16);
            }
            "collector_set_id" => {
                collector_set = value::number_to(option.needed()?, u32::MAX.into())? as u32;
            }
            "obs_domain_id" => domain = id(option.needed()?)?,
            "obs_point_id" => point = id(option.needed()?)?,
            "sampling_port" => port = value::port(option.needed()?, ports)?,
            "ingress" => direction = SampleDirection::Ingress,
            "egress" => direction = SampleDirection::Egress,
            other => {
                return Err(option.key.error_with(format!("sample has no '{other}'"), OPTIONS));
            }
        }
    }
    let Some(probability) = probability else {
        return Err(pair.key.error_with("sample needs a probability of 1 to 65535", OPTIONS));
    };
    let sample = Sample { probability, collector_set, domain, point, port, direction };
    Ok(Action::Sample(Box::new(sample)))
}

fn id(span: Span<'_>) -> Result<ObservationId, TextError> {
    if let Ok(number) = value::number_to(span, u32::MAX.into()) {
        return Ok(ObservationId::Immediate(number as u32));
    }
    let part = assign::subfield(span)?.0;
    if part.bits > Sample::ID_BITS {
        return Err(span.error(format!("{} bits are more than 32", part.bits)));
    }
    Ok(ObservationId::Field(part))
}

/// Writes it.
pub(super) fn format(sample: &Sample, proto: Proto) -> String {
    let id = |id: &ObservationId| match id {
        ObservationId::Immediate(id) => id.to_string(),
        ObservationId::Field(part) => bits(part, proto),
    };
    let (domain, point) = (id(&sample.domain), id(&sample.point));
    let port = match sample.port {
        OfPort::NONE => String::new(),
        port => format!(",sampling_port={port}"),
    };
    let direction = match sample.direction {
        SampleDirection::Unspecified => "",
        SampleDirection::Ingress => ",ingress",
        SampleDirection::Egress => ",egress",
    };
    let (probability, set) = (sample.probability, sample.collector_set);
    format!(
        "sample(probability={probability},collector_set_id={set},obs_domain_id={domain},\
         obs_point_id={point}{port}{direction})"
    )
}
