//! Tunnels in the userspace datapath: what a tunnel port is ([`TunnelConfig`]), which one a packet
//! belongs to ([`Receivers`]), where outer packets go ([`Routes`], [`Neighbours`]) and end
//! ([`PortMap`]), and the outer headers themselves ([`build`], [`finish`], [`decapsulate`]).
//!
//! Pure state: time is an argument, and the caller supplies routes and addresses.

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

pub use config::{Endpoint, Erspan, FlowLabel, FlowOr, Inherit, Key, PacketType, TunnelConfig};
pub use decapsulate::{Decapsulated, Inner, Metadata, PopError, decapsulate};
pub use encapsulate::{Outer, build, finish};
pub use envelope::Envelope;
pub use neighbours::{NEIGHBOURS_MAX, Neighbour, Neighbours};
pub use parse::Parsed;
pub use port_map::{Listener, LocalDevice, PortMap};
pub use receivers::{Arrived, Receivers};
pub use routes::{
    Hop, Route, Routes, Rule, SystemRoute, SystemRouting, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
    UserRoute,
};

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The addresses of network devices, with the lengths of their prefixes.
pub type Addresses = BTreeMap<String, Vec<(IpAddr, u8)>>;

/// The UDP source ports of outer packets where nothing else is asked for
/// (ovs: `lib/netdev-native-tnl.c`, `tnl_udp_port_min`).
pub const SOURCE_PORTS: (u16, u16) = (32_768, 61_000);

/// The state of the underlay.
#[derive(Clone, Debug)]
pub struct Underlay {
    /// Where packets go.
    pub routes: Arc<Routes>,
    /// Who is on the links.
    pub neighbours: Neighbours,
    /// Where packets end.
    pub ports: PortMap,
    /// The UDP source ports to choose from.
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
