//! Carries out a flow's steps on the frames that hit it.

use crate::outbox::Outbox;
use crate::rewrite;
use crate::worker::Worker;
use base::{Instant, PortNo, RecircId};
use flow::{Action, CtAction, DropReason, Frame, UpcallKind};

/// Carries out `actions` on frames of one flow. Afterwards only those packets are in their places
/// that go round again; the others were sent, or dropped and counted.
pub(crate) fn execute_run(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    actions: &[Action],
    out: &mut Outbox,
) {
    if actions.is_empty() {
        drop_all(worker, frames, DropReason::NoAction);
    }
    let mut rest = actions;
    while let Some((action, after)) = rest.split_first() {
        rest = after;
        let last = rest.is_empty();
        match action {
            Action::Output(port) => output(worker, frames, *port, last, out),
            Action::Recirc(id) if last => {
                present(frames).for_each(|frame| frame.key.set_recirc_id(*id));
                return;
            }
            Action::Recirc(id) => recirculate_copies(worker, frames, *id),
            Action::Ct(ct) => {
                let mut whole = track(worker, now, frames, ct);
                if !whole.is_empty() && !last {
                    execute_run(worker, now, frames, rest, out);
                    execute_run(worker, now, &mut whole, rest, out);
                    let again = whole.into_iter().filter(|frame| !frame.packet.is_empty());
                    worker.again.extend(again.map(|frame| (0, frame)));
                    return;
                }
                release(worker, &mut whole);
            }
            Action::CtClear => present(frames).for_each(Frame::clear_ct),
            Action::Set(set) => present(frames).for_each(|frame| rewrite::set_field(frame, set)),
            Action::PushVlan { tpid, tci } => push_vlan(worker, frames, *tpid, *tci),
            Action::PopVlan => present(frames).for_each(rewrite::pop_vlan),
            Action::Controller(to) => {
                let kind = UpcallKind::Controller(*to);
                send_to_control(worker, now, frames, &kind, out);
            }
            Action::Clone(actions) => on_copies(worker, now, frames, actions, out),
            Action::Drop(reason) => {
                drop_all(worker, frames, *reason);
                return;
            }
        }
    }
    release(worker, frames);
}

/// Frames whose packet is still there; what was dropped on the way has none.
fn present(frames: &mut [Frame]) -> impl Iterator<Item = &mut Frame> {
    frames.iter_mut().filter(|frame| !frame.packet.is_empty())
}

/// The packet itself goes out where nothing follows, a copy otherwise.
fn output(worker: &mut Worker, frames: &mut [Frame], port: PortNo, last: bool, out: &mut Outbox) {
    for frame in present(frames) {
        let packet = if last { frame.packet.take() } else { worker.pool.copy(&frame.packet) };
        out.push(port, packet);
    }
}

fn recirculate_copies(worker: &mut Worker, frames: &mut [Frame], id: RecircId) {
    for frame in present(frames) {
        let mut again = copy(worker, frame);
        again.key.set_recirc_id(id);
        worker.again.push((0, again));
    }
}

/// Fragments are held until their datagram is whole; those that then come out again, perhaps more
/// than went in, are given back and have the same steps before them as `frames`.
fn track(worker: &mut Worker, now: Instant, frames: &mut [Frame], ct: &CtAction) -> Vec<Frame> {
    if frames.iter().all(|frame| frame.key.nw_frag() == 0) {
        worker.tracker.execute(now, ct, frames);
        return Vec::new();
    }
    let whole = worker.tracker.execute_reassembling(now, ct, frames);
    for held in frames.iter_mut().filter(|frame| frame.packet.is_empty()) {
        worker.pool.give(held.packet.take());
    }
    whole
}

fn push_vlan(worker: &mut Worker, frames: &mut [Frame], tpid: u16, tci: u16) {
    for frame in present(frames) {
        if !rewrite::push_vlan(frame, tpid, tci) {
            worker.drop_packet(frame.packet.take(), DropReason::NoHeadroom);
        }
    }
}

fn send_to_control(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    kind: &UpcallKind,
    out: &mut Outbox,
) {
    for frame in present(frames) {
        if !worker.send_up(now, frame, kind.clone(), out) {
            worker.stats.drops.count(DropReason::UpcallQueueFull, 1);
        }
    }
}

/// Steps on copies, one frame at a time: what they change does not come back.
fn on_copies(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    actions: &[Action],
    out: &mut Outbox,
) {
    for frame in present(frames) {
        let mut copies = [copy(worker, frame)];
        execute_run(worker, now, &mut copies, actions, out);
        let [copy] = copies;
        if !copy.packet.is_empty() {
            worker.again.push((0, copy));
        }
    }
}

fn copy(worker: &mut Worker, frame: &Frame) -> Frame {
    let Frame { packet, key, layers, connection } = frame;
    let packet = worker.pool.copy(packet);
    Frame { packet, key: key.clone(), layers: *layers, connection: *connection }
}

fn drop_all(worker: &mut Worker, frames: &mut [Frame], reason: DropReason) {
    for frame in present(frames) {
        worker.drop_packet(frame.packet.take(), reason);
    }
}

/// Hands back the buffers of frames whose last step did not take them.
fn release(worker: &mut Worker, frames: &mut [Frame]) {
    for frame in present(frames) {
        worker.pool.give(frame.packet.take());
    }
}
