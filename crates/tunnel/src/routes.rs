//! Routes: to which device outer packets go, and with which source address (ovs: `lib/ovs-router.c`).

use crate::Addresses;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

/// Bits before an IPv4 address that is written as an IPv6 address.
const MAPPED_BITS: u8 = 96;

/// Where a route comes from. Of two routes to one prefix that of the later kind counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RouteKind {
    /// The system's.
    System,
    /// Added by command.
    User,
    /// The system's, to an address of its own.
    Local,
}

impl RouteKind {
    /// What is added to the prefix's length (ovs: `ovs_router_insert__` and its callers).
    fn bonus(self) -> u16 {
        match self {
            RouteKind::System => 0,
            RouteKind::User => 32,
            RouteKind::Local => 64,
        }
    }
}

/// A route of the system, as it tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemRoute {
    /// The prefix.
    pub prefix: IpAddr,
    /// The bits of the prefix, up to 32 or 128.
    pub len: u8,
    /// The device.
    pub device: String,
    /// The next hop, where the destination is not on the device's link.
    pub gateway: Option<IpAddr>,
    /// The source address that the system prefers.
    pub source: Option<IpAddr>,
    /// Whether the prefix is an address of the system itself.
    pub is_local: bool,
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Where it comes from.
    pub kind: RouteKind,
    /// Packets with this mark take it.
    pub mark: u32,
    /// The prefix, without the bits behind it.
    pub prefix: IpAddr,
    /// The bits of the prefix.
    pub len: u8,
    /// The device.
    pub device: String,
    /// The next hop, where the destination is not on the device's link.
    pub gateway: Option<IpAddr>,
    /// The source address.
    pub source: IpAddr,
}

/// Where a packet goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The device.
    pub device: String,
    /// Its source address.
    pub source: IpAddr,
    /// The next hop, where the destination is not on the device's link.
    pub gateway: Option<IpAddr>,
}

/// One length of prefixes from one source; the greatest comes first.
type Level = (Reverse<u16>, u8);

/// All routes.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    levels: BTreeMap<Level, HashMap<(u32, u128), Route>>,
    addresses: Addresses,
    /// What the system said last, for when addresses change.
    system: Vec<SystemRoute>,
}

impl Routes {
    /// Takes the system's routes and addresses in place of those it told before; says whether anything
    /// changed. A route whose device has no address to send from is left out, as by Open vSwitch.
    pub fn set_system(&mut self, routes: Vec<SystemRoute>, addresses: Addresses) -> bool {
        if self.system == routes && self.addresses == addresses {
            return false;
        }
        (self.system, self.addresses) = (routes, addresses);
        let users: Vec<Route> =
            self.iter().filter(|it| it.kind == RouteKind::User).cloned().collect();
        self.levels.clear();
        for route in &self.system.clone() {
            let kind = if route.is_local { RouteKind::Local } else { RouteKind::System };
            let preferred = route.source.filter(|it| it.is_ipv4() == route.prefix.is_ipv4());
            let target = (route.prefix, route.gateway);
            let source = preferred.or_else(|| self.source_for(target, &route.device));
            if let Some(source) = source {
                let (prefix, len, device) = (route.prefix, route.len, route.device.clone());
                let gateway = route.gateway;
                self.put(Route { kind, mark: 0, prefix, len, device, gateway, source });
            }
        }
        users.into_iter().for_each(|route| self.put(route));
        true
    }

    /// Adds a route by command; `false` where its device has no address to send from.
    pub fn add(
        &mut self,
        (prefix, len): (IpAddr, u8),
        mark: u32,
        device: &str,
        gateway: Option<IpAddr>,
    ) -> bool {
        let Some(source) = self.source_for((prefix, gateway), device) else { return false };
        let (kind, device) = (RouteKind::User, device.to_owned());
        self.put(Route { kind, mark, prefix, len, device, gateway, source });
        true
    }

    /// Removes a route that was added by command; `false` where there is none.
    pub fn remove(&mut self, (prefix, len): (IpAddr, u8), mark: u32) -> bool {
        let level = level(RouteKind::User, prefix, len);
        let Some(routes) = self.levels.get_mut(&level) else { return false };
        let is_removed = routes.remove(&(mark, masked(prefix, len))).is_some();
        if routes.is_empty() {
            self.levels.remove(&level);
        }
        is_removed
    }

    /// The way to an address for packets with this mark. With a source address, that has to be one of
    /// the system's own.
    pub fn lookup(&self, mark: u32, destination: IpAddr, source: Option<IpAddr>) -> Option<Hop> {
        if let Some(source) = source
            && self.find(mark, source).is_none_or(|route| route.kind != RouteKind::Local)
        {
            return None;
        }
        let route = self.find(mark, destination)?;
        let source = source.unwrap_or(route.source);
        Some(Hop { device: route.device.clone(), source, gateway: route.gateway })
    }

    fn find(&self, mark: u32, destination: IpAddr) -> Option<&Route> {
        let mapped_len =
            |len: u8| if destination.is_ipv4() { len.checked_sub(MAPPED_BITS) } else { Some(len) };
        self.levels.iter().find_map(|(&(_, len), routes)| {
            let route = routes.get(&(mark, masked(destination, mapped_len(len)?)))?;
            (route.prefix.is_ipv4() == destination.is_ipv4()).then_some(route)
        })
    }

    /// The source address of a device that shares the longest prefix with the target, or else with the
    /// gateway (ovs: `ovs_router_get_netdev_source_address`).
    fn source_for(
        &self,
        (target, gateway): (IpAddr, Option<IpAddr>),
        device: &str,
    ) -> Option<IpAddr> {
        self.source_of(device, target).or_else(|| self.source_of(device, gateway?))
    }

    /// The address of a device on the same network as another address.
    pub fn source_of(&self, device: &str, peer: IpAddr) -> Option<IpAddr> {
        let addresses = self.addresses.get(device)?.iter();
        let near = addresses.filter(|(address, len)| {
            address.is_ipv4() == peer.is_ipv4() && masked(*address, *len) == masked(peer, *len)
        });
        near.max_by_key(|(_, len)| *len).map(|(address, _)| *address)
    }

    /// Devices that routes lead to, and their addresses.
    pub fn local_devices(&self) -> impl Iterator<Item = (&String, &Vec<(IpAddr, u8)>)> {
        let is_used = |device: &String| self.iter().any(|route| route.device == *device);
        self.addresses.iter().filter(move |(device, _)| is_used(device))
    }

    /// All devices and their addresses.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// All routes, those that are looked at first before the others.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.levels.values().flat_map(HashMap::values)
    }

    /// The table as `ovs/route/show` prints it.
    pub fn show(&self) -> String {
        let mut routes: Vec<&Route> = self.iter().collect();
        routes.sort_by_key(|it| (it.prefix, it.len, Reverse(it.mark), it.kind));
        let mut text = "Route Table:\n".to_owned();
        for route in routes {
            let cached = if route.kind == RouteKind::User { "User" } else { "Cached" };
            // Writing to a string does not fail.
            let _ = write!(text, "{cached}: {}/{}", route.prefix, route.len);
            if route.mark != 0 {
                let _ = write!(text, " MARK {}", route.mark);
            }
            let _ = write!(text, " dev {}", route.device);
            if let Some(gateway) = route.gateway {
                let _ = write!(text, " GW {gateway}");
            }
            let _ = write!(text, " SRC {}", route.source);
            text += if route.kind == RouteKind::Local { " local\n" } else { "\n" };
        }
        text
    }

    fn put(&mut self, mut route: Route) {
        let prefix = masked(route.prefix, route.len);
        route.prefix = unmap(prefix, route.prefix.is_ipv4());
        let level = level(route.kind, route.prefix, route.len);
        self.levels.entry(level).or_default().insert((route.mark, prefix), route);
    }
}

fn level(kind: RouteKind, prefix: IpAddr, len: u8) -> Level {
    let len = if prefix.is_ipv4() { len + MAPPED_BITS } else { len };
    (Reverse(u16::from(len) + kind.bonus()), len)
}

/// An address as an IPv6 address, without the bits behind a prefix of its own family.
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
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn addresses(all: &[(&str, &str, u8)]) -> Addresses {
        let mut addresses = Addresses::new();
        for (device, address, len) in all {
            addresses.entry((*device).to_owned()).or_default().push((ip(address), *len));
        }
        addresses
    }

    fn system(prefix: &str, len: u8, device: &str, gateway: Option<&str>) -> SystemRoute {
        SystemRoute {
            prefix: ip(prefix),
            len,
            device: device.to_owned(),
            gateway: gateway.map(ip),
            source: None,
            is_local: gateway.is_none() && matches!(len, 32 | 128),
        }
    }

    fn routes() -> Routes {
        let mut routes = Routes::default();
        let kernel = vec![
            system("10.1.0.0", 24, "br0", None),
            system("10.1.0.1", 32, "br0", None),
            system("0.0.0.0", 0, "br0", Some("10.1.0.254")),
            system("fd00::", 64, "br1", None),
            system("10.9.0.0", 24, "none", None),
        ];
        let known = addresses(&[("br0", "10.1.0.1", 24), ("br1", "fd00::1", 64)]);
        assert!(routes.set_system(kernel.clone(), known.clone()));
        assert!(!routes.set_system(kernel, known));
        routes
    }

    fn check(
        routes: &Routes,
        mark: u32,
        to: &str,
        from: Option<&str>,
        expect: Option<(&str, &str, Option<&str>)>,
    ) {
        let found = routes.lookup(mark, ip(to), from.map(ip));
        let expect = expect.map(|(device, source, gateway)| Hop {
            device: device.to_owned(),
            source: ip(source),
            gateway: gateway.map(ip),
        });
        assert_eq!(found, expect, "{to} with mark {mark} from {from:?}");
    }

    #[test]
    fn the_longest_prefix_counts_and_the_users_before_the_systems() {
        let mut routes = routes();
        check(&routes, 0, "10.1.0.7", None, Some(("br0", "10.1.0.1", None)));
        check(&routes, 0, "10.2.0.7", None, Some(("br0", "10.1.0.1", Some("10.1.0.254"))));
        check(&routes, 1, "10.2.0.7", None, None);
        check(&routes, 0, "fd00::7", None, Some(("br1", "fd00::1", None)));
        check(&routes, 0, "fd01::7", None, None);
        check(&routes, 0, "10.1.0.7", Some("10.1.0.1"), Some(("br0", "10.1.0.1", None)));
        check(&routes, 0, "10.1.0.7", Some("10.1.0.2"), None);
        assert!(routes.add((ip("10.1.0.0"), 24), 0, "br0", Some(ip("10.1.0.9"))));
        check(&routes, 0, "10.1.0.7", None, Some(("br0", "10.1.0.1", Some("10.1.0.9"))));
        assert!(routes.add((ip("10.3.0.0"), 16), 5, "br0", Some(ip("10.1.0.9"))));
        check(&routes, 5, "10.3.0.7", None, Some(("br0", "10.1.0.1", Some("10.1.0.9"))));
        assert!(!routes.add((ip("10.3.0.0"), 16), 5, "br0", None), "no address of br0 is near");
        assert!(routes.remove((ip("10.1.0.0"), 24), 0));
        assert!(!routes.remove((ip("10.1.0.0"), 24), 0));
        check(&routes, 0, "10.1.0.7", None, Some(("br0", "10.1.0.1", None)));
    }

    #[test]
    fn the_systems_routes_are_replaced_and_the_users_stay() {
        let mut routes = routes();
        assert!(routes.add((ip("10.3.9.0"), 16), 5, "br0", Some(ip("10.1.0.9"))));
        assert_eq!(
            routes.show(),
            "Route Table:\n\
             Cached: 0.0.0.0/0 dev br0 GW 10.1.0.254 SRC 10.1.0.1\n\
             Cached: 10.1.0.0/24 dev br0 SRC 10.1.0.1\n\
             Cached: 10.1.0.1/32 dev br0 SRC 10.1.0.1 local\n\
             User: 10.3.0.0/16 MARK 5 dev br0 GW 10.1.0.9 SRC 10.1.0.1\n\
             Cached: fd00::/64 dev br1 SRC fd00::1\n"
        );
        assert!(routes.set_system(Vec::new(), Addresses::new()));
        let user = "User: 10.3.0.0/16 MARK 5 dev br0 GW 10.1.0.9 SRC 10.1.0.1\n";
        assert_eq!(routes.show(), format!("Route Table:\n{user}"));
    }
}
