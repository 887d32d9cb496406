//! Offload to network cards of DPDK: rules of its `rte_flow` API forward packets of connections that the
//! switch handed over.
//!
//! `device_rule.rs` makes rules of offers, `strictness.rs` adds what not every device has, and `offload.rs` is
//! [`flow::FlowOffload`], with `offload/checked.rs` for connections whose windows a device checks. Rules, and the device that takes them, are [`port_dpdk::flow_rule`]'s.
#![forbid(unsafe_code)]

mod device_rule;
mod offload;
mod strictness;

pub use device_rule::{CHECKED_GROUP, DeviceRule, checking, device_rule, leaving, marking};
pub use offload::DpdkOffload;
