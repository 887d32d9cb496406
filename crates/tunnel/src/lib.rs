//! Tunnels in the userspace datapath: the configuration of tunnel ports ([`TunnelConfig`]), the port that
//! receives a packet ([`Receivers`]), the route and next hop of outer packets ([`Routes`], [`Neighbours`]),
//! the local addresses at which tunnels end ([`PortMap`]), and the outer headers ([`build`], [`finish`],
//! [`decapsulate()`]).
//!
//! The crate has no sockets and reads no clock. The caller supplies time, routes and addresses.

#![forbid(unsafe_code)]

mod config;
mod decapsulate;
mod encapsulate;
mod envelope;
mod neighbours;
mod parse;
mod port_map;
mod receivers;
mod routes;
mod text;

pub use config::{
    Checksum, Endpoint, Erspan, FlowLabel, FlowOr, Inherit, Key, PacketType, TunnelConfig,
};
pub use decapsulate::{Decapsulated, Inner, Metadata, PopError, decapsulate};
pub use encapsulate::{Outer, build, finish};
pub use envelope::Envelope;
pub use neighbours::{NEIGHBOURS_MAX, Neighbour, Neighbours};
pub use parse::Parsed;
pub use port_map::{Listener, LocalDevice, PortMap};
pub use receivers::{Arrived, Receivers};
pub use routes::{
    Hop, Route, Routes, Rule, SystemRoute, SystemRoutes, SystemRouting, TABLE_DEFAULT, TABLE_LOCAL,
    TABLE_MAIN, UserRoute, Which,
};

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The addresses of network devices with their prefix lengths.
pub type Addresses = BTreeMap<String, Vec<(IpAddr, u8)>>;

/// The default range of UDP source ports of outer packets: the first one, and the one after the last (ovs:
/// `lib/netdev-native-tnl.c`, `tnl_udp_port_min`).
pub const SOURCE_PORTS: (u16, u16) = (32_768, 61_000);

/// The state of the underlay.
#[derive(Clone, Debug)]
pub struct Underlay {
    /// The routes.
    pub routes: Arc<Routes>,
    /// The neighbours on the links.
    pub neighbours: Neighbours,
    /// The local addresses and ports at which tunnels end.
    pub ports: PortMap,
    /// The range of UDP source ports: the first one, and the one after the last.
    pub source_ports: (u16, u16),
}

impl Default for Underlay {
    fn default() -> Self {
        Underlay {
            routes: Arc::default(),
            neighbours: Neighbours::default(),
            ports: PortMap::default(),
            source_ports: SOURCE_PORTS,
        }
    }
}
