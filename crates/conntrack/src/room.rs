//! Room for new connections when a zone or the whole table is full.
//!
//! Connections that are over, or never came about, go first: closed TCP connections, then half-open
//! ones and conversations of one side only, of a few the one whose time ends soonest. They are found
//! by looking at a bounded number at random, so that a flood costs what it costs and no more; and an
//! established connection never goes. A SYN flood can so only push out itself.
//!
//! Before the table is full, the last part of the room is a reserve: a zone that holds much may take
//! of it only after it gave up one of its own such connections, if it has any. A flood in one zone
//! leaves the reserve to the others.

use crate::connections::{Connections, THREADS, Tools};
use crate::counters::Event;
use crate::record::{Kind, Record};
use crate::sctp::SctpState;
use crate::tcp::TcpState;
use crate::track::Pass;
use std::ops::RangeInclusive;
use table::{Id, Index};

/// Of how many parts of the maximum one is the reserve; also how much of it makes a zone large.
pub(crate) const RESERVE_PARTS: u32 = 32;
/// Buckets of a zone's index that are looked at in a row, of some four connections each.
const BUCKETS: usize = 6;
/// In how many places of the index, until somebody is found who may go.
const PLACES: usize = 3;
/// Records that are looked at where the whole table is full.
const RECORDS: usize = 32;
/// Below this maximum each new connection looks how much room is left.
const EXACT_BELOW: u32 = 8192;
/// Above it a thread looks again after this part of what is left beyond the reserve, within limits. To
/// look, it fetches what every other thread writes with each connection; if as many threads as there
/// may be go on as it does, no more than half of that is gone by then.
const LOOK_PART: u32 = 2 * THREADS as u32;
const LOOK_AFTER: RangeInclusive<u32> = 64..=4096;

/// A connection that may go, why, and when its time ends: the smallest goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Candidate {
    why: Reason,
    deadline_ms: u64,
    id: Id,
}

/// Why a connection may go, in the order in which they do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reason {
    Closed,
    Unanswered,
}

impl Reason {
    fn event(self) -> Event {
        match self {
            Reason::Closed => Event::EvictedClosed,
            Reason::Unanswered => Event::EvictedUnanswered,
        }
    }

    /// `None` for connections that were established and are not over.
    fn of(record: &Record<'_>) -> Option<Reason> {
        let state = record.state();
        let is_answered = match state.kind() {
            Kind::Tcp => {
                let peers = record.tcp();
                let (a, b) = (peers.original.state, peers.reply.state);
                if a.min(b) >= TcpState::FinWait2 {
                    return Some(Reason::Closed);
                }
                a.min(b) >= TcpState::Established
            }
            Kind::Sctp => {
                let state = record.sctp().state;
                if state == SctpState::Closed {
                    return Some(Reason::Closed);
                }
                state >= SctpState::Established && state != SctpState::PickedUp
            }
            Kind::Icmp => state.query() == crate::query::Query::Reply,
            Kind::Other => state.exchange() == crate::query::Exchange::Multiple,
        };
        (!is_answered).then_some(Reason::Unanswered)
    }
}

impl Candidate {
    fn of(id: Id, record: &Record<'_>) -> Option<Candidate> {
        let life = record.life();
        let why = Reason::of(record).filter(|_| !life.is_dead())?;
        Some(Candidate { why, deadline_ms: life.deadline_ms(), id })
    }
}

impl Pass<'_> {
    /// Ends a connection of this zone that may go; whether one was found.
    pub fn make_room_in(&mut self, index: &Index) -> bool {
        if !self.settings.makes_room {
            return false;
        }
        let mut best: Option<Candidate> = None;
        let connections = self.connections;
        let mut look = |cursor| {
            let behind = index.walk(cursor, BUCKETS, |entry| {
                let id = Connections::plain(entry);
                let candidate = Candidate::of(id, &connections.record(id));
                best = best.into_iter().chain(candidate).min();
            });
            (best.is_some(), behind.is_none())
        };
        // Places are taken as often as new connections come there: where they were looked at more
        // often than that, nobody would be left soon, and elsewhere who may go would stay.
        for _ in 0..PLACES {
            let (is_found, is_end) = look(index.cursor(self.tools.random.u32(..)));
            // Behind the last bucket comes the first, or those of a small zone would be met seldom.
            if is_found || is_end && look(0).0 {
                break;
            }
        }
        best.is_some_and(|best| self.evict(best))
    }

    /// Ends a connection of any zone that may go; whether one was found.
    pub fn make_room(&mut self) -> bool {
        if !self.settings.makes_room {
            return false;
        }
        let connections = self.connections;
        let ids = connections.some(&mut self.tools.random, RECORDS);
        let candidates = ids.filter_map(|id| Candidate::of(id, &connections.record(id)));
        let mut candidates: Vec<Candidate> = candidates.collect();
        candidates.sort_unstable();
        // A connection that another thread only just writes is not in its index yet: let it be.
        let found = candidates.into_iter().find(|it| connections.is_indexed(self.visit, it.id));
        found.is_some_and(|best| self.evict(best))
    }

    fn evict(&mut self, candidate: Candidate) -> bool {
        self.connections.remove(self.visit, self.tools, candidate.id, candidate.why.event())
    }

    /// Whether a new connection of this zone would take of the reserve.
    pub fn takes_reserve(&mut self, index: &Index) -> bool {
        if !self.settings.makes_room {
            return false;
        }
        let max = self.connections.quota.max();
        let part = max / RESERVE_PARTS;
        self.tools.looks_at_room(max);
        self.tools.is_room_short && part > 0 && index.connections() >= part
    }
}

impl Tools {
    /// Now and then, finds out whether no more than the reserve is left.
    fn looks_at_room(&mut self, max: u32) {
        self.until_look = self.until_look.saturating_sub(1);
        if self.until_look == 0 || max < EXACT_BELOW {
            let left = max.saturating_sub(self.quota.used());
            let beyond = left.saturating_sub(max / RESERVE_PARTS);
            self.until_look = (beyond / LOOK_PART).clamp(*LOOK_AFTER.start(), *LOOK_AFTER.end());
            self.is_room_short = beyond == 0;
        }
    }
}
