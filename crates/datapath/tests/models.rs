//! Workers that queue misses and handlers that take them, in every order that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p datapath --test models --target-dir target/loom`
//! runs them; `make test` does so too. In builds for the model checker two upcalls fill a queue.

#![cfg(loom)]

use base::{Instant, PortNo, WorkerId};
use datapath::{Answers, UpcallQueue};
use flow::{FlowKey, Upcall, UpcallKind};
use loom::thread;
use packet::Packet;
use std::sync::Arc;
use std::time::Duration;

/// Runs a model in all orders with at most this many involuntary changes of thread.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(run);
}

fn queue() -> Arc<UpcallQueue> {
    Arc::new(UpcallQueue::answered_by(Answers::Handlers(1), 1))
}

fn key(port: u32, number: u16) -> FlowKey {
    let mut key = FlowKey::new();
    key.set_in_port_raw(port);
    key.set_eth_type(0x800);
    key.set_tp_src(number);
    key
}

/// What became of misses, by their numbers.
#[derive(Debug, Default)]
struct Fates {
    answered: Vec<u16>,
    refused: Vec<u16>,
    evicted: Vec<u16>,
}

/// A worker queues the miss of a packet from a port, as `Worker::send_up` does.
fn miss(queue: &UpcallQueue, worker: u16, port: u32, number: u16, fates: &mut Fates) {
    let (worker, kind, key) = (WorkerId(worker), UpcallKind::Miss, key(port, number));
    let Ok(mut reserved) = queue.reserve(Instant::ZERO, worker, &kind, &key) else {
        return fates.refused.push(number);
    };
    let evicted = reserved.evicted.take();
    let (packet, at) = (Packet::from_bytes(&[0; 14]), Instant::ZERO);
    let key = Box::new(key);
    let upcall = Upcall { worker, kind, packet, key, received: at, queued: at, trace: None };
    queue.push(&reserved, upcall);
    match evicted {
        Some(evicted) if evicted.worker == worker => fates.evicted.push(evicted.key.tp_src()),
        Some(evicted) => queue.tell_evicted(evicted.worker, *evicted.key),
        None => {}
    }
}

/// A worker looks which of its misses others evicted.
fn look(queue: &UpcallQueue, worker: u16, fates: &mut Fates) {
    let mut evicted = Vec::new();
    queue.take_evicted(WorkerId(worker), &mut evicted);
    fates.evicted.extend(evicted.iter().map(FlowKey::tp_src));
}

fn numbers(upcalls: &[Upcall]) -> impl Iterator<Item = u16> {
    upcalls.iter().map(|upcall| upcall.key.tp_src())
}

/// A handler that waits is woken for each miss that comes into an empty list.
#[test]
fn a_handler_that_waits_takes_every_miss() {
    model(3, || {
        let queue = queue();
        let handler = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut taken = Vec::new();
                while taken.len() < 2 {
                    queue.pop_for(0, 9, &mut taken);
                    if taken.len() < 2 {
                        // The checker fails if this is not woken.
                        queue.wait(0, Duration::MAX);
                    }
                }
            })
        };
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || miss(&queue, 1, 2, 2, &mut Fates::default()))
        };
        miss(&queue, 0, 1, 1, &mut Fates::default());
        other.join().unwrap();
        handler.join().unwrap();
        assert!(queue.is_empty_for(0));
    });
}

/// The first worker's misses fill the queue. One may lose its place to the other worker's, or be taken before.
#[test]
fn each_miss_is_answered_or_refused_or_its_worker_told_once() {
    model(3, || {
        let queue = queue();
        let mut fates = Fates::default();
        miss(&queue, 0, 1, 1, &mut fates);
        miss(&queue, 0, 1, 2, &mut fates);
        let other = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut fates = Fates::default();
                miss(&queue, 1, 2, 3, &mut fates);
                look(&queue, 1, &mut fates);
                fates
            })
        };
        let handler = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                let mut taken = Vec::new();
                queue.pop_for(0, 1, &mut taken);
                numbers(&taken).collect::<Vec<_>>()
            })
        };
        look(&queue, 0, &mut fates);
        miss(&queue, 0, 1, 4, &mut fates);
        let others = other.join().unwrap();
        fates.answered.extend(handler.join().unwrap());
        fates.answered.extend(numbers(&queue.drain()));
        // What the other worker told of when this one looked, or has told since.
        look(&queue, 0, &mut fates);
        let Fates { answered, mut refused, mut evicted } = fates;
        refused.extend(others.refused);
        evicted.extend(others.evicted);
        let mut all = [answered.clone(), refused.clone(), evicted.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4], "{answered:?} {refused:?} {evicted:?}");
        // What was refused was counted.
        let counted: u64 = queue.dropped().iter().map(|(_, dropped)| dropped).sum();
        assert_eq!(counted as usize, refused.len() + evicted.len());
    });
}

/// A port goes while a worker is about to use the room that it reserved for the port's packet: no room is lost.
#[test]
fn a_port_that_goes_leaves_all_room_to_others() {
    model(3, || {
        let queue = queue();
        let worker = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                (1..=2).for_each(|number| miss(&queue, 0, 1, number, &mut Fates::default()));
            })
        };
        queue.remove_port(PortNo(1));
        worker.join().unwrap();
        queue.remove_port(PortNo(1));
        let mut fates = Fates::default();
        miss(&queue, 0, 2, 3, &mut fates);
        miss(&queue, 0, 2, 4, &mut fates);
        assert!(fates.refused.is_empty() && fates.evicted.is_empty(), "{fates:?}");
        assert_eq!(numbers(&queue.drain()).collect::<Vec<_>>(), [3, 4]);
    });
}
