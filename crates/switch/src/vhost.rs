//! Ports of guests behind vhost-user: their configuration and their status.

use super::Switch;
use super::device_handle::DeviceConfig;
use super::worker_messages::WorkerEvent;
use base::{MacAddr, OfPort};
use control::{Interface, LinkStatus, VhostInterface};
use port_linux::{LinkInfo, LinkStatistics};
use port_vhost::{RingCounts, VhostConfig, VhostPort, VhostRole};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The classes of packets by size, as columns name them: those of all queues, and those of one.
const SIZES: [(&str, &str); 7] = [
    ("1_to_64", "64"),
    ("65_to_127", "65_127"),
    ("128_to_255", "128_255"),
    ("256_to_511", "256_511"),
    ("512_to_1023", "512_1023"),
    ("1024_to_1522", "1024_1518"),
    ("1523_to_max", "1519_max"),
];

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
    let (received, sent) = sums(port);
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
        status: describe(port),
        statistics: with_statistics.then(|| statistics(port)),
        ..LinkStatus::default()
    }
}

/// `Interface.status` (ovs: `lib/netdev-dpdk.c`, `netdev_dpdk_vhost_user_get_status`).
fn describe(port: &VhostPort) -> BTreeMap<String, String> {
    let (config, status) = (port.config(), port.status());
    let mode = if config.role == VhostRole::Client { "client" } else { "server" };
    let mut told = BTreeMap::from([("mode".to_owned(), mode.to_owned())]);
    let mut tell = |name: &str, value: String| drop(told.insert(name.to_owned(), value));
    if !status.is_connected {
        tell("status", "disconnected".to_owned());
        return told;
    }
    tell("status", "connected".to_owned());
    tell("socket", config.socket.display().to_string());
    tell("features", format!("{:#018x}", status.features));
    if let Some(mtu) = status.mtu {
        tell("mtu", mtu.to_string());
    }
    tell("num_of_vrings", status.ring_sizes.len().to_string());
    for (ring, size) in status.ring_sizes.iter().enumerate() {
        tell(&format!("vring_{ring}_size"), size.to_string());
    }
    tell("n_rxq", config.rx_queues.to_string());
    told
}

/// The sums of all queues: what the guest sent, and what it got.
fn sums(port: &VhostPort) -> (RingCounts, RingCounts) {
    let (mut received, mut sent) = (RingCounts::default(), RingCounts::default());
    for (rx, tx) in port.ring_counts() {
        received += rx;
        sent += tx;
    }
    (received, sent)
}

/// `Interface.statistics` (ovs: `lib/netdev-dpdk.c`, `netdev_dpdk_vhost_get_stats` and
/// `netdev_dpdk_vhost_get_custom_stats`): `rx` is what the guest sent.
fn statistics(port: &VhostPort) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    let mut tell = |name: String, value: u64| {
        all.insert(name, i64::try_from(value).unwrap_or(i64::MAX));
    };
    let (received, sent) = sums(port);
    for (way, counts) in [("rx", &received), ("tx", &sent)] {
        tell(format!("{way}_packets"), counts.packets);
        tell(format!("{way}_bytes"), counts.bytes);
        tell(format!("{way}_multicast_packets"), counts.multicast);
        tell(format!("{way}_broadcast_packets"), counts.broadcast);
        for (class, ((name, _), count)) in SIZES.iter().zip(counts.sizes).enumerate() {
            let shorter = if class == 0 { counts.undersize } else { 0 };
            tell(format!("{way}_{name}_packets"), count + shorter);
        }
    }
    for (queue, (rx, tx)) in port.ring_counts().iter().enumerate() {
        for (way, counts) in [("rx", rx), ("tx", tx)] {
            let mut tell = |name: &str, value| tell(format!("{way}_q{queue}_{name}"), value);
            tell("good_packets", counts.packets);
            tell("good_bytes", counts.bytes);
            tell("multicast_packets", counts.multicast);
            tell("broadcast_packets", counts.broadcast);
            tell("undersize_packets", counts.undersize);
            for ((_, name), count) in SIZES.iter().zip(counts.sizes) {
                tell(&format!("size_{name}_packets"), count);
            }
        }
    }
    let lost = port.lost();
    for (name, value) in [
        ("rx_dropped", 0),
        ("tx_dropped", lost.tx_full + lost.tx_mtu_exceeded + lost.tx_errors),
        ("rx_errors", lost.rx_errors),
        ("tx_errors", lost.tx_errors),
        ("ovs_tx_retries", lost.tx_retries),
        ("ovs_tx_failure_drops", lost.tx_full),
        ("ovs_tx_mtu_exceeded_drops", lost.tx_mtu_exceeded),
        ("ovs_tx_invalid_hwol_drops", lost.tx_errors),
    ] {
        tell(name.to_owned(), value);
    }
    all
}
