//! What is remembered of packets that took the whole walk.

use crate::lane::{Lane, Trail};
use crate::laps::Laps;
use crate::step::Step;
use crate::translate::{Translation, Tuple};
use crate::unified::{Known, Late};
use crate::visits::{Tracking, Visited, Visits};
use crate::walks::Passes;
use crate::way::Way;
use crate::worker::Worker;
use base::Instant;
use flow::{Action, Headers, TupleL4};

/// TCP's SYN, FIN and RST: their packets change connections, and are never like others.
pub(crate) const CONTROL: u16 = 0x7;

/// Puts the ways of a batch's packets into the unified cache, where they can be remembered; only
/// some of them where it does not pay. Which ones is left to chance, since packets come in rounds
/// that a counter could fall in step with.
pub(crate) fn remember(worker: &mut Worker, now: Instant, lane: &Lane, laps: &mut impl Laps) {
    for (headers, trail) in lane.headers.iter().zip(&lane.trails).take(lane.count) {
        if !is_steady(headers, trail) {
            continue;
        }
        worker.worth.walks += 1;
        if is_chosen(worker)
            && let Some((mask, known)) = known(worker, now, headers, trail)
        {
            worker.unified.insert(headers, &mask, &known);
            laps.note(|| Step::Offered);
        }
    }
}

/// Whether a walk that could be remembered is; of those of all batches together one in so many.
fn is_chosen(worker: &mut Worker) -> bool {
    let inverse = worker.config.unified_insert_inverse / worker.batches_per_note();
    !worker.worth.learns_seldom() || worker.next_random().is_multiple_of(inverse.max(1))
}

/// Whether others with the same headers may go the same way, as far as connection tracking goes.
fn is_steady(headers: &Headers, trail: &Trail) -> bool {
    match trail.tracking {
        _ if headers.is_none() => false,
        Tracking::Unsteady => false,
        Tracking::Untracked => true,
        Tracking::Same(visits) => {
            headers.tcp_flags() & CONTROL == 0 && visits.connections().all(|it| it.acting <= 2)
        }
    }
}

/// What a steady packet's walk says of others like it, and which bits make them so.
fn known(
    worker: &mut Worker,
    now: Instant,
    headers: &Headers,
    trail: &Trail,
) -> Option<(Headers, Known)> {
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
    let (mut late, mut is_shared) = (Late::Never, false);
    if let Some(visits) = &visits {
        let tuple = Tuple::of_headers(headers);
        if !visits.are_seen_with(&tuple) {
            return None;
        }
        mask = mask.union(&headers.tuple_mask());
        translation = if headers.is_icmp() {
            let id = icmp_id_behind(worker, now, visits, &trail.passes)?;
            let is_same = tuple == trail.tuple && id.is_none_or(|id| id == headers.icmp_id());
            let id = id.unwrap_or(headers.icmp_id());
            (!is_same).then(|| Translation::of_icmp(&trail.tuple, id))
        } else {
            (tuple != trail.tuple).then(|| Translation::new(headers, &trail.tuple))
        };
        if visits.are_several || !worker.flows.get(first.flow)?.tracks {
            late = if visits.was_new { Late::New } else { Late::Established };
        }
        is_shared = visits.connections().any(|it| is_reached(worker, it));
    }
    Some((mask, Known { way, visits, translation, late, is_shared }))
}

/// Whether packets that came in with other addresses and ports may come to a connection: its own, the
/// other way, or those that were given its addresses and ports before.
fn is_reached(worker: &mut Worker, visited: &Visited) -> bool {
    worker.rewrites.reach(visited.zone) || worker.tracker.is_translated(visited.connection)
}

/// What an ICMP query's connections make of its identifier, if anything, which keys do not have.
/// `None` where that cannot be told: where one has another identifier the other way, and the packet
/// came to connection tracking more than once.
fn icmp_id_behind(
    worker: &mut Worker,
    now: Instant,
    visits: &Visits,
    passes: &Passes,
) -> Option<Option<u16>> {
    let mut behind = None;
    for visited in visits.connections() {
        let entry = worker.tracker.entry(now, visited.connection)?;
        let (TupleL4::Icmp { id: original, .. }, TupleL4::Icmp { id: reply, .. }) =
            (entry.original.l4, entry.reply.l4)
        else {
            return None;
        };
        if original != reply {
            behind = Some(if visited.connection.is_reply { original } else { reply });
        }
    }
    if behind.is_none() {
        return Some(None);
    }
    let mut tracking = passes.iter().filter_map(|hit| {
        let actions = worker.flows.get(hit.flow)?.actions.as_ref()?;
        actions.iter().find_map(|action| match action {
            Action::Ct(ct) => Some(ct.nat.is_some()),
            _ => None,
        })
    });
    match (tracking.next()?, tracking.next()) {
        (translates, None) => Some(behind.filter(|_| translates)),
        _ => None,
    }
}
