//! What every other crate stands on: time as a value, identifiers that cannot be mixed up,
//! Ethernet addresses, histograms of durations, the step of keyed hashes and the limits of the whole switch.
//!
//! Nothing here reads a clock, a file or a socket.

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
