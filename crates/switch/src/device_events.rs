//! What happens to the devices of ports while the switch runs. A port stays when its device is renamed, moved or removed,
//! with its number and without an error, and is down without a device, as in Open vSwitch (`lib/netdev-linux.c`).

use super::Switch;
use super::device_kind::DeviceKind;
use super::device_place::Place;
use super::interfaces::{RunningInterface, no_device};
use base::PortNo;
use control::InterfaceKind;
use port_linux::LinkInfo;

impl Switch {
    /// Handles a port from which a worker cannot receive any more, because its device is gone.
    pub fn port_failed(&mut self, port: PortNo) {
        let found = self.configured.interfaces.iter().find(|(_, run)| run.device == Some(port));
        if let Some(name) = found.map(|(name, _)| name.clone()) {
            self.device_left(&name, None);
        }
    }

    /// Handles a device that was removed from the system or moved to another network namespace.
    pub fn device_vanished(&mut self, name: &str, ifindex: u32) {
        self.device_left(name, Some(ifindex));
    }

    fn device_left(&mut self, name: &str, ifindex: Option<u32>) {
        let Some(mut running) = self.configured.interfaces.remove(name) else { return };
        if let Some(number) = running.device {
            let kind = self.devices.get(number).map(|device| device.kind);
            if kind == Some(DeviceKind::Dpdk) {
                log::info!(target: "bridge", "bridge {}: deleted interface {name}", running.bridge);
                self.close_interface(&mut running, false);
                running.device = None;
                running.state = Err(no_device(name));
            } else if self.devices.leave(number, ifindex, &self.workers) {
                let place = self.devices.place(number);
                let what = if place == Some(Place::Elsewhere) { "moved" } else { "removed" };
                log::info!(target: "bridge", "bridge {}: {name}: its device was {what}", running.bridge);
                self.offload_port_closes(number);
                self.note_link(&mut running, false);
                self.describe_port(&running);
            }
        }
        self.configured.interfaces.insert(name.to_owned(), running);
        self.limit_upcalls();
        self.settle();
    }

    /// Handles a device that has another name now. Its port stays.
    pub fn device_renamed(&mut self, was: &str, ifindex: u32) {
        let running = self.configured.interfaces.get(was);
        if let Some(number) = running.and_then(|running| running.device) {
            self.devices.rename(number, ifindex);
        }
    }

    /// Handles a device that appeared or changed: opens a waiting port, or updates an open one.
    pub fn device_changed(&mut self, link: &LinkInfo) {
        let renamed = self.devices.renamed(link.ifindex).map(str::to_owned);
        let is_port = self.configured.interfaces.contains_key(&link.name);
        let name = renamed.filter(|_| !is_port).unwrap_or_else(|| link.name.clone());
        let Some(mut running) = self.configured.interfaces.remove(&name) else { return };
        let kind = &running.interface.kind;
        let waits = running.device.is_none()
            && matches!(kind, InterfaceKind::System | InterfaceKind::Afxdp);
        let number = running.device;
        let reopens = number.is_some_and(|number| {
            self.devices.arrive(number, link) || self.devices.is_outgrown(number, link.mtu)
        });
        let place = number.and_then(|number| self.devices.place(number));
        let is_here = !matches!(place, Some(Place::Elsewhere | Place::Gone));
        if number.is_some() && (is_here || reopens) {
            self.note_link(&mut running, link.admin_up && link.carrier);
        }
        if reopens {
            self.reopen(&mut running);
        } else if waits {
            running.state = self.open_interface(&mut running);
        } else if is_here {
            self.offload_port(&running, Some(link));
            self.describe_port(&running);
        }
        self.configured.interfaces.insert(name, running);
        self.limit_upcalls();
        self.settle();
    }

    /// Counts changes of a link's state.
    fn note_link(&self, running: &mut RunningInterface, is_up: bool) {
        if running.link_up != is_up {
            running.link_up = is_up;
            running.link_resets += 1;
        }
    }

    /// Updates an open port in its bridge.
    fn describe_port(&mut self, running: &RunningInterface) {
        if let (Ok(number), Some(id)) = (&running.state, self.bridge_id(&running.bridge)) {
            let spec = self.port_spec(running);
            // The port exists, so this cannot fail.
            let _ = self.ofproto.set_port(id, *number, spec);
            // Its frames have the device's address.
            self.set_monitor(running, id, *number);
        }
    }
}
