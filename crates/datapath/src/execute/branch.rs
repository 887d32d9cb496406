//! Actions that depend on a packet's length or a meter, those on truncated copies, and those for tunnels.

use super::{copy, execute_run, on_each};
use crate::burst::present;
use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::rewrite;
use crate::step::Step;
use crate::worker::Worker;
use base::{Instant, limits};
use flow::{Action, CheckLen, DropReason, Frame, MeterRef};
use packet::Packet;
use port::offload;
use std::slice;
use std::sync::Arc;

/// Executes one of these actions. Returns whether it consumed the frames.
pub(crate) fn carry_out(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    (action, last): (&Action, bool),
    out: &mut Outbox,
    observer: &mut impl Observer,
) -> bool {
    match action {
        Action::CloneCut { max_len, actions } => {
            on_cut_copies(worker, now, frames, (*max_len, actions), out, observer);
        }
        Action::CheckLen(check) if last => {
            check_len(worker, now, frames, check, out, observer);
            return true;
        }
        Action::CheckLen(check) => check_len_of_copies(worker, now, frames, check, out, observer),
        Action::Meter(meter) => limit(worker, now, frames, meter, observer),
        Action::SetTunnel(to) => {
            for frame in present(frames) {
                frame.key.copy_tunnel(&to.key);
                observer.note(|| Step::Done(action.clone()));
            }
        }
        Action::PushEth { source, destination } => on_each(frames, action, observer, |frame| {
            rewrite::set_ethernet(frame, *source, *destination);
        }),
        Action::PopEth => on_each(frames, action, observer, rewrite::pop_ethernet),
        _ => {}
    }
    false
}

/// Makes a copy of a packet of at most `max_len` bytes, or of each segment of a large frame if they are longer. The
/// checksum is complete before bytes that it covers are cut off.
pub(crate) fn cut_copies(
    worker: &mut Worker,
    packet: &Packet,
    max_len: usize,
    mut each: impl FnMut(&mut Worker, Packet),
) {
    let mut copy = worker.pool.copy(packet);
    if !offload::exceeds(packet, max_len) {
        return each(worker, copy);
    }
    if packet.offload.gso.is_none() {
        offload::complete_checksum(&mut copy);
        copy.truncate(max_len);
        copy.forget_offload();
        return each(worker, copy);
    }
    let mut pieces = Vec::new();
    if !offload::finish(copy, &mut worker.pool, |piece| pieces.push(piece)) {
        worker.stats.drops.count(DropReason::Malformed, 1);
    }
    for mut piece in pieces {
        piece.truncate(max_len);
        piece.forget_offload();
        each(worker, piece);
    }
}

/// Executes actions on truncated copies.
fn on_cut_copies(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    (max_len, actions): (u32, &Arc<[Action]>),
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        let most = (max_len as usize).saturating_add(frame.key.unseen_bytes());
        let Frame { packet, key, layers, connection, received } = frame;
        let (layers, connection, received) = (*layers, *connection, *received);
        cut_copies(worker, packet, most, |worker, packet| {
            let key = key.clone();
            let mut copy = Frame { packet, key, layers, connection, received };
            observer.note(|| Step::Copied);
            execute_run(worker, now, slice::from_mut(&mut copy), actions, out, observer);
            again(worker, copy);
        });
    }
}

/// Executes one list of actions for long packets and another for short ones. Only recirculated packets remain
/// in their places.
fn check_len(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    check: &CheckLen,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        // A large frame is judged by its segments (Linux: `net/openvswitch/actions.c`,
        // `execute_check_pkt_len`).
        let most = usize::from(check.bytes) + frame.key.unseen_bytes();
        let is_greater = offload::exceeds(&frame.packet, most);
        let actions = if is_greater { &check.greater } else { &check.less_equal };
        execute_run(worker, now, slice::from_mut(frame), actions, out, observer);
    }
}

/// The same on copies, if other actions follow.
fn check_len_of_copies(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    check: &CheckLen,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    for frame in present(frames) {
        let mut copy = copy(worker, frame);
        observer.note(|| Step::Copied);
        check_len(worker, now, slice::from_mut(&mut copy), check, out, observer);
        again(worker, copy);
    }
}

/// Recirculates a copy.
fn again(worker: &mut Worker, copy: Frame) {
    if !copy.packet.is_empty() {
        worker.again.push((0, copy));
    }
}

/// Drops packets above the meter's rate.
fn limit(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    meter: &MeterRef,
    observer: &mut impl Observer,
) {
    for frames in frames.chunks_mut(limits::BATCH_SIZE) {
        let (mut admitted, mut at) = (0u64, 0);
        // Empty places are skipped here and below alike.
        let lengths = frames.iter().filter(|frame| !frame.packet.is_empty()).map(Frame::seen_len);
        meter.0.judge(now, lengths, |is_admitted| {
            admitted |= u64::from(is_admitted) << at;
            at += 1;
        });
        for (at, frame) in present(frames).enumerate() {
            if admitted >> at & 1 != 0 {
                observer.note(|| Step::Done(Action::Meter(meter.clone())));
            } else {
                worker.refuse(frame.packet.take(), DropReason::Meter, observer);
            }
        }
    }
}
