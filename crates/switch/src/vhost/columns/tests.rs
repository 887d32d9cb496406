use super::*;

fn config(role: VhostRole) -> VhostConfig {
    VhostConfig { socket: "/run/vm1".into(), role, rx_queues: 2, mtu: None, tx_retries: 8 }
}

fn shown(map: BTreeMap<String, String>) -> String {
    map.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn status_has_the_keys_of_open_vswitch() {
    let status = Status {
        is_connected: true,
        features: 0x1_4000_0008,
        mtu: Some(1450),
        numa: Some(1),
        ring_sizes: vec![256, 512, 64, 64],
        ..Status::default()
    };
    let without_mtu = Status { features: 0x1_4000_0000, numa: None, ..status.clone() };
    let no_rings = Status { ring_sizes: vec![], ..without_mtu.clone() };
    let server = "mode=server";
    for (role, status, has_guest, expect) in [
        (
            VhostRole::Client,
            &status,
            true,
            "features=0x0000000140000008 mode=client mtu=1450 n_rxq=2 n_txq=2 num_of_vrings=4 numa=1 \
             socket=/run/vm1 status=connected vring_0_size=256 vring_1_size=512 vring_2_size=64 \
             vring_3_size=64"
                .to_owned(),
        ),
        (
            VhostRole::Server,
            &without_mtu,
            true,
            format!(
                "features=0x0000000140000000 {server} n_rxq=2 n_txq=2 num_of_vrings=4 \
                 socket=/run/vm1 status=connected vring_0_size=256 vring_1_size=512 \
                 vring_2_size=64 vring_3_size=64"
            ),
        ),
        (
            VhostRole::Server,
            &no_rings,
            true,
            format!(
                "features=0x0000000140000000 {server} n_rxq=2 n_txq=1 num_of_vrings=0 \
                 socket=/run/vm1 status=connected"
            ),
        ),
        // The program is there, but not the guest's driver.
        (VhostRole::Server, &status, false, format!("{server} status=disconnected")),
        (VhostRole::Client, &Status::default(), false, "mode=client status=disconnected".into()),
    ] {
        assert_eq!(shown(describe(&config(role), status, has_guest)), expect);
    }
}

/// Open vSwitch's keys of all queues, with DPDK's of each queue, and those that it leaves out for guests.
#[test]
fn statistics_have_the_keys_of_open_vswitch() {
    let sizes = "1_to_64 65_to_127 128_to_255 256_to_511 512_to_1023 1024_to_1522 1523_to_max";
    let of_port = "packets bytes multicast_packets broadcast_packets dropped errors";
    let of_queue = "good_packets good_bytes multicast_packets broadcast_packets undersize_packets \
                    size_64_packets size_65_127_packets size_128_255_packets size_256_511_packets \
                    size_512_1023_packets size_1024_1518_packets size_1519_max_packets \
                    guest_notifications guest_notifications_offloaded guest_notifications_error \
                    guest_notifications_suppressed iotlb_hits iotlb_misses inflight_submitted \
                    inflight_completed";
    let own = "ovs_tx_retries ovs_tx_failure_drops ovs_tx_mtu_exceeded_drops ovs_tx_qos_drops \
               ovs_rx_qos_drops ovs_tx_invalid_hwol_drops";
    for queues in [1, 2, 128] {
        let mut expect: Vec<String> = own.split_whitespace().map(str::to_owned).collect();
        for way in ["rx", "tx"] {
            expect.extend(sizes.split_whitespace().map(|name| format!("{way}_{name}_packets")));
            expect.extend(of_port.split_whitespace().map(|name| format!("{way}_{name}")));
            for queue in 0..queues {
                let names = of_queue.split_whitespace();
                expect.extend(names.map(|name| format!("{way}_q{queue}_{name}")));
            }
        }
        expect.sort();
        let counts = vec![(RingCounts::default(), RingCounts::default()); queues];
        let got: Vec<String> = statistics(&counts, &Lost::default()).into_keys().collect();
        assert_eq!(got, expect, "{queues} queues");
    }
}

#[test]
fn each_counter_has_its_key() {
    let counts = |base: u64| RingCounts {
        packets: base,
        bytes: base + 1,
        broadcast: base + 2,
        multicast: base + 3,
        undersize: base + 4,
        sizes: std::array::from_fn(|class| base + 5 + class as u64),
        notifications: base + 12,
        suppressed: base + 13,
    };
    let lost =
        Lost { rx_errors: 1, tx_full: 20, tx_mtu_exceeded: 300, tx_errors: 4000, tx_retries: 5 };
    let got = statistics(&[(counts(100), counts(200)), (counts(1000), counts(2000))], &lost);
    for (name, expect) in [
        ("rx_packets", 1100),
        ("tx_packets", 2200),
        ("rx_bytes", 1102),
        ("rx_broadcast_packets", 1104),
        ("tx_multicast_packets", 2206),
        // Shorter ones belong to the first class.
        ("rx_1_to_64_packets", 105 + 1005 + 104 + 1004),
        ("tx_65_to_127_packets", 206 + 2006),
        ("tx_1523_to_max_packets", 211 + 2011),
        ("rx_q0_good_packets", 100),
        ("rx_q1_undersize_packets", 1004),
        ("rx_q1_size_64_packets", 1005),
        ("tx_q0_size_1519_max_packets", 211),
        ("tx_q0_guest_notifications", 212),
        ("rx_q1_guest_notifications_suppressed", 1013),
        ("tx_dropped", 4320),
        ("rx_errors", 1),
        ("ovs_tx_failure_drops", 20),
        ("ovs_tx_mtu_exceeded_drops", 300),
        ("ovs_tx_invalid_hwol_drops", 4000),
        ("ovs_tx_retries", 5),
    ] {
        assert_eq!(got.get(name), Some(&expect), "{name}");
    }
}
