//! The cases of connection tracking (`testdata/conntrack/*.toml`) through the whole datapath: tables that
//! track each packet and look at all that is then known of it, with the unified cache on, tiny and
//! off, on one worker and on two that take turns.

#[path = "../../conntrack/tests/support/mod.rs"]
mod support;

use base::{Instant, PortNo, RecircId, WorkerId};
use conntrack::{Config, Conntrack};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{
    Action, CtAction, Execute, Field, FlowCommand, FlowId, FlowKey, FlowPut, Frame, Mask, Match,
    Upcall,
};
use packet::{Batch, Packet};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::case::{Device, run_all};

/// Packets that are to be tracked by the nth action come in on this port and the nth after it.
const FIRST_IN: u32 = 1000;
/// Packets of which the nth thing is known leave by this port and the nth after it.
const FIRST_OUT: u32 = 100_000;
/// The words of a key that connection tracking fills in.
const CT_WORDS: std::ops::Range<usize> = 1..9;

/// A switch whose tables track.
struct Switch<'a> {
    conntrack: Arc<Conntrack>,
    tables: RefCell<Tables>,
    /// Packets that the unified caches of all switches answered for.
    cached: &'a AtomicU64,
}

struct Tables {
    workers: Vec<Thread>,
    turn: usize,
    /// What packets are tracked by.
    actions: Vec<CtAction>,
    /// What is known of packets: the words of their keys.
    known: Vec<Vec<u64>>,
}

struct Thread {
    worker: Worker,
    out: Outbox,
    upcalls: Arc<UpcallQueue>,
    installed: HashSet<Match>,
}

impl<'a> Switch<'a> {
    fn new(config: Config, workers: u16, caches: WorkerConfig, cached: &'a AtomicU64) -> Self {
        let conntrack = Arc::new(Conntrack::new(7, config));
        let worker = |id| {
            let upcalls = Arc::new(UpcallQueue::new());
            let tracker = conntrack.tracker().expect("two threads are not too many");
            let queue = Arc::clone(&upcalls);
            let worker = Worker::new(WorkerId(id), tracker, queue, caches, 7);
            Thread { worker, out: Outbox::new(), upcalls, installed: HashSet::new() }
        };
        let workers = (0..workers).map(worker).collect();
        let tables = Tables { workers, turn: 0, actions: Vec::new(), known: Vec::new() };
        Switch { tables: RefCell::new(tables), conntrack, cached }
    }
}

impl Deref for Switch<'_> {
    type Target = Conntrack;

    fn deref(&self) -> &Conntrack {
        &self.conntrack
    }
}

impl Device for Switch<'_> {
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        let mut tables = self.tables.borrow_mut();
        let before = frame.packet.data().to_vec();
        let sent = tables.send(now, action, frame);
        support::case::put_back(sent, frame, &before)
    }
}

impl Drop for Switch<'_> {
    fn drop(&mut self) {
        let hits = |thread: &Thread| thread.worker.stats().unified_hits;
        let hits = self.tables.get_mut().workers.iter().map(hits).sum();
        self.cached.fetch_add(hits, Ordering::Relaxed);
    }
}

impl Tables {
    /// Sends a frame through the tables of the worker whose turn it is. One that was tracked before
    /// goes the way of packets that the control side sends on.
    fn send(&mut self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        self.turn = (self.turn + 1) % self.workers.len();
        let nth = self.actions.iter().position(|known| known == action).unwrap_or_else(|| {
            self.actions.push(action.clone());
            self.actions.len() - 1
        });
        let Thread { worker, out, .. } = &mut self.workers[self.turn];
        let packet = std::mem::replace(&mut frame.packet, Packet::from_bytes(&[]));
        if frame.key.ct_state().is_empty() {
            let mut batch: Batch = [packet].into_iter().collect();
            worker.receive(now, PortNo(FIRST_IN + nth as u32), &mut batch, out);
        } else {
            let (key, actions) = (frame.key.clone(), track_by(action, nth));
            let execute = Execute { packet, key, actions, trace: None, stamps: None };
            worker.command(now, FlowCommand::Execute(Box::new(execute)), out);
        }
        let mut sent = Vec::new();
        let mut waiting = Vec::new();
        loop {
            self.take_sent(&mut sent);
            self.workers[self.turn].upcalls.pop(64, &mut waiting);
            if waiting.is_empty() {
                return sent;
            }
            for upcall in waiting.drain(..) {
                self.answer(now, upcall);
                self.take_sent(&mut sent);
            }
        }
    }

    fn take_sent(&mut self, sent: &mut Vec<Frame>) {
        for (port, batch) in self.workers[self.turn].out.batches_mut() {
            let known = &self.known[(port.0 - FIRST_OUT) as usize];
            sent.extend(batch.drain(..).map(|packet| {
                let mut frame = Frame::parse(packet, PortNo(1)).expect("whole headers");
                frame.key.words_mut()[CT_WORDS].copy_from_slice(known);
                frame
            }));
        }
    }

    fn answer(&mut self, now: Instant, upcall: Upcall) {
        let Upcall { key, packet, .. } = upcall;
        let mut mask = Mask::of(Field::RecircId);
        let actions = if key.recirc_id() == RecircId(0) {
            let always = [Field::InPort, Field::EthType, Field::NwFrag];
            always.into_iter().for_each(|field| mask.add(field));
            let nth = (key.in_port().0 - FIRST_IN) as usize;
            track_by(&self.actions[nth], nth)
        } else {
            let words = [Field::CtIpv6Src, Field::CtIpv6Dst, Field::CtTpSrc, Field::CtTpDst];
            words.into_iter().for_each(|field| mask.add(field));
            let more = [Field::CtState, Field::CtZone, Field::CtMark, Field::CtLabel];
            more.into_iter().chain([Field::CtNwProto]).for_each(|field| mask.add(field));
            [Action::Output(PortNo(FIRST_OUT + self.number_of(&key)))].into()
        };
        let Thread { worker, out, installed, .. } = &mut self.workers[self.turn];
        let matching = Match::new(&key, &mask);
        if installed.insert(matching.clone()) {
            let id = FlowId(installed.len() as u64);
            let put = FlowPut { id, matching, actions: Arc::clone(&actions) };
            worker.command(now, FlowCommand::Put(Box::new(put)), out);
        }
        let execute = Execute { packet, key, actions, trace: None, stamps: None };
        worker.command(now, FlowCommand::Execute(Box::new(execute)), out);
    }

    fn number_of(&mut self, key: &FlowKey) -> u32 {
        let words = &key.words()[CT_WORDS];
        let nth = self.known.iter().position(|known| known == words).unwrap_or_else(|| {
            self.known.push(words.to_vec());
            self.known.len() - 1
        });
        nth as u32
    }
}

fn track_by(action: &CtAction, nth: usize) -> Arc<[Action]> {
    [Action::Ct(Box::new(action.clone())), Action::Recirc(RecircId(nth as u32 + 1))].into()
}

/// Runs all cases; how many packets the unified caches answered for.
fn run(workers: u16, unified_entries: usize) -> u64 {
    let caches = WorkerConfig { unified_entries, exact_insert_inverse: 1, ..Default::default() };
    let cached = AtomicU64::new(0);
    run_all(|config| Switch::new(config, workers, caches, &cached));
    cached.into_inner()
}

#[test]
fn without_the_unified_cache() {
    assert_eq!(run(1, 0), 0);
}

#[test]
fn with_the_unified_cache() {
    let cached = run(1, 1 << 12);
    assert!(cached > 50, "{cached}");
}

#[test]
fn with_a_unified_cache_of_a_few_entries() {
    let cached = run(1, 4);
    assert!(cached > 30, "{cached}");
}

#[test]
fn on_two_workers_in_turn() {
    let cached = run(2, 1 << 12);
    assert!(cached > 10, "{cached}");
}
