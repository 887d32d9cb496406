//! Ports on Linux: network devices through AF_PACKET sockets, the switch's own devices through TAP, and state
//! and settings of devices and threads.
//!
//! Partial checksums and large (GSO) frames pass these ports unchanged in both directions, in the kernel's
//! vnet header, so that TCP over veth works with all offloads enabled.
//!
//! This crate calls the kernel's C interfaces; each `unsafe` has a comment why it is sound.

pub mod af_packet;
pub mod affinity;
mod ethtool;
pub mod link;
pub mod link_monitor;
pub mod numa;
pub mod poll;
pub mod route_monitor;
mod socket;
pub mod tap;

pub use af_packet::{PacketPort, PacketRx, PacketRxDrops, PacketTx};
pub use ethtool::{Driver, Duplex};
pub use link::{LinkInfo, LinkStatistics, Links};
pub use link_monitor::{LinkEvent, LinkMonitor};
pub use poll::{Waiter, Waker};
pub use route_monitor::{RouteMonitor, Routing};
pub use tap::{TapKind, TapPlace, TapPort, TapRx, TapTx};
