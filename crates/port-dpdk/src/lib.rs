//! DPDK ports: network cards without the kernel, and every virtual device that DPDK has.
//!
//! [`start`] starts DPDK (its EAL), once a process; [`DpdkPort::open`] finds or plugs in the device
//! that `dpdk-devargs` names and sets it up; its queues are [`port::RxQueue`] and
//! [`port::TxQueue`], which any thread may own. A packet keeps the buffer that DPDK received it in
//! and leaves through another DPDK port without being copied; frames in several buffers, and what
//! goes to or comes from other kinds of ports, are copied. Between a guest behind vhost-user and a queue
//! there is DPDK's vhost library alone; its driver `net_vhost` sets the device up and answers questions.
//!
//! DPDK is the system's own (`libdpdk-dev`), called through the C shim in `csrc/`, and only where
//! the feature `dpdk` is on. Without it everything here is still there: options are read and
//! checked as ever, and [`start`] says that this build has no DPDK.

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
mod ffi;
#[cfg(feature = "dpdk")]
mod guard;
#[cfg(feature = "dpdk")]
mod guest;
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

pub use config::{DEFAULT_DESCRIPTORS, DpdkConfig, VhostRole, remove_left_socket, vhost_devargs};
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
pub use device::DpdkPort;
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
