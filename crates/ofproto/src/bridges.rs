//! All bridges, and the lookup of ports.

use crate::bridge::{Bridge, BridgeConfig};
use crate::ids::BridgeId;
use crate::port::{NO_DEVICE, Port, PortDevice, PortRefused, PortSpec};
use base::{Instant, OfPort, PortNo};
use flow::{Field, FlowKey, TunnelKind};
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use table::Remains;
use tunnel::{Arrived, Receivers};

/// All bridges, with an index of their ports. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Bridges {
    by_id: BTreeMap<BridgeId, Arc<Bridge>>,
    found: Arc<Found>,
    last: u32,
    /// Whether anything changed since the last snapshot.
    is_changed: bool,
}

/// The index: ports by datapath port, by tunnel and by patch name.
#[derive(Clone, Debug, Default)]
struct Found {
    by_device: HashMap<PortNo, (BridgeId, OfPort)>,
    /// Patch ports by name, so that each finds its peer.
    patches: HashMap<String, (BridgeId, OfPort)>,
    tunnels: Receivers<(BridgeId, OfPort)>,
}

impl Bridges {
    /// The bridge of this id.
    pub fn get(&self, id: BridgeId) -> Option<&Bridge> {
        self.by_id.get(&id).map(|bridge| &**bridge)
    }

    /// The same, mutable.
    pub(crate) fn get_mut(&mut self, id: BridgeId) -> Option<&mut Bridge> {
        self.is_changed = true;
        self.by_id.get_mut(&id).map(Arc::make_mut)
    }

    /// Whether bridges were added, changed or removed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The bridge of this name.
    pub fn named(&self, name: &str) -> Option<&Bridge> {
        self.iter().find(|bridge| bridge.config.name == name)
    }

    /// All bridges, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Bridge> {
        self.by_id.values().map(|bridge| &**bridge)
    }

    /// The bridge port that uses this datapath port.
    pub fn of_device(&self, device: PortNo) -> Option<(BridgeId, OfPort)> {
        self.found.by_device.get(&device).copied()
    }

    /// The port that a packet came in on. The key has the datapath's port numbers; for a packet out of a
    /// tunnel, the outer header fields select the port.
    pub fn of_packet(&self, key: &FlowKey) -> Option<(BridgeId, OfPort)> {
        self.of_device(key.in_port()).or_else(|| {
            self.found.tunnels.find(&Arrived {
                device: key.in_port(),
                key: key.get(Field::TunId) as u64,
                source: address(key.get(Field::TunIpv6Src)),
                destination: address(key.get(Field::TunIpv6Dst)),
                is_frame: key.get(Field::PacketType) == 0,
            })
        })
    }

    /// Whether a packet in a later pass, with this in-port, is a controller's, if [`Self::of_packet`] finds no port: it
    /// has no device, or that of the tunnel in whose name it was sent, without the tunnel's outer header. One that was
    /// sent in the name of a port that does not exist goes no further (ovs: `ofproto/ofproto-dpif-xlate.c`,
    /// `xlate_lookup_ofproto_`).
    pub fn is_controllers(&self, device: PortNo, (bridge, in_port): (BridgeId, OfPort)) -> bool {
        let is_tunnels = || self.tunnels().any(|(_, port)| port.source() == Some(device));
        let is_there = || self.get(bridge).is_some_and(|bridge| bridge.port(in_port).is_some());
        (device == NO_DEVICE || is_tunnels()) && (!in_port.is_real() || is_there())
    }

    /// All tunnel ports with their bridges.
    pub fn tunnels(&self) -> impl Iterator<Item = (&Bridge, &Port)> {
        let ports = self.iter().flat_map(|bridge| bridge.ports().map(move |port| (bridge, port)));
        ports.filter(|(_, port)| matches!(port.spec.device, PortDevice::Tunnel { .. }))
    }

    /// The patch port of this name.
    pub(crate) fn patch_named(&self, name: &str) -> Option<(BridgeId, OfPort)> {
        self.found.patches.get(name).copied()
    }

    /// The peer of a patch port, if both name each other.
    pub fn patch_peer(&self, port: &Port) -> Option<(BridgeId, OfPort)> {
        let PortDevice::Patch { peer } = &port.spec.device else { return None };
        let found = *self.found.patches.get(peer)?;
        let other = self.get(found.0)?.port(found.1)?;
        match &other.spec.device {
            PortDevice::Patch { peer } if *peer == port.spec.name => Some(found),
            _ => None,
        }
    }

    /// Frees the bridges that no other snapshot has, a part at a time.
    pub(crate) fn hand_over(self, remains: &mut Remains) {
        let own = self.by_id.into_values().filter_map(Arc::into_inner);
        own.for_each(|bridge| bridge.hand_over(remains));
    }

    pub(crate) fn add(&mut self, config: BridgeConfig) -> BridgeId {
        self.is_changed = true;
        self.last += 1;
        let id = BridgeId(self.last);
        self.by_id.insert(id, Arc::new(Bridge::new(id, config)));
        id
    }

    pub(crate) fn remove(&mut self, id: BridgeId) {
        self.is_changed = true;
        let Some(bridge) = self.by_id.remove(&id) else { return };
        for port in bridge.ports() {
            self.unindex(id, port);
        }
    }

    pub(crate) fn add_port(
        &mut self,
        id: BridgeId,
        spec: PortSpec,
        now: Instant,
    ) -> Result<OfPort, PortRefused> {
        self.refuse_taken_device(&spec, None)?;
        self.refuse_other_end(&spec, None)?;
        let Some(bridge) = self.get_mut(id) else {
            return Err(PortRefused::NoBridge { port: spec.name });
        };
        let (name, device) = (spec.name.clone(), spec.device.clone());
        let number = bridge.add_port(spec, now)?;
        if let Err(other) = self.index(id, number, name.clone(), &device) {
            self.get_mut(id).and_then(|bridge| bridge.remove_port(number, now));
            return Err(PortRefused::TunnelTaken { port: name, other });
        }
        Ok(number)
    }

    /// Changes a port's configuration; name and number stay.
    pub(crate) fn set_port(
        &mut self,
        id: BridgeId,
        number: OfPort,
        spec: PortSpec,
    ) -> Result<(), PortRefused> {
        self.refuse_taken_device(&spec, Some((id, number)))?;
        self.refuse_other_end(&spec, Some((id, number)))?;
        let bridge = self.get_mut(id);
        let Some(port) = bridge.and_then(|bridge| bridge.port_mut(number)) else {
            return Err(PortRefused::NoBridge { port: spec.name });
        };
        let before = port.clone();
        let name = port.spec.name.clone();
        port.spec = PortSpec { name: name.clone(), is_local: port.spec.is_local, ..spec };
        let device = port.spec.device.clone();
        self.unindex(id, &before);
        self.index(id, number, name.clone(), &device)
            .map_err(|other| PortRefused::TunnelTaken { port: name, other })
    }

    pub(crate) fn remove_port(
        &mut self,
        id: BridgeId,
        number: OfPort,
        now: Instant,
    ) -> Option<Port> {
        let port = self.get_mut(id)?.remove_port(number, now)?;
        self.unindex(id, &port);
        Some(port)
    }

    /// Adds a port to the index. Returns the name of another tunnel that would receive the same packets.
    fn index(
        &mut self,
        id: BridgeId,
        number: OfPort,
        name: String,
        device: &PortDevice,
    ) -> Result<(), String> {
        let found = Arc::make_mut(&mut self.found);
        match device {
            PortDevice::Datapath(device) => {
                found.by_device.insert(*device, (id, number));
            }
            PortDevice::Patch { .. } => {
                found.patches.insert(name, (id, number));
            }
            PortDevice::Tunnel { device, config } => {
                let added = found.tunnels.add(*device, config, (id, number));
                return added.map_err(|(id, number)| {
                    let other = self.get(id).and_then(|bridge| bridge.port(number));
                    other.map_or_else(String::new, |port| port.spec.name.clone())
                });
            }
        }
        Ok(())
    }

    fn unindex(&mut self, id: BridgeId, port: &Port) {
        let found = Arc::make_mut(&mut self.found);
        match &port.spec.device {
            PortDevice::Datapath(device) => drop(found.by_device.remove(device)),
            PortDevice::Patch { .. } => drop(found.patches.remove(&port.spec.name)),
            PortDevice::Tunnel { .. } => found.tunnels.remove((id, port.number)),
        }
    }

    /// Refuses a tunnel whose options for received packets differ from those of another one on the same
    /// datapath port (ovs: `lib/netdev-vport.c`, `is_concomitant_vxlan_tunnel_present`).
    fn refuse_other_end(
        &self,
        spec: &PortSpec,
        own: Option<(BridgeId, OfPort)>,
    ) -> Result<(), PortRefused> {
        let PortDevice::Tunnel { device, config } = &spec.device else { return Ok(()) };
        let differs = |port: &Port| match &port.spec.device {
            PortDevice::Tunnel { device: other, config: its } => {
                other == device && its.end() != config.end()
            }
            PortDevice::Datapath(_) | PortDevice::Patch { .. } => false,
        };
        let mut others = self.iter().flat_map(|bridge| {
            bridge.ports().filter(move |port| Some((bridge.id, port.number)) != own)
        });
        if !others.any(differs) {
            return Ok(());
        }
        let (name, what) = match config.kind {
            TunnelKind::Vxlan => (&spec.name, "VXLAN-GBP, and non-VXLAN-GBP tunnels"),
            _ => (&spec.name, "tunnels of different payload_type"),
        };
        log::warn!(target: "netdev_vport", "{name}: {what} can't be configured on the same dst_port");
        Err(PortRefused::TunnelsDiffer { port: spec.name.clone() })
    }

    fn refuse_taken_device(
        &self,
        spec: &PortSpec,
        own: Option<(BridgeId, OfPort)>,
    ) -> Result<(), PortRefused> {
        let PortDevice::Datapath(device) = spec.device else { return Ok(()) };
        match self.of_device(device) {
            Some(owner) if Some(owner) != own => {
                Err(PortRefused::DeviceTaken { port: spec.name.clone(), device })
            }
            _ => Ok(()),
        }
    }
}

/// The address in a field; `None` if it is zero.
pub(crate) fn address(bits: u128) -> Option<IpAddr> {
    match u32::try_from(bits) {
        Ok(0) => None,
        Ok(bits) => Some(IpAddr::V4(bits.into())),
        Err(_) => Some(IpAddr::V6(bits.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MacAddr;

    #[test]
    fn tunnels_of_one_udp_port_agree_on_group_policies() {
        let mut bridges = Bridges::default();
        let ids = ["br0", "br1"].map(|name| bridges.add(BridgeConfig::new(name, MacAddr::ZERO)));
        let tunnel = |name: &str, options: &str| {
            let options = options.split_whitespace().filter_map(|it| it.split_once('='));
            let options = options.map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
            let config = tunnel::TunnelConfig::parse(TunnelKind::Vxlan, name, &options);
            let config = Arc::new(config.config.unwrap());
            let device = PortNo(config.udp_port.into());
            PortSpec::new(name, MacAddr::ZERO, PortDevice::Tunnel { device, config })
        };
        let mut add = |bridge, name: &str, options| {
            bridges.add_port(bridge, tunnel(name, options), Instant::ZERO)
        };
        let p1 = add(ids[0], "p1", "remote_ip=flow").unwrap();
        let refused = PortRefused::TunnelsDiffer { port: "p2".to_owned() };
        assert_eq!(refused.to_string(), "port p2: could not set configuration (File exists)");
        for bridge in ids {
            assert_eq!(add(bridge, "p2", "remote_ip=flow key=1 exts=gbp"), Err(refused.clone()));
        }
        assert!(add(ids[1], "p2", "remote_ip=flow key=1 exts=gbp dst_port=9000").is_ok());
        // A port that is alone may change.
        assert_eq!(bridges.set_port(ids[0], p1, tunnel("p1", "remote_ip=flow exts=gbp")), Ok(()));
        let mixed = bridges.set_port(ids[0], p1, tunnel("p1", "remote_ip=flow dst_port=9000"));
        assert_eq!(mixed, Err(PortRefused::TunnelsDiffer { port: "p1".to_owned() }));
    }

    #[test]
    fn patch_ends_must_name_each_other() {
        let mut bridges = Bridges::default();
        let ids = ["br0", "br1"].map(|name| bridges.add(BridgeConfig::new(name, MacAddr::ZERO)));
        let patch = |name: &str, peer: &str| {
            PortSpec::new(name, MacAddr::ZERO, PortDevice::Patch { peer: peer.into() })
        };
        let a = bridges.add_port(ids[0], patch("a", "b"), Instant::ZERO).unwrap();
        let b = bridges.add_port(ids[1], patch("b", "x"), Instant::ZERO).unwrap();
        let peer =
            |bridges: &Bridges| bridges.patch_peer(bridges.get(ids[0]).unwrap().port(a).unwrap());
        assert_eq!(peer(&bridges), None);
        bridges.set_port(ids[1], b, patch("b", "a")).unwrap();
        assert_eq!(peer(&bridges), Some((ids[1], b)));
        bridges.remove_port(ids[1], b, Instant::ZERO);
        assert_eq!(peer(&bridges), None);
    }
}
