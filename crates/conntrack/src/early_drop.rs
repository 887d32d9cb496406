//! Early drop: which connections give way where there is no room for a new one.
//!
//! The policy, as Linux's `early_drop` has it for one class, for three:
//!
//! 1. A connection whose time ran out, or that was closed, is dropped first. Next is one that was
//!    never answered (half-open, or of one side only). Next is one that was answered without a
//!    handshake (UDP, ICMP and every other protocol but TCP and SCTP), since a reply costs a flood
//!    nothing. An established TCP connection or SCTP association is never dropped. Within a class, the
//!    one whose time ends soonest is dropped.
//! 2. In a zone at its limit, a connection of this zone is dropped that is over or closed. A limit that an
//!    operator sets refuses what is new otherwise, as Open vSwitch's does.
//! 3. The last part of the table is a reserve for zones that hold little: a zone gets of it no more
//!    than it leaves (a dynamic threshold, as switches share a packet buffer by). For a new connection
//!    of a zone that has as many as are left, a connection of a zone of that size is dropped; in a full
//!    table, one of any zone.
//! 4. Where several zones may give way, the one with the most connections that may be dropped does. So
//!    a flood in one zone drops its own connections, however many established ones others have.
//! 5. Where nothing may be dropped, the new connection is refused; also where there still are too many
//!    then, because a limit was lowered.
//!
//! Connections are found by looking at a bounded number of each of the largest zones, by chance, so
//! that a flood costs what it costs and no more. The sample comes from the zone's index and counts live
//! connections, so that it is as good in a table that once was a hundred times as large. In zones of
//! [`ENOUGH`] connections or fewer it holds all of them.

use crate::connections::{Connections, THREADS, ThreadContext};
use crate::counters::Event;
use crate::query::{Exchange, Query};
use crate::record::{Kind, Record};
use crate::sctp::SctpState;
use crate::tcp::TcpState;
use crate::track::Pass;
use arrayvec::ArrayVec;
use std::cmp::Reverse;
use std::ops::RangeInclusive;
use table::{Id, Index, Zones};

/// Of how many parts of the maximum one is the reserve.
const RESERVE_PARTS: u32 = 32;
/// Connections of a zone that are looked at, at once.
pub(crate) const ENOUGH: usize = 32;
/// In how many places of its index.
const PLACES: usize = 4;
/// How often so many are looked at, until one is found that may be dropped.
const ROUNDS: usize = 3;
/// Buckets of a zone's index that are looked at for them. A bucket has four connections on the average
/// while the zone grows, and 0.004 when the zone was a thousand times as large.
const BUCKETS: u32 = 4096;
/// The largest zones that are remembered, and tried in turn.
const LARGEST: usize = 8;
/// Indexes whose zones' sizes are looked at for each connection that is dropped.
const INDEXES: usize = 16;
/// Below this maximum each new connection looks how much room is left.
const EXACT_BELOW: u32 = 8192;
/// Above it a thread looks again after this part of what is left beyond the reserve, within limits. To
/// look, it fetches what every other thread writes with each connection; if as many threads as there
/// may be go on as it does, no more than half of that is gone by then.
const LOOK_PART: u32 = 2 * THREADS as u32;
const LOOK_AFTER: RangeInclusive<u32> = 64..=4096;

/// A connection that may be dropped, its class, and when its time ends: the smallest goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    class: Class,
    deadline_ms: u64,
    id: Id,
}

/// Classes of connections that may be dropped, in the order in which they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    /// Its time ran out.
    Over,
    Closed,
    Unanswered,
    /// It was answered, without a handshake.
    Answered,
}

/// What a look at some connections of a zone came to.
struct Sample {
    best: Candidate,
    /// About how many of the zone may be dropped.
    droppable: u32,
}

/// The largest zones that a thread knows of, by the numbers of their indexes.
#[derive(Default)]
pub(crate) struct LargeZones {
    largest: ArrayVec<u32, LARGEST>,
    /// The index whose zone's size is looked at next.
    next: u32,
}

/// How many connections a zone has, and its index's number.
type Size = (u32, u32);

impl Class {
    fn event(self) -> Event {
        match self {
            Class::Over => Event::Expired,
            Class::Closed => Event::EvictedClosed,
            Class::Unanswered => Event::EvictedUnanswered,
            Class::Answered => Event::EvictedAnswered,
        }
    }

    /// `None` for what a handshake established and is not closed.
    fn of(record: &Record<'_>) -> Option<Class> {
        let state = record.state();
        let (is_closed, is_established, is_answered) = match state.kind() {
            Kind::Tcp => {
                let peers = record.tcp();
                let state = peers.original.state.min(peers.reply.state);
                (state >= TcpState::FinWait2, state >= TcpState::Established, false)
            }
            Kind::Sctp => {
                let state = record.sctp().state;
                let is_established =
                    state >= SctpState::Established && state != SctpState::PickedUp;
                (state == SctpState::Closed, is_established, false)
            }
            Kind::Icmp => (false, false, state.query() == Query::Reply),
            Kind::Other => (false, false, state.exchange() == Exchange::Multiple),
        };
        match (is_closed, is_established, is_answered) {
            (true, ..) => Some(Class::Closed),
            (_, true, _) => None,
            (.., true) => Some(Class::Answered),
            _ => Some(Class::Unanswered),
        }
    }
}

impl Candidate {
    fn of(id: Id, record: &Record<'_>, now_ms: u64) -> Option<Candidate> {
        let life = record.life();
        let class = if life.is_over(now_ms) { Some(Class::Over) } else { Class::of(record) };
        Some(Candidate { class: class?, deadline_ms: life.deadline_ms(), id })
    }
}

impl Pass<'_> {
    /// Drops a connection of this zone that is over or closed; whether one was found.
    pub fn drop_closed_in(&mut self, index: &Index) -> bool {
        let sample = self.settings.makes_room.then(|| self.sample(index, Class::Closed)).flatten();
        sample.is_some_and(|it| self.drop_early(it.best))
    }

    /// Drops a connection of one of the zones that have `least` connections at least; whether one was
    /// found. `own` is the zone that asks.
    pub fn drop_in_any(&mut self, own: &Index, least: u32) -> bool {
        if !self.settings.makes_room {
            return false;
        }
        let zones = &self.connections.zones;
        let mut best: Option<Sample> = None;
        for (connections, number) in self.context.large_zones.find(zones, own) {
            let is_enough = best.as_ref().is_some_and(|it| it.droppable >= connections);
            if is_enough || connections < least {
                break;
            }
            let sample = zones.index(number).and_then(|index| self.sample(index, Class::Answered));
            let most = best.as_ref().map_or(0, |it| it.droppable);
            best = sample.filter(|it| it.droppable > most).or(best);
        }
        best.is_some_and(|it| self.drop_early(it.best))
    }

    fn drop_early(&mut self, it: Candidate) -> bool {
        self.connections.remove(self.guard, self.context, it.id, it.class.event())
    }

    /// Looks at some connections of a zone, by chance, for those of a class up to `last`; `None` where
    /// none may be dropped.
    fn sample(&mut self, index: &Index, last: Class) -> Option<Sample> {
        let connections = self.connections;
        // In some places a flood piles up and in others there is nothing to drop, as one goes and one
        // comes: a look at several finds where it did.
        let (places, enough) = match index.connections() as usize > ENOUGH {
            true => (PLACES, ENOUGH / PLACES),
            false => (1, usize::MAX),
        };
        let mut ids = std::mem::take(&mut self.context.sampled);
        let (mut seen, mut droppable, mut best) = (0_u64, 0_u64, None);
        for _ in 0..ROUNDS {
            ids.clear();
            for place in 1..=places {
                let (hash, buckets) = (self.context.random.u32(..), BUCKETS / places as u32);
                index.sample(hash, buckets, enough.saturating_mul(place), &mut ids);
            }
            // A translated connection is there twice.
            ids.retain(|&entry| Connections::is_original_entry(entry));
            ids.iter().for_each(|&id| connections.fetch(id));
            for &id in &ids {
                let record = connections.record(id);
                if record.life().is_dead() || record.state().header() != index.number() {
                    continue;
                }
                let candidate = Candidate::of(id, &record, self.now_ms);
                let candidate = candidate.filter(|it| it.class <= last);
                (seen, droppable) = (seen + 1, droppable + u64::from(candidate.is_some()));
                best = best.into_iter().chain(candidate).min();
            }
            if best.is_some() || places == 1 {
                break;
            }
        }
        self.context.sampled = ids;
        let droppable = u64::from(index.connections()) * droppable / seen.max(1);
        Some(Sample { best: best?, droppable: (droppable as u32).max(1) })
    }

    /// Whether there is room for a new connection of this zone without what is left of the reserve for
    /// others, or is made.
    pub fn leaves_reserve(&mut self, index: &Index) -> bool {
        let max = self.connections.quota.max();
        if !self.settings.makes_room || reserve(max) == 0 {
            return true;
        }
        self.context.looks_at_room(max);
        let left = self.context.left_in_reserve;
        left.is_none_or(|left| index.connections() < left || self.drop_in_any(index, left))
    }
}

impl LargeZones {
    /// The largest zones, the largest first, and `own`. Of many zones, each call looks at the sizes of a
    /// few more: a zone that is not among the largest yet is found within as many calls as it takes to
    /// go round.
    fn find(&mut self, zones: &Zones, own: &Index) -> ArrayVec<Size, { LARGEST + 1 }> {
        let size = |number: u32| {
            let index = zones.index(number).filter(|index| !index.is_detached())?;
            Some((index.connections(), number))
        };
        let mut sizes = ArrayVec::<Size, { LARGEST + INDEXES + 1 }>::new();
        sizes.extend(self.largest.drain(..).filter_map(size));
        sizes.push((own.connections(), own.number()));
        for _ in 0..INDEXES {
            if zones.index(self.next).is_none() {
                self.next = 1;
            }
            sizes.extend(size(self.next));
            self.next += 1;
        }
        sizes.sort_unstable_by_key(|&size| Reverse(size));
        let mut found = ArrayVec::new();
        for size in sizes {
            if found.len() < LARGEST && found.last() != Some(&size) {
                found.push(size);
            }
        }
        self.largest.extend(found.iter().map(|&(_, number)| number));
        if !self.largest.contains(&own.number()) {
            found.push((own.connections(), own.number()));
        }
        found
    }
}

impl ThreadContext {
    /// Now and then, finds out whether no more than the reserve is left.
    fn looks_at_room(&mut self, max: u32) {
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look == 0 || max < EXACT_BELOW {
            let left = max.saturating_sub(self.quota.used());
            let beyond = left.saturating_sub(reserve(max));
            self.until_look = (beyond / LOOK_PART).clamp(*LOOK_AFTER.start(), *LOOK_AFTER.end());
            self.left_in_reserve = (beyond == 0).then_some(left);
        }
    }
}

/// The reserve of a table of so many connections.
fn reserve(max: u32) -> u32 {
    max / RESERVE_PARTS
}
