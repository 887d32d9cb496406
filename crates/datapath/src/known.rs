//! Packets like earlier ones: forwarded as those were, without a walk over the tables.

use crate::execute::execute_run;
use crate::lane::Lane;
use crate::manner::Steps;
use crate::outbox::Outbox;
use crate::translate::translate;
use crate::unified::{Known, Way};
use crate::worker::Worker;
use base::Instant;
use flow::{Frame, Headers};

/// Forwards the packets of a batch of which the unified cache knows all; says how many those were.
/// The others stay in their places.
pub(crate) fn forward(
    worker: &mut Worker,
    now: Instant,
    lane: &mut Lane,
    out: &mut Outbox,
) -> usize {
    if !worker.unified.is_on() {
        return 0;
    }
    worker.unified.look_up(&lane.headers[..lane.count], &mut lane.found);
    follow(worker, now, lane);
    let Lane { frames, headers, known, .. } = lane;
    let (mut start, mut forwarded) = (0, 0);
    for run in known.chunk_by(goes_with) {
        let range = start..start + run.len();
        start = range.end;
        if let Some(first) = &run[0] {
            forwarded += run.len();
            send(worker, now, first, run, &mut frames[range.clone()], &headers[range], out);
        }
    }
    forwarded
}

/// Lets packets act on their connections, in order. A packet that is not like those before it
/// takes the walk, and so do all after it that may be of the same connection, so that none
/// overtakes another.
fn follow(worker: &mut Worker, now: Instant, lane: &mut Lane) {
    let Lane { frames, headers, found, known, .. } = lane;
    let mut walking = 0u64;
    known.clear();
    for ((at, headers), frame) in found.iter().zip(headers.iter()).zip(frames.iter()) {
        let pair = 1 << headers.pair();
        let it = at.and_then(|at| worker.unified.get(at)).filter(|it| {
            walking & pair == 0
                && worker.is_good(it.way)
                && it.connection.is_none_or(|it| worker.tracker.follow_known(now, it, frame))
        });
        if it.is_none() {
            walking |= pair;
        }
        known.push(it);
    }
}

fn goes_with(a: &Option<Known>, b: &Option<Known>) -> bool {
    a.map(|it| it.way) == b.map(|it| it.way)
}

/// Counts a run of packets that go one way against its flows, and carries out its last steps.
fn send(
    worker: &mut Worker,
    now: Instant,
    first: &Known,
    run: &[Option<Known>],
    frames: &mut [Frame],
    headers: &[Headers],
    out: &mut Outbox,
) {
    let bytes = frames.iter().map(|frame| frame.packet.len() as u64).sum();
    let tcp_flags = headers.iter().fold(0, |flags, headers| flags | headers.tcp_flags());
    let count = run.len() as u64;
    let (passes, steps) = match first.way {
        Way::Flow(handle) => {
            worker.credit(now, handle, count, bytes, tcp_flags);
            (1, worker.last_steps(handle))
        }
        Way::Walk(id) => {
            let Some(walk) = worker.walks.get(id) else { return };
            let (passes, steps) = (walk.passes.clone(), walk.steps.clone());
            for hit in &passes {
                worker.credit(now, hit.flow, count, bytes, tcp_flags);
            }
            (passes.len() as u64, Some(steps))
        }
    };
    worker.stats.exact_hits += count * passes;
    worker.stats.recirculated += count * (passes - 1);
    for (frame, known) in frames.iter_mut().zip(run) {
        if let Some(translation) = known.as_ref().and_then(|it| it.translation.as_ref()) {
            translate(frame, translation);
        }
    }
    match steps {
        Some(Steps::Output(port)) => {
            out.extend(port, frames.iter_mut().map(|frame| frame.packet.take()));
        }
        Some(Steps::Actions(actions)) => execute_run(worker, now, frames, &actions, out),
        None => {}
    }
}
