//! Basic types: time as a value, identifiers, Ethernet addresses, histograms of durations, the step of keyed
//! hashes and the limits of the switch.
//!
//! The crate reads no clock, file or socket.

#![forbid(unsafe_code)]

mod error;
mod fold;
mod histogram;
mod ids;
pub mod limits;
mod mac;
mod time;

pub use error::reason;
pub use fold::fold;
pub use histogram::Histogram;
pub use ids::{DatapathId, OfPort, PortNo, RecircId, TableId, WorkerId, Zone};
pub use mac::{MacAddr, MacParseError};
pub use time::Instant;
