//! Creates connections: whether a packet begins one, and how it gets into the table.

use crate::alg::expectations::Expectation;
use crate::connections::{Connections, Found, Refused, Taken, fits_state, reversed_v4};
use crate::counters::Event;
use crate::headers::extract::Extracted;
use crate::headers::fast_parse::{FastParse, Segments};
use crate::key::{Family, Key};
use crate::nat;
use crate::nat::rewrite::rewrite_nat;
use crate::pass::Pass;
use crate::protocols::connection::{Helper, Protocol};
use crate::protocols::query::Query;
use crate::protocols::tcp::Segment;
use crate::record::{Birth, State, Words, wide};
use crate::slow_path::SlowPathPacket;
use flow::{CtState, Frame, Nat, NatRange};
use table::{Id, Index};
use wire::protocol;

/// How often another address and port is chosen after another thread took the first.
const CHOICES: usize = 8;

/// A connection to create.
struct Plan<'a> {
    original: Key,
    reply: Key,
    protocol: Protocol,
    state: State,
    deadline_ms: u64,
    /// The expectation that it fulfils.
    expected: Option<&'a Expectation>,
}

/// What a parsed packet contributes to the connection that it may begin.
pub(crate) struct Begun<'s, const N: usize> {
    pub family: Family,
    pub hash: u32,
    /// The words of the original direction's key, then of the reply's.
    pub keys: [[u64; N]; 2],
    /// The original direction's addresses, as for [`Pass::fields_of`].
    pub addresses: [u64; 4],
    pub segment: Option<&'s Segment>,
}

impl<'a> Pass<'a> {
    /// Marks a packet without a candidate as new, and begins its connection if the action commits.
    /// Returns false, with nothing changed, where the slow path is needed.
    #[inline]
    pub fn begin_parsed(
        &mut self,
        frame: &mut Frame,
        fast: &FastParse<'_>,
        segments: &Segments,
    ) -> bool {
        let (addresses, rest) = (fast.addresses, fast.rest);
        let begun = Begun {
            family: Family::V4,
            hash: fast.hash,
            keys: [[addresses, rest], reversed_v4(addresses, rest)],
            addresses: wide(addresses),
            segment: fast.segment(segments),
        };
        fast.is_parsed() && fast.id == 0 && self.begin_plain(frame, &begun, Connections::words_v4)
    }

    /// [`Self::begin_parsed`] for either IP version. `words` returns a record's words.
    #[inline(always)]
    pub fn begin_plain<W: Words<'a>, const N: usize>(
        &mut self,
        frame: &mut Frame,
        begun: &Begun<'_, N>,
        words: impl FnOnce(&'a Connections, Id) -> W,
    ) -> bool {
        let is_plain = !self.was_more_than_new(frame)
            && !self.connections.algs.expect_in(self.action.zone.0)
            && begun.segment.is_none_or(|segment| segment.begins().is_ok());
        if !is_plain {
            return false;
        }
        if self.action.commit {
            return self.commit_plain(frame, begun, words);
        }
        if self.action.force {
            return false;
        }
        self.write_new(frame, begun);
        true
    }

    /// Whether the packet passed this zone before and got another state than new.
    #[inline(always)]
    fn was_more_than_new(&self, frame: &Frame) -> bool {
        self.was_tracked_here(frame) && frame.key.ct_state() != CtState::TRK | CtState::NEW
    }

    /// Writes that a packet is new and has no connection.
    fn write_new<const N: usize>(&self, frame: &mut Frame, begun: &Begun<'_, N>) {
        let rest = begun.keys[0][N - 1];
        frame.key.set_ct(&self.fields_of(CtState::NEW, begun.addresses, rest));
        frame.connection = None;
    }

    /// Creates the connection of a packet that may begin one, without NAT, ALG or expectation.
    #[inline]
    fn commit_plain<W: Words<'a>, const N: usize>(
        &mut self,
        frame: &mut Frame,
        begun: &Begun<'_, N>,
        words: impl FnOnce(&'a Connections, Id) -> W,
    ) -> bool {
        let has_nat = matches!(self.action.nat, Some(Nat::Rewrite(_)));
        if has_nat || self.action.helper.is_some() {
            return false;
        }
        let connections = self.connections;
        let taken = self.room().and_then(|index| Ok((index, self.take(index, begun.family)?)));
        let (index, id) = match taken {
            Ok(taken) => taken,
            Err(event) => {
                self.context.counters.count(event);
                self.write_new(frame, begun);
                return true;
            }
        };
        let words = words(connections, id);
        let record = words.record();
        let (protocol, timeout) = Protocol::of_segment(begun.segment);
        let state = State::new(&protocol, None, None)
            .with_header(index.number())
            .unreported(self.context.is_watched);
        let birth = Birth { shard: self.context.shard(), start: self.now };
        record.begin_words(begun.keys, &protocol, state, birth);
        let life = record.start_living(self.deadline_ms(timeout));
        let place = (index, begun.hash);
        if !connections.insert_plain(self.guard, self.context, place, id, begun.keys, self.now) {
            return false;
        }
        self.count(&record, frame, false);
        // The second TCP segment makes the connection established, so the first gets no
        // `ConnectionRef`.
        let generation = begun.segment.is_none().then_some(life.generation());
        let found = Found { id, is_reply: false };
        self.write_parsed(frame, CtState::NEW, found, words, generation);
        if self.action.nat.is_none() {
            frame.key.set_ct_began();
        }
        true
    }

    /// Creates a connection if the packet may begin one and the action commits.
    pub fn begin(&mut self, packet: &mut SlowPathPacket, frame: &mut Frame) -> Option<Id> {
        let begins = match (&packet.extracted.segment, &packet.extracted.chunks) {
            (Some(segment), _) => segment.begins(),
            (_, Some(chunks)) => chunks.begins(),
            _ if matches!(packet.key.protocol, protocol::ICMP | protocol::ICMPV6) => {
                Query::begins(&packet.key)
            }
            _ => Ok(()),
        };
        if let Err(event) = begins {
            self.context.counters.count(event);
            packet.state = CtState::INV;
            return None;
        }
        packet.state = CtState::NEW;
        let commits = self.action.commit || self.action.force;
        let algs = &self.connections.algs;
        if algs.expect_in(self.action.zone.0) {
            let now = self.now;
            packet.expected = algs.with(|all| match commits {
                true => all.expectations.claim(&packet.key, now),
                false => all.expectations.find(&packet.key, now),
            });
            packet.state.set(CtState::REL, packet.expected.is_some());
        }
        if !commits {
            return None;
        }
        let made = self.make(packet);
        if let Some(claimed) = &packet.expected {
            algs.with(|all| match made {
                Ok(_) => all.expectations.fulfil(claimed),
                Err(_) => all.expectations.release(claimed),
            });
        }
        match made {
            Ok((id, generation)) => {
                packet.generation = generation;
                let connections = self.connections;
                let record = connections.record(id);
                // Another thread may have created it, fulfilling the expectation first.
                packet.state.set(CtState::REL, record.state().is_expected());
                self.count(&record, frame, false);
                if let Some(kind) = record.state().nat() {
                    packet.state |= nat::state_bit(kind);
                    rewrite_nat(frame, kind, &record.reply().reversed(), false);
                }
                Some(id)
            }
            Err(event) => {
                self.context.counters.count(event);
                None
            }
        }
    }

    /// Creates a connection in the table. Returns its generation too, unless another thread created
    /// it.
    fn make(&mut self, packet: &SlowPathPacket) -> Result<(Id, Option<u32>), Event> {
        let Extracted { segment, chunks, .. } = &packet.extracted;
        let expected = packet.expected.as_ref();
        let asked = match &self.action.nat {
            Some(Nat::Rewrite(range)) => Some(range),
            _ => None,
        };
        // An expected connection gets the NAT of its expectation.
        let inherited = self.action.nat.as_ref().and(expected).map(Expectation::nat_range);
        let range = inherited.as_ref().or(asked);
        let (protocol, timeout) = Protocol::new(&packet.key, segment.as_ref(), chunks.as_ref());
        let helper = self.action.helper.and_then(Helper::from_name);
        let kind = range.map(|range| range.kind);
        let mut plan = Plan {
            original: packet.key,
            reply: packet.key.reversed(),
            protocol,
            state: State::new(&protocol, kind, helper),
            deadline_ms: self.deadline_ms(timeout),
            expected,
        };
        if let Some(expected) = expected {
            plan.state = plan.state.expected().with_mark(expected.mark);
        }
        for _ in 0..CHOICES {
            let index = self.room()?;
            // Before the ports are chosen, since an early drop may free some.
            let taken = self.take(index, plan.original.family)?;
            if let Some(range) = range {
                let Some(reply) = self.choose(&plan.original, range) else {
                    self.connections.put_back(self.context, taken);
                    return Err(Event::NatExhausted);
                };
                plan.reply = reply;
            }
            match self.put_in(index, taken, &plan) {
                Ok(generation) => return Ok((taken, Some(generation))),
                Err(Refused::Detached) => {}
                // Another connection took the port between the search and the insertion.
                Err(Refused::Taken(Taken::Reply)) if range.is_some() => {}
                Err(Refused::Taken(Taken::Reply)) => return Err(Event::TupleTaken),
                // Another thread created the same connection at the same time.
                Err(Refused::Taken(Taken::Original)) => {
                    let found = self.find_key(&packet.key, packet.hash);
                    let same = found.filter(|found| !found.is_reply);
                    return same.map(|found| (found.id, None)).ok_or(Event::TupleTaken);
                }
            }
        }
        Err(if range.is_some() { Event::NatExhausted } else { Event::TupleTaken })
    }

    /// Returns the zone's index if the zone may have one more connection.
    fn room(&mut self) -> Result<&'a Index, Event> {
        let zone = self.action.zone.0;
        let connections = self.connections;
        if self.index.is_none_or(Index::is_detached) {
            self.index =
                connections.zones.get_or_make(self.guard, zone).filter(|it| fits_state(it));
        }
        let index = self.index.ok_or(Event::Full)?;
        let limit = self.settings.limits.of(zone);
        let is_full = || limit.is_some_and(|limit| index.connections() >= limit);
        // The zone may exceed its limit by more than one after the limit was lowered.
        if is_full() && (!self.drop_closed_in(index) || is_full()) {
            return Err(Event::ZoneFull);
        }
        if self.leaves_reserve(index) { Ok(index) } else { Err(Event::Full) }
    }

    /// Takes a record for a new connection, by an early drop if the table is full.
    fn take(&mut self, index: &Index, family: Family) -> Result<Id, Event> {
        let mut taken = self.connections.take(self.guard, self.context, family);
        if taken == Err(Event::Full) && self.drop_in_any(index, 0) {
            taken = self.connections.take(self.guard, self.context, family);
        }
        taken
    }

    /// Writes a record and inserts it. Returns its first generation; the connection may change at
    /// once.
    fn put_in(&mut self, index: &Index, id: Id, plan: &Plan<'_>) -> Result<u32, Refused> {
        let connections = self.connections;
        let record = connections.record(id);
        let birth = Birth { shard: self.context.shard(), start: self.now };
        let state = plan.state.with_header(index.number()).unreported(self.context.is_watched);
        record.begin([&plan.original, &plan.reply], &plan.protocol, state, birth);
        if let Some(expected) = plan.expected {
            record.set_label(expected.label, u128::MAX);
            connections.algs.with(|algs| algs.adopt(id, expected));
        }
        let life = record.start_living(plan.deadline_ms);
        let put = connections.insert(self.guard, self.context, index, id, self.now);
        if plan.expected.is_some() && put.is_err() {
            connections.algs.with(|algs| algs.forget(id));
        }
        put.map(|()| life.generation())
    }

    /// Chooses the reply key of a new connection with NAT, or `None` if every choice is taken.
    fn choose(&mut self, original: &Key, range: &NatRange) -> Option<Key> {
        let connections = self.connections;
        let mut random = self.context.random.clone();
        let reply = nat::reply_key(original, range, &connections.nat_secrets, &mut random, |key| {
            self.find_key(key, key.hash(&connections.secrets)).is_some()
        });
        self.context.random = random;
        reply
    }
}
