//! Link state and counters of the datapath's ports.

use super::device_handle::Handle;
use super::device_place::Place;
use super::devices::Devices;
use super::dummy;
use base::{OfPort, PortNo};
use control::LinkStatus;
use port::PortError;
use port_linux::{LinkInfo, LinkStatistics};
use std::collections::BTreeMap;

impl Devices {
    /// Returns the state of a device; counters are from the switch's point of view, which for its own devices
    /// is the reverse of the kernel's.
    pub fn link(&mut self, name: &str) -> Result<LinkInfo, PortError> {
        let open = self.open.values().find(|device| device.name == name);
        if let Some(Handle::Pcap(pcap, link)) = open.map(|device| &device.handle) {
            let counts = pcap.counts();
            let statistics = LinkStatistics {
                rx_packets: counts.rx_packets,
                rx_bytes: counts.rx_bytes,
                tx_packets: counts.tx_packets,
                tx_bytes: counts.tx_bytes,
                tx_errors: counts.tx_errors,
                ..LinkStatistics::default()
            };
            return Ok(LinkInfo { statistics, ..LinkInfo::clone(link) });
        }
        if let Some(Handle::Dpdk(dpdk)) = open.map(|device| &device.handle) {
            return super::dpdk::link_info(name, dpdk);
        }
        if let Some(Handle::Vhost(vhost)) = open.map(|device| &device.handle) {
            return Ok(super::vhost::link_info(name, vhost));
        }
        if let Some(Handle::Dummy(dummy)) = open.map(|device| &device.handle) {
            return Ok(dummy::link_info(name, dummy));
        }
        if let Some(Handle::Tunnel) = open.map(|device| &device.handle) {
            let (name, mtu) = (name.to_owned(), u16::MAX.into());
            return Ok(LinkInfo {
                name,
                mtu,
                admin_up: true,
                carrier: true,
                ..LinkInfo::default()
            });
        }
        let mut info = match open.map(|device| (device.place, device.ifindex)) {
            Some((Place::Elsewhere | Place::Gone, _)) => {
                return Err(PortError::Gone { device: name.to_owned() });
            }
            Some((Place::Renamed, ifindex)) => self.links.by_index(name, ifindex)?,
            Some((Place::Named, _)) | None => self.links.by_name(name)?,
        };
        // The kernel's counters do not include the frames that a receive queue dropped (as ovs:
        // `lib/netdev-linux.c`, `netdev_tap_get_stats`).
        match open.map(|device| &device.handle) {
            Some(Handle::Packet(packet)) => {
                info.statistics.rx_dropped += packet.rx_drops().total();
            }
            Some(Handle::Tap(tap)) => {
                info.statistics = info.statistics.seen_from_switch();
                info.statistics.rx_dropped += tap.rx_drops();
            }
            _ => {}
        }
        Ok(info)
    }

    /// Returns the status of a port of DPDK or of a guest, if it is one.
    pub fn user_space_status(
        &self,
        name: &str,
        ofport: OfPort,
        with_statistics: bool,
    ) -> Option<LinkStatus> {
        match &self.open.values().find(|device| device.name == name)?.handle {
            Handle::Dpdk(port) => Some(super::dpdk::link_status(ofport, port, with_statistics)),
            Handle::Vhost(port) => Some(super::vhost::link_status(ofport, port, with_statistics)),
            _ => None,
        }
    }

    /// Returns additional values of a port, for the columns `status` and `statistics` (ovs:
    /// `lib/netdev-afxdp.c`).
    pub fn details(&self, name: &str) -> (BTreeMap<String, String>, BTreeMap<String, i64>) {
        let (mut status, mut statistics) = (BTreeMap::new(), BTreeMap::new());
        let open = self.open.values().find(|device| device.name == name);
        if let Some(Handle::Xdp(xdp)) = open.map(|device| &device.handle) {
            let options = xdp.options();
            let asked = options.mode.map_or("best-effort", |mode| mode.name());
            let mut tell = |name: &str, value: String| status.insert(name.to_owned(), value);
            tell("xdp-mode", asked.to_owned());
            tell("xdp-mode-in-use", xdp.mode().name().to_owned());
            tell("n_rxq", options.queues.to_string());
            tell("use-need-wakeup", options.need_wakeup.to_string());
            for (queue, counts) in xdp.counts().into_iter().enumerate() {
                for (name, count) in [
                    ("rx_dropped", counts.rx_dropped),
                    ("rx_invalid_descs", counts.rx_invalid_descs),
                    ("tx_invalid_descs", counts.tx_invalid_descs),
                    ("rx_ring_full", counts.rx_ring_full),
                ] {
                    let count = i64::try_from(count).unwrap_or(i64::MAX);
                    statistics.insert(format!("xsk_queue_{queue}_{name}"), count);
                }
            }
        }
        (status, statistics)
    }

    /// Returns a port's counters in OpenFlow's order; `None` if the device is gone.
    pub fn counters(&mut self, number: PortNo) -> [Option<u64>; 12] {
        let name = self.open.get(&number).map(|device| device.name.clone());
        let Some(link) = name.and_then(|name| self.link(&name).ok()) else { return [None; 12] };
        let s = link.statistics;
        if self.open.get(&number).is_some_and(|device| device.kind.is_dummy()) {
            // No device counts the others.
            let counted = [s.rx_packets, s.tx_packets, s.rx_bytes, s.tx_bytes];
            return std::array::from_fn(|at| counted.get(at).copied());
        }
        [
            s.rx_packets,
            s.tx_packets,
            s.rx_bytes,
            s.tx_bytes,
            s.rx_dropped,
            s.tx_dropped,
            s.rx_errors,
            s.tx_errors,
            s.rx_frame_err,
            s.rx_over_err,
            s.rx_crc_err,
            s.collisions,
        ]
        .map(Some)
    }
}
