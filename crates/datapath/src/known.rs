//! Packets like earlier ones: forwarded as those were, without a walk over the tables.

use crate::execute::execute_run;
use crate::lane::Lane;
use crate::laps::{Laps, Stage};
use crate::manner::Steps;
use crate::outbox::Outbox;
use crate::step::{FoundBy, Step};
use crate::unified::{Late, NOT_FOUND, Remembered, UnifiedCache};
use crate::walks::Walks;
use crate::way::Route;
use crate::way::Way;
use crate::worker::{InstalledFlow, Worker};
use base::Instant;
use classifier::MegaflowTable;
use conntrack::Following;
use flow::{ConnectionRef, Frame, Headers};
use wire::{ethertype, icmp, icmpv6, protocol};

/// Forwards the packets of a batch of which the unified cache knows all; says how many those were.
/// The others stay in their places.
pub(crate) fn forward(
    worker: &mut Worker,
    now: Instant,
    lane: &mut Lane,
    out: &mut Outbox,
    laps: &mut impl Laps,
) -> usize {
    let Worker { unified, walks, flows, epoch, tracker, .. } = worker;
    let mut following = unified.has_tracked().then(|| tracker.guard());
    let among = unified.look_up(&lane.headers[..lane.count], &mut lane.found, |connection| {
        if let Some(following) = &following {
            following.prefetch(connection);
        }
    });
    let is_packet = !lane.headers[0].is_none();
    let first = lane.found[..lane.count].first().copied().filter(|_| is_packet);
    if let Some(at) = first {
        laps.note(|| Step::Probed { is_known: at != NOT_FOUND });
    }
    laps.lap(Stage::Lookup);
    let mut is_good = |way| is_good(way, walks, *epoch, flows);
    let walking = match among.come_late {
        Late::Never => 0,
        Late::Established => held_up_at_once(unified, None, lane, &mut is_good),
        Late::New => held_up_at_once(unified, following.as_ref(), lane, &mut is_good),
    };
    follow(unified, following.as_mut(), now, lane, walking, &mut is_good);
    drop(following);
    if let Some(at) = first.filter(|&at| at != NOT_FOUND) {
        laps.note(|| followed(worker, now, at, lane.ways[0]));
    }
    laps.lap(Stage::Connection);
    let Lane { frames, headers, found, ways, count, .. } = lane;
    let (mut start, mut forwarded) = (0, 0);
    for run in ways[..*count].chunk_by(|a, b| a == b) {
        let range = start..start + run.len();
        start = range.end;
        if !run[0].is_none() {
            forwarded += run.len();
            let way = run[0];
            let run = Run {
                frames: &mut frames[range.clone()],
                headers: &headers[range.clone()],
                found: &found[range],
                translates: among.translate,
            };
            run.send(worker, now, way, out, laps);
        }
    }
    worker.worth.known += forwarded as u64;
    laps.lap(Stage::Actions);
    forwarded
}

/// What is told of the first packet.
fn followed(worker: &mut Worker, now: Instant, found: u32, way: Way) -> Step {
    let reference = worker.unified.get(found).and_then(|it| it.connection);
    let connection = reference.and_then(|it| worker.tracker.entry(now, it)).map(Box::new);
    Step::Followed { is_as_known: !way.is_none(), connection }
}

/// Lets packets act on their connections, in order. A packet that is not like those before it
/// takes the walk, and so do all after it that may be of the same connection, so that none
/// overtakes another: those that it [holds up](held_up_by), which have the same addresses and ports
/// either way, and those of which others with different ones may be. Some are held up already.
fn follow(
    unified: &UnifiedCache,
    mut following: Option<&mut Following<'_>>,
    now: Instant,
    lane: &mut Lane,
    mut walking: u64,
    mut is_good: impl FnMut(Way) -> bool,
) {
    let Lane { frames, headers, found, ways, count, .. } = lane;
    let mut good = Way::NONE;
    let mut i = 0;
    while i < *count {
        ways[i] = Way::NONE;
        if let Some(it) = unified.get(found[i])
            && (walking == 0 || (!it.is_shared && walking & 1 << headers[i].pair() == 0))
            && (it.way == good || is_good(it.way))
            && act(following.as_deref_mut(), now, &it, &headers[i], &mut frames[i], || {
                unified.connections(found[i])
            })
        {
            (ways[i], good) = (it.way, it.way);
            // All in a row that are not tracked go the same way.
            while walking == 0
                && it.connection.is_none()
                && i + 1 < *count
                && found[i + 1] == found[i]
            {
                i += 1;
                ways[i] = good;
            }
        } else {
            walking |= held_up_by(&headers[i], &frames[i]);
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
    following: Option<&Following<'_>>,
    lane: &Lane,
    mut is_good: impl FnMut(Way) -> bool,
) -> u64 {
    let Lane { frames, headers, found, count, .. } = lane;
    let is_other = |(it, _)| following.is_some_and(|following| !following.is_unchanged(it));
    let mut walking = 0;
    for i in 0..*count {
        let is_known = unified.get(found[i]).is_some_and(|it| is_good(it.way))
            && (following.is_none()
                || !unified.connections(found[i]).into_iter().flatten().any(is_other));
        if !is_known {
            walking |= held_up_by(&headers[i], &frames[i]);
        }
    }
    walking
}

/// Which packets behind one that walks walk too, by their [`Headers::pair`]: those that may be of
/// its connection. All do where its headers do not tell that: it may be a fragment, or an ICMP error,
/// whose connection is that of the packet that it quotes.
fn held_up_by(headers: &Headers, frame: &Frame) -> u64 {
    if !headers.is_none() {
        let is_error = headers.is_icmp() && icmp::is_error(headers.icmp_type());
        return if is_error { u64::MAX } else { 1 << headers.pair() };
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

/// Whether what is known of a way still holds.
fn is_good(way: Way, walks: &mut Walks, epoch: u64, flows: &MegaflowTable<InstalledFlow>) -> bool {
    match way.route() {
        Some(Route::Flow(handle)) => flows.get(handle).is_some_and(InstalledFlow::ends_untracked),
        Some(Route::Walk(id)) => walks.is_good(id, epoch, flows),
        None => false,
    }
}

/// Lets a packet act on its connection, if it is of one, as others before it did. `all` gives what
/// there is to act on where that is more than one connection once.
#[inline(always)]
fn act(
    following: Option<&mut Following<'_>>,
    now: Instant,
    known: &Remembered,
    headers: &Headers,
    frame: &mut Frame,
    all: impl FnOnce() -> [Option<(ConnectionRef, bool)>; 2],
) -> bool {
    let (Some(connection), Some(following)) = (known.connection, following) else {
        return known.connection.is_none();
    };
    headers.write_protocol(&mut frame.key);
    if known.is_usual {
        following.follow_known(now, connection, frame)
    } else {
        act_often(following, now, frame, all())
    }
}

/// Lets a packet act on connections once or twice, if it can on all.
#[inline(never)]
fn act_often(
    following: &mut Following<'_>,
    now: Instant,
    frame: &Frame,
    all: [Option<(ConnectionRef, bool)>; 2],
) -> bool {
    let [Some((connection, is_twice)), second] = all else { return false };
    if let Some(second) = second {
        return following.follow_both(now, [(connection, is_twice), second], frame);
    }
    let acted = following.follow_known(now, connection, frame);
    if acted && is_twice {
        following.follow_known(now, connection, frame);
    }
    acted
}

/// Packets that go one way and came one after the other.
struct Run<'a> {
    frames: &'a mut [Frame],
    headers: &'a [Headers],
    found: &'a [u32],
    /// Some may be of translated connections.
    translates: bool,
}

impl Run<'_> {
    /// Counts the packets against the flows on their way, and carries out the last steps.
    fn send(
        self,
        worker: &mut Worker,
        now: Instant,
        way: Way,
        out: &mut Outbox,
        laps: &mut impl Laps,
    ) {
        let Run { frames, headers, found, translates } = self;
        let count = frames.len() as u64;
        let (mut bytes, mut tcp_flags) = (0, 0);
        for (frame, headers) in frames.iter().zip(headers) {
            bytes += frame.packet.len() as u64;
            tcp_flags |= headers.tcp_flags();
        }
        let mut passes = 0;
        while let Some(flow) = worker.flow_on(way, passes) {
            worker.credit(now, flow, count, bytes, tcp_flags);
            laps.note(|| worker.hit_step(flow, FoundBy::Unified));
            passes += 1;
        }
        worker.stats.exact_hits += count * passes as u64;
        worker.stats.unified_hits += count * passes as u64;
        worker.stats.recirculated += count * (passes as u64).saturating_sub(1);
        let Some(steps) = worker.last_steps(way) else { return };
        let reads_keys = matches!(steps, Steps::Actions(_));
        if reads_keys {
            let places = frames.iter_mut().zip(headers);
            places.for_each(|(frame, headers)| headers.write_key(&mut frame.key));
        }
        if translates && matches!(way.route(), Some(Route::Walk(_))) {
            translate(worker, frames, headers, found, reads_keys, laps);
        }
        match steps {
            Steps::Output(port) => {
                out.extend(port, frames.iter_mut().map(|frame| &mut frame.packet));
                laps.note(|| Step::Output(port));
            }
            Steps::Nothing => {
                frames.iter_mut().for_each(|frame| worker.pool.give(frame.packet.take()));
            }
            Steps::Actions(actions) => execute_run(worker, now, frames, &actions, out, laps),
        }
    }
}

/// Gives packets of translated connections their new addresses and ports.
fn translate(
    worker: &Worker,
    frames: &mut [Frame],
    headers: &[Headers],
    found: &[u32],
    reads_keys: bool,
    laps: &mut impl Laps,
) {
    for ((frame, headers), at) in frames.iter_mut().zip(headers).zip(found) {
        if let Some(translation) = worker.unified.translation(*at) {
            translation.write(headers, frame);
            if reads_keys {
                translation.write_key(&mut frame.key);
            }
            laps.note(|| Step::Translated);
        }
    }
}
