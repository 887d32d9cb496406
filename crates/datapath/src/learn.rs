//! What is remembered of packets that took the whole walk.

use crate::lane::{Lane, Trail};
use crate::laps::Laps;
use crate::step::Step;
use crate::translate::{Translation, Tuple};
use crate::unified::Known;
use crate::visits::Tracking;
use crate::way::Way;
use crate::worker::Worker;
use flow::Headers;

/// TCP's SYN, FIN and RST: their packets change connections, and are never like others.
pub(crate) const CONTROL: u16 = 0x7;
/// ICMP and ICMPv6, whose connections are told apart by more than [`Headers`] have.
const ICMP: [u8; 2] = [1, 58];

/// Puts the ways of a batch's packets into the unified cache, where they can be remembered; only
/// some of them where it does not pay. Which ones is left to chance, since packets come in rounds
/// that a counter could fall in step with.
pub(crate) fn remember(worker: &mut Worker, lane: &Lane, laps: &mut impl Laps) {
    if !worker.unified.is_on() {
        return;
    }
    for (headers, trail) in lane.headers.iter().zip(&lane.trails).take(lane.count) {
        if !is_steady(headers, trail) {
            continue;
        }
        worker.worth.walks += 1;
        if is_chosen(worker)
            && let Some((mask, known)) = known(worker, headers, trail)
        {
            worker.unified.insert(headers, &mask, &known);
            laps.note(|| Step::Offered);
        }
    }
}

/// Whether a walk that could be remembered is.
fn is_chosen(worker: &mut Worker) -> bool {
    let inverse = worker.config.unified_insert_inverse;
    !worker.worth.learns_seldom() || worker.next_random().is_multiple_of(inverse.max(1))
}

/// Whether others with the same headers may go the same way, as far as connection tracking goes.
fn is_steady(headers: &Headers, trail: &Trail) -> bool {
    match trail.tracking {
        _ if headers.is_none() => false,
        Tracking::Unsteady => false,
        Tracking::Untracked => true,
        Tracking::Same(visits) => {
            headers.tcp_flags() & CONTROL == 0
                && visits.connections().all(|it| it.acting <= 2)
                && !ICMP.contains(&headers.protocol())
        }
    }
}

/// What a steady packet's walk says of others like it, and which bits make them so.
fn known(worker: &mut Worker, headers: &Headers, trail: &Trail) -> Option<(Headers, Known)> {
    let first = *trail.passes.first()?;
    let visits = match trail.tracking {
        Tracking::Untracked => None,
        Tracking::Same(visits) => Some(visits),
        Tracking::Unsteady => return None,
    };
    let is_one = trail.passes.len() == 1 && visits.is_none();
    let way = if is_one {
        if !worker.flows.get(first.flow)?.ends_untracked() {
            return None;
        }
        Way::flow(first.flow)
    } else {
        Way::walk(worker.walks.intern(&trail.passes, worker.epoch, &worker.flows)?)
    };
    let mut mask = Headers::none();
    for hit in &trail.passes {
        mask = mask.union(&headers.mask_of(worker.flows.mask(hit.flow)?));
    }
    let mut translation = None;
    if let Some(visits) = &visits {
        let tuple = Tuple::of_headers(headers);
        if !visits.are_seen_with(&tuple) {
            return None;
        }
        mask = mask.union(&headers.tuple_mask());
        translation = (tuple != trail.tuple).then(|| Translation::new(headers, &trail.tuple));
    }
    Some((mask, Known { way, visits, translation }))
}
