//! The routing tables of outer packets: device, next hop and source address. Rules select the tables of a
//! lookup (ovs: `lib/ovs-router.c`).

mod rules;
mod show;

pub use rules::Rule;

use crate::Addresses;
use hashbrown::HashMap;
use rules::Rules;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// The prefix length of IPv4-mapped IPv6 addresses (RFC 4291 section 2.5.5.2).
const MAPPED_BITS: u8 = 96;
/// The number that a user route adds to its prefix length, so that it has precedence (ovs: `ovs_router_add`).
const USER_BONUS: u16 = 32;

/// The table that is searched last (Linux: `include/uapi/linux/rtnetlink.h`, `enum rt_class_t`).
pub const TABLE_DEFAULT: u32 = 253;
/// The table of ordinary routes.
pub const TABLE_MAIN: u32 = 254;
/// The table of the system's own addresses.
pub const TABLE_LOCAL: u32 = 255;

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

/// The precedence and the length of prefixes. Sorts the highest precedence first.
type Level = (Reverse<u16>, u8);

/// The routes of one table.
#[derive(Clone, Debug, Default)]
struct Table {
    levels: BTreeMap<Level, HashMap<(u32, u128), Route>>,
}

/// All routes.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    tables: BTreeMap<u32, Table>,
    rules: Rules,
    /// The system's state that was last applied.
    system: SystemRouting,
}

impl Routes {
    /// Replaces the routes, rules and addresses of the system. Returns whether anything changed. Omits routes
    /// whose device has no source address, as in Open vSwitch.
    pub fn set_system(&mut self, system: SystemRouting) -> bool {
        if self.system == system {
            return false;
        }
        self.system = system;
        self.rules.set_system(&self.system.rules);
        let is_user = |route: &mut Route| route.is_user;
        self.tables.values_mut().for_each(|table| table.retain(is_user));
        let mut routes = self.system.routes.clone();
        // A later route replaces an earlier one with the same prefix, so the lowest metric is last.
        routes.sort_by_key(|route| Reverse(route.metric));
        for SystemRoute { table, prefix, len, device, gateway, source, mtu, .. } in routes {
            let preferred = source.filter(|it| it.is_ipv4() == prefix.is_ipv4());
            let source = preferred.or_else(|| self.source_for((prefix, gateway), &device));
            if let Some(source) = source {
                let (is_user, mark) = (false, 0);
                let route = Route { is_user, mark, prefix, len, device, gateway, source, mtu };
                self.tables.entry(table).or_default().put(route);
            }
        }
        self.tables.retain(|_, table| !table.levels.is_empty());
        true
    }

    /// Adds a user route. Returns false if its device has no usable source address, or not the requested one.
    pub fn add(&mut self, route: UserRoute) -> bool {
        let UserRoute { table, mark, prefix: (prefix, len), device, gateway, source } = route;
        let found = match source {
            Some(asked) => [Some(prefix), gateway]
                .into_iter()
                .flatten()
                .any(|peer| self.is_source_of(&device, asked, peer))
                .then_some(asked),
            None => self.source_for((prefix, gateway), &device),
        };
        let Some(source) = found else { return false };
        let route = Route { is_user: true, mark, prefix, len, device, gateway, source, mtu: None };
        self.tables.entry(table).or_default().put(route);
        true
    }

    /// Removes a user route. Returns false if there is none.
    pub fn remove(&mut self, table: u32, (prefix, len): (IpAddr, u8), mark: u32) -> bool {
        let Some(routes) = self.tables.get_mut(&table) else { return false };
        let is_removed = routes.remove_user((prefix, len), mark);
        if routes.levels.is_empty() {
            self.tables.remove(&table);
        }
        is_removed
    }

    /// Returns whether a table has routes.
    pub fn has_table(&self, table: u32) -> bool {
        self.tables.contains_key(&table)
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
            self.tables.get(&TABLE_LOCAL)?.find(mark, source)?;
        }
        let mut rules = self.rules.iter().filter(|rule| rule.is_for(destination, source));
        let route = rules.find_map(|rule| self.tables.get(&rule.table)?.find(mark, destination))?;
        let source = source.unwrap_or(route.source);
        let device = self.system.mtus.get(&route.device).copied();
        let mtu = device.into_iter().chain(route.mtu).min();
        Some(Hop { device: route.device.clone(), source, gateway: route.gateway, mtu })
    }

    /// Returns the address of a device on the network of the target, or else on the network of the gateway
    /// (ovs: `ovs_router_get_netdev_source_address`).
    fn source_for(
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
            let mut own = self.system.addresses.get(device)?.iter().map(|(address, _)| *address);
            own.find(|address| address.is_ipv4() == target.is_ipv4())
        })
    }

    /// Returns the address of a device on the same network as `peer`, with the longest prefix.
    pub fn source_of(&self, device: &str, peer: IpAddr) -> Option<IpAddr> {
        let near = self.near(device, peer);
        near.max_by_key(|(_, len)| *len).map(|(address, _)| *address)
    }

    /// Returns whether a device has this address, on the same network as `peer`.
    fn is_source_of(&self, device: &str, address: IpAddr, peer: IpAddr) -> bool {
        self.near(device, peer).any(|(own, _)| *own == address)
    }

    /// Returns the addresses of a device whose networks contain `peer`.
    fn near(&self, device: &str, peer: IpAddr) -> impl Iterator<Item = &(IpAddr, u8)> {
        let addresses = self.system.addresses.get(device).into_iter().flatten();
        addresses.filter(move |(address, len)| {
            address.is_ipv4() == peer.is_ipv4() && masked(*address, *len) == masked(peer, *len)
        })
    }

    /// Returns the devices that routes use, with their addresses.
    pub fn local_devices(&self) -> impl Iterator<Item = (&String, &Vec<(IpAddr, u8)>)> {
        let is_used = |device: &String| self.iter().any(|route| route.device == *device);
        self.system.addresses.iter().filter(move |(device, _)| is_used(device))
    }

    fn iter(&self) -> impl Iterator<Item = &Route> {
        self.tables.values().flat_map(Table::iter)
    }
}

impl Table {
    fn find(&self, mark: u32, destination: IpAddr) -> Option<&Route> {
        let mapped_len =
            |len: u8| if destination.is_ipv4() { len.checked_sub(MAPPED_BITS) } else { Some(len) };
        self.levels.iter().find_map(|(&(_, len), routes)| {
            let route = routes.get(&(mark, masked(destination, mapped_len(len)?)))?;
            (route.prefix.is_ipv4() == destination.is_ipv4()).then_some(route)
        })
    }

    fn put(&mut self, mut route: Route) {
        let prefix = masked(route.prefix, route.len);
        route.prefix = unmap(prefix, route.prefix.is_ipv4());
        let level = level(route.is_user, route.prefix, route.len);
        self.levels.entry(level).or_default().insert((route.mark, prefix), route);
    }

    fn remove_user(&mut self, (prefix, len): (IpAddr, u8), mark: u32) -> bool {
        let level = level(true, prefix, len);
        let Some(routes) = self.levels.get_mut(&level) else { return false };
        let is_removed = routes.remove(&(mark, masked(prefix, len))).is_some();
        if routes.is_empty() {
            self.levels.remove(&level);
        }
        is_removed
    }

    fn retain(&mut self, mut is_kept: impl FnMut(&mut Route) -> bool) {
        self.levels.retain(|_, routes| {
            routes.retain(|_, route| is_kept(route));
            !routes.is_empty()
        });
    }

    fn iter(&self) -> impl Iterator<Item = &Route> {
        self.levels.values().flat_map(HashMap::values)
    }
}

fn level(is_user: bool, prefix: IpAddr, len: u8) -> Level {
    let len = if prefix.is_ipv4() { len + MAPPED_BITS } else { len };
    (Reverse(u16::from(len) + if is_user { USER_BONUS } else { 0 }), len)
}

/// Returns the prefix of an address, as an IPv6 address. `len` counts bits of the address's own family.
fn masked(ip: IpAddr, len: u8) -> u128 {
    let (bits, len) = match ip {
        IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), len.min(32) + MAPPED_BITS),
        IpAddr::V6(ip) => (ip.to_bits(), len.min(128)),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    bits & mask
}

fn unmap(bits: u128, is_ipv4: bool) -> IpAddr {
    let ip = Ipv6Addr::from_bits(bits);
    ip.to_ipv4_mapped().filter(|_| is_ipv4).map_or(IpAddr::V6(ip), IpAddr::V4)
}

#[cfg(test)]
mod tests;
