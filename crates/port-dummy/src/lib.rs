//! Ports without a device: commands inject frames (`ovs-appctl netdev-dummy/receive`), and sent frames are
//! recorded. Open vSwitch's unit tests use them, and they are the easiest way to try a switch.
//!
//! [`DummyPort`] is the port, and [`frame`] builds a frame from a flow key.
#![forbid(unsafe_code)]

pub mod frame;
mod options;
mod port;

pub use options::{DummyOptions, Wire};
pub use port::DummyPort;
