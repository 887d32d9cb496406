//! The protocols that keep links and gateways alive, as state machines without sockets, clocks or threads.
//!
//! A machine belongs to a port. The caller reports frames, counters and the time to [`Monitors`], which has a
//! [`Monitor`] with the machines of each port, and sends the frames that it returns.

#![forbid(unsafe_code)]

pub mod bfd;
mod line;
mod monitor;
mod monitors;

pub use line::Line;
pub use monitor::{Monitor, Outgoing, Report, Settings};
pub use monitors::Monitors;
