//! Ports of guests behind vhost-user: their configuration and their status.

mod columns;

use super::Switch;
use super::device_handle::DeviceConfig;
use super::worker_messages::WorkerEvent;
use base::{MacAddr, OfPort};
use control::{Interface, LinkStatus, VhostInterface};
use port_linux::{LinkInfo, LinkStatistics};
use port_vhost::{VhostConfig, VhostPort, VhostRole};
use std::path::{Component, Path, PathBuf};

impl Switch {
    /// Returns the configuration of a guest's port; `None` for other interfaces.
    pub(super) fn vhost_config(
        &self,
        interface: &Interface,
    ) -> Option<Result<DeviceConfig, String>> {
        let wanted = match VhostInterface::of(interface)? {
            Ok(wanted) => wanted,
            Err(why) => return Some(Err(why)),
        };
        let (socket, role) = match wanted.server_path {
            Some(path) => (path, VhostRole::Client),
            None => (self.vhost_socket(&interface.name), VhostRole::Server),
        };
        let config = VhostConfig {
            socket,
            role,
            rx_queues: wanted.rx_queues,
            mtu: interface.mtu_request,
            tx_retries: wanted.tx_retries,
        };
        let (name, events) = (interface.name.clone(), self.events.clone());
        // It fails only if the switch ends.
        let notify = move || drop(events.send(WorkerEvent::GuestChanged(name.clone())));
        Some(Ok(DeviceConfig::Vhost(config, Box::new(notify))))
    }

    /// Returns the path of a `dpdkvhostuser` port's socket.
    fn vhost_socket(&self, name: &str) -> PathBuf {
        let below = self.dpdk.vhost_socket_dir.as_ref().and_then(Option::as_ref);
        // A path that leads out of the run directory is ignored.
        let is_below = |path: &&Path| path.components().all(|p| matches!(p, Component::Normal(_)));
        let below = below.map(Path::new).filter(is_below);
        self.settings.run_dir.join(below.unwrap_or(Path::new(""))).join(name)
    }

    /// Handles a change of a port's guest.
    pub(super) fn guest_changed(&mut self, name: &str) {
        let Some(port) = self.devices.vhost(name) else { return };
        port.answer_notification();
        let link = link_info(name, port);
        self.device_changed(&link);
        self.mark_stale();
        self.report();
    }
}

/// Returns the state of a guest's port, in the form of a system device's.
pub fn link_info(name: &str, port: &VhostPort) -> LinkInfo {
    let (received, sent) = columns::sums(&port.ring_counts());
    let lost = port.lost();
    LinkInfo {
        name: name.to_owned(),
        is_ethernet: true,
        mac: MacAddr::ZERO,
        mtu: port.mtu(),
        admin_up: port.is_admin_up(),
        carrier: port.is_link_up(),
        statistics: LinkStatistics {
            rx_packets: received.packets,
            tx_packets: sent.packets,
            rx_bytes: received.bytes,
            tx_bytes: sent.bytes,
            tx_dropped: lost.tx_full + lost.tx_mtu_exceeded,
            rx_errors: lost.rx_errors,
            tx_errors: lost.tx_errors,
            multicast: received.multicast,
            ..LinkStatistics::default()
        },
        ..LinkInfo::default()
    }
}

/// Returns the status of a guest's port for the database.
pub fn link_status(ofport: OfPort, port: &VhostPort, with_statistics: bool) -> LinkStatus {
    LinkStatus {
        ofport,
        mac: Some(MacAddr::ZERO),
        admin_up: Some(port.is_admin_up()),
        link_up: port.is_link_up(),
        mtu: Some(port.mtu().into()),
        error: port.problem().map(|problem| format!("{}: {problem}", port.name())),
        status: columns::describe(port.config(), &port.status(), port.has_guest()),
        statistics: with_statistics.then(|| columns::statistics(&port.ring_counts(), &port.lost())),
        ..LinkStatus::default()
    }
}
