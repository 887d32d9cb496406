//! What a port of the switch is: queues that batches of packets come out of and go into.
//!
//! The datapath never sees a port; the worker loop in the program receives from an [`RxQueue`],
//! lets the datapath decide, and sends through a [`TxQueue`]. Drivers live in crates of their own
//! (`port-linux`); here are the traits, the ports that need no device at all (in memory, from and
//! to pcap files, with faults on purpose), and in software what a driver may lack: checksums and
//! segmentation ([`offload`]).

#![forbid(unsafe_code)]

pub mod fault;
pub mod memory;
pub mod offload;
pub mod pcap;
pub mod pcap_port;
mod queue;

pub use fault::{FaultyRx, FaultyTx};
pub use memory::MemoryPort;
pub use pcap::{PcapRx, PcapTx};
pub use pcap_port::{PcapOptions, PcapPort};
pub use queue::{PortError, RxQueue, TxCounters, TxQueue};
