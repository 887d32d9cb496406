//! Tunnels: their shared datapath ports, and the system's routing of the underlay.

use super::Switch;
use super::interfaces::RunningInterface;
use base::PortNo;
use control::InterfaceKind;
use port_linux::Routing;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tunnel::{
    Addresses, Endpoint, SystemRoute, SystemRoutes, TABLE_LOCAL, TABLE_MAIN, TunnelConfig,
};

/// State that tunnels share.
#[derive(Default)]
pub struct Tunnels {
    /// The datapath's tunnel ports by name, with the number of tunnels of each.
    ends: BTreeMap<String, (PortNo, usize)>,
    /// The system's last routes and addresses.
    routing: Routing,
    /// Addresses that tests add to dummy ports.
    dummy_addresses: Addresses,
}

impl Switch {
    /// Returns the datapath's port for a tunnel, which is opened for the first one of its type and UDP port.
    pub(super) fn open_tunnel(&mut self, config: &TunnelConfig) -> PortNo {
        let name = config.device_name();
        let number = match self.tunnels.ends.get_mut(&name) {
            Some((number, tunnels)) => {
                *tunnels += 1;
                *number
            }
            None => {
                let number = self.devices.open_tunnel(&name, config.kind, self.settings.dummy);
                self.tunnels.ends.insert(name.clone(), (number, 1));
                number
            }
        };
        self.ofproto.add_tunnel_end(number, &name, config.end(), config.udp_port);
        number
    }

    /// Releases a tunnel's datapath port, which is closed with the last tunnel.
    pub(super) fn close_tunnel(&mut self, config: &TunnelConfig) {
        let name = config.device_name();
        let Some((number, tunnels)) = self.tunnels.ends.get_mut(&name) else { return };
        *tunnels -= 1;
        let (number, is_last) = (*number, *tunnels == 0);
        self.ofproto.remove_tunnel_end(number, config.end());
        if is_last {
            self.tunnels.ends.remove(&name);
            self.handler_shared.upcalls.remove_port(number);
            self.devices.close(number, true, &self.workers);
        }
    }

    /// Sets the system's routes and addresses.
    pub fn set_routing(&mut self, routing: Routing) {
        for device in &routing.down {
            self.ofproto.forget_neighbours_behind(device, clock::now());
        }
        if self.tunnels.routing != routing {
            self.tunnels.routing = routing;
            self.refresh_routing();
        }
    }

    /// Adds an address to a dummy port.
    pub fn add_dummy_address(&mut self, device: &str, address: IpAddr, len: u8) {
        let all = self.tunnels.dummy_addresses.entry(device.to_owned()).or_default();
        all.retain(|(other, _)| *other != address);
        all.push((address, len));
        self.refresh_routing();
    }

    /// Passes the underlay's routing to the bridges.
    pub(super) fn refresh_routing(&mut self) {
        let Routing { system, macs, .. } = &self.tunnels.routing;
        let (mut system, mut macs) = (Arc::clone(system), macs.clone());
        let dummies = self.tunnels.dummy_addresses.iter();
        let dummies =
            dummies.filter_map(|(name, own)| Some((name, own, self.devices.dummy(name)?)));
        let dummies: Vec<_> = dummies.collect();
        if !dummies.is_empty() {
            let mut routing = system.routing().clone();
            for (name, own, dummy) in dummies {
                routing.addresses.insert(name.clone(), own.clone());
                routing.routes.extend(own.iter().flat_map(|own| routes_of(name, *own)));
                macs.insert(name.clone(), dummy.mac());
            }
            system = Arc::new(SystemRoutes::new(routing));
        }
        self.ofproto.set_routing(system, macs);
    }

    /// Returns the column `status` of a tunnel: the device through which its packets are sent, and whether it
    /// has a carrier (ovs: `lib/netdev-vport.c`, `tunnel_get_status`).
    pub(super) fn tunnel_status(&mut self, run: &RunningInterface) -> BTreeMap<String, String> {
        let mut status = BTreeMap::new();
        let InterfaceKind::Tunnel(config) = &run.interface.kind else { return status };
        let Endpoint::Is(remote) = config.remote else { return status };
        let mark = config.egress_mark.unwrap_or(0);
        let Some(hop) = self.ofproto.underlay().routes.lookup(mark, remote, None) else {
            return status;
        };
        let link = self.devices.link(&hop.device).ok();
        let is_up = link.is_some_and(|link| link.admin_up && link.carrier);
        let carrier = if is_up { "up" } else { "down" };
        status.insert("tunnel_egress_iface".to_owned(), hop.device);
        status.insert("tunnel_egress_iface_carrier".to_owned(), carrier.to_owned());
        status
    }
}

/// The routes that come with an address of a device: to itself, in the table of the system's own addresses, and to its
/// network (ovs: `lib/netdev-dummy.c`, `netdev_dummy_ip4addr`).
fn routes_of(device: &str, (address, len): (IpAddr, u8)) -> [SystemRoute; 2] {
    let whole = if address.is_ipv4() { 32 } else { 128 };
    [(TABLE_LOCAL, whole), (TABLE_MAIN, len)].map(|(table, len)| SystemRoute {
        table,
        prefix: address,
        len,
        metric: 0,
        device: device.to_owned(),
        gateway: None,
        source: Some(address),
        mtu: None,
    })
}
