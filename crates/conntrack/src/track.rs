//! What happens to one packet: found or not, followed, made, translated, written down
//! (ovs: `lib/conntrack.c`, `process_one`).

use crate::connection::{Connection, Helper, Protocol};
use crate::counters::Event;
use crate::expectations::Expectation;
use crate::extract::Reading;
use crate::gateways::Announced;
use crate::key::Key;
use crate::nat;
use crate::original_tuple::{self, Named};
use crate::query::Query;
use crate::quoted;
use crate::table::{Found, Table};
use crate::tcp::Update;
use crate::timeout::TimeoutPolicy;
use crate::translate::translate;
use base::Instant;
use flow::{CtAction, CtState, FlowKey, Frame, Masked, Nat, NatKind, NatRange};
use wire::protocol;

const NATTED: CtState = CtState::SNAT.union(CtState::DNAT);

/// One action's passage over a batch.
pub(crate) struct Pass<'a> {
    pub table: &'a mut Table,
    pub random: &'a mut fastrand::Rng,
    pub action: &'a CtAction,
    pub now: Instant,
    pub policy: TimeoutPolicy,
    pub check_windows: bool,
    pub connections_max: u32,
}

/// A packet on its way through [`Pass::track`].
struct Subject {
    key: Key,
    hash: u32,
    /// Runs against its connection's original direction.
    is_reply: bool,
    reading: Reading,
    state: CtState,
    /// Where it begins a connection: as what it was announced.
    expected: Option<Expectation>,
    /// It announces a connection itself.
    announced: bool,
}

impl Pass<'_> {
    /// Tracks one packet.
    pub fn track(&mut self, frame: &mut Frame) {
        let zone = self.action.zone;
        let reading = match Reading::of(frame, zone.0) {
            Ok(reading) => reading,
            Err(event) => {
                self.table.counters.count(event);
                self.write(frame, CtState::INV, None, Named::Nothing);
                return;
            }
        };
        // What was said in another zone says nothing here.
        let same_zone = frame.key.ct_zone() == zone;
        let state = if same_zone { frame.key.ct_state() } else { CtState::empty() };
        let hash = reading.key.hash(&self.table.secrets);
        let mut subject = Subject {
            key: reading.key,
            hash,
            is_reply: false,
            reading,
            state,
            expected: None,
            announced: false,
        };
        let mut found = self.look_up(&mut subject);
        if let Some(Found { id, .. }) = found
            && self.forces(&subject, id)
        {
            self.table.remove(id, Event::Replaced);
            found = None;
        }
        let (mut connection, mut begins) = (None, false);
        if let Some(found) = found {
            begins = !self.follow(&mut subject, found.id, &frame.key);
            connection = Some(found.id).filter(|_| !begins);
            // What is translated already was looked at before that.
            if !state.intersects(NATTED) {
                self.help(&mut subject, connection, frame);
            }
            if self.action.nat.is_some() {
                self.translate_as_before(&mut subject, connection, frame);
            }
        } else if let Some(id) = self.by_original_tuple(&subject, &frame.key) {
            begins = !self.follow(&mut subject, id, &frame.key);
            connection = Some(id).filter(|_| !begins);
        } else if subject.reading.related {
            self.table.counters.count(Event::RelatedUnknown);
            subject.state = CtState::INV;
        } else {
            begins = true;
        }
        if begins {
            connection = self.begin(&mut subject, frame);
            // A first packet may announce something already, as TFTP's does.
            self.help(&mut subject, connection, frame);
        }
        let named = match &subject.expected {
            Some(expected) => Named::Expected(expected),
            None => Named::Key(&subject.key),
        };
        self.write(frame, subject.state, connection, named);
        if subject.announced
            && let Some(parent) = connection.and_then(|id| self.table.get(id)).copied()
        {
            self.table.gateways.bequeath(&parent);
        }
    }

    /// Finds the packet's connection and its direction. A packet that was translated already is
    /// found by its reverse: what comes back to it is untranslated still.
    fn look_up(&mut self, subject: &mut Subject) -> Option<Found> {
        if !subject.state.intersects(NATTED) {
            let found = self.table.find(&subject.key, subject.hash, self.now)?;
            subject.is_reply = found.is_reply;
            return Some(found);
        }
        let reverse = subject.key.reversed();
        let Some(found) = self.table.find(&reverse, subject.hash, self.now) else {
            self.table.counters.count(Event::NattedMiss);
            return None;
        };
        subject.is_reply = !found.is_reply;
        let connection = self.table.get(found.id)?;
        subject.key = if subject.is_reply { connection.reply } else { connection.original };
        subject.hash = subject.key.hash(&self.table.secrets);
        Some(Found { id: found.id, is_reply: subject.is_reply })
    }

    /// Whether the action replaces the packet's connection because it runs the other way. Replies
    /// that are still to be untranslated are let be, as Open vSwitch does: it learns only after it
    /// looked at `force` that they are replies (ovs: `lib/conntrack.c`, `process_one`).
    fn forces(&self, subject: &Subject, id: u32) -> bool {
        let is_translated = self.table.get(id).is_some_and(|it| it.nat.is_some());
        let is_pending = is_translated && !subject.state.intersects(NATTED);
        self.action.force && subject.is_reply && !is_pending
    }

    /// Lets the packet act on its connection. Returns false where it begins another one instead;
    /// the old one is gone then.
    fn follow(&mut self, subject: &mut Subject, id: u32, seen: &FlowKey) -> bool {
        let Some(connection) = self.table.get(id) else { return false };
        let named = self.table.parent_of(connection).unwrap_or(&connection.original);
        if was_followed(subject, named, seen) {
            return true;
        }
        let mut segment = subject.reading.segment;
        if connection.helper.is_some() && !subject.state.intersects(NATTED) {
            let gateways = &self.table.gateways;
            segment =
                segment.map(|it| gateways.unshift(&connection.original, subject.is_reply, it));
        }
        let Some((connection, counters)) = self.table.get_mut(id) else { return false };
        if subject.reading.related {
            let number = subject.reading.quoted_number;
            let may_be = quoted::may_be_of(&connection.protocol, number, !subject.is_reply);
            if self.check_windows && !may_be {
                counters.count(Event::IcmpForged);
                subject.state = CtState::INV;
                return true;
            }
            subject.state |= CtState::REL;
            subject
                .state
                .set(CtState::RPL, subject.is_reply || subject.state.contains(CtState::RPL));
            return true;
        }
        if connection.is_expected {
            subject.state |= CtState::REL;
        }
        let (update, timeout) = connection.protocol.update(
            segment.as_ref(),
            subject.reading.chunks.as_ref(),
            subject.is_reply,
            self.check_windows,
            counters,
        );
        if let Some(timeout) = timeout {
            self.table.set_deadline(id, self.now + self.policy.duration(timeout));
        }
        match update {
            Update::Valid => {
                subject.state.remove(CtState::NEW);
                subject.state |= CtState::EST;
                if subject.is_reply {
                    subject.state |= CtState::RPL;
                }
            }
            Update::ValidNew => subject.state |= CtState::NEW,
            Update::Invalid => subject.state = CtState::INV,
            Update::Reopens => {
                self.table.remove(id, Event::Replaced);
                return false;
            }
        }
        true
    }

    /// The connection that an earlier pass in this zone wrote into the packet's key. It serves a
    /// packet whose own tuple was rewritten on the way so that it is not found by it
    /// (ovs: `lib/conntrack.c`, `check_orig_tuple`).
    fn by_original_tuple(&mut self, subject: &Subject, seen: &FlowKey) -> Option<u32> {
        if self.action.nat.is_some() || !subject.state.intersects(NATTED) {
            return None;
        }
        let key = original_tuple::read(seen, &subject.key)?;
        let hash = key.hash(&self.table.secrets);
        Some(self.table.find(&key, hash, self.now)?.id)
    }

    /// Translates a packet of a connection that is translated, once in a zone.
    fn translate_as_before(
        &mut self,
        subject: &mut Subject,
        connection: Option<u32>,
        frame: &mut Frame,
    ) {
        let Some(connection) = connection.and_then(|id| self.table.get(id)) else { return };
        if let Some(kind) = connection.nat
            && !subject.state.intersects(NATTED)
        {
            let (kind, target) = match (subject.is_reply, kind) {
                (false, kind) => (kind, connection.reply.reversed()),
                (true, NatKind::Src) => (NatKind::Dst, connection.original.reversed()),
                (true, NatKind::Dst) => (NatKind::Src, connection.original.reversed()),
            };
            subject.state |= nat::state_bit(kind);
            translate(frame, kind, &target, subject.reading.related);
            if connection.helper.is_some() && !subject.reading.related {
                self.table.gateways.apply(&connection.original, subject.is_reply, frame);
            }
        }
    }

    /// Shows a packet to its connection's helper. What announces something that may not be is
    /// invalid.
    fn help(&mut self, subject: &mut Subject, connection: Option<u32>, frame: &Frame) {
        let refused = CtState::INV | CtState::REL;
        let Some(connection) = connection.and_then(|id| self.table.get(id)).copied() else {
            return;
        };
        let has_helper = connection.helper.is_some() && !connection.is_expected;
        if !has_helper || subject.state.intersects(refused) {
            return;
        }
        let Some(l4) = frame.l4() else { return };
        match self.table.gateways.observe(&connection, subject.is_reply, l4, self.now) {
            Ok(Announced(announced)) => subject.announced = announced,
            Err(event) => {
                self.table.counters.count(event);
                if event == Event::HelperRefused {
                    subject.state |= CtState::INV;
                }
            }
        }
    }

    /// A packet of no connection: begins one if it may and the action commits.
    fn begin(&mut self, subject: &mut Subject, frame: &mut Frame) -> Option<u32> {
        let begins = match (&subject.reading.segment, &subject.reading.chunks) {
            (Some(segment), _) => segment.begins(),
            (_, Some(chunks)) => chunks.begins(),
            _ if matches!(subject.key.protocol, protocol::ICMP | protocol::ICMPV6) => {
                Query::begins(&subject.key)
            }
            _ => Ok(()),
        };
        if let Err(event) = begins {
            self.table.counters.count(event);
            subject.state = CtState::INV;
            return None;
        }
        subject.state = CtState::NEW;
        subject.expected = self.table.gateways.expectations.find(&subject.key, self.now);
        subject.state.set(CtState::REL, subject.expected.is_some());
        if !self.action.commit && !self.action.force {
            return None;
        }
        match self.make(subject) {
            Ok(connection) => {
                if let Some(kind) = connection.nat {
                    subject.state |= nat::state_bit(kind);
                    translate(frame, kind, &connection.reply.reversed(), false);
                }
                let id = self.table.insert(connection, self.now);
                if let Some(expected) = &subject.expected {
                    self.table.gateways.adopt(&connection.original, expected);
                }
                Some(id)
            }
            Err(event) => {
                self.table.counters.count(event);
                None
            }
        }
    }

    /// A new connection, not yet in the table.
    fn make(&mut self, subject: &Subject) -> Result<Connection, Event> {
        if !self.table.limits.has_room(subject.key.zone) {
            return Err(Event::ZoneFull);
        }
        if self.table.len() >= self.connections_max {
            return Err(Event::Full);
        }
        let Reading { segment, chunks, .. } = &subject.reading;
        let (protocol, timeout) = Protocol::new(&subject.key, segment.as_ref(), chunks.as_ref());
        let mut connection = Connection::new(subject.key, protocol);
        connection.deadline = self.now + self.policy.duration(timeout);
        connection.helper = self.action.helper.and_then(Helper::from_name);
        if let Some(expected) = &subject.expected {
            connection.is_expected = true;
            connection.mark = expected.mark;
            connection.set_label(expected.label);
        }
        if let (Some(_), Some(expected)) = (&self.action.nat, &subject.expected) {
            self.choose_translation(&mut connection, &expected.translation())?;
        } else if let Some(Nat::Translate(range)) = &self.action.nat {
            self.choose_translation(&mut connection, range)?;
        } else if self.table.is_taken(&connection.reply, self.now) {
            return Err(Event::TupleTaken);
        }
        Ok(connection)
    }

    fn choose_translation(
        &mut self,
        connection: &mut Connection,
        range: &NatRange,
    ) -> Result<(), Event> {
        let reply = nat::reply_key(self.table, connection, range, self.random, self.now);
        connection.reply = reply.ok_or(Event::NatExhausted)?;
        connection.nat = Some(range.kind);
        Ok(())
    }

    /// Writes into the key what became of the packet, and onto the connection the mark and label
    /// that the action sets.
    fn write(
        &mut self,
        frame: &mut Frame,
        state: CtState,
        connection: Option<u32>,
        named: Named<'_>,
    ) {
        let key = &mut frame.key;
        key.clear_ct();
        key.set_ct_state(state | CtState::TRK);
        key.set_ct_zone(self.action.zone);
        let found = connection.and_then(|id| self.table.get(id));
        match (found, named) {
            (Some(it), _) => {
                original_tuple::write(key, self.table.parent_of(it).unwrap_or(&it.original))
            }
            (None, Named::Key(tuple)) => original_tuple::write(key, tuple),
            (None, Named::Expected(expected)) => {
                original_tuple::write(key, &expected.parent);
                key.set_ct_mark(expected.mark);
                key.set_ct_label(expected.label);
            }
            (None, Named::Nothing) => {}
        }
        let connection = connection.and_then(|id| self.table.get_mut(id));
        let Some((connection, _)) = connection else { return };
        if let Some(Masked { value, mask }) = self.action.mark {
            connection.mark = (value & mask) | (connection.mark & !mask);
        }
        if let Some(Masked { value, mask }) = self.action.label {
            connection.set_label((value & mask) | (connection.label() & !mask));
        }
        key.set_ct_mark(connection.mark);
        key.set_ct_label(connection.label());
    }
}

/// Whether an earlier pass in this zone took the packet to this very connection. It then said all
/// there is to say, and a second passage of the same packet says nothing new (Open vSwitch
/// remembers the connection beside the packet for this; ovs: `lib/conntrack.c`,
/// `process_one_fast`).
///
/// `named` is the connection as keys name it: its original direction, or its parent's.
fn was_followed(subject: &Subject, named: &Key, seen: &FlowKey) -> bool {
    subject.state.contains(CtState::TRK)
        && !subject.state.contains(CtState::NEW)
        && original_tuple::read(seen, named) == Some(*named)
}
