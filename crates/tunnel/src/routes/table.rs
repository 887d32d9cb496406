//! The routes of one table, by the precedence of their prefixes.

use super::Route;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// The prefix length of IPv4-mapped IPv6 addresses (RFC 4291 section 2.5.5.2).
const MAPPED_BITS: u8 = 96;
/// The number that a user route adds to its prefix length, so that it has precedence (ovs: `ovs_router_add`).
const USER_BONUS: u16 = 32;

/// The precedence and the length of prefixes. Sorts the highest precedence first.
pub(super) type Level = (Reverse<u16>, u8);

/// The routes of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    levels: BTreeMap<Level, HashMap<(u32, u128), Route>>,
}

impl Table {
    /// Returns the route with the highest precedence, and that.
    pub(super) fn find(&self, mark: u32, destination: IpAddr) -> Option<(Level, &Route)> {
        let mapped_len =
            |len: u8| if destination.is_ipv4() { len.checked_sub(MAPPED_BITS) } else { Some(len) };
        self.levels.iter().find_map(|(&level, routes)| {
            let route = routes.get(&(mark, masked(destination, mapped_len(level.1)?)))?;
            (route.prefix.is_ipv4() == destination.is_ipv4()).then_some((level, route))
        })
    }

    /// Adds a route, in place of one with the same prefix and mark.
    pub(super) fn put(&mut self, mut route: Route) {
        let prefix = masked(route.prefix, route.len);
        route.prefix = unmap(prefix, route.prefix.is_ipv4());
        let level = level(route.is_user, route.prefix, route.len);
        self.levels.entry(level).or_default().insert((route.mark, prefix), route);
    }

    /// Removes a user route. Returns false if there is none.
    pub(super) fn remove_user(&mut self, (prefix, len): (IpAddr, u8), mark: u32) -> bool {
        let level = level(true, prefix, len);
        let Some(routes) = self.levels.get_mut(&level) else { return false };
        let is_removed = routes.remove(&(mark, masked(prefix, len))).is_some();
        if routes.is_empty() {
            self.levels.remove(&level);
        }
        is_removed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.levels.values().flat_map(HashMap::values)
    }
}

fn level(is_user: bool, prefix: IpAddr, len: u8) -> Level {
    let len = if prefix.is_ipv4() { len + MAPPED_BITS } else { len };
    (Reverse(u16::from(len) + if is_user { USER_BONUS } else { 0 }), len)
}

/// Returns the prefix of an address, as an IPv6 address. `len` counts bits of the address's own family.
pub(super) fn masked(ip: IpAddr, len: u8) -> u128 {
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
