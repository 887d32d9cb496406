//! Two workers with caches of their own process packets of the same connections concurrently: a cache entry
//! of one never outlives a change by the other.

#[path = "support/bench.rs"]
mod bench;

use base::{PortNo, RecircId, Zone};
use bench::Bench;
use conntrack::{Config, Conntrack};
use datapath::WorkerConfig;
use flow::{Action, CtAction, CtState, Field, Masked, Match};
use packet::Packet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const TRACKED: RecircId = RecircId(1);
const ROUNDS: u16 = 1000;
/// Replies arrive at one worker while the other continues to send.
const CONNECTIONS: u16 = 32;

// The output port for each connection state.
const NEW: PortNo = PortNo(2);
const ESTABLISHED: PortNo = PortNo(3);
const REPLY: PortNo = PortNo(4);
const MARKED: PortNo = PortNo(5);

/// Every packet is committed and forwarded by its state; a reply with TTL 9 sets the mark of its connection.
fn flows() -> Vec<(Match, Vec<Action>)> {
    let from =
        |id: RecircId| Match::any().with(Field::EthType, 0x800).with(Field::RecircId, id.0.into());
    let commit = CtAction { commit: true, zone: Zone(1), ..CtAction::default() };
    let mark = CtAction { mark: Some(Masked { value: 1, mask: 1 }), ..commit.clone() };
    let told = |state: CtState, mark: u128| {
        let state = u128::from((state | CtState::TRK).bits());
        from(TRACKED).with_masked(Field::CtState, state, 0xff).with_masked(Field::CtMark, mark, 1)
    };
    let replied = |ttl: u128| {
        from(TRACKED)
            .with_masked(
                Field::CtState,
                (CtState::TRK | CtState::EST | CtState::RPL).bits().into(),
                0xff,
            )
            .with(Field::NwTtl, ttl)
    };
    vec![
        (from(RecircId(0)), vec![Action::Ct(Box::new(commit)), Action::Recirc(TRACKED)]),
        (told(CtState::NEW, 0), vec![Action::Output(NEW)]),
        (told(CtState::EST, 0), vec![Action::Output(ESTABLISHED)]),
        (told(CtState::EST, 1), vec![Action::Output(MARKED)]),
        (replied(64), vec![Action::Output(REPLY)]),
        (replied(9), vec![Action::Ct(Box::new(mark)), Action::Output(REPLY)]),
    ]
}

/// A worker that inserts everything into its cache, whether that pays or not.
fn member(number: u16, conntrack: &Arc<Conntrack>) -> Bench {
    let config = WorkerConfig { unified_insert_inverse: 1, ..WorkerConfig::default() };
    let mut bench = Bench::with(conntrack, number, config);
    bench.put_all(flows());
    bench
}

/// Sends packets. Returns how many left by each port.
fn send(member: &mut Bench, packets: &[Vec<u8>]) -> Vec<(PortNo, usize)> {
    member.receive(1, packets.iter().map(|it| Packet::from_bytes(it)));
    let mut sent: Vec<_> =
        member.out.batches_mut().map(|(port, batch)| (port, batch.drain(..).count())).collect();
    sent.retain(|(_, count)| *count > 0);
    sent
}

/// The packets of a round's connections.
fn packets(round: u16, text: impl Fn(u16) -> String) -> Vec<Vec<u8>> {
    (0..CONNECTIONS)
        .map(|i| wire::text::parse(&text(1000 + round * CONNECTIONS + i)).expect("a packet"))
        .collect()
}

/// A barrier for both threads.
fn meet(arrivals: &AtomicUsize) {
    let awaited = arrivals.fetch_add(1, Ordering::SeqCst) / 2 * 2 + 2;
    for turn in 1u32.. {
        if arrivals.load(Ordering::SeqCst) >= awaited {
            return;
        }
        if turn.is_multiple_of(1000) {
            thread::yield_now();
        }
    }
}

/// Sends the packets of one of the two threads. Returns those that left by a wrong port. No connection may
/// end early, since the other thread would wait.
fn run(number: u16, conntrack: &Arc<Conntrack>, arrivals: &AtomicUsize) -> Vec<String> {
    let mut member = member(number, conntrack);
    let all = usize::from(CONNECTIONS);
    let mut wrong = Vec::new();
    for round in 0..ROUNDS {
        let there = packets(round, |port| format!("10.0.0.1:{port}>10.0.0.9:80 udp len=4"));
        let (ttl, last) = [(64, ESTABLISHED), (9, MARKED)][usize::from(round % 2)];
        let back =
            packets(round, |port| format!("10.0.0.9:80>10.0.0.1:{port} udp len=4 ttl={ttl}"));
        let mut expect = |sent: Vec<_>, expected| {
            if sent != [expected] {
                wrong.push(format!("worker {number}, round {round}: {sent:?}, not {expected:?}"));
            }
        };
        if number == 0 {
            expect(send(&mut member, &there), (NEW, all));
        }
        meet(arrivals);
        for (i, (there, back)) in there.iter().zip(&back).enumerate() {
            meet(arrivals);
            if number == 0 {
                (0..1 + i % 4).for_each(|_| _ = send(&mut member, std::slice::from_ref(there)));
            } else {
                expect(send(&mut member, std::slice::from_ref(back)), (REPLY, 1));
            }
        }
        meet(arrivals);
        expect(send(&mut member, &there), (last, all));
        expect(send(&mut member, &back), (REPLY, all));
        expect(send(&mut member, &there), (last, all));
        meet(arrivals);
    }
    assert!(member.worker.stats().unified_hits > 0, "the caches have their part");
    wrong
}

#[test]
fn a_connection_that_was_answered_is_new_to_no_worker() {
    let conntrack = Arc::new(Conntrack::new(7, Config::default()));
    let arrivals = AtomicUsize::new(0);
    let wrong = thread::scope(|scope| {
        let threads = [0, 1].map(|number| {
            let (conntrack, arrivals) = (&conntrack, &arrivals);
            scope.spawn(move || run(number, conntrack, arrivals))
        });
        threads.map(|thread| thread.join().expect("no panic")).concat()
    });
    assert_eq!(wrong, [""; 0]);
}
