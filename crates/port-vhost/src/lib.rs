//! Guests behind vhost-user: ports whose packets pass through rings in a guest's own memory.
//!
//! [`VhostPort::open`] starts a thread that talks to the front-end (QEMU, or DPDK's virtio-user) at a socket, maps
//! the memory that it shares, and starts and stops rings. Workers receive and send through [`VhostRx`] and
//! [`VhostTx`]. Neither DPDK nor huge pages are needed.
//!
//! Nothing that a guest or its front-end writes is trusted. The front-end's messages are decoded to types. Rings are
//! memory that the guest changes at any time, so each index and descriptor is read once into own memory and checked
//! there, and a frame is copied before it is parsed. A violation ends the connection, and only that. The work per
//! burst and the memory per guest are bounded.
//!
//! `unsafe` is only in `guard`, which handles the signal for memory whose file became shorter, in `notifier`, which
//! calls the kernel's asynchronous I/O, and in `numa`, which asks for the node of a page.

mod areas;
mod chain;
mod counters;
mod dirty_log;
mod doorbell;
mod fault;
mod feature;
mod format;
mod front_end;
mod guard;
mod header;
mod mapping;
mod memory;
mod message;
mod notifier;
mod numa;
mod pace;
mod packed;
mod port;
mod queues;
mod ring;
mod session;
mod setup;
mod shared;
mod socket;
mod split;

pub use counters::RingCounts;
pub use fault::{Fault, RingFault};
pub use pace::Clocks;
pub use port::{Lost, VhostConfig, VhostPort, VhostRole};
pub use queues::{VhostRx, VhostTx};
pub use shared::Status;

#[cfg(feature = "fuzzing")]
pub mod fuzzing;

#[cfg(test)]
mod tests;
