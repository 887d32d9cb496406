//! DPDK ports: network cards without the kernel, and all virtual devices of DPDK.
//!
//! [`start`] starts DPDK (its EAL), once per process; [`DpdkPort::open`] finds or attaches the device that
//! `dpdk-devargs` names and configures it; its queues are [`port::RxQueue`] and [`port::TxQueue`], which any
//! thread may own. A packet keeps the buffer in which DPDK received it and leaves through another DPDK port
//! without a copy; frames in several buffers, and packets to or from other kinds of ports, are copied.
//! Guests behind vhost-user are the crate `port-vhost`'s; DPDK's own device for them is refused.
//!
//! DPDK is the system's own (`libdpdk-dev`), called through the C shim in `csrc/`, and only if the feature
//! `dpdk` is on. Without it the same items exist: options are parsed and checked, and [`start`] returns an
//! error.

mod config;
mod error;
mod facts;
pub mod flow_rule;
mod options;

#[cfg(any(feature = "dpdk", test))]
mod headers;

#[cfg(feature = "dpdk")]
mod awaited;
#[cfg(feature = "dpdk")]
mod buffers;
#[cfg(feature = "dpdk")]
mod counters;
#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod dpdk_port;
#[cfg(feature = "dpdk")]
mod ffi;
#[cfg(feature = "dpdk")]
mod plug;
#[cfg(feature = "dpdk")]
mod receive;
#[cfg(feature = "dpdk")]
mod rte_flow;
#[cfg(feature = "dpdk")]
mod send;
#[cfg(feature = "dpdk")]
mod setup;
#[cfg(feature = "dpdk")]
mod start;

#[cfg(not(feature = "dpdk"))]
mod absent;

pub use config::{DEFAULT_DESCRIPTORS, DpdkConfig};
pub use error::DpdkError;
pub use facts::{Facts, Statistics};
pub use options::EalOptions;

#[cfg(not(feature = "dpdk"))]
pub use absent::{
    DpdkPort, DpdkRules, DpdkRx, DpdkTx, is_running, look_at_awaited, start, version,
};
#[cfg(feature = "dpdk")]
pub use awaited::look_at_awaited;
#[cfg(feature = "dpdk")]
pub use dpdk_port::DpdkPort;
#[cfg(feature = "dpdk")]
pub use receive::DpdkRx;
#[cfg(feature = "dpdk")]
pub use rte_flow::DpdkRules;
#[cfg(feature = "dpdk")]
pub use send::DpdkTx;
#[cfg(feature = "dpdk")]
pub use start::{is_running, start, version};

#[cfg(all(test, feature = "dpdk"))]
mod tests;
