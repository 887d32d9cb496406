//! Walks: look up, execute actions, and again for packets that recirculate.

use crate::burst::{Burst, PathTrace};
use crate::execute::execute_run;
use crate::flow_paths::Hit;
use crate::observer::{Observer, Stage};
use crate::outbox::Outbox;
use crate::through;
use crate::worker::Worker;
use base::Instant;
use base::limits::{BATCH_SIZE, RECIRC_DEPTH};
use classifier::Handle;
use flow::{Action, DropReason, Frame};
use std::ops::Range;

/// The flows hit by the frames of a pass, with run lengths; `None` for places without a packet.
type Hits = arrayvec::ArrayVec<(Option<Handle>, usize), BATCH_SIZE>;

/// Walks consecutive packets of a burst, and their recirculated copies.
pub(crate) fn walk_burst(
    worker: &mut Worker,
    now: Instant,
    burst: &mut Burst,
    packets: Range<usize>,
    is_traced: bool,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    burst.begin_walk(packets.clone(), is_traced);
    let Burst { frames, traces, .. } = burst;
    let traces = if is_traced { &mut traces[packets.clone()] } else { &mut [] };
    walk(worker, now, &mut frames[packets], traces, 0, out, observer);
    walk_copies(worker, now, out, observer);
    observer.stage_done(Stage::Walk);
}

/// Executes actions on one frame, and walks the recirculated packets.
pub(crate) fn execute(
    worker: &mut Worker,
    now: Instant,
    frame: &mut Frame,
    actions: &[Action],
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    let frames = std::slice::from_mut(frame);
    execute_run(worker, now, frames, actions, out, observer);
    worker.stats.recirculated += (present(frames) + worker.again.len()) as u64;
    walk(worker, now, frames, &mut [], 0, out, observer);
    walk_copies(worker, now, out, observer);
}

/// Walks a frame that waited behind a miss.
pub(crate) fn enter_again(
    worker: &mut Worker,
    now: Instant,
    frame: &mut Frame,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    walk(worker, now, std::slice::from_mut(frame), &mut [], 0, out, observer);
    walk_copies(worker, now, out, observer);
}

/// Pass after pass over the flow table, until no packet remains in its place. The number of passes is
/// bounded, so that flows that recirculate forever do no harm. There is a trace per frame, or none if the
/// paths will not be cached.
fn walk(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    traces: &mut [PathTrace],
    passed: usize,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    let mut hits = Hits::new();
    for pass in passed..RECIRC_DEPTH {
        let left = look_up(worker, frames, &mut hits, observer);
        if pass > passed {
            worker.stats.recirculated += left as u64;
        }
        if left == 0 {
            return;
        }
        let copies = worker.again.len();
        carry_out(worker, now, frames, traces, &hits, out, observer);
        worker.again[copies..].iter_mut().for_each(|(passed, _)| *passed = pass + 1);
        worker.stats.recirculated += (worker.again.len() - copies) as u64;
    }
    if passed < RECIRC_DEPTH {
        worker.stats.recirculated += present(frames) as u64;
    }
    for frame in frames.iter_mut().filter(|frame| !frame.packet.is_empty()) {
        worker.refuse(frame.packet.take(), DropReason::RecircDepth, observer);
    }
}

/// Walks copies that recirculated while actions remained for the packets themselves. They walk in order, so
/// that the fragments of a datagram stay in order, and each with all its own copies, so that few wait at a
/// time.
pub(crate) fn walk_copies(
    worker: &mut Worker,
    now: Instant,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    worker.again.reverse();
    while let Some((passed, mut frame)) = worker.again.pop() {
        let waiting = worker.again.len();
        walk(worker, now, std::slice::from_mut(&mut frame), &mut [], passed, out, observer);
        worker.again[waiting..].reverse();
    }
}

/// Finds each frame's flow: in the exact-match cache, or else in the megaflow table. Returns the number of
/// packets.
fn look_up(
    worker: &mut Worker,
    frames: &[Frame],
    hits: &mut Hits,
    observer: &mut impl Observer,
) -> usize {
    let visited_before = worker.flows.counts().subtables_visited;
    let (mut left, mut at) = (0, 0);
    hits.clear();
    while let Some(frame) = frames.get(at) {
        let (hit, count) = if frame.packet.is_empty() {
            (None, 1)
        } else {
            let found = worker.flow_of(&frames[at..], observer);
            left += found.1;
            found
        };
        at += count;
        match hits.last_mut() {
            Some((last, frames)) if *last == hit => *frames += count,
            _ => hits.push((hit, count)),
        }
    }
    worker.stats.subtables += worker.flows.counts().subtables_visited - visited_before;
    left
}

/// Executes each flow's actions on the frames that hit it, run by run, so that consecutive frames of one flow
/// stay together.
fn carry_out(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    traces: &mut [PathTrace],
    hits: &Hits,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    let mut start = 0;
    for &(hit, count) in hits {
        let range = start..start + count;
        start = range.end;
        let frames = &mut frames[range.clone()];
        let traces = traces.get_mut(range).unwrap_or_default();
        if let Some(handle) = hit
            && worker.holds_back(handle, frames)
        {
            carry_out_behind(worker, now, handle, frames, traces, out, observer);
            continue;
        }
        let Some(flow) = hit.and_then(|handle| worker.credit_frames(now, handle, frames)) else {
            frames.iter_mut().for_each(|frame| worker.miss(now, frame, out, observer));
            continue;
        };
        traces
            .iter_mut()
            .for_each(|trace| trace.hit(Hit { flow: flow.handle, version: flow.version }));
        if flow.clears {
            traces.iter_mut().for_each(PathTrace::cleared);
        }
        if flow.tunnels {
            through::execute(worker, now, frames, traces, &flow.actions, out, observer);
        } else {
            execute_run(worker, now, frames, &flow.actions, out, observer);
        }
        worker.give_back(flow.handle, flow.actions);
        if flow.tracks && !flow.tunnels {
            traces.iter_mut().zip(frames).for_each(|(trace, frame)| trace.tracked(frame));
        }
    }
}

/// The same for packets of a flow of which some may have to wait behind unanswered misses with their key or
/// of their connection. Their paths are not cached, since later packets need the same check.
fn carry_out_behind(
    worker: &mut Worker,
    now: Instant,
    handle: Handle,
    frames: &mut [Frame],
    traces: &mut [PathTrace],
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    traces.iter_mut().for_each(PathTrace::set_uncacheable);
    for frame in frames {
        if worker.waits(frame, observer) {
            continue;
        }
        let frames = std::slice::from_mut(frame);
        let Some(flow) = worker.credit_frames(now, handle, frames) else { continue };
        execute_run(worker, now, frames, &flow.actions, out, observer);
        worker.give_back(flow.handle, flow.actions);
    }
}

/// The number of packets in their places.
fn present(frames: &[Frame]) -> usize {
    frames.iter().filter(|frame| !frame.packet.is_empty()).count()
}
