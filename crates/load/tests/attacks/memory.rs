//! Memory that attacks leave behind.
//!
//! Each test runs in a process of its own, since the tests of one process allocate memory beside each other.

use crate::network::{CLIENT, Network, SERVER, TRACKED, check_open, mac, open, udp};
use crate::storms;
use base::{MacAddr, limits};
use std::time::Duration;
use wire::builder::PacketBuilder;

/// Set for the process that measures its own memory.
const MEASURES: &str = "TIDEGATE_TEST_MEASURES_MEMORY";

/// Whether this process runs this test alone. If it does not, one that does runs here until it ends.
pub fn is_alone(name: &str) -> bool {
    if std::env::var_os(MEASURES).is_some() {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", name, "--nocapture"]);
    let output = alone.env(MEASURES, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(" MB before"), "{said}");
    println!("{said}");
    false
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// An attack, and what ends it.
struct Attack {
    /// How many parts it has.
    parts: u32,
    /// Sends one.
    part: fn(&mut Network, u32),
    /// How long its flows, connections and addresses stay, in seconds.
    stay: u64,
}

/// What is in use of the heap before an attack.
pub struct InUse {
    before: u64,
}

impl InUse {
    /// Measures what is in use before.
    pub fn before(network: &mut Network) -> InUse {
        // They grow with the traffic up to their settings, and keep their room.
        network.switch.disable_caches();
        settle(network);
        InUse { before: daemon::memory::in_use() }
    }

    /// Checks that what is in use is within 10% of that, once all that the attack made has expired, after so many
    /// seconds.
    pub fn check_back(&self, network: &mut Network, stay: u64) {
        let most = daemon::memory::in_use();
        network.wait(Duration::from_secs(stay));
        settle(network);
        let (before, after) = (self.before, daemon::memory::in_use());
        println!(
            "in use: {:.2} MB before, {:.2} in it, {:.2} after",
            mb(before),
            mb(most),
            mb(after)
        );
        assert!(after * 10 <= before * 11, "{before} bytes became {after}");
    }
}

/// Checks that an attack gives its memory back.
fn check(name: &str, make: impl FnOnce() -> Network, attack: &Attack) {
    if !is_alone(&format!("memory::{name}")) {
        return;
    }
    let mut network = make();
    let in_use = InUse::before(&mut network);
    (0..attack.parts).for_each(|part| (attack.part)(&mut network, part));
    in_use.check_back(&mut network, attack.stay);
}

/// Has a batch of packets, whose buffers the worker keeps, and lets their flows expire. Their misses are answered by
/// the newest tables, so that nothing holds older ones. A bridge that learns addresses floods only the first.
fn settle(network: &mut Network) {
    let packet = storms::between(1, 1);
    network.send_one(0, packet.clone());
    network.wait(Duration::from_secs(1));
    network.send(0, std::iter::repeat_n(packet, limits::BATCH_SIZE), 1_000_000);
    network.wait(Duration::from_secs(15));
}

fn tracked() -> Network {
    let mut network = Network::new(2, TRACKED, 10_000);
    open(&mut network);
    network
}

fn random(part: u32) -> fastrand::Rng {
    fastrand::Rng::with_seed(part.into())
}

#[test]
fn after_a_syn_flood_memory_is_back() {
    let part = |network: &mut Network, part| {
        network.send(0, storms::syns(&mut random(part)), 100_000);
    };
    let attack = Attack { parts: 50, part, stay: 300 };
    check("after_a_syn_flood_memory_is_back", tracked, &attack);
}

#[test]
fn after_a_spray_of_icmp_errors_memory_is_back() {
    let part = |network: &mut Network, part| {
        network.send(1, storms::icmp_errors(&mut random(part)), 20_000);
    };
    let attack = Attack { parts: 20, part, stay: 60 };
    check("after_a_spray_of_icmp_errors_memory_is_back", tracked, &attack);
}

#[test]
fn after_a_mac_flood_memory_is_back() {
    let part = |network: &mut Network, part| {
        network.send(0, storms::new_addresses(part), 20_000);
    };
    let make = || {
        let mut network = Network::new(4, "actions=normal", 1000);
        // The worker also keeps the buffers for a batch to all ports.
        let to_unknown = std::iter::repeat_n(storms::between(1, 9), limits::BATCH_SIZE);
        network.send(0, to_unknown, 1_000_000);
        network
    };
    check("after_a_mac_flood_memory_is_back", make, &Attack { parts: 20, part, stay: 400 });
}

#[test]
fn after_a_scan_memory_is_back() {
    let part = |network: &mut Network, part| {
        let all = storms::scan();
        let part = all.chunks(2000).nth(part as usize).unwrap_or_default();
        network.send(0, part.iter().cloned(), 50_000);
    };
    let make = || Network::new(2, storms::SERVICES, 1000);
    check("after_a_scan_memory_is_back", make, &Attack { parts: 20, part, stay: 60 });
}

#[test]
fn after_a_tuple_space_explosion_memory_is_back() {
    let part = |network: &mut Network, _| network.send(0, storms::masks(), 8192);
    let make = || Network::new(2, storms::FEW_BITS, 1000);
    let attack = Attack { parts: 1, part, stay: 60 };
    check("after_a_tuple_space_explosion_memory_is_back", make, &attack);
}

#[test]
fn after_an_arp_storm_from_one_port_memory_is_back() {
    let part = |network: &mut Network, _| storms::arp(network, 1, 200);
    let make = || Network::new(3, "actions=normal", 1000);
    let attack = Attack { parts: 1, part, stay: 400 };
    check("after_an_arp_storm_from_one_port_memory_is_back", make, &attack);
}

#[test]
fn after_an_arp_storm_from_sixteen_ports_memory_is_back() {
    let part = |network: &mut Network, _| storms::arp(network, 16, 200);
    let make = || {
        let mut network = Network::new(18, "actions=normal", 1000);
        // The worker keeps the buffers of a batch from each of these ports.
        storms::arp(&mut network, 16, 2);
        network
    };
    let attack = Attack { parts: 1, part, stay: 400 };
    check("after_an_arp_storm_from_sixteen_ports_memory_is_back", make, &attack);
}

/// Memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Storms of each kind: packets that each need a flow, tracked connections, addresses.
fn all_storms(network: &mut Network, round: u32) {
    let mut random = fastrand::Rng::with_seed(round.into());
    for part in 0..20u32 {
        // 40,000 flows at 100,000 per second.
        let scan = (0..2000).map(|n| udp(CLIENT, ((part * 2000 + n) as u16, 7)));
        network.send(2, scan.collect::<Vec<_>>(), 100_000);
        // 20,000 connections at 100,000 per second.
        network.send(0, storms::syns(&mut random), 100_000);
        // 20,000 addresses at 20,000 per second.
        let addresses = (0..1000).map(|n| {
            let from = mac(0x10_0000 + part * 1000 + n);
            PacketBuilder::eth(from, MacAddr([0xff; 6])).arp_request(CLIENT, SERVER)
        });
        network.send(3, addresses.collect::<Vec<_>>(), 20_000);
    }
}

/// 40,000 flows, 20,000 connections and 20,000 addresses are created at once and removed. The next storm
/// reuses their memory: the process stays within 10% of its size after the first. Little memory returns to
/// the system: connection records are kept (ARCHITECTURE.md), and so is freed memory in the C library's
/// allocator.
#[test]
fn memory_that_storms_took_is_used_again() {
    if !is_alone("memory::memory_that_storms_took_is_used_again") {
        return;
    }
    let flows = "table=0,priority=1,ip,ct_state=-trk,actions=ct(table=1)
table=0,priority=9,in_port=p2,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:p1
table=0,priority=9,arp,actions=normal
table=1,priority=1,ip,ct_state=+trk+new,in_port=p0,actions=ct(commit),output:p1
table=1,priority=1,ip,ct_state=+trk+est,in_port=p0,actions=output:p1
table=1,priority=1,ip,ct_state=+trk+est,in_port=p1,actions=output:p0
table=1,priority=0,actions=drop";
    let mut network = Network::new(4, flows, 30_000);
    open(&mut network);
    let before = resident_bytes();
    let mut rounds = Vec::new();
    for round in 0..2 {
        all_storms(&mut network, round);
        let flows = network.switch.flow_count();
        assert!(flows > 40_000, "{flows} flows");
        let most = resident_bytes();
        network.wait(Duration::from_secs(400));
        assert!(network.switch.flow_count() <= 2, "{} flows", network.switch.flow_count());
        assert_eq!(network.conntrack.connections(), 1);
        rounds.push((most, resident_bytes()));
        check_open(&mut network, "afterwards");
    }
    let [(most, after), (most_again, after_again)] = rounds[..] else { unreachable!() };
    println!(
        "resident: {:.1} MB before, {:.1} at most, {:.1} after; again {:.1}, {:.1}",
        mb(before),
        mb(most),
        mb(after),
        mb(most_again),
        mb(after_again)
    );
    assert!(mb(most_again) <= 1.1 * mb(most), "a second storm takes more");
    assert!(mb(after_again) <= 1.1 * mb(after), "a second storm leaves more behind");
}
