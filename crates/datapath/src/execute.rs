//! Executes a flow's actions on the frames that hit it.

mod branch;

use crate::burst::present;
use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::step::Step;
use crate::tunnel;
use crate::worker::Worker;
use crate::{rewrite, shim};
use base::{Instant, PortNo, RecircId};
use flow::{Action, CtAction, DropReason, Field, Frame, TunnelEnd, UpcallKind};
use port::offload;

/// Executes `actions` on frames of one flow. Only recirculated packets remain in their places; the others
/// were sent, or dropped and counted.
pub(crate) fn execute_run(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    actions: &[Action],
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    if actions.is_empty() {
        drop_all(worker, frames, DropReason::NoAction, observer);
    }
    let mut rest = actions;
    while let Some((action, after)) = rest.split_first() {
        rest = after;
        let last = rest.is_empty();
        match action {
            Action::Output(port) if last => return output(frames, *port, out, observer),
            Action::Output(port) => output_copies(worker, frames, *port, out, observer),
            Action::OutputCut { port, max_len } => {
                output_cut(worker, frames, *port, *max_len, out, observer);
            }
            Action::Recirc(id) if last => return recirculate(frames, *id, observer),
            Action::Recirc(id) => recirculate_copies(worker, frames, *id, observer),
            Action::Ct(ct) => {
                let mut whole = track(worker, now, frames, ct, observer);
                if !whole.is_empty() && !last {
                    execute_run(worker, now, frames, rest, out, observer);
                    execute_run(worker, now, &mut whole, rest, out, observer);
                    let again = whole.into_iter().filter(|frame| !frame.packet.is_empty());
                    worker.again.extend(again.map(|frame| (0, frame)));
                    return;
                }
                release(worker, &mut whole);
            }
            Action::CtClear => on_each(frames, action, observer, Frame::clear_ct),
            Action::Set(to) => {
                remember_received(worker, frames, rewrite::is_end(to.field));
                on_each(frames, action, observer, |frame| rewrite::set_field(frame, to));
            }
            Action::PushVlan { tpid, tci } => push_vlan(worker, frames, *tpid, *tci, observer),
            Action::PopVlan => on_each(frames, action, observer, rewrite::pop_vlan),
            Action::TunnelPush(to) => {
                let cut = tunnel::push(worker, now, frames, to, observer);
                if !cut.is_empty() {
                    return go_on(worker, now, cut, rest, out, observer);
                }
            }
            Action::TunnelPop { port, end } if last => {
                return tunnel::pop(worker, frames, &mut [], (*port, *end), observer);
            }
            Action::TunnelPop { port, end } => pop_copies(worker, frames, (*port, *end), observer),
            Action::Hash { algorithm, basis } => on_each(frames, action, observer, |frame| {
                frame.key.set(Field::DpHash, algorithm.hash(&frame.key, *basis).into());
            }),
            Action::Controller(_) | Action::Protocol(_) => {
                send_up(worker, now, frames, action, out, observer);
            }
            Action::Clone(actions) => on_copies(worker, now, frames, actions, out, observer),
            Action::Drop(reason) => return drop_all(worker, frames, *reason, observer),
            _ if branch::carry_out(worker, now, frames, (action, last), out, observer) => return,
            _ => {
                let cut = shim::carry_out(worker, frames, action, observer);
                if !cut.is_empty() {
                    return go_on(worker, now, cut, rest, out, observer);
                }
            }
        }
    }
    release(worker, frames);
}

/// Executes the remaining actions on frames that others were split into.
fn go_on(
    worker: &mut Worker,
    now: Instant,
    mut cut: Vec<Frame>,
    rest: &[Action],
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    if rest.is_empty() {
        return release(worker, &mut cut);
    }
    execute_run(worker, now, &mut cut, rest, out, observer);
    let again = cut.into_iter().filter(|frame| !frame.packet.is_empty());
    worker.again.extend(again.map(|frame| (0, frame)));
}

/// Changes each frame or its key.
pub(crate) fn on_each(
    frames: &mut [Frame],
    action: &Action,
    observer: &mut impl Observer,
    mut rewrite: impl FnMut(&mut Frame),
) {
    for frame in present(frames) {
        rewrite(frame);
        observer.note(|| Step::Done(action.clone()));
    }
}

/// Sends the packets themselves, as no action follows.
fn output(frames: &mut [Frame], port: PortNo, out: &mut Outbox, observer: &mut impl Observer) {
    let noted = present(frames).inspect(|_| observer.note(|| Step::Output(port)));
    out.extend(port, noted.map(|frame| &mut frame.packet));
}

/// Sends copies, as more actions follow.
fn output_copies(
    worker: &mut Worker,
    frames: &mut [Frame],
    port: PortNo,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        out.push(port, worker.pool.copy(&frame.packet));
        observer.note(|| Step::Output(port));
    }
}

/// Sends copies, truncated to their limits.
fn output_cut(
    worker: &mut Worker,
    frames: &mut [Frame],
    port: PortNo,
    max_len: u32,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        branch::cut_copies(worker, &frame.packet, max_len as usize, |_, copy| {
            out.push(port, copy);
            observer.note(|| Step::Output(port));
        });
    }
}

fn recirculate(frames: &mut [Frame], id: RecircId, observer: &mut impl Observer) {
    for frame in present(frames) {
        frame.key.set_recirc_id(id);
        observer.note(|| Step::Recirculated(id));
    }
}

fn recirculate_copies(
    worker: &mut Worker,
    frames: &mut [Frame],
    id: RecircId,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        let mut again = copy(worker, frame);
        again.key.set_recirc_id(id);
        worker.again.push((0, again));
        observer.note(|| Step::Recirculated(id));
    }
}

fn pop_copies(
    worker: &mut Worker,
    frames: &mut [Frame],
    tunnel: (PortNo, TunnelEnd),
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        let mut again = [copy(worker, frame)];
        tunnel::pop(worker, &mut again, &mut [], tunnel, observer);
        let [again] = again;
        if !again.packet.is_empty() {
            worker.again.push((0, again));
        }
    }
}

/// Fragments are held until their datagram is complete. The fragments released then, possibly more than
/// arrived, are returned and have executed the same actions as `frames`.
pub(crate) fn track(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    ct: &CtAction,
    observer: &mut impl Observer,
) -> Vec<Frame> {
    remember_received(worker, frames, ct.nat.is_some());
    if frames.iter().all(|frame| frame.key.nw_frag() == 0) {
        worker.tracker.execute(now, ct, frames);
        present(frames).for_each(|frame| observer.note(|| tracked(worker, now, ct, frame)));
        return Vec::new();
    }
    let before = present(frames).count();
    let mut whole = worker.tracker.execute_reassembling(now, ct, frames);
    for held in frames.iter_mut().filter(|frame| frame.packet.is_empty()) {
        worker.pool.give(held.packet.take());
    }
    (present(frames).count()..before).for_each(|_| observer.note(|| Step::Held));
    for frame in present(frames).chain(present(&mut whole)) {
        observer.note(|| tracked(worker, now, ct, frame));
    }
    whole
}

/// Notes the addresses and ports of frames before the first action that may rewrite them, if this one may. A
/// packet that waits later is found by them ([`crate::pending`]).
fn remember_received(worker: &Worker, frames: &mut [Frame], may_rewrite: bool) {
    if may_rewrite {
        for frame in present(frames).filter(|frame| frame.received.is_none()) {
            frame.received = Some(worker.pending.received(&frame.key));
        }
    }
}

/// The trace step of a pass through connection tracking.
fn tracked(worker: &mut Worker, now: Instant, ct: &CtAction, frame: &Frame) -> Step {
    let connection = frame.connection.and_then(|it| worker.tracker.entry(now, it));
    Step::Tracked {
        zone: ct.zone,
        state: frame.key.ct_state(),
        mark: frame.key.ct_mark(),
        label: frame.key.ct_label(),
        connection: connection.map(Box::new),
    }
}

fn push_vlan(
    worker: &mut Worker,
    frames: &mut [Frame],
    tpid: u16,
    tci: u16,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        if rewrite::push_vlan(frame, tpid, tci) {
            observer.note(|| Step::Done(Action::PushVlan { tpid, tci }));
        } else {
            worker.refuse(frame.packet.take(), DropReason::NoHeadroom, observer);
        }
    }
}

/// Sends copies to the control side, for a controller or a state machine.
fn send_up(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    action: &Action,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    let kind = match action {
        Action::Controller(to) => UpcallKind::Controller(*to),
        Action::Protocol(to) => UpcallKind::Protocol(*to),
        _ => return,
    };
    let mut send = |worker: &mut Worker, frame: &Frame, observer: &mut _| {
        // What a controller does with it later is not part of this trace.
        if worker.send_up(now, frame, kind.clone(), out, None) {
            note(observer, || Step::Done(action.clone()));
        } else {
            worker.stats.drops.count(DropReason::UpcallQueueFull, 1);
            note(observer, || Step::Dropped(DropReason::UpcallQueueFull));
        }
    };
    for frame in present(frames) {
        // A controller gets complete packets of the sizes of a wire, as from the kernel's datapath (Linux:
        // `net/openvswitch/datapath.c`, `ovs_dp_upcall`).
        if frame.packet.offload.gso.is_some() {
            let mut pieces = Vec::new();
            let mut large = copy(worker, frame);
            shim::segment(worker, &mut large, DropReason::Malformed, &mut pieces, observer);
            for mut piece in pieces {
                send(worker, &piece, observer);
                worker.pool.give(piece.packet.take());
            }
            continue;
        }
        offload::complete_checksum(&mut frame.packet);
        send(worker, frame, observer);
    }
}

/// Notes a step; for closures, which cannot have a parameter of any observer's type.
fn note(observer: &mut impl Observer, step: impl FnOnce() -> Step) {
    observer.note(step);
}

/// Executes actions on copies, one frame at a time; their changes do not affect the originals.
fn on_copies(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    actions: &[Action],
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        let mut copies = [copy(worker, frame)];
        observer.note(|| Step::Copied);
        execute_run(worker, now, &mut copies, actions, out, observer);
        let [copy] = copies;
        if !copy.packet.is_empty() {
            worker.again.push((0, copy));
        }
    }
}

pub(crate) fn copy(worker: &mut Worker, frame: &Frame) -> Frame {
    let Frame { packet, key, layers, connection, received } = frame;
    let (packet, key) = (worker.pool.copy(packet), key.clone());
    Frame { packet, key, layers: *layers, connection: *connection, received: *received }
}

fn drop_all(
    worker: &mut Worker,
    frames: &mut [Frame],
    reason: DropReason,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        worker.refuse(frame.packet.take(), reason, observer);
    }
}

/// Recycles the buffers of frames that the last action did not consume.
fn release(worker: &mut Worker, frames: &mut [Frame]) {
    for frame in present(frames) {
        worker.pool.give(frame.packet.take());
    }
}
