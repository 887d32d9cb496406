//! The underlay: routes, neighbours and local tunnel ends. A change there revalidates the megaflows that
//! depend on it.

use crate::dependency::Dependency;
use crate::ids::BridgeId;
use crate::port::NO_DEVICE;
use crate::translate::{Sent, TunnelSender};
use crate::{Ofproto, Outbox};
use base::{Instant, MacAddr, OfPort, PortNo};
use flow::{FlowKey, Frame, TunnelEnd};
use hashbrown::HashMap;
use openflow::Action as OfAction;
use packet::Packet;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tunnel::{LocalDevice, Neighbour, Routes, Rule, SystemRoutes, Underlay, UserRoute};

/// Interval between requests for a neighbour that does not answer.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of neighbours requested at a time; others wait until some have answered or are not needed
/// any more.
const ASKED_MAX: usize = 1024;

/// A neighbour that packets need.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Wanted {
    pub bridge: BridgeId,
    /// The port that the request appears to come from.
    pub port: OfPort,
    pub source: IpAddr,
    pub target: IpAddr,
}

/// The neighbours to request, and when each was last requested.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// Neighbours needed since the last requests were sent.
    due: Vec<Wanted>,
    asked: HashMap<Wanted, Instant>,
}

impl Questions {
    /// A packet needs this neighbour.
    pub fn want(&mut self, now: Instant, wanted: Wanted) {
        let is_recent = self.asked.get(&wanted).is_some_and(|last| now - *last < ASK_EVERY);
        if !is_recent && self.due.len() < ASKED_MAX && !self.due.contains(&wanted) {
            self.due.push(wanted);
        }
    }

    /// Whether a neighbour of a bridge was requested within about a second, or is queued.
    fn is_wanted(&self, bridge: BridgeId, target: IpAddr) -> bool {
        let mut all = self.due.iter().chain(self.asked.keys());
        all.any(|wanted| (wanted.bridge, wanted.target) == (bridge, target))
    }

    fn take_due(&mut self, now: Instant) -> Vec<Wanted> {
        self.asked.retain(|_, last| now - *last < ASK_EVERY);
        let room = ASKED_MAX.saturating_sub(self.asked.len());
        let due: Vec<Wanted> = self.due.drain(..).take(room).collect();
        self.asked.extend(due.iter().map(|wanted| (*wanted, now)));
        due
    }
}

impl Ofproto {
    /// Routes, neighbours and local tunnel ends.
    pub fn underlay(&self) -> &Underlay {
        &self.underlay
    }

    fn underlay_mut(&mut self) -> &mut Underlay {
        self.is_changed = true;
        Arc::make_mut(&mut self.underlay)
    }

    fn routes_mut(&mut self) -> &mut Routes {
        Arc::make_mut(&mut self.underlay_mut().routes)
    }

    /// Sets the system's current routing and the Ethernet addresses of its devices.
    pub fn set_routing(&mut self, system: Arc<SystemRoutes>, macs: BTreeMap<String, MacAddr>) {
        self.macs = macs;
        if self.routes_mut().set_system(system) {
            self.changes.one(Dependency::Routes);
        }
        self.place_ends();
    }

    /// Adds a route by command. Returns `false` if its device has no source address.
    pub fn add_route(&mut self, route: UserRoute) -> bool {
        let is_added = self.routes_mut().add(route);
        self.routes_changed();
        is_added
    }

    /// Removes a route added by command. Returns `false` if there is none.
    pub fn remove_route(&mut self, table: u32, prefix: (IpAddr, u8), mark: u32) -> bool {
        let is_removed = self.routes_mut().remove(table, prefix, mark);
        self.routes_changed();
        is_removed
    }

    /// Adds a rule by command.
    pub fn add_route_rule(&mut self, rule: Rule) {
        self.routes_mut().add_rule(rule);
        self.routes_changed();
    }

    /// Removes a rule added by command. Returns `false` if there is none.
    pub fn remove_route_rule(&mut self, rule: &Rule) -> bool {
        let is_removed = self.routes_mut().remove_rule(rule);
        self.routes_changed();
        is_removed
    }

    fn routes_changed(&mut self) {
        self.changes.one(Dependency::Routes);
        self.place_ends();
    }

    /// Updates the tunnel ends to the addresses of devices with routes.
    fn place_ends(&mut self) {
        let macs = &self.macs;
        let device = |(name, addresses): (&String, &Vec<(IpAddr, u8)>)| {
            let mac = *macs.get(name)?;
            let addresses = addresses.iter().map(|(ip, _)| *ip).collect();
            (mac != MacAddr::ZERO).then(|| (name.clone(), LocalDevice { mac, addresses }))
        };
        let devices = self.underlay.routes.local_devices().filter_map(device).collect();
        if self.underlay_mut().ports.set_devices(devices) {
            self.changes.configuration();
        }
    }

    /// A tunnel begins to use a datapath port.
    pub fn add_tunnel_end(&mut self, port: PortNo, name: &str, end: TunnelEnd, udp_port: u16) {
        self.underlay_mut().ports.add(port, name, end, udp_port);
        self.changes.configuration();
    }

    /// A tunnel stops using a datapath port.
    pub fn remove_tunnel_end(&mut self, port: PortNo, end: TunnelEnd) {
        self.underlay_mut().ports.remove(port, end);
        self.changes.configuration();
    }

    /// Sets the range of UDP source ports.
    pub fn set_source_ports(&mut self, ports: (u16, u16)) {
        self.underlay_mut().source_ports = ports;
        self.changes.configuration();
    }

    /// Learns a neighbour's address.
    pub fn learn_neighbour(&mut self, now: Instant, bridge: &str, ip: IpAddr, mac: MacAddr) {
        if self.underlay.neighbours.refresh(now, bridge, ip, mac) {
            return;
        }
        let changed = self.underlay_mut().neighbours.learn(now, bridge, ip, mac);
        self.neighbours_changed(changed);
    }

    /// Updates a neighbour from the sender of an outer packet, if the neighbour is known or requested (ovs:
    /// `ofproto/ofproto-dpif-xlate.c`, `terminate_native_tunnel`). Other senders are not learned: any host
    /// may send such packets with any address.
    pub(crate) fn tunnel_sender_seen(&mut self, received: Instant, sender: TunnelSender) {
        let TunnelSender { bridge, ip, mac } = sender;
        let Some(name) = self.bridges.get(bridge).map(|it| it.config.name.as_str()) else { return };
        let is_known = self.underlay.neighbours.lookup(received, name, ip).is_some();
        if is_known || self.questions.is_wanted(bridge, ip) {
            self.neighbour_seen(received, bridge, ip, mac);
        }
    }

    /// Removes all neighbours.
    pub fn flush_neighbours(&mut self) {
        let gone = self.underlay_mut().neighbours.flush(None);
        self.neighbours_changed(gone);
    }

    /// Removes the neighbours of a bridge whose local port was removed (ovs: `ofproto/ofproto-dpif-xlate.c`,
    /// `xlate_ofport_remove`).
    pub(crate) fn flush_neighbours_of(&mut self, bridge: &str) {
        let gone = self.underlay_mut().neighbours.flush(Some(bridge));
        self.neighbours_changed(gone);
    }

    /// Removes the neighbours behind a device that went down and has a local address, as Linux does
    /// (`net/core/neighbour.c`, `neigh_ifdown`): they may differ when it is up again. Later statistics partly
    /// cover packets from before, so packets received earlier teach no neighbours.
    pub fn forget_neighbours_behind(&mut self, device: &str, now: Instant) {
        if !self.underlay.ports.has_address(device) {
            return;
        }
        let of = self.bridges.iter().find(|bridge| bridge.port_named(device).is_some());
        let Some((id, name)) = of.map(|bridge| (bridge.id, bridge.config.name.clone())) else {
            return;
        };
        self.flush_neighbours_of(&name);
        if let Some(ledger) = self.ledger_mut(id) {
            ledger.neighbours_since = now;
        }
    }

    /// The same for a bridge that is removed.
    pub(crate) fn flush_neighbours_of_bridge(&mut self, id: BridgeId) {
        let name = self.bridges.get(id).map(|bridge| bridge.config.name.clone());
        name.iter().for_each(|name| self.flush_neighbours_of(name));
    }

    /// Sets the ageing time of unused neighbours in seconds. Returns `false` if the value is out of range.
    pub fn set_neighbour_aging_s(&mut self, now: Instant, aging_s: u32) -> bool {
        self.underlay_mut().neighbours.set_aging_s(now, aging_s)
    }

    /// Removes neighbours that were not seen or used for the ageing time.
    pub(crate) fn expire_neighbours(&mut self, now: Instant) {
        if self.underlay.neighbours.has_expired(now) {
            let gone = self.underlay_mut().neighbours.expire(now);
            self.neighbours_changed(gone);
        }
    }

    fn neighbours_changed(&mut self, changed: Vec<Neighbour>) {
        for Neighbour { bridge, ip } in changed {
            if let Some(bridge) = self.bridges.named(&bridge).map(|bridge| bridge.id) {
                self.changes.one(Dependency::Neighbour { bridge, ip });
            }
        }
    }

    pub(crate) fn neighbour_used(&mut self, now: Instant, bridge: BridgeId, ip: IpAddr) {
        if let Some(bridge) = self.bridges.get(bridge) {
            self.underlay.neighbours.used(now, &bridge.config.name, ip);
        }
    }

    pub(crate) fn neighbour_seen(
        &mut self,
        now: Instant,
        bridge: BridgeId,
        ip: IpAddr,
        mac: MacAddr,
    ) {
        let is_old = self.ledger(bridge).is_none_or(|ledger| now < ledger.neighbours_since);
        let name = self.bridges.get(bridge).map(|bridge| bridge.config.name.clone());
        if let Some(name) = name.filter(|_| !is_old) {
            self.learn_neighbour(now, &name, ip, mac);
        }
    }

    /// Requests the neighbours that packets need: an ARP request or neighbour solicitation enters the
    /// bridge's tables as a packet from the device's port (ovs: `ofproto/ofproto-dpif-xlate.c`,
    /// `tnl_send_arp_request`).
    pub(crate) fn ask_neighbours(&mut self, now: Instant, out: &mut Outbox) {
        for wanted in self.questions.take_due(now) {
            let Some(port) = self.bridges.get(wanted.bridge).and_then(|it| it.port(wanted.port))
            else {
                continue;
            };
            let Some(bytes) = question(port.spec.mac, wanted.source, wanted.target) else {
                continue;
            };
            let device = port.datapath().unwrap_or(NO_DEVICE);
            let Ok(frame) = Frame::parse(Packet::from_bytes(&bytes), device) else { continue };
            let mut pipeline = FlowKey::new();
            pipeline.set_in_port_raw(wanted.port.0.into());
            let actions = [OfAction::Output { port: OfPort::TABLE, max_len: 0 }];
            let sent = Sent { bridge: wanted.bridge, actions: &actions, pipeline: &pipeline };
            self.send(frame, &sent, now, out);
        }
    }
}

/// An ARP request or neighbour solicitation.
fn question(mac: MacAddr, source: IpAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let frame = wire::PacketBuilder::eth(mac, MacAddr::BROADCAST);
            Some(frame.arp_request(source, target))
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            // The solicited-node address (RFC 4291 section 2.7.1) and its Ethernet address (RFC 2464 section
            // 7).
            let [.., a, b, c] = target.octets();
            let group = Ipv6Addr::new(
                0xff02,
                0,
                0,
                0,
                0,
                1,
                0xff00 | u16::from(a),
                u16::from_be_bytes([b, c]),
            );
            let to = MacAddr([0x33, 0x33, 0xff, a, b, c]);
            let frame = wire::PacketBuilder::eth(mac, to).ipv6(source, group).ttl(255);
            Some(frame.neighbour_solicit(target).build())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_asked_once_per_second_however_many_packets_want_it() {
        let mut questions = Questions::default();
        let wanted = |n: u32| Wanted {
            bridge: BridgeId(1),
            port: OfPort::LOCAL,
            source: IpAddr::from([10, 0, 0, 1]),
            target: IpAddr::V4(n.into()),
        };
        let at = |ms: u64| Instant::from_millis(10_000 + ms);
        for ms in 0..900 {
            questions.want(at(ms), wanted(1));
            let asked = questions.take_due(at(ms)).len();
            assert_eq!(asked, usize::from(ms == 0), "{ms} ms");
        }
        questions.want(at(1000), wanted(1));
        assert_eq!(questions.take_due(at(1000)).len(), 1);
        assert_eq!(questions.take_due(at(9000)).len(), 0);
        (0..2 * ASKED_MAX as u32).for_each(|n| questions.want(at(9000), wanted(n)));
        assert_eq!(questions.take_due(at(9000)).len(), ASKED_MAX);
        questions.want(at(9001), wanted(u32::MAX));
        assert_eq!(questions.take_due(at(9001)).len(), 0, "too many wait for an answer");
    }
}
