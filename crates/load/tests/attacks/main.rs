//! Attacks on a whole switch in memory, each at its rate. Time is an argument and advances by the rate, so
//! that a test takes only as long as its work. All are bounded in count and time, and leave no memory behind.

mod memory;
mod network;
mod storms;

use base::limits;
use memory::{InUse, is_alone};
use network::{CLIENT, Network, SERVER, TRACKED, check_open, open, udp};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// 50,000 SYNs at 100,000 per second into a table of 10,000.
#[test]
fn a_syn_flood_from_random_sources_ends_no_established_connection() {
    let mut network = Network::new(2, TRACKED, 10_000);
    let mut random = fastrand::Rng::with_seed(1);
    open(&mut network);
    for round in 0..50 {
        network.send(0, storms::syns(&mut random), 100_000);
        check_open(&mut network, &format!("in round {round}"));
        assert!(network.conntrack.connections() <= 10_000);
    }
    assert!(network.switch.flow_count() <= 8, "{} flows", network.switch.flow_count());
    // SYNs without an answer time out; the open connection's timeout is a day.
    network.wait(Duration::from_secs(300));
    assert_eq!(network.conntrack.connections(), 1);
    check_open(&mut network, "afterwards");
}

/// 20,000 errors at 20,000 per second.
#[test]
fn icmp_errors_that_quote_unknown_packets_make_no_connection_and_pass_nowhere() {
    let mut network = Network::new(2, TRACKED, 10_000);
    let mut random = fastrand::Rng::with_seed(2);
    open(&mut network);
    for round in 0..20 {
        let before = network.sent[0].load(Relaxed);
        network.send(1, storms::icmp_errors(&mut random), 20_000);
        assert_eq!(network.sent[0].load(Relaxed), before, "an error passed");
        assert_eq!(network.conntrack.connections(), 1);
        check_open(&mut network, &format!("in round {round}"));
    }
}

/// 20,000 source addresses at 20,000 per second.
#[test]
fn a_mac_flood_fills_a_bounded_table_and_other_ports_keep_forwarding() {
    let mut network = Network::new(4, "actions=normal", 1000);
    // Hosts on p1 and p2 are learned.
    network.send_one(1, storms::between(1, 2));
    network.send_one(2, storms::between(2, 1));
    for round in 0..20u32 {
        network.send(0, storms::new_addresses(round), 20_000);
        assert!(network.switch.learned_addresses() <= limits::MAC_TABLE_SIZE);
        for (port, from, to, expect) in [(1, 1, 2, [0, 0, 1, 0]), (2, 2, 1, [0, 1, 0, 0])] {
            let out = network.send_one(port, storms::between(from, to));
            assert_eq!(out, expect, "round {round}, from port {port}");
        }
    }
    // Flows that the flood installed are removed when they are idle.
    network.wait(Duration::from_secs(15));
    assert!(network.switch.flow_count() <= 4, "{} flows", network.switch.flow_count());
}

/// 20,000 ports of one address and one port of 20,000 addresses, at 50,000 per second, with a flow limit of
/// 1,000.
#[test]
fn a_scan_takes_no_more_flows_than_may_be_and_leaves_none() {
    const LIMIT: usize = 1000;
    let mut network = Network::new(2, storms::SERVICES, 1000);
    network.switch.set_flow_limit(LIMIT);
    for part in storms::scan().chunks(2000) {
        network.send(0, part.iter().cloned(), 50_000);
        assert!(network.switch.flow_count() <= LIMIT, "{} flows", network.switch.flow_count());
        assert_eq!(network.send_one(0, storms::probe(SERVER, 80)), [0, 1], "the service");
    }
    assert_eq!(network.sent[1].load(Relaxed), 20, "nothing but the service passed");
    network.wait(Duration::from_secs(15));
    assert!(network.switch.flow_count() <= 1, "{} flows", network.switch.flow_count());
}

/// Masks after Csikor et al., "Tuple Space Explosion: A Denial-of-Service Attack Against a Software Packet
/// Classifier" (CoNEXT 2019): 8,192 packets at 8,192 per second, each of which first differs from the rules'
/// match in another bit of address and ports, among 128,000 of established traffic. The caches are off, so that
/// every established packet is looked up in the tuple space.
#[test]
fn established_traffic_keeps_half_its_rate_in_a_tuple_space_explosion() {
    let mut network = Network::new(2, storms::FEW_BITS, 1000);
    network.switch.disable_caches();
    let attack = storms::masks();
    // Of one rule after the other, so that no packet is looked up like the one before it.
    let others = [(Ipv4Addr::new(10, 1, 0, 1), 80), (Ipv4Addr::new(10, 2, 0, 1), 2000)];
    let of = |n: u16| match n % 3 {
        0 => udp(CLIENT, (1000 + n % 64, 2000)),
        1 => udp(others[0].0, (1000 + n % 64, others[0].1)),
        _ => udp(others[1].0, (12_345, others[1].1)),
    };
    let packets: Vec<_> = (0..999).map(of).collect();
    // The processor's time for these packets, and the subtables that their lookups visit.
    let established = |network: &mut Network| {
        let (before, sent) = (network.switch.stats().clone(), network.sent[1].load(Relaxed));
        let began = clock::thread_time();
        network.send(0, packets.iter().cloned(), 1_000_000);
        let took = clock::thread_time() - began;
        let (stats, sent) = (network.switch.stats(), network.sent[1].load(Relaxed) - sent);
        assert_eq!(sent, packets.len() as u64, "established packets are lost");
        (took, stats.subtables - before.subtables)
    };
    let alone: Vec<_> = (0..128).map(|_| established(&mut network)).collect();
    // Both at once: one packet in 17 is the attacker's.
    let attacked: Vec<_> = attack
        .chunks(64)
        .map(|part| {
            network.send(0, part.iter().cloned(), 8192);
            established(&mut network)
        })
        .collect();
    assert_eq!(network.switch.stats().exact_hits, 0, "the caches are off");
    let subtables = network.switch.mask_count();
    // Each packet of the attack makes one; the established traffic has a few more.
    let made = attack.len()..attack.len() + 8;
    assert!(made.contains(&subtables), "{subtables} subtables of {} packets", attack.len());
    // Of the second half, in which most subtables are there. Medians, since other programs slow single parts down.
    let median = |parts: &[(Duration, u64)]| {
        let (mut times, mut visits): (Vec<_>, Vec<_>) = parts[64..].iter().copied().unzip();
        times.sort_unstable();
        visits.sort_unstable();
        (times[times.len() / 2], visits[visits.len() / 2])
    };
    let [(alone, visits_alone), (attacked, visits)] = [median(&alone), median(&attacked)];
    println!("{alone:?} and {visits_alone} visits became {attacked:?} and {visits}");
    assert!(visits < 2 * visits_alone, "{visits_alone} visits of subtables became {visits}");
    assert!(attacked < 2 * alone, "{alone:?} for 999 packets became {attacked:?}");
    network.wait(Duration::from_secs(15));
    assert!(network.switch.flow_count() <= 1, "{} flows", network.switch.flow_count());
}

/// 100,000 flow-mods, with a storm of 3,200 packets that each need a flow, 100,000 per second. The controller
/// deletes its rules in the end, and their memory is back.
#[test]
fn a_storm_while_a_controller_sends_100_000_flow_mods_stops_neither() {
    if !is_alone("a_storm_while_a_controller_sends_100_000_flow_mods_stops_neither") {
        return;
    }
    let mut network = Network::new(3, storms::PER_SOURCE, 1000);
    network.switch.set_flow_limit(300);
    let in_use = InUse::before(&mut network);
    let rules = network.switch.rule_count();
    for round in 0..100u32 {
        let before = network.sent[1].load(Relaxed);
        storms::flow_mods(&mut network, round);
        assert_eq!(network.sent[1].load(Relaxed) - before, 32, "round {round}");
        assert_eq!(network.send_one(1, udp(SERVER, (7, 7))), [1, 0, 0], "round {round}");
        assert!(network.switch.flow_count() <= 300);
    }
    assert_eq!(network.switch.rule_count() - rules, 100_000);
    network.switch.delete_flows("in_port=p2", network.now).unwrap();
    in_use.check_back(&mut network, 60);
    assert_eq!(network.switch.rule_count(), rules);
}

/// Checks that the port beside an ARP storm waits at most 2 ms for its flows.
fn check_arp_storm(storm_ports: u16) {
    let mut network = Network::new(storm_ports + 2, "actions=normal", 1000);
    storms::arp(&mut network, storm_ports, 200);
    assert!(network.switch.learned_addresses() <= limits::MAC_TABLE_SIZE);
}

#[test]
fn an_arp_storm_from_one_port_keeps_no_other_port_waiting() {
    check_arp_storm(1);
}

#[test]
fn an_arp_storm_from_sixteen_ports_keeps_no_other_port_waiting() {
    check_arp_storm(16);
}
