//! Cache insertion: makes entries of the unified cache from the path traces of packets that walked.

use crate::burst::{Burst, PathTrace};
use crate::ct_passes::{CtPasses, Tracking};
use crate::flow_paths::Passes;
use crate::nat_rewrite::{NatRewrite, Tuple};
use crate::observer::Observer;
use crate::offer;
use crate::outer::{Seen, Shape};
use crate::path_id::PathId;
use crate::step::Step;
use crate::unified::{CONTROL, NewEntry};
use crate::worker::Worker;
use base::Instant;
use flow::{Action, Field, Headers, TupleL4};

/// Inserts the flow paths of a batch's packets into the unified cache, if they can be cached. If insertion
/// does not pay, only some are inserted, chosen at random: a counter could correlate with the order of
/// packets.
pub(crate) fn insert_burst(
    worker: &mut Worker,
    now: Instant,
    burst: &Burst,
    observer: &mut impl Observer,
) {
    for (i, trace) in burst.traces[..burst.count].iter().enumerate() {
        let headers = if trace.seen.is_some() { &trace.inner } else { &burst.headers[i] };
        if !burst.path_ids[i].is_none() || !is_cacheable(headers, trace) {
            continue;
        }
        worker.cache_policy.cacheable += 1;
        if is_chosen(worker)
            && let Some((mut mask, entry)) = new_entry(worker, now, headers, trace)
        {
            let (mut headers, mut tunnel) = (*headers, None);
            if let Some(seen) = &trace.seen {
                let outer = &burst.headers[i];
                let before = (burst.opened >> i & 1 != 0).then_some(burst.outside[i].class);
                let Some(shape) = shape(worker, outer, &trace.passes, seen) else { continue };
                let class = worker.outers.learn(outer, &shape, seen, before);
                let Some(class) = class else { continue };
                headers = headers.with_in_port(class);
                mask = mask.union(&Headers::in_port_mask());
                tunnel = Some((outer, shape, seen));
            }
            let place = worker.unified.insert(&headers, &mask, &entry);
            if let Some(place) = place.filter(|_| worker.config.offers) {
                offer::offer(worker, (&headers, &mask), tunnel, (&entry, place), trace);
            }
            observer.note(|| Step::Offered);
        }
    }
}

/// The outer header bits that a path beginning with decapsulation depends on.
fn shape(worker: &Worker, outer: &Headers, passes: &Passes, seen: &Seen) -> Option<Shape> {
    let (first, behind) = passes.split_first()?;
    let opened = outer.mask_of(worker.flows.mask(first.flow)?);
    let (mut tunnel, mut key) = (Headers::none(), 0);
    for hit in behind {
        let mask = worker.flows.mask(hit.flow)?;
        tunnel = tunnel.union(&outer.tunnel_mask_of(mask));
        key |= mask.get(Field::TunId) as u64;
    }
    Some(Shape::new(seen.kind, opened, &tunnel, key))
}

/// Whether a cacheable walk is inserted.
fn is_chosen(worker: &mut Worker) -> bool {
    let inverse = worker.config.unified_insert_inverse / worker.batches_per_trace();
    !worker.cache_policy.inserts_seldom() || worker.next_random().is_multiple_of(inverse.max(1))
}

/// Whether connection tracking would treat the next packet with the same headers in the same way.
fn is_cacheable(headers: &Headers, trace: &PathTrace) -> bool {
    match trace.tracking {
        _ if headers.is_none() => false,
        Tracking::Uncacheable => false,
        Tracking::Untracked => true,
        Tracking::Same(ct_passes) => {
            headers.tcp_flags() & CONTROL == 0 && ct_passes.connections().all(|it| it.acting <= 2)
        }
    }
}

/// The entry for packets like this one, and the header bits that they must share.
fn new_entry(
    worker: &mut Worker,
    now: Instant,
    headers: &Headers,
    trace: &PathTrace,
) -> Option<(Headers, NewEntry)> {
    // The packet's class covers the decision on the outer headers.
    let passes = trace.passes.get(usize::from(trace.seen.is_some())..)?;
    let first = *passes.first()?;
    let ct_passes = match trace.tracking {
        Tracking::Untracked => None,
        Tracking::Same(ct_passes) => Some(ct_passes),
        Tracking::Uncacheable => return None,
    };
    let is_one = trace.passes.len() == 1 && ct_passes.is_none();
    let path_id = if is_one {
        if !worker.flows.get(first.flow)?.ends_untracked() {
            return None;
        }
        PathId::flow(first.flow)
    } else {
        PathId::path(worker.flow_paths.intern(&trace.passes, worker.epoch, &worker.flows)?)
    };
    let mut mask = Headers::none();
    for hit in passes {
        mask = mask.union(&headers.mask_of(worker.flows.mask(hit.flow)?));
    }
    let mut nat_rewrite = None;
    if let Some(ct_passes) = &ct_passes {
        let tuple = Tuple::of_headers(headers);
        if !ct_passes.are_seen_with(&tuple) {
            return None;
        }
        mask = mask.union(&headers.tuple_mask());
        nat_rewrite = if headers.is_icmp() {
            let id = icmp_id_behind(worker, now, ct_passes, &trace.passes)?;
            let is_same = tuple == trace.tuple && id.is_none_or(|id| id == headers.icmp_id());
            let id = id.unwrap_or(headers.icmp_id());
            (!is_same).then(|| NatRewrite::of_icmp(&trace.tuple, id))
        } else {
            (tuple != trace.tuple).then(|| NatRewrite::new(headers, &trace.tuple))
        };
    }
    Some((mask, NewEntry { path_id, ct_passes, nat_rewrite }))
}

/// The identifier that NAT gives an ICMP query, if it changes it; keys do not contain it. `None` if it is
/// unknown: a connection's identifier differs per direction, and the packet was tracked more than once.
fn icmp_id_behind(
    worker: &mut Worker,
    now: Instant,
    ct_passes: &CtPasses,
    passes: &Passes,
) -> Option<Option<u16>> {
    let mut behind = None;
    for ct_pass in ct_passes.connections() {
        let entry = worker.tracker.entry(now, ct_pass.connection)?;
        let (TupleL4::Icmp { id: original, .. }, TupleL4::Icmp { id: reply, .. }) =
            (entry.original.l4, entry.reply.l4)
        else {
            return None;
        };
        if original != reply {
            behind = Some(if ct_pass.connection.is_reply { original } else { reply });
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
        (has_nat, None) => Some(behind.filter(|_| has_nat)),
        _ => None,
    }
}
