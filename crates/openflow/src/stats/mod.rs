//! Statistics (multipart) requests and replies.

mod flow;
pub(crate) mod flow_monitor;
mod group;
mod port;
mod reply;
mod request;
mod table;
mod table_features;

pub use reply::{has_more, set_more};
pub(crate) use reply::{put_reply, take_reply};
pub(crate) use request::{put_request, take_request};

/// OFPST_* / OFPMP_* numbers.
pub(crate) mod kind {
    pub const DESC: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT: u16 = 4;
    pub const QUEUE: u16 = 5;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const METER: u16 = 9;
    pub const METER_CONFIG: u16 = 10;
    pub const METER_FEATURES: u16 = 11;
    pub const TABLE_FEATURES: u16 = 12;
    pub const PORT_DESC: u16 = 13;
    pub const TABLE_DESC: u16 = 14;
    pub const QUEUE_DESC: u16 = 15;
    pub const FLOW_MONITOR: u16 = 16;
    pub const VENDOR: u16 = 0xffff;
}

/// The type of statistics: its number on the wire, with the subtype if it is a vendor's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Standard(u16),
    Nicira(u32),
    Onf(u32),
}

/// NXST_FLOW_MONITOR and ONFST_FLOW_MONITOR.
const NICIRA_FLOW_MONITOR: u32 = 2;
const ONF_FLOW_MONITOR: u32 = 1870;

use crate::bytes::{Input, Output};
use crate::error::{ErrorCode, OfError};
use crate::vendor::{NICIRA, ONF};
use crate::version::Version;

impl Kind {
    /// Reads the type and flags after the message's header.
    pub fn take(input: &mut Input<'_>, version: Version) -> Result<(Kind, u16), OfError> {
        let v10 = version == Version::V10;
        let (kind, flags) = (input.u16()?, input.u16()?);
        if !v10 {
            input.skip(4)?;
        }
        if kind != kind::VENDOR {
            return Ok((Kind::Standard(kind), flags));
        }
        let vendor = input.u32()?;
        if vendor == ONF && version == Version::V13 {
            return Ok((Kind::Onf(input.u32()?), flags));
        }
        if vendor != NICIRA {
            let reason = format!("statistics of vendor {vendor:#010x} are unknown");
            return Err(OfError::new(ErrorCode::BadVendor, reason));
        }
        let subtype = input.u32()?;
        if v10 {
            input.skip(4)?;
        }
        Ok((Kind::Nicira(subtype), flags))
    }

    /// Writes the type and flags after the message's header.
    pub fn put(self, out: &mut Vec<u8>, version: Version) {
        let v10 = version == Version::V10;
        out.put_u16(match self {
            Kind::Standard(kind) => kind,
            Kind::Nicira(_) | Kind::Onf(_) => kind::VENDOR,
        });
        out.put_u16(0);
        if !v10 {
            out.put_zeros(4);
        }
        let (vendor, subtype) = match self {
            Kind::Standard(_) => return,
            Kind::Nicira(subtype) => (NICIRA, subtype),
            Kind::Onf(subtype) => (ONF, subtype),
        };
        out.put_u32(vendor);
        out.put_u32(subtype);
        if v10 {
            out.put_zeros(4);
        }
    }

    /// Returns the standard number, or the vendor's number for it in early versions.
    pub fn of(standard: u16, version: Version) -> Kind {
        match standard {
            kind::GROUP if version == Version::V10 => Kind::Nicira(7),
            kind::GROUP_DESC if version == Version::V10 => Kind::Nicira(8),
            kind::GROUP_FEATURES if version < Version::V12 => Kind::Nicira(9),
            kind::FLOW_MONITOR if version < Version::V13 => Kind::Nicira(NICIRA_FLOW_MONITOR),
            kind::FLOW_MONITOR if version == Version::V13 => Kind::Onf(ONF_FLOW_MONITOR),
            kind => Kind::Standard(kind),
        }
    }

    /// Returns the standard number, if this version has it; the caller has handled Nicira's flows and
    /// aggregates.
    pub fn standard(self, version: Version) -> Option<u16> {
        let since = match self {
            Kind::Nicira(subtype @ 7..=9) => return self.stands_for(subtype as u16 - 1, version),
            Kind::Nicira(NICIRA_FLOW_MONITOR) | Kind::Onf(ONF_FLOW_MONITOR) => {
                return self.stands_for(kind::FLOW_MONITOR, version);
            }
            Kind::Standard(0..=5 | kind::PORT_DESC) => Version::V10,
            Kind::Standard(kind::GROUP | kind::GROUP_DESC) => Version::V11,
            Kind::Standard(kind::GROUP_FEATURES) => Version::V12,
            Kind::Standard(0..=12) => Version::V13,
            Kind::Standard(kind::TABLE_DESC | kind::QUEUE_DESC | kind::FLOW_MONITOR) => {
                Version::V14
            }
            _ => return None,
        };
        match self {
            Kind::Standard(kind) if version >= since => Some(kind),
            _ => None,
        }
    }

    /// Returns the standard number, if this is its encoding in the version.
    fn stands_for(self, standard: u16, version: Version) -> Option<u16> {
        (Kind::of(standard, version) == self).then_some(standard)
    }

    /// Returns the error for statistics that this version does not have.
    pub fn unknown(self) -> OfError {
        match self {
            Kind::Standard(kind) => {
                OfError::new(ErrorCode::BadStat, format!("statistics {kind} are not supported"))
            }
            Kind::Nicira(subtype) => {
                let reason = format!("Nicira's statistics {subtype} are not supported");
                OfError::new(ErrorCode::BadSubtype, reason)
            }
            Kind::Onf(subtype) => {
                let reason = format!("the ONF's statistics {subtype} are not supported");
                OfError::new(ErrorCode::BadSubtype, reason)
            }
        }
    }
}
