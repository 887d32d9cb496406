//! The datapath: what a worker does with packets.
//!
//! A [`Worker`] owns its flows, caches and counters; workers share only connection tracking and the upcall
//! queue. It uses no socket, no clock and no OpenFlow: the loop around it receives batches from ports, passes
//! them to [`Worker::receive`], and sends the contents of the [`Outbox`]. A packet's path begins in
//! `pipeline.rs` and continues in `walk.rs`.

#![forbid(unsafe_code)]

mod burst;
mod cache_insert;
mod cache_policy;
mod cached;
mod ct_passes;
mod error_limit;
mod execute;
mod flow_hash;
mod flow_kind;
mod flow_paths;
mod inside;
mod install;
mod installed;
mod miss;
mod nat_rewrite;
mod observer;
mod offer;
mod outbox;
mod outer;
mod outside;
mod path_id;
mod path_mtu;
mod pending;
mod pipeline;
mod rewrite;
mod shim;
mod stats;
mod step;
mod through;
mod tunnel;
mod unified;
mod upcall_queue;
mod walk;
mod worker;

// The rig of the tests, which names this crate as programs of tests do.
#[cfg(test)]
#[path = "../tests/support/bench.rs"]
mod bench;
#[cfg(test)]
extern crate self as datapath;

pub use observer::{Observer, Stage};
pub use outbox::Outbox;
pub use stats::WorkerStats;
pub use step::{FoundBy, Step};
pub use unified::{CacheMemory, CacheMemoryRequest};
pub use upcall_queue::{Answers, QueueFull, Reserved, UpcallQueue, UpcallRates};
pub use worker::{InstalledFlow, LastFlows, Worker, WorkerConfig};
