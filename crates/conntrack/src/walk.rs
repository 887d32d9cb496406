//! The whole way of one packet, whatever it is: found or not, followed, made, translated, written
//! down (ovs: `lib/conntrack.c`, `process_one`).

use crate::connections::Found;
use crate::counters::Event;
use crate::extract::Reading;
use crate::key::{Address, Family, Key};
use crate::record::Record;
use crate::sight::Sight;
use crate::tcp::Update;
use crate::track::Pass;
use crate::translate::translate;
use flow::{CtState, Field, FlowKey, Frame, NatKind};
use table::Id;

const NATTED: CtState = CtState::SNAT.union(CtState::DNAT);

/// A packet on its way through [`Pass::walk`].
pub(crate) struct Subject {
    pub key: Key,
    pub hash: u32,
    /// Runs against its connection's original direction.
    pub is_reply: bool,
    pub reading: Reading,
    pub state: CtState,
    /// Its connection is made by it, in this pass or in an earlier one of the same zone.
    pub began: bool,
}

impl<'a> Pass<'a> {
    /// Tracks a packet of which nothing is known yet.
    fn walk_unseen(&mut self, frame: &mut Frame) {
        match Reading::of(frame, self.action.zone.0) {
            Ok(reading) => {
                let hash = reading.key.hash(&self.connections.secrets);
                self.walk(frame, reading, hash);
            }
            Err(event) => {
                self.tools.counters.count(event);
                self.write(frame, CtState::INV, None, None, false);
            }
        }
    }

    /// Tracks a packet at which a first look was taken.
    #[inline(never)]
    pub fn walk_seen(&mut self, frame: &mut Frame, sight: &Sight<'_>) {
        match sight.is_seen() {
            true => self.walk(frame, sight.reading(frame), sight.hash),
            false => self.walk_unseen(frame),
        }
    }

    /// Tracks a packet that was read.
    fn walk(&mut self, frame: &mut Frame, reading: Reading, hash: u32) {
        // What was said in another zone says nothing here.
        let same_zone = frame.key.ct_zone() == self.action.zone;
        let state = if same_zone { frame.key.ct_state() } else { CtState::empty() };
        let mut subject =
            Subject { key: reading.key, hash, is_reply: false, reading, state, began: false };
        let mut found = self.look_up(&mut subject);
        if let Some(Found { id, .. }) = found
            && self.forces(&subject, id)
        {
            self.connections.remove(self.visit, self.tools, id, Event::Replaced);
            found = None;
        }
        let (mut connection, mut begins) = (None, false);
        if let Some(found) = found {
            begins = !self.follow(&mut subject, found.id, frame);
            connection = Some(found.id).filter(|_| !begins);
            if self.action.nat.is_some() {
                self.translate_as_before(&mut subject, connection, frame);
            }
        } else if let Some(id) = self.by_original_tuple(&subject, &frame.key) {
            begins = !self.follow(&mut subject, id, frame);
            connection = Some(id).filter(|_| !begins);
        } else if subject.reading.related {
            self.tools.counters.count(Event::RelatedUnknown);
            subject.state = CtState::INV;
        } else {
            begins = true;
        }
        if begins {
            connection = self.begin(&mut subject, frame);
            subject.began = connection.is_some() && self.action.nat.is_none();
        }
        self.write_walked(frame, &subject, connection);
        if subject.began {
            frame.key.set_ct_began();
        }
    }

    fn write_walked(&mut self, frame: &mut Frame, subject: &Subject, connection: Option<Id>) {
        let connections = self.connections;
        let record = connection.map(|id| (id, connections.record(id)));
        let segment = &subject.reading.segment;
        let is_usual = !subject.reading.related && segment.is_none_or(|it| it.is_usual());
        let is_reply = subject.is_reply;
        let connection = record.as_ref().map(|(id, it)| (Found { id: *id, is_reply }, it));
        self.write(frame, subject.state, connection, Some(&subject.key), is_usual);
    }

    /// Finds the packet's connection and its direction. A packet that was translated already is
    /// found by its reverse: what comes back to it is untranslated still.
    fn look_up(&mut self, subject: &mut Subject) -> Option<Found> {
        if !subject.state.intersects(NATTED) {
            let found = self.find_key(&subject.key, subject.hash)?;
            subject.is_reply = found.is_reply;
            return Some(found);
        }
        let reverse = subject.key.reversed();
        let Some(found) = self.find_key(&reverse, subject.hash) else {
            self.tools.counters.count(Event::NattedMiss);
            return None;
        };
        subject.is_reply = !found.is_reply;
        let record = self.connections.record(found.id);
        subject.key = if subject.is_reply { record.reply() } else { record.original() };
        subject.hash = subject.key.hash(&self.connections.secrets);
        Some(Found { id: found.id, is_reply: subject.is_reply })
    }

    pub fn find_key(&mut self, key: &Key, hash: u32) -> Option<Found> {
        let Pass { connections, visit, tools, index, now_ms, .. } = self;
        connections.find(visit, tools, *index, (key, hash), *now_ms)
    }

    /// Whether the action replaces the packet's connection because it runs the other way. Replies
    /// that are still to be untranslated are let be, as Open vSwitch does: it learns only after it
    /// looked at `force` that they are replies (ovs: `lib/conntrack.c`, `process_one`).
    fn forces(&self, subject: &Subject, id: Id) -> bool {
        let is_translated = self.connections.record(id).state().is_translated();
        let is_pending = is_translated && !subject.state.intersects(NATTED);
        self.action.force && subject.is_reply && !is_pending
    }

    /// Lets the packet act on its connection. Returns false where it begins another one instead;
    /// the old one is gone then.
    fn follow(&mut self, subject: &mut Subject, id: Id, frame: &Frame) -> bool {
        let connections = self.connections;
        let record = connections.record(id);
        if was_followed(subject, &record, &frame.key) {
            return true;
        }
        if made_by_this_packet(subject, &record, &frame.key) && !self.action.force {
            subject.began = true;
            return true;
        }
        // What an earlier pass found invalid may have got a connection meanwhile.
        subject.state.remove(CtState::INV);
        if subject.reading.related {
            subject.state |= CtState::REL;
            subject
                .state
                .set(CtState::RPL, subject.is_reply || subject.state.contains(CtState::RPL));
            return true;
        }
        let found = Found { id, is_reply: subject.is_reply };
        match self.update(&record, found, subject.reading.segment.as_ref()) {
            Update::Valid => {
                subject.state.remove(CtState::NEW);
                subject.state |= CtState::EST;
                if subject.is_reply {
                    subject.state |= CtState::RPL;
                }
            }
            Update::ValidNew => subject.state |= CtState::NEW,
            Update::Invalid => {
                subject.state = CtState::INV;
                return true;
            }
            Update::Reopens => {
                connections.remove(self.visit, self.tools, id, Event::Replaced);
                return false;
            }
        }
        self.count(&record, frame, subject.is_reply);
        true
    }

    /// The connection that an earlier pass in this zone wrote into the packet's key. It serves a
    /// packet whose own tuple was rewritten on the way so that it is not found by it
    /// (ovs: `lib/conntrack.c`, `check_orig_tuple`).
    fn by_original_tuple(&mut self, subject: &Subject, seen: &FlowKey) -> Option<Id> {
        if self.action.nat.is_some() || !subject.state.intersects(NATTED) {
            return None;
        }
        let key = original_tuple(seen, &subject.key)?;
        let hash = key.hash(&self.connections.secrets);
        Some(self.find_key(&key, hash)?.id)
    }

    /// Translates a packet of a connection that is translated, once in a zone.
    fn translate_as_before(
        &mut self,
        subject: &mut Subject,
        connection: Option<Id>,
        frame: &mut Frame,
    ) {
        let Some(record) = connection.map(|id| self.connections.record(id)) else { return };
        if let Some(kind) = record.state().nat()
            && !subject.state.intersects(NATTED)
        {
            let (kind, target) = match (subject.is_reply, kind) {
                (false, kind) => (kind, record.reply().reversed()),
                (true, NatKind::Src) => (NatKind::Dst, record.original().reversed()),
                (true, NatKind::Dst) => (NatKind::Src, record.original().reversed()),
            };
            subject.state |= nat_bit(kind);
            translate(frame, kind, &target, subject.reading.related);
        }
    }
}

/// Whether an earlier pass in this zone took the packet to this very connection. It then said all
/// there is to say, and a second passage of the same packet says nothing new. Open vSwitch remembers
/// the connection beside the packet for this (ovs: `lib/conntrack.c`, `process_one_fast`); the tuple
/// in the key also outlasts a packet's way through the control side, which a number beside it does
/// not.
fn was_followed(subject: &Subject, record: &Record<'_>, seen: &FlowKey) -> bool {
    if !subject.state.contains(CtState::TRK) || subject.state.contains(CtState::NEW) {
        return false;
    }
    let original = record.original();
    original_tuple(seen, &original) == Some(original)
}

/// Whether the packet made this connection in an earlier pass in this zone: it then stays new, and
/// the connection is not shown it again. A packet that is new because no one had committed it yet is
/// another matter.
fn made_by_this_packet(subject: &Subject, record: &Record<'_>, seen: &FlowKey) -> bool {
    if !seen.ct_began() || !subject.state.contains(CtState::NEW) {
        return false;
    }
    let original = record.original();
    original_tuple(seen, &original) == Some(original)
}

pub(crate) fn nat_bit(kind: NatKind) -> CtState {
    match kind {
        NatKind::Src => CtState::SNAT,
        NatKind::Dst => CtState::DNAT,
    }
}

/// The original tuple that stands in a packet's key; `like` has the parts that do not.
fn original_tuple(seen: &FlowKey, like: &Key) -> Option<Key> {
    let protocol = seen.ct_nw_proto();
    if protocol == 0 {
        return None;
    }
    let (src, dst) = match like.family {
        Family::V4 => (Field::CtNwSrc, Field::CtNwDst),
        Family::V6 => (Field::CtIpv6Src, Field::CtIpv6Dst),
    };
    let mut key = Key {
        src: Address::from_bits(seen.get(src)),
        dst: Address::from_bits(seen.get(dst)),
        l4: [seen.ct_tp_src(), seen.ct_tp_dst()],
        protocol,
        ..*like
    };
    if key.is_icmp() {
        key.l4 = [like.l4[0], seen.ct_tp_src() << 8 | (seen.ct_tp_dst() & 0xff)];
    }
    Some(key)
}
