//! Ports of the switch: queues from which workers receive batches of packets, and into which they send.
//!
//! The datapath never sees a port: a worker's loop receives from an [`RxQueue`], lets the datapath decide,
//! and sends through a [`TxQueue`]. Drivers are in separate crates (`port-linux`); this crate has the traits,
//! the ports without a device (in memory, pcap files, simulated faults), and software for what a driver
//! lacks: checksums and segmentation ([`offload`]). [`vnet`] is the form in which the kernel states them.

#![forbid(unsafe_code)]

pub mod fault;
pub mod memory;
pub mod offload;
pub mod pcap;
pub mod pcap_port;
mod queue;
pub mod vnet;

pub use fault::{FaultyRx, FaultyTx};
pub use memory::MemoryPort;
pub use pcap::{PcapRx, PcapTx};
pub use pcap_port::{PcapOptions, PcapPort};
pub use queue::{PortError, RxQueue, TxCounters, TxQueue};
