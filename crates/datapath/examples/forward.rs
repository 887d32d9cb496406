//! Short runs for `valgrind --tool=callgrind`, which counts instructions independently of other load:
//! `forward plain|tracked|nat|zones|ipv6|pings|half|tenth|vxlan-out|vxlan-in|vxlan-tracked CONNECTIONS
//! PACKETS`. `zones` tracks packets in two zones in sequence, `ipv6` tracks IPv6, and `pings` tracks ICMP.
//! With `half` and `tenth`, that share of the connections is cached, and packets of the others, in between,
//! walk. The last three have a VXLAN tunnel behind port 2: packets are encapsulated, decapsulated, or both
//! with tracking. First run `cargo build --release -p datapath --example forward`. Prints nanoseconds per
//! packet; the difference between two numbers of packets excludes the set-up.

use base::{Instant, MacAddr, PortNo, RecircId, WorkerId, Zone};
use conntrack::{Config, Conntrack};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{
    Action, CtAction, CtState, Field, FlowCommand, FlowId, FlowKey, FlowPut, Match, Nat, NatKind,
    NatRange, SetField, TunnelKind, TunnelPush,
};
use packet::Batch;
use port::RxQueue;
use port::pcap::{Capture, PcapRx, PcapTx, Play};
use std::sync::Arc;
use std::time::Duration;
use tunnel::{Outer, TunnelConfig};

const NOW: Instant = Instant::from_millis(1_000_000);
/// Recirculation id of tracked packets: after the only zone or the second of two.
const TRACKED: RecircId = RecircId(1);
/// The tunnel's port.
const TUNNEL: u32 = 9;
/// Bytes in front of the inner frame in VXLAN over IPv4.
const OUTER_BYTES: usize = 50;
/// Recirculation id after the first of two zones.
const BETWEEN: RecircId = RecircId(2);

/// The TTL of packets that are not cached.
const WALKS_TTL: u8 = 9;

/// The scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Tracked,
    Nat,
    Zones,
    Ipv6,
    Pings,
    VxlanOut,
    VxlanIn,
    VxlanTracked,
    /// One in this many connections is cached.
    OneOf(u32),
}

impl Kind {
    fn has_tunnel(self) -> bool {
        matches!(self, Kind::VxlanOut | Kind::VxlanIn | Kind::VxlanTracked)
    }

    /// The input ports of the measured packets.
    fn ports(self) -> &'static [u32] {
        match self {
            Kind::VxlanOut => &[1],
            Kind::VxlanIn => &[2],
            _ => &[1, 2],
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let kind = match words.first().map(String::as_str) {
        None | Some("plain") => Kind::Plain,
        Some("tracked") => Kind::Tracked,
        Some("nat") => Kind::Nat,
        Some("zones") => Kind::Zones,
        Some("ipv6") => Kind::Ipv6,
        Some("pings") => Kind::Pings,
        Some("half") => Kind::OneOf(2),
        Some("tenth") => Kind::OneOf(10),
        Some("vxlan-out") => Kind::VxlanOut,
        Some("vxlan-in") => Kind::VxlanIn,
        Some("vxlan-tracked") => Kind::VxlanTracked,
        Some(word) => panic!("'{word}' is none of those that the file's head names"),
    };
    let number = |at: usize, default| words.get(at).map_or(default, |it| it.parse().expect(it));
    let (connections, packets) = (number(1, 1000), number(2, 1_000_000));
    let mut worker = worker(kind);
    let forward: Vec<Vec<u8>> = (0..connections as u32).map(|it| frame(kind, it)).collect();
    let mut out = Outbox::new();
    let mut first = PcapRx::new(capture(&forward), Play::Once);
    let first = play(&mut worker, &mut out, PortNo(1), &mut first, forward.len());
    let answers: Vec<Vec<u8>> = first.iter().map(|frame| answer(kind, frame)).collect();
    let mut queues = [&forward, &answers].map(|frames| PcapRx::new(capture(frames), Play::Loop));
    // Several times, to fill the caches.
    for _ in 0..4 {
        for (port, queue) in (1..).zip(&mut queues) {
            play(&mut worker, &mut out, PortNo(port), queue, connections);
        }
        worker.tick_alone();
    }
    let (start, mut done) = (std::time::Instant::now(), 0);
    while done < packets {
        for (port, queue) in (1..).zip(&mut queues).filter(|(port, _)| kind.ports().contains(port))
        {
            done += iterate(&mut worker, &mut out, PortNo(port), queue, |_| {});
        }
    }
    let elapsed = start.elapsed();
    let stats = worker.stats();
    println!(
        "{done} packets, {:.1} ns each; {} of {} passes known, {} dropped",
        elapsed.as_nanos() as f64 / done as f64,
        stats.unified_hits,
        stats.exact_hits + stats.megaflow_hits,
        stats.drops.total()
    );
}

fn worker(kind: Kind) -> Worker {
    let conntrack = Arc::new(Conntrack::new(7, Config::default()));
    let tracker = conntrack.tracker().expect("one thread is not too many");
    let upcalls = Arc::new(UpcallQueue::new());
    let mut worker = Worker::new(WorkerId(0), tracker, upcalls, WorkerConfig::default(), 7);
    let mut flows = Vec::new();
    let ways = if kind.has_tunnel() { [(1u32, 2u32), (TUNNEL, 1)] } else { [(1, 2), (2, 1)] };
    if kind.has_tunnel() {
        flows.push(opening());
    }
    for (port, to) in ways {
        let output = Action::Output(PortNo(to));
        let push = (kind.has_tunnel() && to == 2).then(|| Action::TunnelPush(Arc::new(vxlan())));
        let from = |recirc: u32| {
            let matching = match port {
                TUNNEL => Match::any().with(Field::TunId, 101).with(Field::TunIpv6Src, 0x0a00_0002),
                _ => Match::any(),
            };
            matching
                .with(Field::InPort, port.into())
                .with(Field::RecircId, recirc.into())
                .with(Field::EthType, if kind == Kind::Ipv6 { 0x86dd } else { 0x0800 })
                .with(Field::NwFrag, 0)
        };
        let with_push =
            |actions: Vec<Action>| push.iter().cloned().chain(actions).collect::<Vec<_>>();
        if matches!(kind, Kind::Plain | Kind::VxlanOut | Kind::VxlanIn) {
            flows.push((from(0), with_push(vec![output])));
            continue;
        }
        let nat = (kind == Kind::Nat).then_some(Nat::Restore);
        let mut begin = RecircId(0);
        if kind == Kind::Zones {
            // All packets commit here, so that only the second zone decides further.
            let ct = CtAction { commit: true, zone: Zone(9), ..CtAction::default() };
            flows.push((from(0), vec![Action::Ct(Box::new(ct)), Action::Recirc(BETWEEN)]));
            begin = BETWEEN;
        }
        let ct = Action::Ct(Box::new(CtAction { nat, ..CtAction::default() }));
        if let Kind::OneOf(_) = kind {
            // A path with an action between `ct` and `recirc` is not cached.
            let set = Action::Set(SetField { field: Field::NwTos, value: 0, mask: 0x3 });
            let walks = vec![ct.clone(), set, Action::Recirc(TRACKED)];
            flows.push((from(begin.0).with(Field::NwTtl, WALKS_TTL.into()), walks));
            let cached = from(begin.0).with(Field::NwTtl, 64);
            flows.push((cached, vec![ct, Action::Recirc(TRACKED)]));
        } else {
            flows.push((from(begin.0), vec![ct, Action::Recirc(TRACKED)]));
        }
        let state = |state: CtState| {
            let of = (CtState::NEW | CtState::EST | CtState::TRK).bits().into();
            from(TRACKED.0).with_masked(Field::CtState, (state | CtState::TRK).bits().into(), of)
        };
        flows.push((state(CtState::EST), with_push(vec![output.clone()])));
        let nat = (kind == Kind::Nat).then(source_nat);
        let commit = CtAction { commit: true, nat, ..CtAction::default() };
        let commit = [vec![Action::Ct(Box::new(commit))], with_push(vec![output])].concat();
        flows.push((state(CtState::NEW), commit));
    }
    for (id, (matching, actions)) in (1..).zip(flows) {
        let put = FlowPut { id: FlowId(id), matching, actions: actions.into() };
        worker.command(NOW, FlowCommand::Put(Box::new(put)), &mut Outbox::new());
    }
    worker
}

/// The flow that decapsulates.
fn opening() -> (Match, Vec<Action>) {
    let matching = Match::any()
        .with(Field::InPort, 2)
        .with(Field::RecircId, 0)
        .with(Field::EthType, 0x0800)
        .with(Field::Ipv4Dst, 0x0a00_0001)
        .with(Field::NwProto, 17)
        .with(Field::NwFrag, 0)
        .with(Field::TpDst, 4789);
    let port = PortNo(TUNNEL);
    (matching, vec![Action::TunnelPop { port, end: TunnelKind::Vxlan.into() }])
}

/// The encapsulation.
fn vxlan() -> TunnelPush {
    let options = [("remote_ip", "10.0.0.2"), ("key", "101")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let config = TunnelConfig::parse(TunnelKind::Vxlan, "vxlan0", &options).config.expect("valid");
    let outer = Outer {
        ethernet: (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])),
        source: "10.0.0.1".parse().expect("an address"),
        destination: "10.0.0.2".parse().expect("an address"),
        tos: 0,
        ttl: 64,
        dont_fragment: true,
        checksum: false,
        oam: false,
        key: 101,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    TunnelPush {
        port: PortNo(TUNNEL),
        out_port: PortNo(2),
        kind: TunnelKind::Vxlan,
        strips_ethernet: false,
        source_ports: tunnel::SOURCE_PORTS,
        header: tunnel::build(&config, &outer).expect("VXLAN can say that"),
        frame_max: u32::MAX,
        answer: FlowKey::new(),
        copies_ecn: false,
        sequence: flow::TunnelSequence::default(),
    }
}

fn source_nat() -> Nat {
    let [first, last] = ["20.0.0.1", "20.0.0.255"].map(|it| it.parse().expect("an address"));
    Nat::Rewrite(NatRange {
        kind: NatKind::Src,
        addresses: Some((first, last)),
        ports: None,
        selection: flow::PortSelection::Default,
        persistent: false,
    })
}

/// The first packet of a connection, of 60 bytes; UDP over IPv4 has no checksum. IPv6 takes 80 bytes, with a
/// checksum.
fn frame(kind: Kind, number: u32) -> Vec<u8> {
    let [a, b, c, _] = (number << 8).to_be_bytes();
    let port = 1024 + number.wrapping_mul(2_654_435_761) % 60_000;
    if kind == Kind::Ipv6 {
        let text = format!("[fd00::{number:x}]:{port}>[fd01::1]:8080 udp len=18");
        return wire::text::parse(&text).expect("a packet");
    }
    if kind == Kind::Pings {
        let text = format!("16.{a}.{b}.{c}>48.0.0.1 icmp-echo id={port} seq=1 len=18");
        return wire::text::parse(&text).expect("a packet");
    }
    let ttl = match kind {
        // In an order that does not correlate with batches.
        Kind::OneOf(several)
            if !(number.wrapping_mul(2_654_435_761) >> 8).is_multiple_of(several) =>
        {
            WALKS_TTL
        }
        _ => 64,
    };
    let text = format!("16.{a}.{b}.{c}:{port}>48.0.0.1:8080 udp len=18 ttl={ttl}");
    let mut bytes = wire::text::parse(&text).expect("a packet");
    bytes[40..42].fill(0);
    bytes
}

/// Swaps addresses and ports; of an outer packet only the addresses.
fn answer(kind: Kind, frame: &[u8]) -> Vec<u8> {
    if kind.has_tunnel() {
        let (outer, inner) = frame.split_at(OUTER_BYTES);
        let mut back = outer.to_vec();
        back[..6].copy_from_slice(&outer[6..12]);
        back[6..12].copy_from_slice(&outer[..6]);
        back[26..30].copy_from_slice(&outer[30..34]);
        back[30..34].copy_from_slice(&outer[26..30]);
        return [back, answer(Kind::Plain, inner)].concat();
    }
    let mut back = frame.to_vec();
    let is_ipv6 = frame[12..14] == [0x86, 0xdd];
    let is_ping = !is_ipv6 && frame[23] == 1;
    // A ping has no ports, and its reply has another type.
    let v4 = [(0, 6, 6), (26, 30, 4), (34, 36, if is_ping { 0 } else { 2 })];
    let v6 = [(0, 6, 6), (22, 38, 16), (54, 56, 2)];
    for (a, b, len) in if is_ipv6 { v6 } else { v4 } {
        back[a..a + len].copy_from_slice(&frame[b..b + len]);
        back[b..b + len].copy_from_slice(&frame[a..a + len]);
    }
    if is_ping {
        back[34] = 0;
        wire::builder::fill_checksums(&mut back[14..]);
    }
    back
}

fn capture(frames: &[Vec<u8>]) -> Capture {
    let mut bytes = Vec::new();
    let mut file = PcapTx::new(&mut bytes, || Duration::ZERO).expect("memory takes it");
    for frame in frames {
        file.record(Duration::ZERO, frame).expect("memory takes it");
    }
    drop(file);
    Capture::parse(bytes).expect("as it was written")
}

/// Sends this many packets. Returns the output.
fn play(
    worker: &mut Worker,
    out: &mut Outbox,
    port: PortNo,
    queue: &mut PcapRx,
    count: usize,
) -> Vec<Vec<u8>> {
    let (mut sent, mut done) = (Vec::new(), 0);
    while done < count {
        done += iterate(worker, out, port, queue, |frame| sent.push(frame.to_vec()));
    }
    sent
}

/// Sends a batch from one port to the other. Returns its number of packets.
fn iterate(
    worker: &mut Worker,
    out: &mut Outbox,
    port: PortNo,
    queue: &mut PcapRx,
    mut see: impl FnMut(&[u8]),
) -> usize {
    let mut batch = Batch::new();
    queue.receive(worker.pool(), &mut batch).expect("memory never fails");
    let received = batch.len();
    worker.receive(NOW, port, &mut batch, out);
    for (_, batch) in out.batches_mut() {
        for packet in batch.drain(..) {
            see(packet.data());
            worker.pool().give(packet);
        }
    }
    received
}
