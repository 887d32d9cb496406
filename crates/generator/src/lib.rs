//! The load generator: simulated clients and servers open, use and close real TCP and UDP connections through
//! any device under test, and account for every one of them.
//!
//! This crate reads no clock and owns no socket. A [`Host`] takes the time, the packets that arrived and a
//! batch to fill; its driver connects it to ports. [`SelfTest`] joins a client and a server directly, which
//! measures the generator's own ceiling.
//!
//! Parsing, building and checksums are this crate's own, so that the generator shares no bug with the device
//! that it measures.

#![forbid(unsafe_code)]

mod address;
mod chains;
mod checksum;
mod connection;
mod flood;
mod frame;
mod frame_in;
mod host;
mod late;
mod neighbours;
mod pacer;
mod pattern;
mod profile;
pub mod search;
mod self_test;
mod shares;
mod statistics;
pub mod stream;
mod tcp;
mod tcp_send;
mod time_wait;
mod tuples;
mod udp;
mod wheel;

pub use address::{AddressRange, PortRange, RangeError};
pub use base::Histogram;
pub use connection::BYTES_PER_CONNECTION;
pub use flood::{Flood, FloodConfig, FloodCounts};
pub use host::{Host, HostConfig, Role};
pub use pacer::Pacer;
pub use profile::{Close, Profile, ProfileError};
pub use self_test::{FaultRates, Faults, SelfTest};
pub use shares::Shares;
pub use statistics::{Failures, Statistics};
