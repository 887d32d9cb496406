//! What happens to a batch of packets: read, found, followed, written down.
//!
//! [`Pass::track`] is the way of most packets, phase by phase, so that what one packet waits for
//! from memory is fetched while the others are worked on. It carries whole TCP and UDP packets over
//! IPv4 of connections that are known and need no translation. Every other packet goes by
//! [`walk`](crate::walk), which is right for all of them and looks everything up again.

use crate::connections::{Connections, Found, Tools};
use crate::extract::Reading;
use crate::key::Key;
use crate::record::{Kind, Record, deadline_ms, passed_ms};
use crate::settings::Settings;
use crate::sight::Sight;
use crate::tcp::{Segment, Update};
use crate::timeout::{Timeout, TimeoutPolicy};
use base::Instant;
use base::limits::BATCH_SIZE;
use flow::{ConnectionRef, CtAction, CtFields, CtState, Frame, Masked};
use table::{Index, Visit};

/// What a first look saw of each frame of a batch.
type Sights = arrayvec::ArrayVec<Option<Sight>, BATCH_SIZE>;

/// One action's passage over a batch.
pub(crate) struct Pass<'a> {
    pub connections: &'a Connections,
    pub visit: &'a Visit<'a>,
    pub tools: &'a mut Tools,
    pub settings: &'a Settings,
    pub action: &'a CtAction,
    pub now: Instant,
    pub now_ms: u64,
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
            policy: settings.policy(zone),
            index: connections.zones.get(visit, zone),
        }
    }

    /// Tracks a batch.
    #[inline]
    pub fn track(&mut self, frames: &mut [Frame]) {
        let mut sights = self.read(frames);
        self.find(&mut sights);
        for (frame, sight) in frames.iter_mut().zip(&sights) {
            match sight {
                Some(sight) if self.follow_seen(frame, sight) => {}
                Some(sight) => self.walk(frame, sight.reading(frame), sight.hash),
                None => self.walk_unseen(frame),
            }
        }
    }

    /// Reads and hashes all packets, and fetches the buckets that their connections stand in.
    #[inline(always)]
    fn read(&self, frames: &[Frame]) -> Sights {
        let (zone, secrets) = (self.action.zone.0, &self.connections.secrets);
        let mut sights = Sights::new();
        for frame in frames {
            let sight = Sight::of(frame, zone, secrets);
            if let (Some(sight), Some(index)) = (&sight, self.index) {
                index.prefetch(sight.hash);
            }
            sights.push(sight);
        }
        sights
    }

    /// Finds a candidate for each packet by its hash alone, and fetches the candidates.
    #[inline(always)]
    fn find(&self, sights: &mut Sights) {
        let Some(index) = self.index else { return };
        for sight in sights.iter_mut().flatten() {
            if let Some(id) = index.find(sight.hash, Connections::is_v4) {
                self.connections.prefetch_v4(id);
                sight.candidate = id;
            }
        }
    }

    /// Lets a packet act on its candidate. False where that is not its connection, or where more is
    /// to be done than to follow it; nothing was done then.
    #[inline(always)]
    fn follow_seen(&mut self, frame: &mut Frame, sight: &Sight) -> bool {
        if sight.candidate == 0 {
            return false;
        }
        let id = Connections::plain(sight.candidate);
        let record = self.connections.record_v4(id);
        let Some(is_reply) = record.direction_v4(sight.addresses, sight.rest) else { return false };
        let (life, state) = (record.life(), record.state());
        let is_special = self.action.force && is_reply
            || self.action.nat.is_some() && state.is_translated()
            || self.was_tracked_here(frame);
        if is_special || life.is_over(self.now_ms) {
            return false;
        }
        let segment = sight.segment(frame);
        let found = Found { id, is_reply };
        let update = self.update(&record, found, segment.as_ref());
        let state = match update {
            Update::Valid if is_reply => CtState::EST.union(CtState::RPL),
            Update::Valid => CtState::EST,
            Update::ValidNew => CtState::NEW,
            Update::Invalid => CtState::INV,
            // It ends this connection and begins another.
            Update::Reopens => return false,
        };
        if update != Update::Invalid {
            self.count(&record, frame, is_reply);
        }
        let is_usual = segment.is_none_or(|segment| segment.is_usual());
        self.write(frame, state, Some((found, &record)), None, is_usual);
        true
    }

    /// Whether the packet was in this zone before: then it is not looked at as if it were new.
    #[inline(always)]
    fn was_tracked_here(&self, frame: &Frame) -> bool {
        !frame.key.ct_state().is_empty() && frame.key.ct_zone() == self.action.zone
    }

    /// Lets a packet act on its connection's state and time.
    #[inline(always)]
    pub fn update(
        &mut self,
        record: &Record<'_>,
        found: Found,
        segment: Option<&Segment>,
    ) -> Update {
        let (update, timeout) = self.update_state(record, found.is_reply, segment);
        if let Some(timeout) = timeout {
            let deadline = deadline_ms(self.now, self.policy.get(timeout));
            let before = record.set_deadline(deadline);
            if before.is_some_and(|before| deadline < before) {
                self.connections.hasten(record, found.id, deadline);
            }
        }
        update
    }

    #[inline(always)]
    fn update_state(
        &mut self,
        record: &Record<'_>,
        is_reply: bool,
        segment: Option<&Segment>,
    ) -> (Update, Option<Timeout>) {
        let mut state = record.state();
        if state.kind() == Kind::Tcp {
            // A TCP connection's packets all have a segment; without one there is nothing to learn.
            let Some(segment) = segment else { return (Update::Invalid, None) };
            return self.update_tcp(record, is_reply, segment);
        }
        loop {
            let (progress, update, timeout) = match state.kind() {
                Kind::Icmp => {
                    let mut query = state.query();
                    let (update, timeout) = query.update(is_reply);
                    (query as u8, update, timeout)
                }
                _ => {
                    let mut exchange = state.exchange();
                    let (update, timeout) = exchange.update(is_reply);
                    (exchange as u8, update, timeout)
                }
            };
            let next = state.with_progress(progress);
            if next == state {
                return (update, Some(timeout));
            }
            match record.replace_state(state, next) {
                Ok(()) => {
                    // What was new to flows is established now.
                    if update == Update::Valid {
                        record.age();
                    }
                    return (update, Some(timeout));
                }
                Err(changed) => state = changed,
            }
        }
    }

    #[inline(always)]
    fn update_tcp(
        &mut self,
        record: &Record<'_>,
        is_reply: bool,
        segment: &Segment,
    ) -> (Update, Option<Timeout>) {
        loop {
            let before = record.tcp();
            let mut after = before;
            let check = self.settings.check_tcp_windows;
            let answer = after.update(segment, is_reply, check, &mut self.tools.counters);
            // Where the other direction changed the states meanwhile, the segment is judged anew.
            if record.set_tcp(&before, &after) {
                return answer;
            }
        }
    }

    #[inline(always)]
    pub fn count(&self, record: &Record<'_>, frame: &Frame, is_reply: bool) {
        if self.settings.counts_traffic {
            record.count(is_reply, frame.packet.len());
        }
    }

    /// Writes into the key what became of the packet, and onto the connection the mark and label
    /// that the action sets. `tuple` is what stands in the key of a packet without a connection. A
    /// packet that is not `usual` is not remembered as its connection's.
    #[inline(always)]
    pub fn write(
        &self,
        frame: &mut Frame,
        state: CtState,
        connection: Option<(Found, &Record<'_>)>,
        tuple: Option<&Key>,
        is_usual: bool,
    ) {
        let mut fields =
            CtFields { state: state | CtState::TRK, zone: self.action.zone, ..CtFields::default() };
        frame.connection = None;
        match (connection, tuple) {
            (Some((found, record)), _) => {
                self.set_mark_and_label(record);
                // The generation first: what is newer than it is only looked up once more.
                let generation = record.life().generation();
                fields.mark = record.state().mark();
                fields.label = record.label();
                set_tuple(&mut fields, &record.original());
                if is_usual && state != CtState::INV {
                    let Found { id, is_reply } = found;
                    frame.connection = Some(ConnectionRef { id, generation, is_reply });
                }
            }
            (None, Some(tuple)) => set_tuple(&mut fields, tuple),
            (None, None) => {}
        }
        frame.key.set_ct(&fields);
    }

    #[inline(always)]
    fn set_mark_and_label(&self, record: &Record<'_>) {
        let mut changed = false;
        if let Some(Masked { value, mask }) = self.action.mark {
            changed |= record.set_mark(value, mask);
        }
        if let Some(Masked { value, mask }) = self.action.label {
            changed |= record.set_label(value, mask);
        }
        if changed {
            record.age();
        }
    }
}

impl Sight {
    fn reading(&self, frame: &Frame) -> Reading {
        Reading { key: self.key(), related: false, segment: self.segment(frame) }
    }
}

#[inline(always)]
fn set_tuple(fields: &mut CtFields, tuple: &Key) {
    fields.src = tuple.src.words();
    fields.dst = tuple.dst.words();
    fields.protocol = tuple.protocol;
    fields.ports = match tuple.is_icmp() {
        true => [tuple.l4[1] >> 8, tuple.l4[1] & 0xff],
        false => tuple.l4,
    };
}
