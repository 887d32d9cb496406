//! The path of a packet that hits the cache allocates nothing, with or without connection tracking, and
//! neither does the walk over the tables.

use base::limits::UPCALLS_PER_PORT;
use base::{Instant, PortNo, RecircId, WorkerId};
use conntrack::{Config, Conntrack};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{Action, CtAction, CtState, Field, FlowCommand, FlowId, FlowPut, Match, SetField};
use packet::{Batch, Packet};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

/// Counts a thread's allocations.
struct Counting;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all work is done by the system allocator; counting only touches a plain thread-local number, which
// needs no memory of its own and no destructor.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as for the system allocator, to which the caller's guarantees are passed on.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as for the system allocator, to which the caller's guarantees are passed on.
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const TEXTS: [[&str; 3]; 2] = [
    [
        "10.0.0.1:1000>10.0.0.2:80 udp",
        "10.0.0.1:1001>10.0.0.2:80 udp",
        "[fd00::1]:1>[fd00::2]:2 udp",
    ],
    [
        "10.0.0.2:80>10.0.0.1:1000 udp",
        "10.0.0.2:80>10.0.0.1:1001 udp",
        "[fd00::2]:2>[fd00::1]:1 udp",
    ],
];

fn worker(unified_entries: usize, first: &[Action]) -> Worker {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let config = WorkerConfig { unified_entries, ..WorkerConfig::default() };
    let tracker = conntrack.tracker().expect("one thread is not too many");
    let upcalls = Arc::new(UpcallQueue::new());
    let mut worker = Worker::new(WorkerId(0), tracker, upcalls, config, 7);
    let mut id = 0;
    let mut put = |matching: Match, actions: Vec<Action>| {
        id += 1;
        let put = FlowPut { id: FlowId(id), matching, actions: actions.into() };
        worker.command(Instant::ZERO, FlowCommand::Put(Box::new(put)), &mut Outbox::new());
    };
    for (port, to) in [(1u32, 2u32), (2, 1)] {
        let from = |recirc: u32| {
            Match::any().with(Field::InPort, port.into()).with(Field::RecircId, recirc.into())
        };
        let state = |state: CtState| {
            let of = CtState::NEW | CtState::EST;
            from(7).with_masked(Field::CtState, state.bits().into(), of.bits().into())
        };
        let commit = CtAction { commit: true, ..CtAction::default() };
        let end = match first.last() {
            Some(Action::Recirc(_)) => None,
            _ => Some(Action::Output(PortNo(to))),
        };
        put(from(0).with(Field::NwTos, 0), first.iter().cloned().chain(end).collect());
        put(state(CtState::EST), vec![Action::Output(PortNo(to))]);
        put(state(CtState::NEW), vec![Action::Ct(Box::new(commit)), Action::Output(PortNo(to))]);
    }
    worker
}

/// Sends packets in both directions and returns their buffers, as ports do.
fn round(worker: &mut Worker, frames: &[Vec<Packet>; 2], out: &mut Outbox, now: Instant) {
    for (port, frames) in frames.iter().enumerate() {
        let mut batch = Batch::new();
        for frame in frames {
            batch.push(worker.pool().copy(frame));
        }
        worker.receive(now, PortNo(port as u32 + 1), &mut batch, out);
        let mut sent = 0;
        for (_, batch) in out.batches_mut() {
            sent += batch.len();
            batch.drain(..).for_each(|packet| worker.pool().give(packet));
        }
        assert_eq!(sent, frames.len());
    }
}

/// Returns the number of allocations in a hundred rounds, after a warm-up.
fn asked(unified_entries: usize, first: &[Action]) -> u64 {
    let mut worker = worker(unified_entries, first);
    let mut out = Outbox::new();
    let packet = |text: &&str| Packet::from_bytes(&wire::text::parse(text).expect("a packet"));
    let frames = TEXTS.map(|texts| texts.iter().map(packet).collect());
    let mut before = 0;
    for i in 0..300 {
        if i == 200 {
            before = ASKED.get();
        }
        round(&mut worker, &frames, &mut out, Instant::from_millis(1000 + i));
    }
    let asked = ASKED.get() - before;
    let (stats, is_on) = (worker.stats(), unified_entries > 0);
    assert_eq!((stats.received, stats.misses), (1800, 0));
    assert_eq!(stats.unified_hits > 0, is_on, "{stats:?}");
    asked
}

/// Defect 5 (ARCHITECTURE.md): where there is no room, that is found out before the packet and its key are copied.
#[test]
fn a_refused_miss_allocates_and_copies_nothing() {
    let conntrack = Arc::new(Conntrack::new(1, Config::default()));
    let upcalls = Arc::new(UpcallQueue::new());
    let tracker = conntrack.tracker().expect("one thread is not too many");
    let config = WorkerConfig::default();
    let mut worker = Worker::new(WorkerId(0), tracker, Arc::clone(&upcalls), config, 7);
    let mut out = Outbox::new();
    let packet = |port: usize| {
        let text = format!("10.0.0.1:{port}>10.0.0.2:80 udp");
        Packet::from_bytes(&wire::text::parse(&text).expect("a packet"))
    };
    // Each packet is of another flow, so that none waits behind another.
    let packets: Vec<Packet> = (1..=8 * UPCALLS_PER_PORT).map(packet).collect();
    // The buffers of a burst, which ports bring.
    let burst = [(); 32].map(|()| worker.pool().take());
    burst.into_iter().for_each(|packet| worker.pool().give(packet));
    let mut send = |packets: &[Packet]| {
        let before = ASKED.get();
        for packets in packets.chunks(32) {
            let mut batch = Batch::new();
            packets.iter().for_each(|packet| batch.push(worker.pool().copy(packet)));
            worker.receive(Instant::from_millis(1000), PortNo(1), &mut batch, &mut out);
        }
        ASKED.get() - before
    };
    let (let_in, refused) = packets.split_at(UPCALLS_PER_PORT);
    let asked = send(let_in);
    assert!(asked >= 2 * UPCALLS_PER_PORT as u64, "those let in are copied: {asked}");
    assert_eq!(send(refused), 0);
    assert_eq!(upcalls.dropped(), [(PortNo(1), refused.len() as u64)]);
    let stats = worker.stats();
    assert_eq!((stats.misses, stats.lost), (let_in.len() as u64, refused.len() as u64));
}

#[test]
fn nothing_is_allocated_on_the_way_of_a_packet() {
    let set = Action::Set(SetField { field: Field::NwTtl, value: 9, mask: 0xff });
    let tracked = vec![Action::Ct(Box::default()), Action::Recirc(RecircId(7))];
    let push = Action::PushVlan { tpid: 0x8100, tci: 5 };
    let ways = [vec![], vec![set], vec![push], tracked];
    for entries in [0, 4, 1 << 12] {
        for first in &ways {
            assert_eq!(asked(entries, first), 0, "{entries} entries, {first:?}");
        }
    }
    // The counter works.
    let before = ASKED.get();
    drop(std::hint::black_box(vec![1u8; 64]));
    assert_eq!(ASKED.get(), before + 1);
}
