//! Network devices as ports through AF_XDP: an XDP program passes each receive queue's frames to a socket,
//! whose rings and frames this process shares with the kernel.
//!
//! The program has a few instructions, assembled by hand ([`program`]), so only the kernel is needed to build
//! and run it. A link attaches it to the device, which the kernel removes when this process ends.
//!
//! This crate shares memory with the kernel; each `unsafe` has a comment why it is sound.

mod device;
mod failure;
mod options;
mod port;
mod program;
mod receive;
mod ring;
mod send;
mod socket;
mod umem;

pub use options::{XdpMode, XdpOptions};
pub use port::{XdpCounts, XdpPort};
pub use receive::XdpRx;
pub use send::XdpTx;
