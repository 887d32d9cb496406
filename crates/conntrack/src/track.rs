//! What happens to a batch of packets: read, found, followed, written down.
//!
//! [`Pass::track`] is the way of most packets, phase by phase, so that what one packet waits for
//! from memory is fetched while the others are worked on. It carries whole TCP and UDP packets over
//! IPv4 of connections that are known and need no translation. Every other packet goes by
//! [`walk`](crate::walk), which is right for all of them and looks everything up again.

use crate::change::What;
use crate::connections::{Connections, Found, Tools};
use crate::original_tuple::{self, Named};
use crate::record::{Life, Record, State, WORDS_V4, next_ms, passed_ms};
use crate::settings::Settings;
use crate::sight::{Segments, Sight};
use crate::sketch;
use crate::tcp::{Segment, Update};
use crate::timeout::{Timeout, TimeoutPolicy};
use base::Instant;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, CtAction, CtFields, CtState, Frame, Masked};
use table::atomic::AtomicU64;
use table::{Index, Lookup, Visit};

/// What a first look saw of each frame of a batch.
type Sights<'a> = arrayvec::ArrayVec<Sight<'a>, BATCH_SIZE>;

/// One action's passage over a batch.
pub(crate) struct Pass<'a> {
    pub connections: &'a Connections,
    pub visit: &'a Visit<'a>,
    pub tools: &'a mut Tools,
    pub settings: &'a Settings,
    pub action: &'a CtAction,
    pub now: Instant,
    /// Milliseconds that are over, and the first that is not.
    pub now_ms: u64,
    next_ms: u64,
    /// Connections with any of these go the whole way.
    whole_way: u64,
    /// The timeouts of the zone.
    pub policy: &'a TimeoutPolicy,
    /// The connections of the zone, where it has any.
    pub index: Option<&'a Index>,
}

impl<'a> Pass<'a> {
    pub fn new(
        connections: &'a Connections,
        visit: &'a Visit<'a>,
        tools: &'a mut Tools,
        settings: &'a Settings,
        action: &'a CtAction,
        now: Instant,
    ) -> Self {
        let zone = action.zone.0;
        Pass {
            connections,
            visit,
            tools,
            settings,
            action,
            now,
            now_ms: passed_ms(now),
            next_ms: next_ms(now),
            whole_way: State::whole_way(action.nat.is_some()),
            policy: settings.policy(zone),
            index: connections.zones.get(visit, zone),
        }
    }

    /// Tracks a batch.
    #[inline]
    pub fn track(&mut self, frames: &mut [Frame]) {
        let (mut sights, mut segments) = (Sights::new(), Segments::new());
        let lookup = self.index.map(Index::lookup);
        self.read(frames, lookup, &mut sights, &mut segments);
        if let Some(lookup) = lookup {
            self.find(lookup, &mut sights);
        }
        for (frame, sight) in frames.iter_mut().zip(&sights) {
            let is_done = self.follow_seen(frame, sight, &segments)
                || self.begin_seen(frame, sight, &segments);
            if !is_done {
                self.walk_seen(frame, sight, &segments);
            }
        }
    }

    /// Reads and hashes all packets, and fetches the buckets that their connections stand in.
    #[inline(always)]
    fn read(
        &self,
        frames: &[Frame],
        lookup: Option<Lookup<'a>>,
        sights: &mut Sights<'a>,
        segments: &mut Segments,
    ) {
        let (zone, secrets) = (self.action.zone.0, &self.connections.secrets);
        for frame in frames {
            let Some(mut sight) = Sight::of(frame, zone, secrets, segments) else {
                sights.push(Sight::NOTHING);
                continue;
            };
            sight.spot = lookup.map(|lookup| lookup.spot(sight.hash));
            sights.push(sight);
        }
    }

    /// Finds a candidate for each packet by its hash alone, and fetches the candidates.
    #[inline(always)]
    fn find(&self, lookup: Lookup<'a>, sights: &mut Sights<'a>) {
        for sight in sights {
            let Some(spot) = sight.spot else { continue };
            if let Some(id) = lookup.find_at(spot, sight.hash) {
                sight.id = Connections::plain(id);
                // What has the same hash by chance may be of the other family.
                sight.candidate =
                    Connections::is_v4(id).then(|| self.connections.fetch_v4(id, sight.is_tcp()));
            }
        }
    }

    /// Lets a packet act on its candidate. False where that is not its connection, or where more is
    /// to be done than to follow it; nothing was done then.
    #[inline(always)]
    fn follow_seen(&mut self, frame: &mut Frame, sight: &Sight<'_>, segments: &Segments) -> bool {
        let Some(words) = sight.candidate else { return false };
        let record = Record::v4(words);
        let Some(is_reply) = record.direction_v4(sight.addresses, sight.rest) else { return false };
        let (life, state) = (record.life(), record.state());
        let is_special = self.action.force && is_reply
            || state.has_any(self.whole_way)
            || self.was_tracked_here(frame);
        if is_special || life.is_over(self.now_ms) {
            return false;
        }
        let found = Found { id: sight.id, is_reply };
        let Some(is_answered) = state.is_settled(is_reply) else {
            return self.follow_segment(frame, sight.segment(segments), found, words);
        };
        let new = (CtState::NEW, Timeout::UdpSingle);
        let established = (CtState::EST, Timeout::UdpMultiple);
        let (state, timeout) = if is_answered { established } else { new };
        self.set_deadline(&record, found, life, timeout);
        self.write_followed(frame, state, found, &record, true);
        true
    }

    /// Lets a TCP segment act on its connection. False did nothing that a second look at it does not
    /// do again.
    #[inline(always)]
    fn follow_segment(
        &mut self,
        frame: &mut Frame,
        segment: Option<&Segment>,
        found: Found,
        words: &[AtomicU64; WORDS_V4],
    ) -> bool {
        let Some(segment) = segment else { return false };
        let record = Record::v4(words);
        let state = match self.update_segment(words, found, segment) {
            Update::Valid => CtState::EST,
            Update::ValidNew => CtState::NEW,
            Update::Invalid => CtState::INV,
            // It ends this connection and begins another.
            Update::Reopens => return false,
        };
        self.write_followed(frame, state, found, &record, segment.is_usual());
        true
    }

    /// Counts a packet, and writes what became of it.
    #[inline(always)]
    fn write_followed(
        &mut self,
        frame: &mut Frame,
        state: CtState,
        found: Found,
        record: &Record<'_>,
        is_usual: bool,
    ) {
        self.count(record, frame, found.is_reply);
        let is_answer = found.is_reply && state == CtState::EST;
        let reply = if is_answer { CtState::RPL } else { CtState::empty() };
        self.write_seen(frame, state | reply, found, record, is_usual);
    }

    /// [`Pass::write`] for TCP and UDP over IPv4.
    #[inline(always)]
    pub fn write_seen(
        &mut self,
        frame: &mut Frame,
        state: CtState,
        found: Found,
        record: &Record<'_>,
        is_usual: bool,
    ) {
        let (addresses, rest) = record.key_v4(false);
        let mut fields = self.fields_v4(state, addresses, rest);
        self.write_connection(frame, &mut fields, found, record, is_usual);
    }

    /// Whether the packet was in this zone before: then it is not looked at as if it were new.
    #[inline(always)]
    pub fn was_tracked_here(&self, frame: &Frame) -> bool {
        !frame.key.ct_state().is_empty() && frame.key.ct_zone() == self.action.zone
    }

    /// Begins a connection's time anew.
    #[inline(always)]
    pub fn set_deadline(&self, record: &Record<'_>, found: Found, seen: Life, timeout: Timeout) {
        let deadline = self.deadline_ms(timeout);
        let before = record.set_deadline(seen, deadline);
        if before.is_some_and(|before| deadline < before) {
            self.connections.hasten(*record, found.id, deadline);
        }
    }

    /// When what begins now ends.
    #[inline(always)]
    pub fn deadline_ms(&self, timeout: Timeout) -> u64 {
        self.next_ms + u64::from(self.policy.get(timeout)) * 1000
    }

    #[inline(always)]
    pub fn count(&self, record: &Record<'_>, frame: &Frame, is_reply: bool) {
        if self.settings.counts_traffic {
            record.count(is_reply, frame.packet.len());
        }
    }

    /// Writes into the key what became of the packet, and onto the connection the mark and label
    /// that the action sets. `named` is what stands in the key of a packet without a connection. A
    /// packet that is not `usual` is not remembered as its connection's.
    pub fn write(
        &mut self,
        frame: &mut Frame,
        state: CtState,
        connection: Option<(Found, &Record<'_>)>,
        named: &Named<'_>,
        is_usual: bool,
    ) {
        let mut fields = self.fields(state);
        let Some((found, record)) = connection else {
            named.write(&mut fields);
            frame.key.set_ct(&fields);
            frame.connection = None;
            return;
        };
        let parent = self.connections.parent_of(found.id, record.state());
        original_tuple::write(&mut fields, &parent.unwrap_or_else(|| record.original()));
        self.write_connection(frame, &mut fields, found, record, is_usual);
    }

    #[inline(always)]
    fn fields(&self, state: CtState) -> CtFields {
        let (state, zone) = (state | CtState::TRK, self.action.zone);
        CtFields { state, zone, ..CtFields::default() }
    }

    /// With the original direction of a connection over IPv4.
    #[inline(always)]
    pub fn fields_v4(&self, state: CtState, addresses: u64, rest: u64) -> CtFields {
        let mut fields = self.fields(state);
        (fields.src[1], fields.dst[1]) = (addresses >> 32, addresses & 0xffff_ffff);
        fields.ports = [(rest >> 48) as u16, (rest >> 32) as u16];
        fields.protocol = (rest >> 8) as u8;
        fields
    }

    /// Adds what stands on the connection, and writes all of it.
    #[inline(always)]
    fn write_connection(
        &mut self,
        frame: &mut Frame,
        fields: &mut CtFields,
        found: Found,
        record: &Record<'_>,
        is_usual: bool,
    ) {
        if self.action.mark.is_some() || self.action.label.is_some() {
            self.set_mark_and_label(*record);
        }
        // The generation first: what is newer than it is only looked up once more.
        let generation = record.life().generation();
        let state = record.state();
        fields.mark = state.mark();
        fields.label = record.label_in(state);
        let Found { id, is_reply } = found;
        let id = Connections::remembered(id, state);
        let is_remembered = is_usual && !fields.state.contains(CtState::INV);
        frame.connection = is_remembered.then_some(ConnectionRef { id, generation, is_reply });
        frame.key.set_ct(fields);
    }

    #[inline(never)]
    fn set_mark_and_label(&mut self, record: Record<'_>) {
        let mut changed = false;
        // Before the connection has them.
        if let Some(index) = self.connections.zones.index(record.state().header()) {
            sketch::note_action(index, self.action);
        }
        if let Some(Masked { value, mask }) = self.action.mark {
            changed |= record.set_mark(value, mask);
        }
        if let Some(Masked { value, mask }) = self.action.label {
            changed |= record.set_label(value, mask);
        }
        if changed {
            record.age();
            self.tools.note(&record, What::Updated);
        }
    }
}
