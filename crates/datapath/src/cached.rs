//! Forwards packets that hit the unified cache, without a walk over the flow table.

use crate::burst::Burst;
use crate::execute::execute_run;
use crate::flow_kind::FinalActions;
use crate::flow_paths::FlowPaths;
use crate::inside;
use crate::observer::{Observer, Stage};
use crate::outbox::Outbox;
use crate::outside::Outside;
use crate::path_id::{PathId, PathKind};
use crate::pending::Pending;
use crate::step::{FoundBy, Step};
use crate::unified::{EntryView, NOT_FOUND, UnifiedCache};
use crate::worker::{InstalledFlow, Worker};
use crate::{cache_insert, tunnel, walk};
use base::Instant;
use classifier::MegaflowTable;
use conntrack::FollowGuard;
use flow::{ConnectionRef, FlowKey, Frame, Headers};
use std::ops::Range;

/// Processes a batch in order of arrival: runs of packets that hit the unified cache are forwarded, and runs
/// between them walk. No packet overtakes another.
pub(crate) fn receive(
    worker: &mut Worker,
    now: Instant,
    burst: &mut Burst,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    inside::open(&mut worker.outers, burst, worker.opens_from);
    let (mut start, mut has_walked) = (0, false);
    while start < burst.count {
        let Runs { hits, misses } = follow(worker, now, burst, start, observer);
        let first = burst.found[0];
        if start == 0 && first != NOT_FOUND {
            observer.note(|| followed(worker, now, first, burst.path_ids[0]));
        }
        observer.stage_done(Stage::Connection);
        start = misses.end;
        observer.run(hits.len(), true);
        send(worker, now, burst, hits, out, observer);
        observer.stage_done(Stage::Actions);
        if !misses.is_empty() {
            inside::close(burst, misses.clone());
            observer.run(misses.len(), false);
            walk::walk_burst(worker, now, burst, misses, true, out, observer);
            has_walked = true;
        }
    }
    if has_walked {
        cache_insert::insert_burst(worker, now, burst, observer);
        observer.stage_done(Stage::Walk);
    }
}

/// A run of packets that hit the unified cache, and the run of misses behind it.
struct Runs {
    hits: Range<usize>,
    misses: Range<usize>,
}

/// The trace step of the first packet.
fn followed(worker: &mut Worker, now: Instant, found: u32, path_id: PathId) -> Step {
    let reference = worker.unified.get(found).and_then(|it| it.connection);
    let connection = reference.and_then(|it| worker.tracker.entry(now, it)).map(Box::new);
    Step::Followed { is_as_known: !path_id.is_none(), connection }
}

/// Applies the packets of a batch from `start` on to their connections, up to the first one that misses; the
/// first call also looks up all entries. A packet misses if it has no entry, or a stale one: a flow or a
/// connection changed. It then walks together with the following packets that certainly miss.
fn follow(
    worker: &mut Worker,
    now: Instant,
    burst: &mut Burst,
    start: usize,
    observer: &mut impl Observer,
) -> Runs {
    let Worker { unified, flow_paths, flows, epoch, tracker, pending, config, .. } = worker;
    let mut guard = unified.has_tracked().then(|| tracker.guard());
    if start == 0 {
        if config.offers {
            look_up(unified, guard.as_ref(), burst, mark, observer);
        } else {
            look_up(unified, guard.as_ref(), burst, |_| 0, observer);
        }
    }
    if pending.is_tracked() {
        hold_back(unified, pending, burst, start);
    }
    let Burst { frames, headers, found, path_ids, count, .. } = burst;
    let mut is_current = |path_id| is_current(path_id, flow_paths, *epoch, flows);
    let (mut good, mut end) = (PathId::NONE, start);
    while end < *count
        && let Some(it) = unified.get(found[end])
        && (it.path_id == good || is_current(it.path_id))
        && act(guard.as_mut(), now, &it, &headers[end], &mut frames[end], || {
            unified.connections(found[end])
        })
    {
        (path_ids[end], good) = (it.path_id, it.path_id);
        end += 1;
        // Consecutive untracked packets with the same entry share the path.
        if it.connection.is_none() {
            let same = found[end..*count].iter().take_while(|&&at| at == found[end - 1]).count();
            path_ids[end..end + same].fill(good);
            end += same;
        }
    }
    let hits = start..end;
    if end < *count {
        path_ids[end] = PathId::NONE;
        end += 1;
        while end < *count && is_stale(unified, guard.as_ref(), found[end], &mut is_current) {
            path_ids[end] = PathId::NONE;
            end += 1;
        }
    }
    Runs { misses: hits.end..end, hits }
}

/// Has packets walk that may have to wait behind a miss of their connection, tracked ones and those that rules do
/// not track any more. Misses are found by the addresses and ports that their packets were received with, and by
/// those of their connection's original direction: its packets have them before their NAT rewrite, replies have
/// them after theirs. Packets of two zones with NAT walk, because each zone may have rewritten them.
#[inline(never)]
fn hold_back(unified: &UnifiedCache, pending: &Pending, burst: &mut Burst, start: usize) {
    let Burst { headers, found, count, .. } = burst;
    let mut key = FlowKey::new();
    for (found, headers) in found[start..*count].iter_mut().zip(&headers[start..*count]) {
        let Some(entry) = unified.get(*found) else { continue };
        headers.write_key(&mut key);
        let waits = pending.has_connection(&key)
            || unified.nat_rewrite(*found).is_some_and(|nat_rewrite| {
                nat_rewrite.write_key(&mut key);
                !entry.is_usual || pending.has_connection(&key)
            });
        if waits {
            *found = NOT_FOUND;
        }
    }
}

/// The mark that a device has set on a packet.
fn mark(frame: &Frame) -> u32 {
    frame.packet.mark
}

/// Looks up the entries of a batch, and prefetches their connections.
#[inline(always)]
fn look_up(
    unified: &mut UnifiedCache,
    guard: Option<&FollowGuard<'_>>,
    burst: &mut Burst,
    mark: impl Fn(&Frame) -> u32,
    observer: &mut impl Observer,
) {
    let Burst { frames, headers, found, has_nat, count, .. } = burst;
    let mark = |at: usize| frames.get(at).map_or(0, &mark);
    *has_nat = unified.look_up(&headers[..*count], mark, found, |connection| {
        if let Some(guard) = guard {
            guard.prefetch(connection);
        }
    });
    if !headers[0].is_none() {
        observer.note(|| Step::Probed { is_known: found[0] != NOT_FOUND });
    }
    observer.stage_done(Stage::Lookup);
}

/// Whether a packet has no entry, or a flow or connection of its entry changed.
#[inline(never)]
fn is_stale(
    unified: &UnifiedCache,
    guard: Option<&FollowGuard<'_>>,
    found: u32,
    mut is_current: impl FnMut(PathId) -> bool,
) -> bool {
    let Some(it) = unified.get(found) else { return true };
    let is_changed = |(it, _)| guard.is_some_and(|guard| !guard.is_unchanged(it));
    !is_current(it.path_id) || unified.connections(found).into_iter().flatten().any(is_changed)
}

/// Sends packets that hit, path by path.
#[inline(always)]
fn send(
    worker: &mut Worker,
    now: Instant,
    burst: &mut Burst,
    hits: Range<usize>,
    out: &mut Outbox,
    observer: &mut impl Observer,
) {
    let Burst { frames, headers, found, path_ids, has_nat, outside, opened, .. } = burst;
    worker.cache_policy.cached += hits.len() as u64;
    let mut start = hits.start;
    for run in path_ids[hits].chunk_by(|a, b| a == b) {
        let range = start..start + run.len();
        start = range.end;
        let path_id = run[0];
        // Paths that begin in a tunnel apply to decapsulated packets only.
        let is_opened = *opened >> range.start & 1 != 0;
        let run = Run {
            frames: &mut frames[range.clone()],
            headers: &headers[range.clone()],
            outside: if is_opened { &outside[range.clone()] } else { &[] },
            found: &found[range],
            has_nat: *has_nat,
        };
        run.send(worker, now, path_id, out, observer);
    }
    // ICMP errors about packets too large for a tunnel.
    if !worker.again.is_empty() {
        walk::walk_copies(worker, now, out, observer);
    }
}

/// Whether the flows of a path are installed with the same actions as when it was cached.
fn is_current(
    path_id: PathId,
    flow_paths: &mut FlowPaths,
    epoch: u64,
    flows: &MegaflowTable<InstalledFlow>,
) -> bool {
    match path_id.kind() {
        Some(PathKind::Flow(handle)) => {
            flows.get(handle).is_some_and(InstalledFlow::ends_untracked)
        }
        Some(PathKind::Path(id)) => flow_paths.is_current(id, epoch, flows),
        None => false,
    }
}

/// Applies a packet to its connection, if it has one, like the packets before it. `all` returns the
/// connections if they are more than a single one once.
#[inline(always)]
fn act(
    guard: Option<&mut FollowGuard<'_>>,
    now: Instant,
    known: &EntryView,
    headers: &Headers,
    frame: &mut Frame,
    all: impl FnOnce() -> [Option<(ConnectionRef, bool)>; 2],
) -> bool {
    let (Some(connection), Some(guard)) = (known.connection, guard) else {
        return known.connection.is_none();
    };
    headers.write_protocol(&mut frame.key);
    if known.is_usual {
        guard.follow_known(now, connection, frame)
    } else {
        act_often(guard, now, frame, all())
    }
}

/// Applies a packet to one or two connections, once or twice each, if all permit it.
#[inline(never)]
fn act_often(
    guard: &mut FollowGuard<'_>,
    now: Instant,
    frame: &Frame,
    all: [Option<(ConnectionRef, bool)>; 2],
) -> bool {
    let [Some((connection, is_twice)), second] = all else { return false };
    if let Some(second) = second {
        return guard.follow_both(now, [(connection, is_twice), second], frame);
    }
    let acted = guard.follow_known(now, connection, frame);
    if acted && is_twice {
        guard.follow_known(now, connection, frame);
    }
    acted
}

/// Consecutive packets with the same flow path.
struct Run<'a> {
    frames: &'a mut [Frame],
    headers: &'a [Headers],
    /// The outer packets of decapsulated ones; empty otherwise.
    outside: &'a [Outside],
    found: &'a [u32],
    /// Some may have a NAT rewrite.
    has_nat: bool,
}

impl Run<'_> {
    /// Counts the packets for the flows of their path, and executes the path's final actions.
    fn send(
        self,
        worker: &mut Worker,
        now: Instant,
        path_id: PathId,
        out: &mut Outbox,
        observer: &mut impl Observer,
    ) {
        let Run { frames, headers, outside, found, has_nat } = self;
        let count = frames.len() as u64;
        let bytes = frames.iter().map(|frame| frame.packet.len() as u64).sum();
        let tcp_flags = Headers::tcp_flags_of(headers);
        let mut passes = 0;
        if !outside.is_empty()
            && let Some(flow) = worker.flow_on(path_id, 0)
        {
            let bytes = outside.iter().map(|it| it.len as u64).sum();
            worker.credit(now, flow, count, bytes, 0);
            observer.note(|| worker.hit_step(flow, FoundBy::Unified));
            passes = 1;
        }
        while let Some(flow) = worker.flow_on(path_id, passes) {
            worker.credit(now, flow, count, bytes, tcp_flags);
            observer.note(|| worker.hit_step(flow, FoundBy::Unified));
            passes += 1;
        }
        worker.stats.exact_hits += count * passes as u64;
        worker.stats.unified_hits += count * passes as u64;
        worker.stats.recirculated += count * (passes as u64).saturating_sub(1);
        let Some(final_actions) = worker.final_actions(path_id) else { return };
        let has_nat = has_nat && matches!(path_id.kind(), Some(PathKind::Path(_)));
        let reads_keys = match final_actions {
            FinalActions::Actions(_) => true,
            FinalActions::Push(..) => has_nat,
            FinalActions::Output(_) | FinalActions::Nothing => false,
        };
        if reads_keys {
            let places = frames.iter_mut().zip(headers);
            places.for_each(|(frame, headers)| headers.write_key(&mut frame.key));
            let opened = frames.iter_mut().zip(outside);
            opened.for_each(|(frame, outside)| frame.key.set_in_port_raw(outside.port.0));
        }
        if has_nat {
            rewrite_nat(worker, frames, headers, found, reads_keys, observer);
        }
        match final_actions {
            FinalActions::Output(port) => {
                out.extend(port, frames.iter_mut().map(|frame| &mut frame.packet));
                observer.note(|| Step::Output(port));
            }
            FinalActions::Push(to, port) => {
                let to = (&to, port, reads_keys);
                tunnel::push_known(worker, now, frames, headers, to, out, observer);
            }
            FinalActions::Nothing => {
                frames.iter_mut().for_each(|frame| worker.pool.give(frame.packet.take()));
            }
            FinalActions::Actions(actions) => {
                execute_run(worker, now, frames, &actions, out, observer)
            }
        }
    }
}

/// Applies the NAT rewrites of packets of connections with NAT.
fn rewrite_nat(
    worker: &Worker,
    frames: &mut [Frame],
    headers: &[Headers],
    found: &[u32],
    reads_keys: bool,
    observer: &mut impl Observer,
) {
    for ((frame, headers), at) in frames.iter_mut().zip(headers).zip(found) {
        if let Some(nat_rewrite) = worker.unified.nat_rewrite(*at) {
            nat_rewrite.write(headers, frame);
            if reads_keys {
                nat_rewrite.write_key(&mut frame.key);
            }
            observer.note(|| Step::NatRewritten);
        }
    }
}
