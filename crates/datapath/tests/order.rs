//! Packets that hit the unified cache do not overtake packets of their batch that miss it, nor are they
//! overtaken: output and connections are as if the packets came one by one to a worker without a cache.

#[path = "support/bench.rs"]
mod bench;

use base::{Instant, PortNo, RecircId, Zone};
use bench::Bench;
use conntrack::{Config, Conntrack};
use datapath::WorkerConfig;
use flow::{
    Action, CtAction, CtState, Field, Masked, Match, Nat, NatKind, NatRange, PortSelection,
};
use packet::Packet;
use std::sync::Arc;
use std::time::Duration;

const NOW: Instant = Instant::from_millis(1_000_000);
const TRACKED: RecircId = RecircId(1);
const AGAIN: RecircId = RecircId(2);

/// Commit every packet and forward it.
fn commits() -> Vec<(Match, Vec<Action>)> {
    let commit = CtAction { commit: true, ..CtAction::default() };
    let ip = Match::any().with(Field::EthType, 0x800);
    vec![(ip, vec![Action::Ct(Box::new(commit)), Action::Output(PortNo(2))])]
}

/// Commit every packet and forward it by a port for its connection state.
fn tells_apart() -> Vec<(Match, Vec<Action>)> {
    let mut flows = told();
    flows.push((from(RecircId(0)), vec![ct(0, true, None), Action::Recirc(TRACKED)]));
    flows
}

/// What packets with each TTL do in their first pass (and some in the second), before the connection state is
/// matched.
fn by_ttl(steps: &[(u8, RecircId, &[Action])]) -> Vec<(Match, Vec<Action>)> {
    let mut flows = told();
    flows.extend(steps.iter().map(|&(ttl, recirc_id, steps)| {
        (from(recirc_id).with(Field::NwTtl, ttl.into()), steps.to_vec())
    }));
    flows
}

/// Tracked packets leave by the port of their state.
fn told() -> Vec<(Match, Vec<Action>)> {
    let states = [CtState::NEW, CtState::EST, CtState::EST | CtState::RPL, CtState::INV];
    let related = [CtState::REL, CtState::REL | CtState::RPL];
    let port_of = |(port, state): (u32, CtState)| {
        let state = u128::from((state | CtState::TRK).bits());
        let matching = from(TRACKED).with_masked(Field::CtState, state, 0xff);
        (matching, vec![Action::Output(PortNo(port))])
    };
    (2..).zip(states.into_iter().chain(related)).map(port_of).collect()
}

fn from(id: RecircId) -> Match {
    Match::any().with(Field::EthType, 0x800).with(Field::RecircId, id.0.into())
}

fn ct(zone: u16, commit: bool, nat: Option<Nat>) -> Action {
    Action::Ct(Box::new(CtAction { commit, zone: Zone(zone), nat, ..CtAction::default() }))
}

/// Sends batches, one per second, with the cache on, and the same packets one by one with the cache off.
/// Compares output and connections, and the number of cache hits with the expected one.
fn check(max: u32, flows: &[(Match, Vec<Action>)], batches: &[&[Vec<u8>]], known: u64) {
    let runs = [1 << 10, 0].map(|entries| {
        let config = Config { connections_max: max, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(7, config));
        let config = WorkerConfig { unified_entries: entries, ..WorkerConfig::default() };
        let mut bench = Bench::with(&conntrack, 0, config);
        bench.now = NOW;
        bench.put_all(flows.iter().cloned());
        let mut sent = Vec::new();
        for batch in batches {
            let batch_max = if entries > 0 { batch.len() } else { 1 };
            for packets in batch.chunks(batch_max) {
                bench.receive(1, packets.iter().map(|it| Packet::from_bytes(it)));
            }
            sent.extend(bench.sent_bytes().into_iter().map(|(port, it)| (bench.now, port, it)));
            bench.now = bench.now + Duration::from_secs(1);
        }
        sent.sort();
        let mut entries = bench.entries();
        entries.sort_by_key(|entry| entry.original);
        (sent, entries, bench.worker.stats().unified_hits)
    });
    let [(on, on_entries, hits), (off, off_entries, _)] = runs;
    assert_eq!(on, off);
    assert_eq!(on_entries, off_entries);
    assert_eq!(hits, known);
}

fn packet(text: &str) -> Vec<u8> {
    wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Unanswered connections are dropped first, the least recently used one before others.
#[test]
fn where_room_is_made_what_may_give_way_takes_its_turn() {
    let udp = |from: u32| packet(&format!("10.0.0.{from}:1000>10.0.0.9:80 udp len=4"));
    let back = packet("10.0.0.9:80>10.0.0.1:1000 udp len=4");
    let fill: [&[Vec<u8>]; 3] = [&[udp(1), udp(1)], &[udp(2), udp(2)], &[udp(3), udp(3)]];
    let [a, b, c] = fill;
    // The new connection evicts the first, whose next packet creates it again.
    check(3, &commits(), &[a, b, c, &[udp(4), udp(1)]], 0);
    // With room for all, the packet hits.
    check(3000, &commits(), &[a, b, c, &[udp(4), udp(1)]], 1);
    // An answered connection is dropped too, if there are no unanswered ones.
    let answered: &[Vec<u8>] = &[back, udp(1)];
    check(3, &commits(), &[a, answered, b, c, &[udp(4), udp(1)]], 1);
    check(1, &commits(), &[a, answered, &[udp(4), udp(1)]], 0);
    // A connection that a handshake established is never dropped.
    let tcp = |text: &str| packet(&format!("10.0.0.1:1000>10.0.0.9:80 {text}"));
    let synack = packet("10.0.0.9:80>10.0.0.1:1000 SA seq=0 ack=1 win=60000");
    let ack = || tcp("A seq=1 ack=1 win=60000");
    let shake: [&[Vec<u8>]; 3] = [&[tcp("S seq=0 win=60000")], &[synack], &[ack()]];
    let [d, e, f] = shake;
    check(3, &commits(), &[d, e, f, &[ack()], b, c, &[udp(4), ack()]], 2);
}

/// The first segment of a connection whose handshake was not seen is new, and the next is established.
#[test]
fn a_segment_that_begins_a_connection_is_not_like_the_next() {
    let ack = packet("10.0.0.1:1000>10.0.0.9:80 A seq=1 ack=1 win=60000");
    let one = std::slice::from_ref(&ack);
    check(3000, &tells_apart(), &[one, one, one], 2);
}

/// The packet that an ICMP error quotes must have been sent in its connection before.
#[test]
fn nothing_of_its_connection_overtakes_an_error() {
    let tcp = |text: &str| packet(&format!("10.0.0.1:1000>10.0.0.9:80 {text}"));
    let back = |text: &str| packet(&format!("10.0.0.9:80>10.0.0.1:1000 {text}"));
    let far = "10.0.0.1:1000>10.0.0.9:80 A seq=9001 ack=1 win=9000 len=8";
    let error = packet(&format!("10.0.0.7>10.0.0.1 icmp-error(3,1) ({far})"));
    let begin: [&[Vec<u8>]; 4] = [
        &[tcp("S seq=0 win=60000")],
        &[back("SA seq=0 ack=1 win=60000")],
        &[tcp("A seq=1 ack=1 win=60000 len=4")],
        &[tcp("A seq=5 ack=1 win=60000 len=4")],
    ];
    let [a, b, c, d] = begin;
    let e: &[Vec<u8>] = &[error, packet(far)];
    let f: &[Vec<u8>] = &[tcp("A seq=9009 ack=1 win=60000 len=4")];
    check(3000, &tells_apart(), &[a, b, c, d, e, f], 6);
}

/// A batch with the packet with TTL 9, then a packet that changes its connection; checks the number of cache
/// hits.
fn check_late(flows: &[(Match, Vec<Action>)], passes: u64) {
    let there = packet("10.0.0.1:1000>10.0.0.9:80 udp len=4 ttl=9");
    let back = packet("10.0.0.9:80>10.0.0.1:1000 udp len=4");
    let one = std::slice::from_ref(&there);
    check(3000, flows, &[one, one, one, &[there.clone(), back]], passes);
}

const BEGIN: RecircId = RecircId(0);

#[test]
fn a_second_pass_of_a_zone_comes_before_a_later_packets_first() {
    let (again, told) = (Action::Recirc(AGAIN), Action::Recirc(TRACKED));
    let visits: &[Action] = &[ct(1, false, None), again];
    let commits: &[Action] = &[ct(1, true, None), told.clone()];
    let answers: &[Action] = &[ct(1, false, None), told];
    let flows = by_ttl(&[(9, BEGIN, visits), (9, AGAIN, commits), (64, BEGIN, answers)]);
    check_late(&flows, 6);
}

#[test]
fn a_second_pass_comes_before_a_later_packets_first() {
    let (again, told) = (Action::Recirc(AGAIN), Action::Recirc(TRACKED));
    let commits: &[Action] = &[ct(1, true, None), told.clone()];
    let answers: &[Action] = &[ct(1, false, None), told];
    let flows = by_ttl(&[(9, BEGIN, &[again]), (9, AGAIN, commits), (64, BEGIN, answers)]);
    check_late(&flows, 9);
}

#[test]
fn a_second_zone_comes_before_a_later_packets_first() {
    let (again, told) = (Action::Recirc(AGAIN), Action::Recirc(TRACKED));
    let other: &[Action] = &[ct(2, true, None), again];
    let commits: &[Action] = &[ct(1, true, None), told.clone()];
    let answers: &[Action] = &[ct(1, false, None), told];
    let flows = by_ttl(&[(9, BEGIN, other), (9, AGAIN, commits), (64, BEGIN, answers)]);
    check_late(&flows, 9);
}

/// A second pass matches the state of the first one, even if a later packet of the batch changes the
/// connection.
#[test]
fn no_mark_that_a_later_packet_sets_is_seen_in_a_second_pass() {
    let (again, told) = (Action::Recirc(AGAIN), Action::Recirc(TRACKED));
    let marks = Action::Ct(Box::new(CtAction {
        commit: true,
        zone: Zone(1),
        mark: Some(Masked { value: 1, mask: 1 }),
        ..CtAction::default()
    }));
    let begins: &[Action] = &[ct(1, true, None), Action::Output(PortNo(2))];
    let visits: &[Action] = &[ct(1, false, None), again.clone()];
    let once_more: &[Action] = &[ct(1, false, None), told];
    let steps = [(7, BEGIN, begins), (9, BEGIN, visits), (9, AGAIN, once_more)];
    let flow = |(ttl, id, steps): (u8, _, &[Action])| {
        (from(id).with(Field::NwTtl, ttl.into()), steps.to_vec())
    };
    let mut flows: Vec<_> = steps.into_iter().map(flow).collect();
    flows.push(flow((64, BEGIN, &[marks, Action::Output(PortNo(2))])));
    flows.extend([3, 4].map(|port: u32| {
        let matching = from(TRACKED).with_masked(Field::CtMark, (port - 3).into(), 1);
        (matching, vec![Action::Output(PortNo(port))])
    }));
    let there = |ttl: u8| packet(&format!("10.0.0.1:1000>10.0.0.9:80 udp len=4 ttl={ttl}"));
    let back = packet("10.0.0.9:80>10.0.0.1:1000 udp len=4 ttl=7");
    let one = [there(9)];
    check(3000, &flows, &[&[there(7)], &[back], &one, &one, &[there(9), there(64)]], 6);
}

fn source_nat() -> Nat {
    let address = std::net::IpAddr::from([20, 0, 0, 1]);
    Nat::Rewrite(NatRange {
        kind: NatKind::Src,
        addresses: Some((address, address)),
        ports: None,
        selection: PortSelection::Default,
        persistent: false,
    })
}

#[test]
fn nothing_overtakes_what_nat_rewrites_into_its_connection() {
    let told = Action::Recirc(TRACKED);
    let commit = ct(1, true, None);
    let commits: &[Action] = &[commit.clone(), told.clone()];
    let rewrites: &[Action] = &[ct(2, true, Some(source_nat())), commit, told];
    let flows = by_ttl(&[(9, BEGIN, commits), (64, BEGIN, rewrites)]);
    let there = packet("10.0.0.9:80>20.0.0.1:1000 udp len=4 ttl=9");
    let back = packet("10.0.0.1:1000>10.0.0.9:80 udp len=4");
    let one = std::slice::from_ref(&there);
    check(3000, &flows, &[one, one, one, &[back, there.clone()]], 4);
}

#[test]
fn nothing_overtakes_on_a_connection_with_nat_though_it_is_not_rewritten_itself() {
    let told = Action::Recirc(TRACKED);
    let looks: &[Action] = &[ct(1, false, None), told.clone()];
    let rewrites: &[Action] = &[ct(1, true, Some(source_nat())), told];
    let mut flows = by_ttl(&[(7, BEGIN, rewrites), (9, BEGIN, looks), (64, BEGIN, looks)]);
    // Install the flow first: otherwise the first packet would miss, and the later ones of its connection
    // would wait.
    let rewritten = u128::from((CtState::TRK | CtState::NEW | CtState::SNAT).bits());
    let matching = from(TRACKED).with_masked(Field::CtState, rewritten, 0xff);
    flows.push((matching, vec![Action::Output(PortNo(9))]));
    let first = packet("10.0.0.1:1000>10.0.0.9:80 udp len=4 ttl=7");
    let there = packet("10.0.0.1:1000>10.0.0.9:80 udp len=4 ttl=9");
    let back = packet("10.0.0.9:80>20.0.0.1:1000 udp len=4");
    let one = std::slice::from_ref(&there);
    check(3000, &flows, &[&[first], one, one, &[back, there.clone()]], 2);
}
