//! The system's routes, rules and addresses, and notifications of their changes (ovs: `lib/route-table.c`).

mod rules;

use crate::link::{LinkInfo, Links, NETLINK, split_message};
use crate::socket;
use base::MacAddr;
use coverage::Event;
use netlink_packet_core::{NLM_F_DUMP, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteNextHop, RouteType,
    RouteVia,
};
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use port::PortError;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use tunnel::{SystemRoute, SystemRoutes, SystemRouting, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};

/// Size of the receive buffer. If announcements are lost, everything is read again, and every device counts as
/// having been down.
const RECEIVE_BUFFER_BYTES: i32 = 1 << 20;
/// The tables that are read even without a rule.
const TABLES: [u32; 3] = [TABLE_MAIN, TABLE_DEFAULT, TABLE_LOCAL];
/// The group of IPv6 rules, for which libc has no constant.
const GROUP_IPV6_RULE: u32 = 1 << (libc::RTNLGRP_IPV6_RULE - 1);

/// The system's routing, and the state of its devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Routing {
    /// Routes of the tables that rules name, rules that match only on source addresses, addresses and MTUs.
    pub system: Arc<SystemRoutes>,
    /// Ethernet addresses by device.
    pub macs: BTreeMap<String, MacAddr>,
    /// Devices that are down or without carrier, or were so at some time since the last reading.
    pub down: BTreeSet<String>,
}

/// Monitors routes and addresses of the network namespace in which it was opened.
#[derive(Debug)]
pub struct RouteMonitor {
    announcements: Socket,
    links: Links,
    /// Devices that were announced as down since the last reading.
    went_down: BTreeSet<String>,
    /// Whether announcements were lost since then.
    has_lost: bool,
    /// The tables that were made last, and those before: their other users let go of them first, so that they are
    /// freed by the thread that reads.
    made: [Arc<SystemRoutes>; 2],
}

/// The descriptor becomes readable when something changed.
impl AsFd for RouteMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.announcements.as_fd()
    }
}

impl RouteMonitor {
    /// Starts monitoring.
    ///
    /// # Errors
    /// The kernel refuses a netlink socket.
    pub fn open() -> Result<RouteMonitor, PortError> {
        let failed = |what| move |source| socket::system_error(NETLINK, what, source);
        let mut announcements =
            Socket::new(NETLINK_ROUTE).map_err(failed("open a netlink socket"))?;
        let groups = libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_ROUTE
            | libc::RTMGRP_IPV4_RULE
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV6_IFADDR
            | libc::RTMGRP_LINK;
        announcements
            .bind(&SocketAddr::new(0, groups as u32 | GROUP_IPV6_RULE))
            .map_err(failed("subscribe to route announcements"))?;
        announcements.set_non_blocking(true).map_err(failed("set up the netlink socket"))?;
        // With a smaller buffer, announcements are lost more often.
        let _ = announcements.set_rx_buf_sz(RECEIVE_BUFFER_BYTES);
        Ok(RouteMonitor {
            announcements,
            links: Links::open()?,
            went_down: BTreeSet::new(),
            has_lost: false,
            made: Default::default(),
        })
    }

    /// Processes announcements, without waiting. Returns whether there were any.
    ///
    /// # Errors
    /// The socket failed.
    pub fn is_stale(&mut self) -> Result<bool, PortError> {
        let mut is_stale = false;
        loop {
            match self.announcements.recv_from_full() {
                Ok((announced, _)) => {
                    coverage::count(Event::NetlinkReceived);
                    coverage::count(Event::LinksChanged);
                    is_stale = true;
                    self.went_down.extend(went_down(&announced));
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(is_stale),
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS) => {
                        coverage::count(Event::NetlinkOverflow);
                        (is_stale, self.has_lost) = (true, true);
                    }
                    _ => return Err(socket::system_error(NETLINK, "read announcements", e)),
                },
            }
        }
    }

    /// Reads all routes, rules and addresses.
    ///
    /// # Errors
    /// The kernel refuses to list them.
    pub fn read(&mut self) -> Result<Routing, PortError> {
        coverage::count(Event::RoutesDump);
        let links = self.links.list()?;
        let macs = links.iter().map(|link| (link.name.clone(), link.mac)).collect();
        let mtus = links.iter().map(|link| (link.name.clone(), link.mtu)).collect();
        let mut down = std::mem::take(&mut self.went_down);
        // If announcements were lost, any link may have been down meanwhile.
        let has_lost = std::mem::take(&mut self.has_lost);
        let were_down = links.iter().filter(|it| has_lost || is_down(it));
        down.extend(were_down.map(|link| link.name.clone()));
        let mut system = SystemRouting { mtus, ..SystemRouting::default() };
        let names: BTreeMap<u32, String> =
            links.into_iter().map(|link| (link.ifindex, link.name)).collect();
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.links.ask(NETLINK, "list the addresses", question, NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewAddress(message) = answer
                && let Some(name) = names.get(&message.header.index)
                && let Some(address) = address(&message)
            {
                system.addresses.entry(name.clone()).or_default().push(address);
            }
        })?;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            self.read_rules(family, &mut system)?;
        }
        let tables: BTreeSet<u32> =
            system.rules.iter().map(|rule| rule.table).chain(TABLES).collect();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            let question = RouteNetlinkMessage::GetRoute(question);
            self.links.ask(NETLINK, "list the routes", question, NLM_F_DUMP, |answer| {
                if let RouteNetlinkMessage::NewRoute(message) = answer {
                    let found = route(&message, &names);
                    system.routes.extend(found.filter(|route| tables.contains(&route.table)));
                }
            })?;
        }
        Ok(Routing { system: self.tables_of(system), macs, down })
    }

    /// Makes the tables, if routing is not as before.
    fn tables_of(&mut self, system: SystemRouting) -> Arc<SystemRoutes> {
        if *self.made[0].routing() != system {
            let before = std::mem::replace(&mut self.made[0], Arc::new(SystemRoutes::new(system)));
            self.made[1] = before;
        }
        Arc::clone(&self.made[0])
    }

    /// A kernel without policy routing has no rules: the standard ones apply.
    fn read_rules(
        &mut self,
        family: AddressFamily,
        system: &mut SystemRouting,
    ) -> Result<(), PortError> {
        let mut question = RuleMessage::default();
        question.header.family = family;
        let question = RouteNetlinkMessage::GetRule(question);
        let told = self.links.ask(NETLINK, "list the routing rules", question, NLM_F_DUMP, |it| {
            if let RouteNetlinkMessage::NewRule(message) = it {
                system.rules.extend(rules::rule(&message));
            }
        });
        match told {
            Err(PortError::System { source, .. })
                if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                Ok(())
            }
            told => told,
        }
    }
}

fn is_down(link: &LinkInfo) -> bool {
    !link.admin_up || !link.carrier
}

/// Returns the devices that announcements report as down; they may be up again.
fn went_down(announced: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = announced;
    while let Some((part, after)) = split_message(rest) {
        rest = after;
        let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(part) else {
            continue;
        };
        if let NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) = message.payload {
            let link = LinkInfo::from_message(&link);
            names.extend(is_down(&link).then_some(link.name));
        }
    }
    names
}

/// Returns the device's own address, which for a point-to-point link is not the network's.
fn address(message: &AddressMessage) -> Option<(IpAddr, u8)> {
    let (mut local, mut network) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(ip) => local = Some(*ip),
            AddressAttribute::Address(ip) => network = Some(*ip),
            _ => {}
        }
    }
    Some((local.or(network)?, message.header.prefix_len))
}

/// Returns a route to a device, or to one of the system's own addresses; `None` for other types.
fn route(message: &RouteMessage, names: &BTreeMap<u32, String>) -> Option<SystemRoute> {
    let RouteHeader { address_family, destination_prefix_length: len, kind, table, .. } =
        message.header;
    if !matches!(kind, RouteType::Unicast | RouteType::Local) {
        return None;
    }
    let any = match address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (mut prefix, mut table, mut metric) = (any, u32::from(table), 0);
    let (mut device, mut gateway, mut source, mut mtu) = (None, None, None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(ip) => prefix = of_route(ip)?,
            RouteAttribute::Gateway(ip) => gateway = of_route(ip),
            RouteAttribute::Via(via) => gateway = of_via(via),
            RouteAttribute::Priority(number) => metric = *number,
            RouteAttribute::PrefSource(ip) => source = of_route(ip),
            RouteAttribute::Oif(ifindex) => device = names.get(ifindex),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Metrics(metrics) => mtu = metrics.iter().find_map(mtu_in),
            RouteAttribute::MultiPath(hops) => {
                let hop = hops.first()?;
                device = names.get(&hop.interface_index);
                gateway = gateway_of(hop).or(gateway);
            }
            _ => {}
        }
    }
    let device = device?.clone();
    Some(SystemRoute { table, prefix, len, metric, device, gateway, source, mtu })
}

fn mtu_in(metric: &RouteMetric) -> Option<u32> {
    if let RouteMetric::Mtu(mtu) = metric { Some(*mtu) } else { None }
}

fn gateway_of(hop: &RouteNextHop) -> Option<IpAddr> {
    hop.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(ip) => of_route(ip),
        RouteAttribute::Via(via) => of_via(via),
        _ => None,
    })
}

/// Returns a next hop of another family than the destination's (RFC 5549).
fn of_via(via: &RouteVia) -> Option<IpAddr> {
    match via {
        RouteVia::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteVia::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    }
}

fn of_route(ip: &RouteAddress) -> Option<IpAddr> {
    match ip {
        RouteAddress::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteAddress::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_made_again_only_if_something_changed() {
        let mut monitor = RouteMonitor::open().unwrap();
        let mut made = |mtu: u32| {
            let mtus = BTreeMap::from([("p0".to_owned(), mtu)]);
            monitor.tables_of(SystemRouting { mtus, ..SystemRouting::default() })
        };
        let first = made(1500);
        assert!(Arc::ptr_eq(&first, &made(1500)));
        // The monitor is its last user, until tables were made twice more.
        let weak = Arc::downgrade(&first);
        drop(first);
        assert_eq!(made(1400).routing().mtus["p0"], 1400);
        assert!(weak.upgrade().is_some());
        made(1500);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn the_loopback_devices_address_is_a_local_route() {
        let mut monitor = RouteMonitor::open().unwrap();
        let read = monitor.read().unwrap().system;
        let routing = read.routing();
        let Some(addresses) = routing.addresses.get("lo") else {
            println!("SKIPPED: the_loopback_devices_address_is_a_local_route: lo is down");
            return;
        };
        let local = IpAddr::from([127, 0, 0, 1]);
        assert!(addresses.contains(&(local, 8)), "{addresses:?}");
        let is_it = |route: &&SystemRoute| route.prefix == local && route.len == 32;
        let route = routing.routes.iter().find(is_it).unwrap();
        assert!(route.table == 255 && route.device == "lo" && route.gateway.is_none(), "{route:?}");
        let main = |rule: &tunnel::Rule| rule.len == 0 && rule.table == 254;
        assert!(routing.rules.iter().any(main), "{:?}", routing.rules);
        // Announcements before this point do not count.
        while monitor.is_stale().unwrap() {}
    }
}
