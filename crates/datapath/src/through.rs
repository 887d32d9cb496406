//! Executes a flow's actions that decapsulate, or encapsulate after connection tracking: the path trace needs
//! the packets' state in between.

use crate::burst::PathTrace;
use crate::execute::{execute_run, track};
use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::step::Step;
use crate::tunnel;
use crate::worker::Worker;
use base::Instant;
use flow::{Action, Frame};

/// Executes `actions` as [`execute_run`] does, and records the path traces. There is a trace per frame, or
/// none at all.
pub(crate) fn execute(
    worker: &mut Worker,
    now: Instant,
    frames: &mut [Frame],
    traces: &mut [PathTrace],
    actions: &[Action],
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    if let [Action::TunnelPop { port, end }] = actions {
        return tunnel::pop(worker, frames, traces, (*port, *end), observer);
    }
    let is_tracking = |action: &&Action| matches!(action, Action::Ct(_) | Action::CtClear);
    let ct_steps = actions.iter().take_while(is_tracking).count();
    let is_fragment = |frame: &Frame| !frame.packet.is_empty() && frame.key.nw_frag() != 0;
    // More fragments may be released than were held in this batch.
    if frames.iter().any(is_fragment) || ct_steps == 0 {
        traces.iter_mut().for_each(PathTrace::set_uncacheable);
        return execute_run(worker, now, frames, actions, out, observer);
    }
    let (ct_steps, rest) = actions.split_at(ct_steps);
    for action in ct_steps {
        if let Action::Ct(ct) = action {
            track(worker, now, frames, ct, observer);
            continue;
        }
        for frame in frames.iter_mut().filter(|frame| !frame.packet.is_empty()) {
            frame.clear_ct();
            observer.note(|| Step::Done(Action::CtClear));
        }
    }
    traces.iter_mut().zip(&*frames).for_each(|(trace, frame)| trace.tracked(frame));
    execute_run(worker, now, frames, rest, out, observer);
}
