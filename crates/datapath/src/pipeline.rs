//! The way of a packet: receive, parse, look up, carry out, and once more where a flow says so.

use crate::execute::execute_run;
use crate::outbox::Outbox;
use crate::worker::Worker;
use base::limits::{BATCH_SIZE, RECIRC_DEPTH};
use base::{Instant, PortNo};
use classifier::Handle;
use flow::{Action, DropReason, Frame};
use packet::Batch;

/// What the tables say of each frame of a pass.
type Hits = arrayvec::ArrayVec<Option<Handle>, BATCH_SIZE>;

/// Takes a batch from one port through the datapath.
pub(crate) fn receive(
    worker: &mut Worker,
    now: Instant,
    in_port: PortNo,
    batch: &mut Batch,
    out: &mut Outbox,
) {
    parse(worker, in_port, batch);
    forward(worker, now, out);
}

/// Carries out steps on one frame, and takes what they send round again through the datapath.
pub(crate) fn execute(
    worker: &mut Worker,
    now: Instant,
    frame: Frame,
    actions: &[Action],
    out: &mut Outbox,
) {
    let mut frames = [frame];
    execute_run(worker, now, &mut frames, actions, out);
    worker.stats.recirculated += worker.again.len() as u64;
    std::mem::swap(&mut worker.pass, &mut worker.again);
    forward(worker, now, out);
}

/// Pass after pass, until no frame is left. The number of passes is bounded, so that flows that
/// send packets round for ever harm nobody.
fn forward(worker: &mut Worker, now: Instant, out: &mut Outbox) {
    for _ in 0..RECIRC_DEPTH {
        if worker.pass.is_empty() {
            return;
        }
        let mut pass = std::mem::take(&mut worker.pass);
        for batch in pass.chunks_mut(BATCH_SIZE) {
            let hits = look_up(worker, batch);
            carry_out(worker, now, batch, &hits, out);
        }
        pass.clear();
        worker.stats.recirculated += worker.again.len() as u64;
        worker.pass = std::mem::replace(&mut worker.again, pass);
    }
    let mut left = std::mem::take(&mut worker.pass);
    for frame in left.drain(..) {
        worker.drop_packet(frame.packet, DropReason::RecircDepth);
    }
    worker.pass = left;
}

/// Reads the headers of a batch.
fn parse(worker: &mut Worker, in_port: PortNo, batch: &mut Batch) {
    for packet in batch.drain(..) {
        match Frame::parse(packet, in_port) {
            Ok(frame) => worker.pass.push(frame),
            Err((packet, reason)) => worker.drop_packet(packet, reason),
        }
    }
}

/// Finds each frame's flow: in the exact-match cache, or else among the megaflows.
fn look_up(worker: &mut Worker, frames: &[Frame]) -> Hits {
    let mut hits = Hits::new();
    let visited_before = worker.flows.counts().subtables_visited;
    for frame in frames {
        let hash = classifier::hash(&frame.key, worker.seed);
        let mut hit = worker.exact.lookup(&frame.key, hash, &worker.flows);
        if hit.is_some() {
            worker.stats.exact_hits += 1;
        } else {
            hit = worker.flows.lookup(&frame.key);
            if let Some(handle) = hit {
                worker.stats.megaflow_hits += 1;
                let (random, inverse) = (worker.next_random(), worker.config.exact_insert_inverse);
                worker.exact.insert(&frame.key, hash, handle, &worker.flows, random, inverse);
            }
        }
        hits.push(hit);
    }
    worker.stats.subtables += worker.flows.counts().subtables_visited - visited_before;
    hits
}

/// Carries out each flow's steps on the frames that hit it, run by run, so that frames of one flow
/// that came together stay together.
fn carry_out(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    hits: &Hits,
    out: &mut Outbox,
) {
    let mut start = 0;
    for run in hits.chunk_by(|a, b| a == b) {
        let frames = &mut frames[start..start + run.len()];
        start += run.len();
        let actions = run[0].and_then(|handle| worker.credit(now, handle, frames));
        match actions {
            Some(actions) => execute_run(worker, now, frames, &actions, out),
            None => frames.iter_mut().for_each(|frame| worker.miss(now, take(frame), out)),
        }
    }
}

/// Takes a frame out of its place in the pass.
pub(crate) fn take(frame: &mut Frame) -> Frame {
    let Frame { ref mut packet, ref key, layers, connection } = *frame;
    Frame { packet: packet.take(), key: key.clone(), layers, connection }
}
