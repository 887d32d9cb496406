//! Known packets of a batch are told of before those that walk, and nobody can tell: where their order
//! would show, they walk too.

use base::{Instant, PortNo, RecircId, WorkerId};
use conntrack::{Config, Conntrack, Filter};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{Action, CtAction, CtState, Field, FlowCommand, FlowId, FlowPut, Match};
use packet::{Batch, Packet};
use std::sync::Arc;
use std::time::Duration;

const NOW: Instant = Instant::from_millis(1_000_000);
const TRACKED: RecircId = RecircId(1);

/// All is committed and sent on.
fn commits() -> Vec<(Match, Vec<Action>)> {
    let commit = CtAction { commit: true, ..CtAction::default() };
    let ip = Match::any().with(Field::EthType, 0x800);
    vec![(ip, vec![Action::Ct(Box::new(commit)), Action::Output(PortNo(2))])]
}

/// All is committed, and sent by a port of its own by what connection tracking says of it.
fn tells_apart() -> Vec<(Match, Vec<Action>)> {
    let from =
        |id: RecircId| Match::any().with(Field::EthType, 0x800).with(Field::RecircId, id.0.into());
    let commit = Action::Ct(Box::new(CtAction { commit: true, ..CtAction::default() }));
    let mut flows = vec![(from(RecircId(0)), vec![commit, Action::Recirc(TRACKED)])];
    let states = [CtState::NEW, CtState::EST, CtState::EST | CtState::RPL, CtState::INV];
    let related = [CtState::REL, CtState::REL | CtState::RPL];
    for (port, state) in (2..).zip(states.into_iter().chain(related)) {
        let state = u128::from((state | CtState::TRK).bits());
        let matching = from(TRACKED).with_masked(Field::CtState, state, 0xff);
        flows.push((matching, vec![Action::Output(PortNo(port))]));
    }
    flows
}

/// Sends batches, a second apart, with the cache on and off, and compares what comes out and what
/// connections there are; the cache answers for so many passes.
fn check(max: u32, flows: &[(Match, Vec<Action>)], batches: &[&[Vec<u8>]], known: u64) {
    let runs = [1 << 10, 0].map(|entries| {
        let config = Config { connections_max: max, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(7, config));
        let config = WorkerConfig { unified_entries: entries, ..WorkerConfig::default() };
        let (tracker, upcalls) = (conntrack.tracker().unwrap(), Arc::new(UpcallQueue::new()));
        let mut worker = Worker::new(WorkerId(0), tracker, upcalls, config, 7);
        let mut out = Outbox::new();
        for (id, (matching, actions)) in (1..).zip(flows) {
            let put = FlowPut {
                id: FlowId(id),
                matching: matching.clone(),
                actions: actions.clone().into(),
            };
            worker.command(NOW, FlowCommand::Put(Box::new(put)), &mut out);
        }
        let (mut now, mut sent) = (NOW, Vec::new());
        for batch in batches {
            let mut batch: Batch = batch.iter().map(|it| Packet::from_bytes(it)).collect();
            worker.receive(now, PortNo(1), &mut batch, &mut out);
            for (port, batch) in out.batches_mut() {
                sent.extend(batch.drain(..).map(|it| (now, port, it.data().to_vec())));
            }
            now = now + Duration::from_secs(1);
        }
        sent.sort();
        let mut entries: Vec<_> = conntrack.entries(now, &Filter::default()).collect();
        entries.sort_by_key(|entry| entry.original);
        (sent, entries, worker.stats().unified_hits)
    });
    let [(on, on_entries, hits), (off, off_entries, _)] = runs;
    assert_eq!(on, off);
    assert_eq!(on_entries, off_entries);
    assert_eq!(hits, known);
}

fn packet(text: &str) -> Vec<u8> {
    wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Who never was answered gives way, the one first that was not heard of for longest.
#[test]
fn where_room_is_made_what_may_give_way_takes_its_turn() {
    let udp = |from: u32| packet(&format!("10.0.0.{from}:1000>10.0.0.9:80 udp len=4"));
    let back = packet("10.0.0.9:80>10.0.0.1:1000 udp len=4");
    let fill: [&[Vec<u8>]; 3] = [&[udp(1), udp(1)], &[udp(2), udp(2)], &[udp(3), udp(3)]];
    let [a, b, c] = fill;
    // The new one ends the first, which then begins anew.
    check(3, &commits(), &[a, b, c, &[udp(4), udp(1)]], 0);
    // With room for all of them it is known.
    check(3000, &commits(), &[a, b, c, &[udp(4), udp(1)]], 1);
    // One that was answered gives way to nobody.
    let answered: &[Vec<u8>] = &[back, udp(1)];
    check(3, &commits(), &[a, answered, b, c, &[udp(4), udp(1)]], 1);
}

/// What an ICMP error quotes must be something that its connection sent before.
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
    check(3000, &tells_apart(), &[a, b, c, d, e, f], 4);
}
