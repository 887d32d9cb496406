//! Attacks on a whole switch in memory, each at its rate. Time is an argument and advances by the rate, so
//! that a test takes only as long as its work. All are bounded in count and time.

use base::{Instant, MacAddr, PortNo, WorkerId, limits};
use conntrack::{Config as ConntrackConfig, Conntrack};
use load::in_memory::{Cable, Switch};
use packet::{Batch, Pool};
use port::{PortError, RxQueue, TxCounters, TxQueue};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wire::TcpFlags;
use wire::builder::PacketBuilder;

/// Interval of the switch's periodic work.
const TICK: Duration = Duration::from_millis(100);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Connections are tracked; clients are on p0, servers on p1.
const TRACKED: &str = "table=0,priority=1,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=1,ip,ct_state=+trk+new,in_port=p0,actions=ct(commit),output:p1
table=1,priority=1,ip,ct_state=+trk+est,in_port=p0,actions=output:p1
table=1,priority=1,ip,ct_state=+trk+est,in_port=p1,actions=output:p0
table=1,priority=0,actions=drop";

type Frames = Arc<Mutex<VecDeque<Vec<u8>>>>;

struct From(Frames);

impl RxQueue for From {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        let mut frames = self.0.lock().unwrap();
        while !batch.is_full() {
            let Some(frame) = frames.pop_front() else { break };
            let mut packet = pool.take();
            packet.receive_copy(&frame);
            batch.push(packet);
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

struct Count(Arc<AtomicU64>);

impl TxQueue for Count {
    fn send(&mut self, pool: &mut Pool, batch: &mut Batch) -> TxCounters {
        let mut counters = TxCounters::default();
        for packet in batch.drain(..) {
            self.0.fetch_add(1, Relaxed);
            counters.packets += 1;
            counters.bytes += packet.len() as u64;
            pool.give(packet);
        }
        counters
    }
}

struct Network {
    switch: Switch,
    conntrack: Arc<Conntrack>,
    cables: Vec<Cable>,
    inputs: Vec<Frames>,
    sent: Vec<Arc<AtomicU64>>,
    now: Instant,
    ticked: Instant,
}

impl Network {
    fn new(ports: u16, flows: &str, connections_max: u32) -> Network {
        let config = ConntrackConfig { connections_max, ..ConntrackConfig::default() };
        let conntrack = Arc::new(Conntrack::new(7, config));
        let shared = Arc::clone(&conntrack);
        let switch = Switch::with_ports(ports, flows, WorkerId(0), shared).unwrap();
        let inputs: Vec<Frames> = (0..ports).map(|_| Frames::default()).collect();
        let sent: Vec<Arc<AtomicU64>> = (0..ports).map(|_| Arc::default()).collect();
        let cable = |(number, (frames, sent)): (usize, (&Frames, &Arc<AtomicU64>))| Cable {
            port: PortNo(number as u32 + 1),
            rx: Box::new(From(Arc::clone(frames))),
            tx: Box::new(Count(Arc::clone(sent))),
        };
        let cables = inputs.iter().zip(&sent).enumerate().map(cable).collect();
        let now = Instant::from_millis(1000);
        Network { switch, conntrack, cables, inputs, sent, now, ticked: now }
    }

    /// Sends frames into a port at this rate, and answers their misses.
    fn send(&mut self, port: usize, frames: impl IntoIterator<Item = Vec<u8>>, per_second: u64) {
        let mut frames = frames.into_iter().peekable();
        while frames.peek().is_some() {
            let count = frames.by_ref().take(limits::BATCH_SIZE).fold(0, |count, frame| {
                self.inputs[port].lock().unwrap().push_back(frame);
                count + 1
            });
            self.switch.iterate(self.now, &mut self.cables, port).unwrap();
            self.wait(Duration::from_nanos(count * 1_000_000_000 / per_second));
        }
    }

    /// Sends one frame. Returns the number of packets that left each port.
    fn send_one(&mut self, port: usize, frame: Vec<u8>) -> Vec<u64> {
        let before: Vec<u64> = self.sent.iter().map(|sent| sent.load(Relaxed)).collect();
        self.send(port, [frame], 1_000_000);
        self.sent.iter().zip(before).map(|(sent, before)| sent.load(Relaxed) - before).collect()
    }

    /// Advances time.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while end - self.ticked >= TICK {
            self.ticked = self.ticked + TICK;
            self.now = self.ticked;
            self.switch.keep_up(self.now);
            self.switch.settle(self.now);
            self.switch.tick(self.now);
        }
        self.now = end;
    }
}

fn mac(last: u32) -> MacAddr {
    let [_, a, b, c] = last.to_be_bytes();
    MacAddr([2, 0, 0, a, b, c])
}

fn udp(source: Ipv4Addr, ports: (u16, u16)) -> Vec<u8> {
    let ip = PacketBuilder::eth(mac(1), mac(2)).ipv4(source, SERVER);
    ip.udp(ports.0, ports.1).payload([0; 18]).build()
}

fn tcp(reply: bool, client: Ipv4Addr, port: u16, flags: TcpFlags, numbers: (u32, u32)) -> Vec<u8> {
    let eth = if reply { (mac(2), mac(1)) } else { (mac(1), mac(2)) };
    let ends = if reply { (SERVER, client) } else { (client, SERVER) };
    let ports = if reply { (80, port) } else { (port, 80) };
    let ip = PacketBuilder::eth(eth.0, eth.1).ipv4(ends.0, ends.1);
    ip.tcp(ports.0, ports.1).flags(flags).seq(numbers.0).ack(numbers.1).build()
}

/// Opens a connection from p0 to p1.
fn open(network: &mut Network) {
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (reply, flags, numbers) in
        [(false, syn, (1000, 0)), (true, syn | ack, (5000, 1001)), (false, ack, (1001, 5001))]
    {
        let frame = tcp(reply, CLIENT, 4000, flags, numbers);
        let out = network.send_one(usize::from(reply), frame);
        assert_eq!(out[usize::from(!reply)], 1, "the handshake: {out:?}");
    }
}

/// A packet of the open connection passes in each direction.
fn check_open(network: &mut Network, when: &str) {
    for reply in [false, true] {
        let numbers = if reply { (5001, 1001) } else { (1001, 5001) };
        let out =
            network.send_one(usize::from(reply), tcp(reply, CLIENT, 4000, TcpFlags::ACK, numbers));
        assert_eq!(
            out[usize::from(!reply)],
            1,
            "the open connection {when}, reply {reply}: {out:?}"
        );
    }
}

/// A random address other than the client's and the server's.
fn stranger(random: &mut fastrand::Rng) -> Ipv4Addr {
    Ipv4Addr::from(0x2000_0000 | random.u32(..0x1000_0000))
}

/// 50,000 SYNs at 100,000 per second into a table of 10,000.
#[test]
fn a_syn_flood_from_random_sources_ends_no_established_connection() {
    let mut network = Network::new(2, TRACKED, 10_000);
    let mut random = fastrand::Rng::with_seed(1);
    open(&mut network);
    for round in 0..50 {
        let flood: Vec<_> = (0..1000)
            .map(|_| {
                let (source, port) = (stranger(&mut random), random.u16(1024..));
                tcp(false, source, port, TcpFlags::SYN, (random.u32(..), 0))
            })
            .collect();
        network.send(0, flood, 100_000);
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
        let spray: Vec<_> = (0..1000)
            .map(|_| {
                let quoted = udp(stranger(&mut random), (random.u16(1..), random.u16(1..)));
                let ip = PacketBuilder::eth(mac(2), mac(1)).ipv4(stranger(&mut random), CLIENT);
                ip.icmp_error(3, random.u8(..16), 0, &quoted[14..42]).build()
            })
            .collect();
        network.send(1, spray, 20_000);
        assert_eq!(network.sent[0].load(Relaxed), before, "an error passed");
        assert_eq!(network.conntrack.connections(), 1);
        check_open(&mut network, &format!("in round {round}"));
    }
}

/// 20,000 source addresses at 20,000 per second.
#[test]
fn a_mac_flood_fills_a_bounded_table_and_other_ports_keep_forwarding() {
    let mut network = Network::new(4, "actions=normal", 1000);
    let between = |from: u32, to: u32| {
        let ip = PacketBuilder::eth(mac(from), mac(to)).ipv4(CLIENT, SERVER);
        ip.udp(1, 2).payload([0; 18]).build()
    };
    // Hosts on p1 and p2 are learned.
    network.send_one(1, between(1, 2));
    network.send_one(2, between(2, 1));
    for round in 0..20u32 {
        let flood = (0..1000).map(|n| between(0x10_0000 + round * 1000 + n, 0x0f_ffff));
        network.send(0, flood.collect::<Vec<_>>(), 20_000);
        assert!(network.switch.learned_addresses() <= limits::MAC_TABLE_SIZE);
        for (port, from, to, expect) in [(1, 1, 2, [0, 0, 1, 0]), (2, 2, 1, [0, 1, 0, 0])] {
            let out = network.send_one(port, between(from, to));
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
    let flows = "priority=20,tcp,tp_dst=80,actions=output:p1
priority=10,tcp,nw_dst=10.0.0.2,tp_dst=443,actions=output:p1
priority=1,actions=drop";
    let mut network = Network::new(2, flows, 1000);
    network.switch.set_flow_limit(LIMIT);
    let probe = |to: Ipv4Addr, port: u16| {
        let ip = PacketBuilder::eth(mac(1), mac(2)).ipv4(CLIENT, to);
        ip.tcp(4000, port).flags(TcpFlags::SYN).build()
    };
    let ports = (1000..21_000u16).map(|port| probe(SERVER, port));
    let addresses = (0..20_000).map(|n| probe(Ipv4Addr::from(0x0b00_0000 + n), 81));
    let scan: Vec<_> = ports.chain(addresses).collect();
    for part in scan.chunks(2000) {
        network.send(0, part.iter().cloned(), 50_000);
        assert!(network.switch.flow_count() <= LIMIT, "{} flows", network.switch.flow_count());
        assert_eq!(network.send_one(0, probe(SERVER, 80)), [0, 1], "the service");
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
    let flows = "priority=30,ip,nw_src=10.0.0.1,actions=output:p1
priority=20,udp,tp_dst=80,actions=output:p1
priority=10,udp,tp_src=12345,actions=output:p1
priority=1,actions=drop";
    let mut network = Network::new(2, flows, 1000);
    network.switch.disable_caches();
    let address = u32::from(CLIENT);
    let differ = |bits: u32, value: u32, at: u32| value ^ (1 << (bits - 1 - at));
    let mut attack = Vec::new();
    for a in 0..32 {
        for (b, c) in (0..16).flat_map(|b| (0..16).map(move |c| (b, c))) {
            let source = Ipv4Addr::from(differ(32, address, a));
            attack.push(udp(source, (differ(16, 12_345, b) as u16, differ(16, 80, c) as u16)));
        }
    }
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

/// 100,000 flow-mods, with a storm of 3,200 packets that each need a flow, 100,000 per second.
#[test]
fn a_storm_while_a_controller_sends_100_000_flow_mods_stops_neither() {
    let flows =
        "priority=10,udp,in_port=p0,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:p1
priority=10,udp,in_port=p1,actions=output:p0";
    let mut network = Network::new(3, flows, 1000);
    network.switch.set_flow_limit(300);
    let rules = network.switch.rule_count();
    for round in 0..100u32 {
        for n in 0..1000 {
            let to = Ipv4Addr::from(0x0c00_0000 + round * 1000 + n);
            let rule = format!("priority=20,udp,in_port=p2,nw_dst={to},actions=output:p1");
            network.switch.flow_mod(&rule, network.now).unwrap();
        }
        network.switch.settle(network.now);
        let storm = (0..32).map(|n| udp(CLIENT, ((round * 32 + n) as u16 + 1000, 7)));
        let before = network.sent[1].load(Relaxed);
        network.send(0, storm.collect::<Vec<_>>(), 100_000);
        assert_eq!(network.sent[1].load(Relaxed) - before, 32, "round {round}");
        assert_eq!(network.send_one(1, udp(SERVER, (7, 7))), [1, 0, 0], "round {round}");
        assert!(network.switch.flow_count() <= 300);
    }
    assert_eq!(network.switch.rule_count() - rules, 100_000);
}

/// ARP requests from new addresses, 32,000 per second and port; a handler that takes 64 upcalls per
/// millisecond; and a port that starts a flow each millisecond.
fn check_arp_storm(storm_ports: u16) {
    let mut network = Network::new(storm_ports + 2, "actions=normal", 1000);
    let (mut waiting, mut upcalls) = (VecDeque::new(), Vec::new());
    for ms in 0..200u32 {
        for port in 2..usize::from(storm_ports) + 2 {
            for n in 0..32 {
                let from = mac(0x10_0000 + (port as u32 * 200 + ms) * 32 + n);
                let frame = PacketBuilder::eth(from, MacAddr([0xff; 6]));
                let frame = frame.arp_request(CLIENT, SERVER);
                network.inputs[port].lock().unwrap().push_back(frame);
            }
            network.switch.work(network.now, &mut network.cables, port).unwrap();
        }
        let ip = PacketBuilder::eth(mac(0x20_0000 + ms), mac(9)).ipv4(CLIENT, SERVER);
        let frame = ip.udp(1, 2).payload([0; 18]).build();
        network.inputs[0].lock().unwrap().push_back(frame);
        network.switch.work(network.now, &mut network.cables, 0).unwrap();
        waiting.push_back(ms);
        network.switch.take_own_upcalls(64, &mut upcalls);
        for upcall in upcalls.drain(..) {
            if upcall.key.in_port() == PortNo(1) {
                let began = waiting.pop_front().unwrap();
                assert!(ms - began <= 2, "the flow of {began} ms was taken up at {ms} ms");
            }
            for (_, command) in network.switch.translate(network.now, upcall) {
                network.switch.carry_out(network.now, command, &mut network.cables);
            }
        }
        network.wait(Duration::from_millis(1));
    }
    // A refused upcall would still wait, and so would all after it.
    assert!(waiting.len() <= 2, "{} wait", waiting.len());
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

/// Memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Storms of each kind: packets that each need a flow, tracked connections, addresses.
fn storms(network: &mut Network, round: u32) {
    let mut random = fastrand::Rng::with_seed(round.into());
    for part in 0..20u32 {
        // 40,000 flows at 100,000 per second.
        let scan = (0..2000).map(|n| udp(CLIENT, ((part * 2000 + n) as u16, 7)));
        network.send(2, scan.collect::<Vec<_>>(), 100_000);
        // 20,000 connections at 100,000 per second.
        let syns = (0..1000).map(|_| {
            let (source, port) = (stranger(&mut random), random.u16(1024..));
            tcp(false, source, port, TcpFlags::SYN, (random.u32(..), 0))
        });
        network.send(0, syns.collect::<Vec<_>>(), 100_000);
        // 20,000 addresses at 20,000 per second.
        let addresses = (0..1000).map(|n| {
            let from = mac(0x10_0000 + part * 1000 + n);
            PacketBuilder::eth(from, MacAddr([0xff; 6])).arp_request(CLIENT, SERVER)
        });
        network.send(3, addresses.collect::<Vec<_>>(), 20_000);
    }
}

/// Set for the process that measures its own memory.
const MEASURES: &str = "TIDEGATE_TEST_MEASURES_MEMORY";

/// 40,000 flows, 20,000 connections and 20,000 addresses are created at once and removed. The next storm
/// reuses their memory: the process stays within 10% of its size after the first. Little memory returns to
/// the system: connection records are kept (ARCHITECTURE.md), and so is freed memory in the C library's
/// allocator.
#[test]
fn memory_that_storms_took_is_used_again() {
    if std::env::var_os(MEASURES).is_none() {
        // Other tests of this process allocate memory, too.
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "memory_that_storms_took_is_used_again", "--nocapture"]);
        let output = alone.env(MEASURES, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("resident"), "{said}");
        println!("{said}");
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
        storms(&mut network, round);
        let flows = network.switch.flow_count();
        assert!(flows > 40_000, "{flows} flows");
        let most = resident_bytes();
        network.wait(Duration::from_secs(400));
        assert!(network.switch.flow_count() <= 2, "{} flows", network.switch.flow_count());
        assert_eq!(network.conntrack.connections(), 1);
        rounds.push((most, resident_bytes()));
        check_open(&mut network, "afterwards");
    }
    let mb = |bytes: u64| bytes as f64 / (1 << 20) as f64;
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
