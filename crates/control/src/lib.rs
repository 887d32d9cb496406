//! What the switch is to be, how that differs from what it is, and what it reports back.
//!
//! ```text
//! OVSDB rows ──┐                                                  ┌── Status (what runs)
//!              ├─> Desired ─> difference(old, new) ─> [Change] ─> switch
//! TOML file  ──┘                                                  └─> report ─> Transaction
//! ```
//!
//! Nothing here opens a socket, reads a file or a clock: rows come as an [`ovsdb::Replica`],
//! files as text, and the [`Change`]s are applied by the caller.

#![forbid(unsafe_code)]

pub mod compatibility;
mod desired;
mod difference;
mod dpdk;
mod file;
#[cfg(test)]
mod fixture;
mod options;
mod port;
mod queues;
mod rows;
mod status;

pub use desired::{
    Bridge, BridgeSettings, Controller, ControllerKind, Desired, FailMode, TlsFiles, ZonePolicy,
};
pub use difference::{Change, difference};
pub use dpdk::{DpdkDevice, DpdkInit, DpdkInterface, DpdkOptions};
pub use file::FileError;
pub use options::{CoreSet, SwitchOptions};
pub use port::{Hint, Interface, InterfaceKind, Port};
pub use queues::{AutoBalance, Isolation, QueueOptions, RxqAssign, SleepMax};
pub use rows::{Warning, monitored, next_cfg};
pub use status::{
    BridgeStatus, ControllerRole, ControllerStatus, DPDK_INTERFACE_TYPES, INTERFACE_TYPES,
    InterfaceStatus, LinkStatus, Status, report, userspace_capabilities,
};
