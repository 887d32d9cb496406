//! Ports as messages tell of them.

use base::{MacAddr, OfPort};
use bitflags::bitflags;

bitflags! {
    /// Port configuration bits (OpenFlow 1.0's numbers).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct PortConfig: u32 {
        /// Administratively down.
        const PORT_DOWN = 1 << 0;
        /// No spanning tree.
        const NO_STP = 1 << 1;
        /// Drop what is received.
        const NO_RECV = 1 << 2;
        /// Drop received spanning tree packets.
        const NO_RECV_STP = 1 << 3;
        /// Not part of floods.
        const NO_FLOOD = 1 << 4;
        /// Drop what would be sent.
        const NO_FWD = 1 << 5;
        /// No packet-ins for table misses.
        const NO_PACKET_IN = 1 << 6;
    }
}

/// A port as OpenFlow describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortDesc {
    /// Its number.
    pub port: OfPort,
    /// Ethernet address.
    pub mac: MacAddr,
    /// Name, at most 15 bytes on the wire.
    pub name: String,
    /// Configuration.
    pub config: PortConfig,
    /// No carrier.
    pub link_down: bool,
    /// It can forward; OpenFlow 1.0 does not tell.
    pub live: bool,
    /// Current features (speed bits of OpenFlow 1.0/1.3, `OFPPF_*`).
    pub current: u32,
    /// Speed now, in kilobits a second.
    pub speed_kbps: u32,
}

/// What a port-status message reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortReason {
    /// Added.
    Add,
    /// Removed.
    Delete,
    /// Changed.
    Modify,
}
