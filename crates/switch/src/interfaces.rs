//! Interfaces: opening devices and adding them to bridges, closing them, and waiting for missing ones.

use super::Switch;
use super::configuration_log;
use super::device_kind::DeviceKind;
use super::mac_address::random_mac;
use super::port_monitor::PortMonitor;
use base::{OfPort, PortNo};
use control::{Desired, Hint, Interface, InterfaceKind, Port};
use ofproto::{PortDevice, PortSpec};
use port::PortError;
use port_linux::LinkInfo;
use std::sync::Arc;
use tunnel::TunnelConfig;

/// An interface, open or not.
pub struct RunningInterface {
    /// Its bridge.
    pub bridge: String,
    /// Its OpenFlow number, or the reason why it has none.
    pub state: Result<OfPort, String>,
    port: Port,
    pub(super) interface: Interface,
    /// Number of link state changes.
    pub link_resets: i64,
    /// Whether the link was up at the last check.
    pub(super) link_up: bool,
    /// Its datapath port, if it has one.
    pub(super) device: Option<PortNo>,
    /// Its tunnel's port in the datapath, if it is a tunnel.
    pub(super) tunnel: Option<PortNo>,
    /// A setting that its device refused, although it is open.
    pub fault: Option<String>,
    /// The protocols that monitor it.
    pub monitor: PortMonitor,
}

impl RunningInterface {
    /// Returns whether it has a device of the system.
    pub fn has_device(&self) -> bool {
        self.device.is_some()
    }
}

impl Switch {
    pub(super) fn interfaces_of<'a>(
        &'a self,
        bridge: &'a str,
    ) -> impl Iterator<Item = String> + 'a {
        let interfaces = self.configured.interfaces.iter();
        interfaces.filter(move |(_, run)| run.bridge == bridge).map(|(name, _)| name.clone())
    }

    /// Adds a port, or records why that failed: its device may appear later.
    pub(super) fn add_port(&mut self, bridge: &str, port: &Port) {
        for interface in &port.interfaces {
            let mut running = RunningInterface {
                bridge: bridge.to_owned(),
                state: Err(String::new()),
                port: port.clone(),
                interface: interface.clone(),
                link_resets: 0,
                link_up: false,
                device: None,
                tunnel: None,
                fault: None,
                monitor: PortMonitor::default(),
            };
            running.state = self.open_interface(&mut running);
            configuration_log::interface(bridge, &interface.name, &running.state);
            self.configured.interfaces.insert(interface.name.clone(), running);
        }
    }

    /// Opens an interface's device and adds it to its bridge.
    pub(super) fn open_interface(
        &mut self,
        running: &mut RunningInterface,
    ) -> Result<OfPort, String> {
        let (name, interface) = (&running.interface.name, &running.interface);
        let id = self.bridge_id(&running.bridge).ok_or_else(|| format!("{name}: no bridge"))?;
        if configuration_log::is_reserved(name) {
            return Err(configuration_log::RESERVED.to_owned());
        }
        if let InterfaceKind::Tunnel(config) = &interface.kind {
            running.tunnel = Some(self.open_tunnel(config));
        }
        let is_local = interface.name == running.bridge;
        let kind = DeviceKind::of(interface, is_local, self.settings.dummy)?;
        if kind == Some(DeviceKind::Afxdp) {
            // An AF_XDP port is opened for its device's current MTU.
            self.set_device(&running.bridge, interface, DeviceKind::Afxdp);
        }
        let config = self.device_config(interface)?;
        if let Some(kind) = kind {
            let opened = self.devices.open(interface, kind, config, &self.workers);
            running.device = Some(opened.map_err(|error| describe_failure(name, &error))?);
        }
        if let Some(kind) = kind {
            running.fault = self.set_device(&running.bridge, interface, kind);
            let link = self.devices.link(name).ok();
            running.link_up = link.as_ref().is_some_and(|link| link.admin_up && link.carrier);
            self.offload_port(running, link.as_ref());
        }
        self.follow_protocols(running);
        let spec = self.port_spec(running);
        let added = self.ofproto.add_port(id, spec, clock::now()).map_err(|refused| {
            self.leave_tunnel(running);
            if let Some(number) = running.device.take() {
                self.offload_port_closes(number);
                self.devices.close(number, true, &self.workers);
                self.devices.remove_doomed();
            }
            self.end_monitor(running);
            refused.to_string()
        })?;
        self.set_monitor(running, id, added);
        Ok(added)
    }

    /// Sets a device's requested MTU and, for the switch's own devices, its address. Returns what the device
    /// refused.
    fn set_device(
        &mut self,
        bridge: &str,
        interface: &Interface,
        kind: DeviceKind,
    ) -> Option<String> {
        let asked = match interface.name == bridge {
            _ if !matches!(
                kind,
                DeviceKind::Internal
                    | DeviceKind::DummyInternal
                    | DeviceKind::Dummy
                    | DeviceKind::DummyPmd
            ) =>
            {
                None
            }
            true => self.configured.bridges.get(bridge).and_then(|b| b.settings.hwaddr),
            false => interface.mac,
        };
        // The MTU of such a port was set when it was opened.
        if kind.has_no_kernel_device() {
            return None;
        }
        let devices = &mut self.devices;
        if devices.expect_named(&interface.name).is_err() {
            return None;
        }
        let set_mac = asked.map(|mac| devices.set_mac(&interface.name, mac));
        let mtu = interface.mtu_request.filter(|_| kind.is_of_system() || kind.is_dummy());
        let set_mtu = mtu.map(|mtu| {
            let refused = |error| format!("{error}: mtu_request is {mtu}; ask for less");
            devices.set_mtu(&interface.name, mtu).map_err(refused)
        });
        let set_mac = set_mac.map(|result| result.map_err(|error| error.to_string()));
        let faults: Vec<String> =
            [set_mac, set_mtu].into_iter().flatten().filter_map(Result::err).collect();
        for fault in &faults {
            log::warn!(target: "bridge", "{fault}");
        }
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    pub(super) fn port_spec(&mut self, running: &RunningInterface) -> PortSpec {
        let interface = &running.interface;
        let device = match (&interface.kind, running.device) {
            (InterfaceKind::Patch { peer }, _) => PortDevice::Patch { peer: peer.clone() },
            (InterfaceKind::Tunnel(config), _) => {
                let device = running.tunnel.unwrap_or_default();
                PortDevice::Tunnel { device, config: Arc::new(TunnelConfig::clone(config)) }
            }
            (_, number) => PortDevice::Datapath(number.unwrap_or_default()),
        };
        let link = match running.device {
            // A device that is gone or elsewhere is down, without an address.
            Some(_) => Some(self.devices.link(&interface.name).unwrap_or_default()),
            None => None,
        };
        let mac = link.as_ref().map_or_else(random_mac, |link| link.mac);
        let mut spec = PortSpec::new(&interface.name, mac, device);
        // The requested number if possible; otherwise the port keeps its previous number, even if it is
        // removed and added again because an option changed.
        let bridge = self.ofproto.bridges().named(&running.bridge);
        let is_free = |number: &OfPort| {
            let port = bridge.and_then(|bridge| bridge.port(*number));
            port.is_none_or(|port| port.spec.name == interface.name)
        };
        let request = interface.ofport_request.filter(is_free);
        spec.requested = request.or(interface.ofport_hint.0).or(interface.ofport_request);
        spec.is_local = interface.name == running.bridge;
        spec.vlan = running.port.vlan.clone();
        spec.priority_tags = running.port.priority_tags;
        spec.protected = running.port.protected;
        spec.alive = running.monitor.alive;
        spec.monitor = running.monitor.of_port(interface);
        if let Some(link) = &link {
            describe_link(&mut spec, link);
        }
        let number = running.device.and_then(|number| self.devices.get(number));
        if number.is_some_and(|device| device.kind.is_dummy()) {
            // As in Open vSwitch, dummy ports have one queue (ovs: `lib/netdev-dummy.c`).
            spec.queues = vec![0];
        }
        spec
    }

    /// Changes the configuration of a port with the same interfaces.
    pub(super) fn set_port(&mut self, bridge: &str, port: &Port) {
        let Some(id) = self.bridge_id(bridge) else { return };
        for interface in &port.interfaces {
            let Some(mut running) = self.configured.interfaces.remove(&interface.name) else {
                continue;
            };
            let is_dummy = running.device.and_then(|it| self.devices.get(it)?.dummy()).is_some();
            let has_other_options = running.interface.options != interface.options;
            running.port = port.clone();
            running.interface = interface.clone();
            // A dummy port may replace a device whose options have no meaning for it.
            if is_dummy && has_other_options {
                self.reopen(&mut running);
            }
            if let Some(number) = running.device
                && let Some(device) = self.devices.get(number)
            {
                running.fault = self.set_device(bridge, interface, device.kind);
                if self.devices.pin(number, &interface.rxq_affinity) {
                    self.rebalance();
                }
                let link = self.devices.link(&interface.name).ok();
                self.offload_port(&running, link.as_ref());
            }
            if let Ok(number) = running.state {
                self.follow_protocols(&mut running);
                let spec = self.port_spec(&running);
                if let Err(refused) = self.ofproto.set_port(id, number, spec) {
                    log::warn!(target: "bridge", "{refused}");
                }
                self.set_monitor(&running, id, number);
            }
            self.configured.interfaces.insert(interface.name.clone(), running);
        }
    }

    /// Removes a port. Its device is left to the system.
    pub(super) fn remove_port(&mut self, bridge: &str, name: &str) {
        let interfaces = self.configured.interfaces.iter();
        let gone: Vec<String> = interfaces
            .filter(|(_, run)| run.bridge == bridge && run.port.name == name)
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(mut running) = self.configured.interfaces.remove(&name) {
                self.close_interface(&mut running, true);
            }
        }
    }

    fn leave_tunnel(&mut self, running: &mut RunningInterface) {
        if let (InterfaceKind::Tunnel(config), Some(_)) =
            (&running.interface.kind, running.tunnel.take())
        {
            self.close_tunnel(config);
        }
    }

    pub(super) fn close_interface(&mut self, running: &mut RunningInterface, remove: bool) {
        if let (Ok(number), Some(id)) = (&running.state, self.bridge_id(&running.bridge)) {
            self.ofproto.remove_port(id, *number, clock::now());
        }
        self.end_monitor(running);
        self.close_device(running, remove);
    }

    fn close_device(&mut self, running: &mut RunningInterface, remove: bool) {
        if let Some(device) = running.device {
            self.offload_port_closes(device);
            self.handler_shared.upcalls.remove_port(device);
            self.devices.close(device, remove, &self.workers);
        }
        self.leave_tunnel(running);
    }

    /// Sets a port's device up or down for a controller, and reads the result.
    pub fn set_device_up(&mut self, port: PortNo, up: bool) {
        let Some(name) = self.devices.get(port).map(|device| device.name.clone()) else { return };
        if let Err(error) = self.devices.set_up(&name, up) {
            vlog::limited!((1, 5), clock::now(), target: "bridge", log::Level::Warn, "{error}");
        }
        if let Ok(link) = self.devices.link(&name) {
            self.device_changed(&link);
        }
    }

    /// Records the current numbers of ports in a configuration.
    pub(super) fn note_numbers(&self, desired: &mut Desired) {
        let ports = desired.bridges.values_mut().flat_map(|bridge| bridge.ports.values_mut());
        for interface in ports.flat_map(|port| &mut port.interfaces) {
            let running = self.configured.interfaces.get(&interface.name);
            if let Some(Ok(number)) = running.map(|running| &running.state) {
                interface.ofport_hint = Hint(Some(*number));
            }
        }
    }

    /// Closes a port's device and opens it again.
    pub(super) fn reopen(&mut self, running: &mut RunningInterface) {
        if let (Ok(number), Some(id)) = (&running.state, self.bridge_id(&running.bridge)) {
            self.ofproto.detach_port(id, *number, clock::now());
        }
        self.close_device(running, false);
        running.device = None;
        running.interface.ofport_hint = Hint(running.state.as_ref().ok().copied());
        running.state = self.open_interface(running);
    }
}

/// Sets the state in OpenFlow's description: up or down, carrier, and the speed.
fn describe_link(spec: &mut PortSpec, link: &LinkInfo) {
    spec.up = link.admin_up;
    // A device that is down has no running link, whatever its carrier (IFF_RUNNING).
    spec.carrier = link.admin_up && link.carrier;
    let (speed_mbps, duplex) = link.speed_and_duplex();
    spec.features = current_features(speed_mbps, duplex == Some(port_linux::Duplex::Half));
    spec.speed_kbps = speed_mbps.unwrap_or(0).saturating_mul(1000);
}

/// Returns a speed as `OFPPF_*` bits (ovs: `include/openflow/openflow-1.0.h`).
fn current_features(speed_mbps: Option<u32>, half: bool) -> u32 {
    const COPPER: u32 = 1 << 11;
    match (speed_mbps, half) {
        (Some(10), true) => 1 | COPPER,
        (Some(10), false) => 1 << 1 | COPPER,
        (Some(100), true) => 1 << 2 | COPPER,
        (Some(100), false) => 1 << 3 | COPPER,
        (Some(1000), true) => 1 << 4 | COPPER,
        (Some(1000), false) => 1 << 5 | COPPER,
        (Some(10_000), _) => 1 << 6 | COPPER,
        _ => 0,
    }
}

pub(super) fn no_device(name: &str) -> String {
    format!("could not open network device {name} (No such device)")
}

/// Returns why an interface was not opened, in the words that `ovs-vsctl` shows.
fn describe_failure(name: &str, error: &PortError) -> String {
    match error {
        PortError::Gone { .. } => no_device(name),
        error => format!("could not open network device {name} ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::current_features;

    #[test]
    fn speeds_are_bits_of_openflow() {
        for (speed_mbps, half, expect) in [
            (Some(10), true, 0x801),
            (Some(10), false, 0x802),
            (Some(100), true, 0x804),
            (Some(100), false, 0x808),
            (Some(1000), true, 0x810),
            (Some(1000), false, 0x820),
            (Some(10_000), false, 0x840),
            (Some(25_000), false, 0),
            (None, false, 0),
        ] {
            assert_eq!(current_features(speed_mbps, half), expect, "{speed_mbps:?} {half}");
        }
    }
}
