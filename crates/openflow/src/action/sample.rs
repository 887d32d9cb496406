//! `sample(...)`: a part of the packets is reported to collectors (ovs: `lib/ofp-actions.c`, "Sample action").

use super::Subfield;
use base::OfPort;
use std::num::NonZeroU16;

/// The value of an observation domain or point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObservationId {
    /// A constant.
    Immediate(u32),
    /// At most 32 bits of a field.
    Field(Subfield),
}

/// Where the packet is sampled: on its way in or out. It is a part of the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SampleDirection {
    /// Not given.
    #[default]
    Unspecified,
    /// `ingress`
    Ingress,
    /// `egress`
    Egress,
}

/// `sample(...)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Sampled packets of 65,535.
    pub probability: NonZeroU16,
    /// The set of collectors.
    pub collector_set: u32,
    /// The observation domain.
    pub domain: ObservationId,
    /// The observation point.
    pub point: ObservationId,
    /// The port whose tunnel is reported; NONE if there is none.
    pub port: OfPort,
    /// The direction.
    pub direction: SampleDirection,
}

impl Sample {
    /// The most bits of an observation domain or point.
    pub const ID_BITS: u32 = 32;
}

impl ObservationId {
    /// Returns the bits of the field, if it is one.
    pub fn field(&self) -> Option<&Subfield> {
        match self {
            ObservationId::Field(part) => Some(part),
            ObservationId::Immediate(_) => None,
        }
    }

    /// Returns the bits of the field for change, if it is one.
    pub(crate) fn field_mut(&mut self) -> Option<&mut Subfield> {
        match self {
            ObservationId::Field(part) => Some(part),
            ObservationId::Immediate(_) => None,
        }
    }
}
