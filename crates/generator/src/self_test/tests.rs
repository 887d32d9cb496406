use super::*;
use crate::{Close, Statistics};
use proptest::prelude::*;

/// Drives until both sides are empty, at most `limit_s` simulated seconds. Returns the time of that.
fn run_until_empty(test: &mut SelfTest, limit_s: u64) -> u64 {
    for ms in 0..limit_s * 1000 {
        let now = Instant::from_nanos(ms * 1_000_000 + 1);
        test.step(now, usize::MAX);
        let violations = test.violations();
        assert!(violations.is_empty(), "at {ms} ms: {violations:?}");
        if ms > 0 && test.client.alive() == 0 && test.server.alive() == 0 {
            return ms;
        }
    }
    panic!("alive after {limit_s} s: {} and {}", test.client.alive(), test.server.alive());
}

/// A self-test with `count` connections, all opened in the first tick.
fn open(profile: &Profile, count: u32, seed: u64, rates: FaultRates) -> SelfTest {
    let profile = Profile { connections_at_once: count, ..profile.clone() };
    let mut test = SelfTest::new(&profile, 4 * count as usize, seed, rates, Instant::ZERO).unwrap();
    while test.client.statistics().opened < u64::from(count) {
        test.client.tick(Instant::from_nanos(1));
    }
    test.client.stop_opening();
    test
}

fn stream(profile: &Profile, count: u64) -> (u64, u64) {
    let messages = u64::from(profile.messages) * count;
    (messages * u64::from(profile.request_bytes), messages * u64::from(profile.reply_bytes))
}

#[test]
fn a_short_connection_is_seven_packets_and_nothing_is_sent_twice() {
    let mut test = open(&Profile::default(), 100, 1, FaultRates::default());
    run_until_empty(&mut test, 5);
    let (client, server) = (test.client.statistics(), test.server.statistics());
    for (name, s) in [("client", client), ("server", server)] {
        assert_eq!((s.completed, s.failed.total()), (100, 0), "{name}");
        assert_eq!((s.retransmitted, s.rx_duplicate, s.rx_out_of_order), (0, 0, 0), "{name}");
        assert_eq!(s.rx_payload_bytes, 2000);
        assert_eq!(s.acknowledged_bytes, 2000);
        assert_eq!((s.rx_malformed, s.rx_bad_checksum, s.rx_foreign), (0, 0, 0));
    }
    // ARP adds at most one question and one answer per server address.
    let packets = client.tx_packets + server.tx_packets;
    assert!((700..=900).contains(&packets), "{packets}");
    assert_eq!((client.handshake_ns.count(), client.reply_ns.count()), (100, 100));
}

#[test]
fn every_built_in_profile_completes_over_a_good_network() {
    for name in Profile::BUILT_IN {
        let profile = Profile::built_in(name).unwrap().unwrap();
        let mut test = open(&profile, 20, 7, FaultRates::default());
        let took_ms = run_until_empty(&mut test, 40);
        let (client, server) = (test.client.statistics(), test.server.statistics());
        assert_eq!((client.completed, server.completed), (20, 20), "{name}");
        assert_eq!(client.retransmitted + server.retransmitted, 0, "{name}");
        let heard = (server.rx_payload_bytes, client.rx_payload_bytes);
        assert_eq!(heard, stream(&profile, 20), "{name}");
        if name == "long-lived" {
            assert!((25_000..27_500).contains(&took_ms), "{took_ms} ms");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let rates = FaultRates { lose_ppm: 50_000, duplicate_ppm: 20_000, reorder_ppm: 50_000 };
    let run = |seed| -> (Statistics, Statistics) {
        let mut test = open(&Profile::default(), 50, seed, rates);
        run_until_empty(&mut test, 300);
        (test.client.statistics().clone(), test.server.statistics().clone())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn nobody_there_is_unresolved_and_a_dead_server_times_out() {
    let nothing = FaultRates { lose_ppm: 1_000_000, ..FaultRates::default() };
    let mut test = open(&Profile::default(), 10, 3, nothing);
    run_until_empty(&mut test, 10);
    assert_eq!(test.client.statistics().failed.unresolved, 10);

    // The server answers ARP until the cable is cut.
    let profile = Profile { servers: "48.0.0.1".parse().unwrap(), ..Profile::default() };
    let mut test = open(&profile, 10, 3, FaultRates::default());
    test.carry(Instant::from_nanos(2));
    test.forth.rates = nothing;
    run_until_empty(&mut test, 100);
    let client = test.client.statistics();
    assert_eq!(client.failed.timed_out_opening, 10);
    assert_eq!(client.retransmitted_syn, 60, "six retries of each SYN");
}

#[test]
fn a_closed_port_refuses_and_a_full_server_is_silent() {
    let mut test = open(&Profile::default(), 10, 3, FaultRates::default());
    let other = Profile { tcp_ports: "81".parse().unwrap(), ..Profile::default() };
    let mac = MacAddr([2, 0, 0, 0, 0, 2]);
    let config = |profile, capacity| HostConfig {
        role: Role::Server,
        mac,
        vlan: None,
        gateway: None,
        profile,
        seed: 1,
        capacity,
    };
    test.server = Host::new(config(other, 10), Instant::ZERO).unwrap();
    run_until_empty(&mut test, 10);
    assert_eq!(test.client.statistics().failed.refused, 10);
    assert_eq!(test.server.statistics().accepted, 0);

    let mut test = open(&Profile::default(), 10, 3, FaultRates::default());
    test.server = Host::new(config(Profile::default(), 4), Instant::ZERO).unwrap();
    run_until_empty(&mut test, 60);
    assert_eq!(test.client.statistics().completed, 10);
    assert!(test.server.statistics().table_full >= 6);
}

#[test]
fn a_rate_is_kept_and_connections_at_once_are_bounded() {
    let profile = Profile { connections_per_second: Some(5000), ..Profile::default() };
    let mut test =
        SelfTest::new(&profile, 10_000, 1, FaultRates::default(), Instant::ZERO).unwrap();
    for step in 0..20_000u64 {
        test.step(Instant::from_nanos(step * 100_000), usize::MAX);
        assert!(test.client.alive() <= 10_000);
    }
    let client = test.client.statistics();
    assert!((9_990..=10_000).contains(&client.opened), "{}", client.opened);
    assert_eq!((client.at_limit, test.client.missed_opens()), (0, 0));
    // TIME-WAIT keeps each connection for half a second.
    assert!((2400..2700).contains(&test.client.alive()), "{}", test.client.alive());
    test.client.abort_all();
    let failed = test.client.statistics().failed;
    assert!(failed.aborted > 2400 && test.violations().is_empty());
}

fn any_profile() -> impl Strategy<Value = Profile> {
    let sizes = (1u32..6, 1u32..4000, 1u32..4000, prop_oneof![Just(0u32), 1u32..40]);
    let ways = prop_oneof![Just(Close::ClientFin), Just(Close::ServerFin)];
    let udp = prop_oneof![Just(0.0), Just(50.0), Just(100.0)];
    (
        sizes,
        ways,
        udp,
        0u32..40,
        any::<bool>(),
        prop_oneof![Just(65_535u32), Just(2000), Just(1 << 20)],
    )
        .prop_map(
            |((messages, request, reply, wait), close, udp_percent, think, v6, window)| {
                let bound = |bytes: u32| if udp_percent > 0.0 { bytes % 1453 + 4 } else { bytes };
                let mut profile = Profile {
                    messages,
                    request_bytes: bound(request),
                    reply_bytes: bound(reply),
                    server_wait_ms: wait,
                    think_time_ms: think,
                    close,
                    udp_percent,
                    window_bytes: window,
                    initial_rto_ms: 200,
                    // Loss of 20% each way fails one exchange in three: 40 tries in a row do not fail.
                    retries: 40,
                    syn_retries: 40,
                    max_rto_ms: 1000,
                    time_wait_ms: 10_000,
                    idle_timeout_ms: 600_000,
                    servers: "48.0.0.1-48.0.0.3".parse().unwrap(),
                    ..Profile::default()
                };
                if v6 {
                    profile.clients = "fd00::1-fd00::ff".parse().unwrap();
                    profile.servers = "fd01::1-fd01::3".parse().unwrap();
                }
                profile
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// Below 20% loss, with reordering and duplication, every connection completes, every byte arrives once
    /// and in order (otherwise `corrupted`), and all is accounted for.
    #[test]
    fn everything_completes_over_a_bad_network(
        profile in any_profile(), seed in any::<u64>(),
        lose_ppm in 0u32..200_000, duplicate_ppm in 0u32..100_000, reorder_ppm in 0u32..200_000,
    ) {
        let count = 30;
        let mut test = open(&profile, count, seed, FaultRates { lose_ppm, duplicate_ppm, reorder_ppm });
        // Address resolution sends three questions, all of which 20% loss can drop.
        let client_unresolved = |test: &SelfTest| test.client.statistics().failed.unresolved;
        run_until_empty(&mut test, 1000);
        let unresolved = client_unresolved(&test);
        let (client, server) = (test.client.statistics(), test.server.statistics());
        prop_assert_eq!(client.completed + unresolved, u64::from(count), "{:?}", client.failed);
        prop_assert_eq!(client.failed.total(), unresolved);
        prop_assert_eq!(server.failed.total(), 0, "{:?}", server.failed);
        let (asked, answered) = stream(&profile, client.completed);
        prop_assert_eq!(client.rx_payload_bytes, answered);
        if profile.udp_percent == 0.0 {
            prop_assert_eq!(server.completed, client.completed);
            prop_assert_eq!(server.rx_payload_bytes, asked);
            prop_assert_eq!(client.acknowledged_bytes, asked);
            prop_assert_eq!(server.acknowledged_bytes, answered);
        } else {
            // A request that arrives after its server has forgotten the exchange starts a new one.
            prop_assert!(server.rx_payload_bytes >= asked);
        }
        let lost = test.forth.lost + test.back.lost;
        let again = client.retransmitted + server.retransmitted;
        prop_assert!(lost == 0 || again > 0 || lost < 30, "{} lost, {} again", lost, again);
    }

    /// Closing by RST: the client completes; a server whose RST was lost times out.
    #[test]
    fn resets_close_over_a_bad_network(seed in any::<u64>(), lose_ppm in 0u32..100_000) {
        let profile = Profile {
            close: Close::ClientReset, servers: "48.0.0.1".parse().unwrap(), ..Profile::default()
        };
        let mut test = open(&profile, 30, seed, FaultRates { lose_ppm, ..FaultRates::default() });
        run_until_empty(&mut test, 1000);
        let (client, server) = (test.client.statistics(), test.server.statistics());
        let unresolved = client.failed.unresolved;
        prop_assert_eq!((client.completed + unresolved, client.failed.total()), (30, unresolved));
        prop_assert_eq!(server.completed + server.failed.total(), server.accepted);
        prop_assert_eq!(server.failed.total(), 0);
    }
}
