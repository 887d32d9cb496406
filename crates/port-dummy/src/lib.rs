//! Ports without a device: frames are put in by hand (`ovs-appctl netdev-dummy/receive`) and what leaves is
//! recorded. Open vSwitch's unit tests drive its daemon so, and it is the easiest way to try a switch.
//!
//! [`DummyPort`] is the port, and [`frame`] makes a frame from a flow key.
#![forbid(unsafe_code)]

pub mod frame;
mod options;
mod port;

pub use options::{DummyOptions, Wire};
pub use port::DummyPort;
