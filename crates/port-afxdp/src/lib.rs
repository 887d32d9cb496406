//! Network devices as ports through AF_XDP: an XDP program hands each receive queue's frames to
//! a socket whose rings and frames this process shares with the kernel.
//!
//! The program is four instructions, assembled by hand ([`program`]), so nothing but the kernel
//! is needed to build or run it. It hangs on the device by a link that the kernel removes when
//! this process ends, however it ends.
//!
//! This crate shares memory with the kernel; each `unsafe` says why it is sound.

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
