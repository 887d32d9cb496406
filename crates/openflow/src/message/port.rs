//! Ports in messages.

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
        /// Drop received packets.
        const NO_RECV = 1 << 2;
        /// Drop received spanning tree packets.
        const NO_RECV_STP = 1 << 3;
        /// Do not include the port in floods.
        const NO_FLOOD = 1 << 4;
        /// Drop packets to be sent.
        const NO_FWD = 1 << 5;
        /// Do not send packet-ins for table misses.
        const NO_PACKET_IN = 1 << 6;
    }
}

/// The description of a port.
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
    /// Whether it can forward packets; not in OpenFlow 1.0.
    pub live: bool,
    /// Current features (speed bits of OpenFlow 1.0/1.3, `OFPPF_*`).
    pub current: u32,
    /// Current speed, in kilobits per second.
    pub speed_kbps: u32,
}

/// The reason of a port-status message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortReason {
    /// Added.
    Add,
    /// Removed.
    Delete,
    /// Changed.
    Modify,
}
