//! The routing tables of outer packets: device, next hop and source address. Rules select the tables of a
//! lookup (ovs: `lib/ovs-router.c`).

mod rules;
mod show;
mod system;
mod table;

pub use rules::Rule;
pub use show::Which;
pub use system::{SystemRoute, SystemRoutes, SystemRouting};

use rules::Rules;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use table::Table;

/// The table that is searched last (Linux: `include/uapi/linux/rtnetlink.h`, `enum rt_class_t`).
pub const TABLE_DEFAULT: u32 = 253;
/// The table of ordinary routes.
pub const TABLE_MAIN: u32 = 254;
/// The table of the system's own addresses.
pub const TABLE_LOCAL: u32 = 255;

/// A route that a command adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRoute {
    /// The table.
    pub table: u32,
    /// The packet mark that the route applies to.
    pub mark: u32,
    /// The destination prefix and its length in bits.
    pub prefix: (IpAddr, u8),
    /// The device.
    pub device: String,
    /// The next hop; `None` if the destination is on the device's link.
    pub gateway: Option<IpAddr>,
    /// The source address: an address of the device on the network of the destination or the next hop.
    pub source: Option<IpAddr>,
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Whether a command added it.
    pub is_user: bool,
    /// The packet mark that the route applies to.
    pub mark: u32,
    /// The destination prefix; the host bits are zero.
    pub prefix: IpAddr,
    /// The length of the prefix in bits.
    pub len: u8,
    /// The device.
    pub device: String,
    /// The next hop; `None` if the destination is on the device's link.
    pub gateway: Option<IpAddr>,
    /// The source address.
    pub source: IpAddr,
    /// The MTU of the path, if the route sets one.
    pub mtu: Option<u32>,
}

/// The result of a lookup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The device.
    pub device: String,
    /// The source address.
    pub source: IpAddr,
    /// The next hop; `None` if the destination is on the device's link.
    pub gateway: Option<IpAddr>,
    /// The maximum length of an IP packet in bytes: the smaller of the known MTUs of route and device.
    pub mtu: Option<u32>,
}

/// All routes.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// The tables of user routes. None is empty.
    user: BTreeMap<u32, Table>,
    /// The rules of the system and of users.
    rules: Rules,
    /// The system's state that was last applied.
    system: Arc<SystemRoutes>,
}

impl Routes {
    /// Replaces the routes, rules and addresses of the system. Returns whether anything changed.
    pub fn set_system(&mut self, system: Arc<SystemRoutes>) -> bool {
        if self.system == system {
            return false;
        }
        self.rules.set_system(&system.routing().rules);
        self.system = system;
        true
    }

    /// Adds a user route. Returns false if its device has no usable source address, or not the requested one.
    pub fn add(&mut self, route: UserRoute) -> bool {
        let UserRoute { table, mark, prefix: (prefix, len), device, gateway, source } = route;
        let found = match source {
            Some(asked) => [Some(prefix), gateway]
                .into_iter()
                .flatten()
                .any(|peer| self.system.routing().is_source_of(&device, asked, peer))
                .then_some(asked),
            None => self.system.routing().source_for((prefix, gateway), &device),
        };
        let Some(source) = found else { return false };
        let route = Route { is_user: true, mark, prefix, len, device, gateway, source, mtu: None };
        self.user.entry(table).or_default().put(route);
        true
    }

    /// Removes a user route. Returns false if there is none.
    pub fn remove(&mut self, table: u32, (prefix, len): (IpAddr, u8), mark: u32) -> bool {
        let Some(routes) = self.user.get_mut(&table) else { return false };
        let is_removed = routes.remove_user((prefix, len), mark);
        if routes.is_empty() {
            self.user.remove(&table);
        }
        is_removed
    }

    /// Returns whether a table has routes.
    pub fn has_table(&self, table: u32) -> bool {
        self.tables().any(|tables| tables.contains_key(&table))
    }

    /// Adds a user rule. Priority 0 stands for the last free priority before the main table's rule (ovs:
    /// `ovs_router_rule_add_cmd`).
    pub fn add_rule(&mut self, rule: Rule) {
        self.rules.add(rule);
    }

    /// Removes a user rule. Priority 0 matches any priority. Returns false if there is no such rule.
    pub fn remove_rule(&mut self, rule: &Rule) -> bool {
        self.rules.remove(rule)
    }

    /// Returns the route to an address for packets with this mark. A source address must be one of the
    /// system's; rules that match on source addresses then apply to it.
    pub fn lookup(&self, mark: u32, destination: IpAddr, source: Option<IpAddr>) -> Option<Hop> {
        if let Some(source) = source {
            self.find(TABLE_LOCAL, mark, source)?;
        }
        let mut rules = self.rules.iter().filter(|rule| rule.is_for(destination, source));
        let route = rules.find_map(|rule| self.find(rule.table, mark, destination))?;
        let source = source.unwrap_or(route.source);
        let device = self.system.routing().mtus.get(&route.device).copied();
        let mtu = device.into_iter().chain(route.mtu).min();
        Some(Hop { device: route.device.clone(), source, gateway: route.gateway, mtu })
    }

    /// Returns the address of a device on the same network as `peer`, with the longest prefix.
    pub fn source_of(&self, device: &str, peer: IpAddr) -> Option<IpAddr> {
        self.system.routing().source_of(device, peer)
    }

    /// Returns the devices that routes use, with their addresses.
    pub fn local_devices(&self) -> impl Iterator<Item = (&String, &Vec<(IpAddr, u8)>)> {
        let of_users = |device: &str| {
            self.user.values().flat_map(Table::iter).any(|route| route.device == device)
        };
        let is_used = move |device: &str| self.system.uses(device) || of_users(device);
        self.system.routing().addresses.iter().filter(move |(device, _)| is_used(device))
    }

    /// Returns the route of a table with the highest precedence.
    fn find(&self, table: u32, mark: u32, destination: IpAddr) -> Option<&Route> {
        let found = self.tables().filter_map(|tables| tables.get(&table)?.find(mark, destination));
        found.min_by_key(|(level, _)| *level).map(|(_, route)| route)
    }

    /// Returns the tables of users and of the system.
    fn tables(&self) -> impl Iterator<Item = &BTreeMap<u32, Table>> {
        [&self.user, self.system.tables()].into_iter()
    }
}

#[cfg(test)]
mod tests;
