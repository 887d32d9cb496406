//! Ports by name and number, port-mods and port-status messages.

use crate::events::Event;
use crate::ids::BridgeId;
use crate::{Ofproto, Outbox};
use base::{Instant, OfPort, PortNo};
use openflow::message::{PortConfig, PortDesc, PortReason};
use openflow::{ErrorCode, OfError};

/// What a port-mod may change (ovs: `ofproto/ofproto.c`, `update_port_config`).
const CONFIGURABLE: PortConfig = PortConfig::NO_RECV
    .union(PortConfig::NO_RECV_STP)
    .union(PortConfig::NO_FLOOD)
    .union(PortConfig::NO_FWD)
    .union(PortConfig::NO_PACKET_IN);

impl Ofproto {
    /// Removes a port, the addresses learned behind it and its neighbours.
    pub fn remove_port(&mut self, id: BridgeId, port: OfPort, now: Instant) {
        if let Some(name) = self.detach_port(id, port, now) {
            self.flush_neighbours_of(&name);
        }
    }

    /// Removes a port whose device is opened anew, and the addresses learned behind it. Its neighbours stay: Open
    /// vSwitch keeps the port (`lib/netdev-dummy.c`, `netdev_dummy_set_config`). Returns its name.
    pub fn detach_port(&mut self, id: BridgeId, port: OfPort, now: Instant) -> Option<String> {
        let spec = self.bridges.get(id)?.port(port)?.spec.clone();
        if let Some(desc) = self.describe(id, port) {
            self.tell_port(id, PortReason::Delete, desc, None);
        }
        self.bridges.remove_port(id, port, now);
        self.flush_removed_port_macs(id, port);
        self.port_changed(id, port, &spec);
        Some(spec.name)
    }

    /// Carries out an OpenFlow port-mod. The caller sets the device up or down ([`Outbox::port_admin`]).
    pub fn port_mod(
        &mut self,
        id: BridgeId,
        port: OfPort,
        mac: base::MacAddr,
        config: PortConfig,
        mask: PortConfig,
        out: &mut Outbox,
    ) -> Result<(), OfError> {
        let bridge = self.bridges.get_mut(id);
        let Some(found) = bridge.and_then(|bridge| bridge.port_mut(port)) else {
            let reason = format!("port-mod: the bridge has no port {port}");
            return Err(OfError::new(ErrorCode::PortModBadPort, reason));
        };
        if found.spec.mac != mac {
            let reason = format!("port-mod: port {port} has address {}, not {mac}", found.spec.mac);
            return Err(OfError::new(ErrorCode::PortModBadHwAddr, reason));
        }
        let before = found.describe();
        let changing = mask & CONFIGURABLE;
        found.config = (found.config - changing) | (config & changing);
        let up = !config.contains(PortConfig::PORT_DOWN);
        if mask.contains(PortConfig::PORT_DOWN) && found.spec.up != up {
            found.spec.up = up;
            out.port_admin.extend(found.datapath().map(|device| (device, up)));
        }
        let spec = found.spec.clone();
        if before != found.describe() {
            self.tell_port_change(id, port, Some(before));
            self.port_changed(id, port, &spec);
        }
        Ok(())
    }

    /// The number of a bridge's port.
    pub fn port_number(&self, id: BridgeId, name: &str) -> Option<OfPort> {
        Some(self.bridges.get(id)?.port_named(name)?.number)
    }

    /// The name of the bridge port that uses a datapath port.
    pub fn device_name(&self, device: PortNo) -> Option<&str> {
        let (bridge, port) = self.bridges.of_device(device)?;
        Some(&self.bridges.get(bridge)?.port(port)?.spec.name)
    }

    pub(crate) fn describe(&self, id: BridgeId, port: OfPort) -> Option<PortDesc> {
        Some(self.bridges.get(id)?.port(port)?.describe())
    }

    /// Sends port-status for a changed port.
    pub(crate) fn tell_port_change(
        &mut self,
        bridge: BridgeId,
        port: OfPort,
        before: Option<PortDesc>,
    ) {
        match self.describe(bridge, port) {
            Some(after) if before.as_ref() != Some(&after) => {
                self.tell_port(bridge, PortReason::Modify, after, before);
            }
            _ => {}
        }
    }

    pub(crate) fn tell_port(
        &mut self,
        bridge: BridgeId,
        reason: PortReason,
        port: PortDesc,
        before: Option<PortDesc>,
    ) {
        let (port, before) = (Box::new(port), before.map(Box::new));
        coverage::count(coverage::Event::UpdatePort);
        self.events.push(Event::PortStatus { bridge, reason, port, before });
    }
}
