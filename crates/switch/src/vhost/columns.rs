//! The columns `status` and `statistics` of guests' ports, with Open vSwitch's keys.

use port_vhost::{Lost, RingCounts, Status, VhostConfig, VhostRole};
use std::collections::BTreeMap;

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
/// The feature by which a guest accepts an MTU (VIRTIO 1.2 section 5.1.3).
const VIRTIO_NET_F_MTU: u64 = 1 << 3;

/// `Interface.status` (ovs: `lib/netdev-dpdk.c`, `netdev_dpdk_vhost_user_get_status`). As there, a guest is connected
/// while its driver uses rings.
pub fn describe(
    config: &VhostConfig,
    status: &Status,
    has_guest: bool,
) -> BTreeMap<String, String> {
    let mode = if config.role == VhostRole::Client { "client" } else { "server" };
    let mut told = BTreeMap::from([("mode".to_owned(), mode.to_owned())]);
    let mut tell = |name: &str, value: String| drop(told.insert(name.to_owned(), value));
    if !has_guest {
        tell("status", "disconnected".to_owned());
        return told;
    }
    tell("status", "connected".to_owned());
    tell("socket", config.socket.display().to_string());
    tell("features", format!("{:#018x}", status.features));
    if let Some(mtu) = status.mtu.filter(|_| status.features & VIRTIO_NET_F_MTU != 0) {
        tell("mtu", mtu.to_string());
    }
    if let Some(numa) = status.numa {
        tell("numa", numa.to_string());
    }
    tell("num_of_vrings", status.ring_sizes.len().to_string());
    for (ring, size) in status.ring_sizes.iter().enumerate() {
        tell(&format!("vring_{ring}_size"), size.to_string());
    }
    tell("n_rxq", config.rx_queues.to_string());
    tell("n_txq", (status.ring_sizes.len() / 2).max(1).to_string());
    told
}

/// The sums of all queues: what the guest sent, and what it got.
pub fn sums(queues: &[(RingCounts, RingCounts)]) -> (RingCounts, RingCounts) {
    let (mut received, mut sent) = (RingCounts::default(), RingCounts::default());
    for (rx, tx) in queues {
        received += *rx;
        sent += *tx;
    }
    (received, sent)
}

/// `Interface.statistics`: `rx` is what the guest sent. Counters outlive the guest (ovs: `lib/netdev-dpdk.c`,
/// `netdev_dpdk_vhost_get_stats`, `netdev_dpdk_get_sw_custom_stats`).
pub fn statistics(queues: &[(RingCounts, RingCounts)], lost: &Lost) -> BTreeMap<String, i64> {
    let mut all = BTreeMap::new();
    let mut tell = |name: String, value: u64| {
        all.insert(name, i64::try_from(value).unwrap_or(i64::MAX));
    };
    let (received, sent) = sums(queues);
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
    for (queue, (rx, tx)) in queues.iter().enumerate() {
        for (way, counts) in [("rx", rx), ("tx", tx)] {
            of_queue(counts, |name, value| tell(format!("{way}_q{queue}_{name}"), value));
        }
    }
    for (name, value) in [
        ("rx_dropped", 0),
        ("tx_dropped", lost.tx_full + lost.tx_mtu_exceeded + lost.tx_errors),
        ("rx_errors", lost.rx_errors),
        ("tx_errors", lost.tx_errors),
        ("ovs_tx_retries", lost.tx_retries),
        ("ovs_tx_failure_drops", lost.tx_full),
        ("ovs_tx_mtu_exceeded_drops", lost.tx_mtu_exceeded),
        ("ovs_tx_invalid_hwol_drops", lost.tx_errors),
        // Egress and ingress policers: there are none.
        ("ovs_tx_qos_drops", 0),
        ("ovs_rx_qos_drops", 0),
    ] {
        tell(name.to_owned(), value);
    }
    all
}

/// The counters of one queue (DPDK: `lib/vhost/vhost.c`, `vhost_vq_stat_strings`, of release 23.11 and later).
fn of_queue(counts: &RingCounts, mut tell: impl FnMut(&str, u64)) {
    tell("good_packets", counts.packets);
    tell("good_bytes", counts.bytes);
    tell("multicast_packets", counts.multicast);
    tell("broadcast_packets", counts.broadcast);
    tell("undersize_packets", counts.undersize);
    for ((_, name), count) in SIZES.iter().zip(counts.sizes) {
        tell(&format!("size_{name}_packets"), count);
    }
    tell("guest_notifications", counts.notifications);
    tell("guest_notifications_suppressed", counts.suppressed);
    // There are no notifications by other threads, no virtual IOMMU and no copies by DMA, and the kernel refuses none.
    for name in [
        "guest_notifications_offloaded",
        "guest_notifications_error",
        "iotlb_hits",
        "iotlb_misses",
        "inflight_submitted",
        "inflight_completed",
    ] {
        tell(name, 0);
    }
}

#[cfg(test)]
mod tests;
