//! The system's routing, and the tables made of it.

use super::Route;
use super::table::{Table, masked};
use crate::Addresses;
use crate::routes::rules::Rule;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// A route of the system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemRoute {
    /// The table; 255 for the system's own addresses.
    pub table: u32,
    /// The destination prefix.
    pub prefix: IpAddr,
    /// The length of the prefix in bits.
    pub len: u8,
    /// The metric. If a table has several routes to one prefix, the one with the lowest metric is used.
    pub metric: u32,
    /// The device.
    pub device: String,
    /// The next hop; `None` if the destination is on the device's link.
    pub gateway: Option<IpAddr>,
    /// The preferred source address.
    pub source: Option<IpAddr>,
    /// The MTU of the path, if the route sets one.
    pub mtu: Option<u32>,
}

/// The system's routes, rules, addresses and MTUs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SystemRouting {
    /// Routes of the tables that rules name, in the system's order.
    pub routes: Vec<SystemRoute>,
    /// The rules. A family without any has the standard ones.
    pub rules: Vec<Rule>,
    /// Addresses and prefix lengths by device.
    pub addresses: Addresses,
    /// MTUs by device.
    pub mtus: BTreeMap<String, u32>,
}

/// The system's routing in the form for lookups, which never changes. Where there are many routes, it is made on the
/// thread that reads them, and the control thread and translations share it.
#[derive(Debug, Default)]
pub struct SystemRoutes {
    routing: SystemRouting,
    tables: BTreeMap<u32, Table>,
    /// The devices that routes use.
    devices: BTreeSet<String>,
}

/// What is made of equal routing is equal.
impl PartialEq for SystemRoutes {
    fn eq(&self, other: &SystemRoutes) -> bool {
        self.routing == other.routing
    }
}

impl Eq for SystemRoutes {}

impl SystemRoutes {
    /// Makes the tables. Omits routes whose device has no source address, as in Open vSwitch.
    #[must_use]
    pub fn new(routing: SystemRouting) -> SystemRoutes {
        let mut tables: BTreeMap<u32, Table> = BTreeMap::new();
        let mut routes: Vec<&SystemRoute> = routing.routes.iter().collect();
        // A later route replaces an earlier one with the same prefix, so the lowest metric is last.
        routes.sort_by_key(|route| Reverse(route.metric));
        for &SystemRoute { table, prefix, len, ref device, gateway, source, mtu, .. } in routes {
            let preferred = source.filter(|it| it.is_ipv4() == prefix.is_ipv4());
            let source = preferred.or_else(|| routing.source_for((prefix, gateway), device));
            let Some(source) = source else { continue };
            let (is_user, mark, device) = (false, 0, device.clone());
            let route = Route { is_user, mark, prefix, len, device, gateway, source, mtu };
            tables.entry(table).or_default().put(route);
        }
        let mut devices = BTreeSet::new();
        for route in tables.values().flat_map(Table::iter) {
            if !devices.contains(&route.device) {
                devices.insert(route.device.clone());
            }
        }
        SystemRoutes { routing, tables, devices }
    }

    /// Returns what the tables are made of.
    #[must_use]
    pub fn routing(&self) -> &SystemRouting {
        &self.routing
    }

    pub(super) fn tables(&self) -> &BTreeMap<u32, Table> {
        &self.tables
    }

    /// Returns whether a route uses this device.
    pub(super) fn uses(&self, device: &str) -> bool {
        self.devices.contains(device)
    }
}

impl SystemRouting {
    /// Returns the address of a device on the network of the target, or else on the network of the gateway
    /// (ovs: `ovs_router_get_netdev_source_address`).
    pub(super) fn source_for(
        &self,
        (target, gateway): (IpAddr, Option<IpAddr>),
        device: &str,
    ) -> Option<IpAddr> {
        self.source_of(device, target).or_else(|| {
            let gateway = gateway?;
            if gateway.is_ipv4() == target.is_ipv4() {
                return self.source_of(device, gateway);
            }
            // With a next hop of the other family (RFC 5549), any address of the target's family is used.
            let mut own = self.addresses.get(device)?.iter().map(|(address, _)| *address);
            own.find(|address| address.is_ipv4() == target.is_ipv4())
        })
    }

    /// Returns the address of a device on the same network as `peer`, with the longest prefix.
    pub(super) fn source_of(&self, device: &str, peer: IpAddr) -> Option<IpAddr> {
        let near = self.near(device, peer);
        near.max_by_key(|(_, len)| *len).map(|(address, _)| *address)
    }

    /// Returns whether a device has this address, on the same network as `peer`.
    pub(super) fn is_source_of(&self, device: &str, address: IpAddr, peer: IpAddr) -> bool {
        self.near(device, peer).any(|(own, _)| *own == address)
    }

    /// Returns the addresses of a device whose networks contain `peer`.
    fn near(&self, device: &str, peer: IpAddr) -> impl Iterator<Item = &(IpAddr, u8)> {
        let addresses = self.addresses.get(device).into_iter().flatten();
        addresses.filter(move |(address, len)| {
            address.is_ipv4() == peer.is_ipv4() && masked(*address, *len) == masked(peer, *len)
        })
    }
}
