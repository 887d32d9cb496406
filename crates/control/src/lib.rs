//! The desired state of the switch, its difference to the current state, and the status that it reports.
//!
//! ```text
//! OVSDB rows ──┐                                                  ┌── Status (what runs)
//!              ├─> Desired ─> difference(old, new) ─> [Change] ─> switch
//! TOML file  ──┘                                                  └─> report ─> Transaction
//! ```
//!
//! This crate opens no socket and reads no file or clock: rows come from an [`ovsdb::Replica`], files as
//! text, and the caller applies the [`Change`]s.

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
mod upcall_rates;

pub use desired::{
    Bridge, BridgeSettings, Controller, ControllerKind, Desired, TlsFiles, ZonePolicy,
};
pub use difference::{Change, difference};
pub use dpdk::{DpdkInit, DpdkInterface, DpdkOptions, VhostInterface};
pub use file::FileError;
pub use options::{CoreSet, SwitchOptions};
pub use port::{Hint, Interface, InterfaceKind, Port};
pub use queues::{AutoBalance, Isolation, QueueOptions, RxqAssign, SleepMax};
pub use rows::{Warning, monitored, next_cfg};
pub use status::{
    BridgeStatus, ControllerRole, ControllerStatus, DPDK_INTERFACE_TYPE, INTERFACE_TYPES,
    InterfaceStatus, LinkStatus, Status, report, userspace_capabilities,
};
pub use upcall_rates::UpcallRateList;
