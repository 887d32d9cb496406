//! The table with a device that records, ages, fills up and fails on demand.

use super::*;
use base::{WorkerId, Zone};
use conntrack::{Config, Tracker};
use flow::{Action, CtAction, FlowCommand, Frame, Headers, OffloadRule, OffloadTunnel, TunnelKind};
use packet::Packet;
use std::sync::Arc;

const START: Instant = Instant::from_millis(1_000_000);

fn after_ms(ms: u64) -> Instant {
    Instant::from_millis(1_000_000 + ms)
}

/// Records its rules, and returns the counters that tests set.
#[derive(Default)]
struct Recorder {
    rules: BTreeMap<OffloadId, (ConnectionRef, Duration)>,
    told: HashMap<OffloadId, OffloadStatus>,
    room: Option<usize>,
    fails: bool,
    marks: bool,
    next: u32,
}

fn out_of_order() -> OffloadRefusal {
    OffloadRefusal { kind: Refusal::Device, words: Some("out of order".into()) }
}

impl FlowOffload for Recorder {
    fn install(&mut self, rule: &OffloadRule, idle: Duration) -> Result<OffloadId, OffloadRefusal> {
        if self.fails {
            return Err(out_of_order());
        }
        if self.room.is_some_and(|room| self.rules.len() >= room) {
            return Err(Refusal::Full.into());
        }
        self.next += 1;
        let id = OffloadId(self.next);
        self.rules.insert(id, (rule.connection, idle));
        Ok(id)
    }

    fn only_marks(&self, _id: OffloadId) -> Option<OffloadRefusal> {
        self.marks.then(out_of_order)
    }

    fn remove(&mut self, id: OffloadId) -> OffloadTraffic {
        assert!(self.rules.remove(&id).is_some(), "{id:?} is removed once");
        self.told.remove(&id).unwrap_or_default().traffic
    }

    fn status(&mut self, id: OffloadId) -> OffloadStatus {
        assert!(self.rules.contains_key(&id));
        self.told.remove(&id).unwrap_or_default()
    }

    fn passed(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// An offer for packets of a UDP connection over these flows, from port 1 to port 2.
pub(in crate::offload) fn offer(connection: u32, flows: &[u64]) -> OffloadOffer {
    let mut headers = Headers::none();
    let frame = wire::text::parse("10.0.0.1:1>10.0.0.2:53 udp").unwrap();
    assert!(headers.read(&frame, PortNo(1)).is_some());
    let rule = OffloadRule {
        headers,
        mask: headers.tuple_mask(),
        connection: ConnectionRef { id: connection, generation: 0, is_reply: false },
        second: None,
        copies_ecn: false,
        mark: None,
        nat_rewrite: None,
        actions: Arc::new([Action::Output(PortNo(2))]),
        tunnel: None,
    };
    let flows = flows.iter().map(|id| FlowId(*id)).collect();
    OffloadOffer { worker: WorkerId(0), rule, flows }
}

struct Bench {
    conntrack: Arc<Conntrack>,
    tracker: Tracker,
    table: Table,
    device: Recorder,
    changes: Changes,
}

impl Bench {
    fn new() -> Bench {
        let conntrack = Arc::new(Conntrack::new(1, Config::default()));
        let tracker = conntrack.tracker().unwrap();
        let (table, device) = (Table::default(), Recorder::default());
        Bench { conntrack, tracker, table, device, changes: Changes::default() }
    }

    fn track(&mut self, text: &str) -> ConnectionRef {
        let packet = Packet::from_bytes(&wire::text::parse(text).unwrap());
        let mut frames = [Frame::parse(packet, PortNo(1)).unwrap()];
        let action = CtAction { commit: true, zone: Zone(1), ..CtAction::default() };
        self.tracker.execute(START, &action, &mut frames);
        frames[0].connection.unwrap()
    }

    /// An established connection's offer, from a client's port.
    fn offer(&mut self, port: u16, flows: &[u64]) -> OffloadOffer {
        self.track(&format!("10.0.0.1:{port}>10.0.0.2:53 udp"));
        let reply = self.track(&format!("10.0.0.2:53>10.0.0.1:{port} udp"));
        let mut offer = offer(0, flows);
        offer.rule.connection = ConnectionRef { is_reply: false, ..reply };
        offer
    }

    fn install(&mut self, offers: Vec<OffloadOffer>) {
        self.table.wait(START, 0, offers, &self.changes);
        let Bench { conntrack, table, device, changes, .. } = self;
        table.install(device, conntrack, after_ms(49), changes, usize::MAX);
        assert!(device.rules.is_empty() || table.totals.installed > 0, "they wait");
        table.install(device, conntrack, after_ms(50), changes, usize::MAX);
    }

    fn sweep(&mut self, now: Instant) -> Vec<Credit> {
        let Bench { conntrack, table, device, .. } = self;
        table.sweep(device, conntrack, now, usize::MAX);
        table.take_credits()
    }

    fn refused(&self) -> Vec<(Refusal, u64)> {
        self.table.totals.refused.iter().map(|(refusal, count)| (*refusal, *count)).collect()
    }

    fn forwards(&mut self, id: u32, packets: u64) {
        let traffic = OffloadTraffic { packets, bytes: packets * 64 };
        self.device
            .told
            .insert(OffloadId(id), OffloadStatus { traffic, ..OffloadStatus::default() });
    }
}

#[test]
fn flows_and_connections_are_credited_and_kept_alive() {
    let mut bench = Bench::new();
    let offer = bench.offer(1000, &[10, 11]);
    let connection = offer.rule.connection;
    bench.install(vec![offer]);
    assert_eq!(bench.device.rules[&OffloadId(1)], (connection, Duration::from_secs(30)));
    assert_eq!(bench.table.connections(), (1, 0));
    for step in 1..5 {
        bench.forwards(1, 100);
        let traffic = OffloadTraffic { packets: 100, bytes: 6400 };
        let credit =
            |flow| Credit { worker: WorkerId(0), flow: FlowId(flow), traffic, tcp_flags: 0 };
        assert_eq!(bench.sweep(after_ms(step * 20_000)), [credit(10), credit(11)]);
    }
    let entry = bench.tracker.entry(after_ms(80_000), connection).unwrap();
    assert_eq!((entry.original_traffic.packets, entry.timeout_s), (401, 30));
    assert_eq!(bench.table.flow(FlowId(10)).unwrap().traffic.packets, 400);
    // No packets for half a minute: the connection has expired, and its rule is removed.
    assert_eq!(bench.sweep(after_ms(110_001)), []);
    assert!(bench.device.rules.is_empty() && !bench.table.is_offloaded(FlowId(10)));
}

/// A VXLAN tunnel from this address.
fn out_of(source: &str) -> OffloadTunnel {
    let mut headers = Headers::none();
    let outer = wire::text::parse(&format!("{source}:5>172.31.1.1:4789 udp len=72")).unwrap();
    assert!(headers.read(&outer, PortNo(5)).is_some());
    OffloadTunnel {
        kind: TunnelKind::Vxlan,
        headers,
        mask: Headers::none(),
        word: 0x0800_0000_0000_6500,
        has_checksum: false,
        header_bytes: 50,
    }
}

#[test]
fn of_packets_out_of_a_tunnel_only_the_first_flow_is_credited_with_outer_headers() {
    let mut bench = Bench::new();
    let mut offer = bench.offer(1000, &[10, 11]);
    let connection = offer.rule.connection;
    offer.rule.tunnel = Some(out_of("172.31.1.2"));
    assert_eq!(offer.rule.in_port(), PortNo(5));
    let counted = |bench: &mut Bench| {
        bench.tracker.entry(after_ms(60), connection).unwrap().original_traffic.bytes
    };
    let before = counted(&mut bench);
    bench.install(vec![offer]);
    bench.forwards(1, 100);
    let credit = |flow, bytes| {
        let traffic = OffloadTraffic { packets: 100, bytes };
        Credit { worker: WorkerId(0), flow: FlowId(flow), traffic, tcp_flags: 0 }
    };
    assert_eq!(bench.sweep(after_ms(60)), [credit(10, 6400), credit(11, 1400)]);
    assert_eq!(counted(&mut bench) - before, 1400);
    // The rule depends on the tunnel's port and on the devices' ports.
    let Bench { conntrack, table, device, .. } = &mut bench;
    table.remove_port(device, PortNo(1), conntrack, START);
    assert!(device.rules.is_empty());
}

#[test]
fn packets_out_of_another_tunnel_than_before_replace_the_rule() {
    let mut bench = Bench::new();
    let mut offer = bench.offer(1000, &[10, 11]);
    offer.rule.tunnel = Some(out_of("172.31.1.2"));
    let mut moved = offer.clone();
    moved.rule.tunnel = Some(out_of("172.31.1.3"));
    bench.install(vec![offer]);
    bench.forwards(1, 7);
    bench.install(vec![moved.clone(), moved.clone()]);
    assert_eq!(bench.device.rules.keys().collect::<Vec<_>>(), [&OffloadId(2)]);
    assert_eq!(bench.table.connections(), (1, 0));
    let credited: u64 = bench.table.take_credits().iter().map(|it| it.traffic.packets).sum();
    assert_eq!(credited, 14, "the last packets of the old rule are credited");
    // An offer of a connection that ended removes nothing.
    bench.conntrack.flush(START, &conntrack::CtFlush::default()).unwrap();
    moved.rule.tunnel = Some(out_of("172.31.1.4"));
    bench.install(vec![moved]);
    assert_eq!(bench.refused(), [(Refusal::Ended, 1)]);
}

#[test]
fn packets_that_are_only_marked_are_left_to_the_switch() {
    let mut bench = Bench::new();
    bench.device.marks = true;
    let mut offer = bench.offer(1000, &[10]);
    offer.rule.mark = Some(41);
    bench.install(vec![offer.clone(), offer.clone()]);
    assert_eq!(bench.refused(), [(Refusal::Marked, 1)]);
    let flow = bench.table.flow(FlowId(10)).unwrap();
    assert_eq!(
        flow.refused[&Refusal::Marked].words.as_deref(),
        Some("the device refused it: out of order")
    );
    assert!(bench.table.is_offloaded(FlowId(10)), "it is offloaded in part");
    // The cache entry moved.
    offer.rule.mark = Some(42);
    bench.install(vec![offer]);
    assert_eq!(bench.device.rules.keys().collect::<Vec<_>>(), [&OffloadId(2)]);
    // Without packets the rule's timeout runs by the switch's clock.
    assert_eq!(bench.sweep(after_ms(29_000)), []);
    assert!(!bench.device.rules.is_empty());
    bench.sweep(after_ms(30_060));
    assert!(bench.device.rules.is_empty());
}

#[test]
fn what_ends_takes_its_rules_with_it() {
    for end in ["device", "flow", "port", "flush", "all"] {
        let mut bench = Bench::new();
        let offers = vec![bench.offer(1000, &[10, 11]), bench.offer(1001, &[12])];
        bench.install(offers);
        bench.forwards(1, 7);
        let Bench { conntrack, table, device, .. } = &mut bench;
        let expect = match end {
            "device" => {
                let traffic = OffloadTraffic { packets: 7, bytes: 448 };
                let ended = OffloadStatus { traffic, is_ended: true, windows: None };
                device.told.insert(OffloadId(1), ended);
                table.sweep(device, conntrack, after_ms(60), usize::MAX);
                vec![OffloadId(2)]
            }
            "flow" => {
                assert!(!table.remove_flow(device, FlowId(99), conntrack, START));
                assert!(table.remove_flow(device, FlowId(11), conntrack, START));
                vec![OffloadId(2)]
            }
            "port" => {
                table.remove_port(device, PortNo(3), conntrack, START);
                assert_eq!(device.rules.len(), 2);
                table.remove_port(device, PortNo(2), conntrack, START);
                vec![]
            }
            "flush" => {
                conntrack.flush(START, &conntrack::CtFlush::default()).unwrap();
                table.sweep(device, conntrack, after_ms(60), usize::MAX);
                vec![]
            }
            _ => {
                table.clear(device, conntrack, START);
                vec![]
            }
        };
        let left: Vec<_> = bench.device.rules.keys().copied().collect();
        assert_eq!(left, expect, "{end}");
        let credited: u64 = bench.table.take_credits().iter().map(|it| it.traffic.packets).sum();
        assert_eq!(credited, 14, "{end}: the last packets are credited to both flows");
        assert_eq!(bench.table.totals.removed, 2 - expect.len() as u64, "{end}");
    }
}

#[test]
fn a_full_or_failing_device_is_counted_and_no_error() {
    let mut bench = Bench::new();
    bench.device.room = Some(1);
    let offers = vec![bench.offer(1000, &[10]), bench.offer(1001, &[10])];
    let again = offers[0].clone();
    bench.install(offers);
    // A rule that is installed already is neither installed again nor refused.
    bench.install(vec![again]);
    assert_eq!(bench.refused(), [(Refusal::Full, 1)]);
    bench.device.fails = true;
    let more = bench.offer(1002, &[10]);
    bench.install(vec![more]);
    assert_eq!(bench.refused(), [(Refusal::Full, 1), (Refusal::Device, 1)]);
    let flow = bench.table.flow(FlowId(10)).unwrap();
    let refused: Vec<_> = flow.refused.values().map(|it| (it.count, it.words.as_deref())).collect();
    assert_eq!((flow.rules.len(), refused), (1, vec![(1, None), (1, Some("out of order"))]));
    // A connection that was refused is checked as before.
    let offers = (0..WAITING_MAX + 5).map(|_| offer(1, &[1])).collect();
    bench.table.wait(START, 0, offers, &bench.changes);
    assert_eq!(bench.table.waiting(), WAITING_MAX);
    assert_eq!(bench.refused()[0], (Refusal::Full, 6));
}

#[test]
fn a_direction_has_one_rule() {
    let mut bench = Bench::new();
    let first = bench.offer(1000, &[10]);
    let mut from_another_port = first.clone();
    from_another_port.rule.headers = from_another_port.rule.headers.with_in_port(PortNo(7));
    let mut other_flows = first.clone();
    other_flows.flows = vec![FlowId(11)];
    bench.install(vec![first, from_another_port, other_flows]);
    assert_eq!(bench.refused(), [(Refusal::Twice, 2)]);
    assert_eq!((bench.device.rules.len(), bench.table.connections()), (1, (1, 0)));
}

#[test]
fn what_changed_while_an_offer_waited_is_not_installed() {
    let mut bench = Bench::new();
    let (kept, gone) = (bench.offer(1000, &[10]), bench.offer(1001, &[11]));
    let ended = bench.offer(1002, &[10]);
    bench.conntrack.flush(START, &conntrack::CtFlush::default()).unwrap();
    let anew = bench.offer(1003, &[10]);
    assert_eq!(bench.changes.note(WorkerId(0), &FlowCommand::Delete(FlowId(11))), Some(FlowId(11)));
    bench.install(vec![kept, gone, ended, anew]);
    assert_eq!(bench.refused(), [(Refusal::Ended, 2), (Refusal::FlowChanged, 1)]);
    assert_eq!(bench.device.rules.len(), 1);
    assert!(bench.table.flow(FlowId(11)).is_none(), "it is not remembered");
}

#[test]
fn refused_offers_of_deleted_flows_are_not_remembered() {
    let mut bench = Bench::new();
    let first = bench.offer(1000, &[10]);
    let mut twice = first.clone();
    twice.flows = vec![FlowId(11)];
    bench.changes.note(WorkerId(0), &FlowCommand::Delete(FlowId(11)));
    bench.install(vec![first, twice.clone()]);
    assert_eq!(bench.refused(), [(Refusal::FlowChanged, 1)]);
    bench.table.wait(START, 0, vec![offer(1, &[10]); WAITING_MAX], &bench.changes);
    bench.table.wait(START, 0, vec![twice], &bench.changes);
    assert_eq!(bench.refused(), [(Refusal::FlowChanged, 2)]);
    assert!(bench.table.flow(FlowId(11)).is_none());
}
