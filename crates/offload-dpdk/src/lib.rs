//! Offload to network cards of DPDK: rules of its `rte_flow` API forward packets of connections that the
//! switch handed over.
//!
//! `translate.rs` makes rules of offers, `strictness.rs` adds what not every device has, and `offload.rs` is
//! [`flow::FlowOffload`], with `offload/checked.rs` for connections whose windows a device checks. Rules, and the device that takes them, are [`port_dpdk::flow_rule`]'s.
#![forbid(unsafe_code)]

mod offload;
mod strictness;
mod translate;

pub use offload::DpdkOffload;
pub use translate::{CHECKED_GROUP, Translation, checking, leaving, marking, translate};
