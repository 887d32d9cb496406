//! Which megaflows a configuration change affects: those whose translation depends on it.

use crate::Ofproto;
use crate::dependency::Dependency;
use crate::ids::BridgeId;
use crate::port::{PortDevice, PortSpec};
use crate::vlan::{PriorityTags, VlanMode};
use base::OfPort;

impl Ofproto {
    /// Marks the megaflows for revalidation that depend on this.
    pub(crate) fn affect(&mut self, what: Dependency) {
        self.changes.one(what);
    }

    /// The bridge's configuration or the state of its controllers changed.
    pub(crate) fn bridge_changed(&mut self, bridge: BridgeId) {
        self.affect(Dependency::Bridge { bridge });
    }

    /// A bridge is about to be removed, with its ports.
    pub(crate) fn bridge_goes(&mut self, id: BridgeId) {
        let Some(bridge) = self.bridges.get(id) else { return };
        let ports = bridge.ports().map(|port| (port.number, port.spec.clone()));
        let ports: Vec<(OfPort, PortSpec)> = ports.collect();
        ports.iter().for_each(|(port, spec)| self.port_changed(id, *port, spec));
        self.bridge_changed(id);
    }

    /// A port was added, removed or changed. A change calls this for the old and for the new configuration,
    /// since different megaflows depend on each.
    pub(crate) fn port_changed(&mut self, bridge: BridgeId, port: OfPort, spec: &PortSpec) {
        self.affect(Dependency::Port { bridge, port });
        self.affect(Dependency::Ports { bridge });
        self.affect(Dependency::Link { bridge, port });
        // Routes name ports.
        self.affect(Dependency::Routes);
        match &spec.device {
            PortDevice::Datapath(device) => self.affect(Dependency::Device(*device)),
            // A patch carries packets only while both ends name each other.
            PortDevice::Patch { peer } => {
                if let Some((bridge, port)) = self.bridges.patch_named(peer) {
                    self.affect(Dependency::Port { bridge, port });
                    self.affect(Dependency::Ports { bridge });
                }
            }
            // Which tunnel receives a packet depends on all tunnels.
            PortDevice::Tunnel { .. } => self.changes.configuration(),
        }
    }

    /// The settings of a port whose change removes the addresses learned behind it.
    pub(crate) fn learning_of(
        &self,
        id: BridgeId,
        port: OfPort,
    ) -> Option<(VlanMode, PriorityTags, bool)> {
        let spec = &self.bridges.get(id)?.port(port)?.spec;
        Some((spec.vlan.clone(), spec.priority_tags, spec.protected))
    }
}
