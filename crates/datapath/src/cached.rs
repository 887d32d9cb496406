//! Forwards packets that hit the unified cache, without a walk over the flow table.

use crate::burst::Burst;
use crate::execute::execute_run;
use crate::flow_kind::FinalActions;
use crate::flow_paths::FlowPaths;
use crate::inside::{self, Outside};
use crate::laps::{Laps, Stage};
use crate::outbox::Outbox;
use crate::path_id::{PathId, PathKind};
use crate::step::{FoundBy, Step};
use crate::tunnel;
use crate::unified::{EntryView, Late, NOT_FOUND, UnifiedCache};
use crate::worker::{InstalledFlow, Worker};
use base::Instant;
use classifier::MegaflowTable;
use conntrack::FollowGuard;
use flow::{ConnectionRef, Frame, Headers};
use wire::{ethertype, icmp, icmpv6, protocol};

/// Forwards the packets of a batch that hit the unified cache; says how many those are. The others stay
/// in their places.
pub(crate) fn forward(
    worker: &mut Worker,
    now: Instant,
    burst: &mut Burst,
    out: &mut Outbox,
    laps: &mut impl Laps,
) -> usize {
    inside::open(&mut worker.outers, burst, worker.opens_from);
    let Worker { unified, flow_paths, flows, epoch, tracker, .. } = worker;
    let mut guard = unified.has_tracked().then(|| tracker.guard());
    let among = unified.look_up(&burst.headers[..burst.count], &mut burst.found, |connection| {
        if let Some(guard) = &guard {
            guard.prefetch(connection);
        }
    });
    let is_packet = !burst.headers[0].is_none();
    let first = burst.found[..burst.count].first().copied().filter(|_| is_packet);
    if let Some(at) = first {
        laps.note(|| Step::Probed { is_known: at != NOT_FOUND });
    }
    laps.lap(Stage::Lookup);
    let mut is_current = |path_id| is_current(path_id, flow_paths, *epoch, flows);
    let come_late = if burst.mixes_opened() { Late::New } else { among.come_late };
    let walking = match come_late {
        Late::Never => 0,
        Late::Established => held_up_at_once(unified, None, burst, &mut is_current),
        Late::New => held_up_at_once(unified, guard.as_ref(), burst, &mut is_current),
    };
    follow(unified, guard.as_mut(), now, burst, walking, &mut is_current);
    drop(guard);
    if let Some(at) = first.filter(|&at| at != NOT_FOUND) {
        laps.note(|| followed(worker, now, at, burst.path_ids[0]));
    }
    inside::close(burst);
    laps.lap(Stage::Connection);
    let Burst { frames, headers, found, path_ids, outside, opened, count, .. } = burst;
    let (mut start, mut forwarded) = (0, 0);
    for run in path_ids[..*count].chunk_by(|a, b| a == b) {
        let range = start..start + run.len();
        start = range.end;
        if !run[0].is_none() {
            forwarded += run.len();
            let path_id = run[0];
            let run = Run {
                frames: &mut frames[range.clone()],
                headers: &headers[range.clone()],
                outside: if *opened >> range.start & 1 == 0 {
                    &[]
                } else {
                    &outside[range.clone()]
                },
                found: &found[range],
                has_nat: among.translate,
            };
            run.send(worker, now, path_id, out, laps);
        }
    }
    worker.cache_policy.cached += forwarded as u64;
    laps.lap(Stage::Actions);
    forwarded
}

/// The trace step of the first packet.
fn followed(worker: &mut Worker, now: Instant, found: u32, path_id: PathId) -> Step {
    let reference = worker.unified.get(found).and_then(|it| it.connection);
    let connection = reference.and_then(|it| worker.tracker.entry(now, it)).map(Box::new);
    Step::Followed { is_as_known: !path_id.is_none(), connection }
}

/// Lets packets act on their connections, in order. A packet that is not like those before it
/// takes the walk, and so do all after it that may be of the same connection, so that none
/// overtakes another: those that it [holds up](held_up_by), which have the same addresses and ports
/// either way, and those of which others with different ones may be. Some are held up already.
fn follow(
    unified: &UnifiedCache,
    mut guard: Option<&mut FollowGuard<'_>>,
    now: Instant,
    burst: &mut Burst,
    mut walking: u64,
    mut is_current: impl FnMut(PathId) -> bool,
) {
    let Burst { frames, headers, found, path_ids, unopened, count, .. } = burst;
    let mut good = PathId::NONE;
    let mut i = 0;
    while i < *count {
        path_ids[i] = PathId::NONE;
        if let Some(it) = unified.get(found[i])
            && (walking == 0 || (!it.is_shared && walking & 1 << headers[i].pair() == 0))
            && (it.path_id == good || is_current(it.path_id))
            && act(guard.as_deref_mut(), now, &it, &headers[i], &mut frames[i], || {
                unified.connections(found[i])
            })
        {
            (path_ids[i], good) = (it.path_id, it.path_id);
            // All in a row that are not tracked go the same way.
            while walking == 0
                && it.connection.is_none()
                && i + 1 < *count
                && found[i + 1] == found[i]
            {
                i += 1;
                path_ids[i] = good;
            }
        } else {
            walking |= held_up_by(&headers[i], &frames[i], *unopened >> i & 1 != 0);
        }
        i += 1;
    }
}

/// Which packets of a batch walk whatever comes before them, by their [`Headers::pair`]. All that walk
/// are in their first pass before any is in the next: one that comes to a connection late, or twice,
/// finds it there as later packets left it in an earlier pass. So it walks where any of those does:
/// what is unknown, what is known of flows that are other ones now, and with `following` what is known
/// of a connection that is another one now, which may find a new one and make it established.
#[inline(never)]
fn held_up_at_once(
    unified: &UnifiedCache,
    guard: Option<&FollowGuard<'_>>,
    burst: &Burst,
    mut is_current: impl FnMut(PathId) -> bool,
) -> u64 {
    let Burst { frames, headers, found, unopened, count, .. } = burst;
    let is_other = |(it, _)| guard.is_some_and(|guard| !guard.is_unchanged(it));
    let mut walking = 0;
    for i in 0..*count {
        let is_known = unified.get(found[i]).is_some_and(|it| is_current(it.path_id))
            && (guard.is_none()
                || !unified.connections(found[i]).into_iter().flatten().any(is_other));
        if !is_known {
            walking |= held_up_by(&headers[i], &frames[i], *unopened >> i & 1 != 0);
        }
    }
    walking
}

/// Which packets behind one that walks walk too, by their [`Headers::pair`]: those that may be of
/// its connection. All do where its headers do not tell that: it may be a fragment, or an ICMP error,
/// whose connection is that of the packet that it quotes, or it may be in a tunnel and was not opened.
fn held_up_by(headers: &Headers, frame: &Frame, is_unopened: bool) -> u64 {
    if !headers.is_none() {
        let is_error = headers.is_icmp() && icmp::is_error(headers.icmp_type());
        return if is_error || is_unopened { u64::MAX } else { 1 << headers.pair() };
    }
    let key = &frame.key;
    let is_of_none = match key.eth_type() {
        ethertype::IPV4 => false,
        // Neighbour discovery and the like.
        ethertype::IPV6 => {
            key.nw_proto() == protocol::ICMPV6 && key.tp_src() > u16::from(icmpv6::ECHO_REPLY)
        }
        _ => true,
    };
    if is_of_none || frame.packet.is_empty() { 0 } else { u64::MAX }
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

/// Lets a packet act on its connection, if it is of one, as others before it did. `all` gives what
/// there is to act on where that is more than one connection once.
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

/// Lets a packet act on connections once or twice, if it can on all.
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

/// Packets in a row with the same flow path.
struct Run<'a> {
    frames: &'a mut [Frame],
    headers: &'a [Headers],
    /// The outer packets of those that were decapsulated; empty where they were not.
    outside: &'a [Outside],
    found: &'a [u32],
    /// Some may have a NAT rewrite.
    has_nat: bool,
}

impl Run<'_> {
    /// Counts the packets against the flows of their path, and executes its final actions.
    fn send(
        self,
        worker: &mut Worker,
        now: Instant,
        path_id: PathId,
        out: &mut Outbox,
        laps: &mut impl Laps,
    ) {
        let Run { frames, headers, outside, found, has_nat } = self;
        let count = frames.len() as u64;
        let (mut bytes, mut tcp_flags) = (0, 0);
        for (frame, headers) in frames.iter().zip(headers) {
            bytes += frame.packet.len() as u64;
            tcp_flags |= headers.tcp_flags();
        }
        let mut passes = 0;
        if !outside.is_empty()
            && let Some(flow) = worker.flow_on(path_id, 0)
        {
            let bytes = outside.iter().map(|it| it.len as u64).sum();
            worker.credit(now, flow, count, bytes, 0);
            laps.note(|| worker.hit_step(flow, FoundBy::Unified));
            passes = 1;
        }
        while let Some(flow) = worker.flow_on(path_id, passes) {
            worker.credit(now, flow, count, bytes, tcp_flags);
            laps.note(|| worker.hit_step(flow, FoundBy::Unified));
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
            rewrite_nat(worker, frames, headers, found, reads_keys, laps);
        }
        match final_actions {
            FinalActions::Output(port) => {
                out.extend(port, frames.iter_mut().map(|frame| &mut frame.packet));
                laps.note(|| Step::Output(port));
            }
            FinalActions::Push(to, port) => {
                tunnel::push_known(worker, frames, headers, (&to, port, reads_keys), out, laps);
            }
            FinalActions::Nothing => {
                frames.iter_mut().for_each(|frame| worker.pool.give(frame.packet.take()));
            }
            FinalActions::Actions(actions) => execute_run(worker, now, frames, &actions, out, laps),
        }
    }
}

/// Applies the NAT rewrites of packets of translated connections.
fn rewrite_nat(
    worker: &Worker,
    frames: &mut [Frame],
    headers: &[Headers],
    found: &[u32],
    reads_keys: bool,
    laps: &mut impl Laps,
) {
    for ((frame, headers), at) in frames.iter_mut().zip(headers).zip(found) {
        if let Some(nat_rewrite) = worker.unified.nat_rewrite(*at) {
            nat_rewrite.write(headers, frame);
            if reads_keys {
                nat_rewrite.write_key(&mut frame.key);
            }
            laps.note(|| Step::Translated);
        }
    }
}
