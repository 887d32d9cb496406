//! Early drop: which connection is dropped when there is no room for a new one.
//!
//! The policy extends Linux's `early_drop`, which has one class, to three:
//!
//! 1. A connection that expired or was closed is dropped first. Next is one that was never answered
//!    (half-open, or of one side only). Next is one that was answered without a handshake (UDP, ICMP
//!    and every other protocol but TCP and SCTP), since a reply costs a flood nothing. An established
//!    TCP connection or SCTP association is never dropped. Within a class, the connection with the
//!    earliest deadline is dropped.
//! 2. In a zone at its limit, only an expired or closed connection of this zone is dropped. Otherwise
//!    the limit refuses the new connection, as Open vSwitch's does.
//! 3. The last part of the table is a reserve for small zones: a zone may have at most as many
//!    connections as are left (a dynamic threshold, as in shared packet buffers of switches). A new
//!    connection of a larger zone drops a connection of a zone of at least that size; in a full table,
//!    one of any zone.
//! 4. Among several zones, the one with the most droppable connections is chosen. So a flood in one zone
//!    drops its own connections, however many established ones others have.
//! 5. If no connection may be dropped, or the limit is still exceeded after one drop because it was
//!    lowered, the new connection is refused.
//!
//! Candidates come from a random sample of bounded size of each of the largest zones, so that a
//! flood cannot raise the cost. The sample is taken from the zone's index and counts live
//! connections, so it is as good in a table that was a hundred times as large before. In zones of
//! [`ENOUGH`] connections or fewer it holds all of them.

use crate::connections::{Connections, ThreadContext};
use crate::counters::Event;
use crate::pass::Pass;
use crate::protocols::query::{Exchange, Query};
use crate::protocols::sctp::SctpState;
use crate::protocols::tcp::TcpState;
use crate::record::{Kind, Record};
use base::limits::TRACKING_THREADS;
use std::ops::RangeInclusive;
use table::{Id, Index};

/// The reserve is the maximum divided by this.
const RESERVE_PARTS: u32 = 32;
/// Connections per sample.
const ENOUGH: usize = 32;
/// Places of the index that a sample is taken from.
const PLACES: usize = 4;
/// Samples taken until one has a connection that may be dropped.
const ROUNDS: usize = 3;
/// Buckets that a sample may visit. A bucket has four connections on average while the zone grows,
/// and 0.004 when the zone was a thousand times as large.
const BUCKETS: u32 = 4096;
/// Below this maximum the room is computed for each new connection.
const EXACT_BELOW: u32 = 8192;
/// Above it a thread computes the room again after this part of what is left beyond the reserve,
/// within [`LOOK_AFTER`]. This reads a cache line that every other thread writes with each
/// connection. If [`TRACKING_THREADS`] threads create connections at the same rate, at most half of the rest
/// is used by then.
const LOOK_PART: u32 = 2 * TRACKING_THREADS as u32;
const LOOK_AFTER: RangeInclusive<u32> = 64..=4096;

/// A connection that may be dropped; the smallest is dropped first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    class: Class,
    deadline_ms: u64,
    id: Id,
}

/// Classes of connections that may be dropped, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    /// It has expired.
    Over,
    Closed,
    Unanswered,
    /// It was answered without a handshake.
    Answered,
}

/// The result of sampling a zone.
struct Sample {
    best: Candidate,
    /// The estimated number of connections of the zone that may be dropped.
    droppable: u32,
}

impl Class {
    fn event(self) -> Event {
        match self {
            Class::Over => Event::Expired,
            Class::Closed => Event::EvictedClosed,
            Class::Unanswered => Event::EvictedUnanswered,
            Class::Answered => Event::EvictedAnswered,
        }
    }

    /// Returns `None` for an established TCP connection or SCTP association.
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
    /// Drops an expired or closed connection of this zone. Returns whether there was one.
    pub fn drop_closed_in(&mut self, index: &Index) -> bool {
        let sample = self.settings.early_drop.then(|| self.sample(index, Class::Closed)).flatten();
        sample.is_some_and(|it| self.drop_early(it.best))
    }

    /// Drops a connection of a zone that has at least `least` connections. Returns whether there
    /// was one. `own` is the zone of the new connection.
    pub fn drop_in_any(&mut self, own: &Index, least: u32) -> bool {
        if !self.settings.early_drop {
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

    /// Samples a zone for connections of a class up to `last`. Returns `None` if none may be
    /// dropped.
    fn sample(&mut self, index: &Index, last: Class) -> Option<Sample> {
        let connections = self.connections;
        // Several places, since droppable connections cluster: an index that both gains and loses
        // connections has stretches with none.
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
            // A connection with NAT has two entries.
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

    /// Whether a new connection of this zone leaves the reserve to other zones, after a drop if
    /// need be.
    pub fn leaves_reserve(&mut self, index: &Index) -> bool {
        let max = self.connections.quota.max();
        if !self.settings.early_drop || reserve(max) == 0 {
            return true;
        }
        self.context.looks_at_room(max);
        let left = self.context.left_in_reserve;
        left.is_none_or(|left| index.connections() < left || self.drop_in_any(index, left))
    }
}

impl ThreadContext {
    /// Finds out from time to time whether no more than the reserve is left.
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

/// The reserve of a table with this maximum.
fn reserve(max: u32) -> u32 {
    max / RESERVE_PARTS
}
