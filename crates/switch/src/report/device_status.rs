//! The status of a device of the kernel.

use crate::statistics::named;
use base::OfPort;
use control::LinkStatus;
use coverage::Event;
use port_linux::{Duplex, LinkInfo};
use std::collections::BTreeMap;

/// Returns the columns of an interface with this device.
pub fn device_status(ofport: OfPort, link: &LinkInfo, with_statistics: bool) -> LinkStatus {
    coverage::count(Event::EthtoolRead);
    coverage::add(Event::StatisticsRead, with_statistics.into());
    let (speed_mbps, duplex) = link.speed_and_duplex();
    let driver = link.driver().map(|driver| {
        // As in Open vSwitch 4.0 (ovs: `lib/netdev-linux.c`, `netdev_linux_get_peer_ifindex`).
        let peer = link.leads_to.filter(|_| driver.name == "veth");
        let facts = [
            ("driver_name", Some(driver.name)),
            ("driver_version", Some(driver.version)),
            ("firmware_version", Some(driver.firmware_version)),
            ("peer_ifindex", peer.map(|ifindex| ifindex.to_string())),
        ];
        facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?)))
    });
    LinkStatus {
        ofport,
        mac: Some(link.mac),
        ifindex: link.ifindex,
        admin_up: Some(link.admin_up),
        link_up: link.admin_up && link.carrier,
        link_speed_bps: speed_mbps.map(|mbps| i64::from(mbps) * 1_000_000),
        full_duplex: duplex.map(|duplex| duplex != Duplex::Half),
        mtu: Some(link.mtu.into()),
        status: driver.into_iter().flatten().collect(),
        statistics: with_statistics.then(|| statistics(link)),
        ..LinkStatus::default()
    }
}

/// Returns the counters under their names in `Interface.statistics`.
fn statistics(link: &LinkInfo) -> BTreeMap<String, i64> {
    let s = &link.statistics;
    named([
        ("rx_packets", s.rx_packets),
        ("tx_packets", s.tx_packets),
        ("rx_bytes", s.rx_bytes),
        ("tx_bytes", s.tx_bytes),
        ("rx_dropped", s.rx_dropped),
        ("tx_dropped", s.tx_dropped),
        ("rx_errors", s.rx_errors),
        ("tx_errors", s.tx_errors),
        ("rx_frame_err", s.rx_frame_err),
        ("rx_over_err", s.rx_over_err),
        ("rx_crc_err", s.rx_crc_err),
        ("rx_missed_errors", s.rx_missed_errors),
        ("rx_multicast_packets", s.multicast),
        ("collisions", s.collisions),
    ])
}
