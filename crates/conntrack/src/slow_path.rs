//! The slow path, which handles every packet: find the connection, update or create it, NAT, write
//! the key (ovs: `lib/conntrack.c`, `process_one`).

pub(crate) mod begin;

use crate::alg::expectations::Expectation;
use crate::alg::{Announced, Connection};
use crate::connections::Found;
use crate::counters::Event;
use crate::headers::extract::Extracted;
use crate::headers::fast_parse::{FastParse, Segments};
use crate::headers::original_tuple::{self, OriginalTuple};
use crate::key::Key;
use crate::nat;
use crate::nat::rewrite::rewrite_nat;
use crate::pass::Pass;
use crate::protocols::icmp_error;
use crate::protocols::tcp::Update;
use flow::{CtState, FlowKey, Frame, NatKind};
use table::Id;

const NATTED: CtState = CtState::SNAT.union(CtState::DNAT);

/// A packet on its way through [`Pass::slow_path`].
pub(crate) struct SlowPathPacket {
    pub key: Key,
    pub hash: u32,
    /// The packet runs in the reply direction.
    pub is_reply: bool,
    pub extracted: Extracted,
    pub state: CtState,
    /// The packet creates its connection, in this pass or in an earlier one of the same zone.
    pub began: bool,
    /// The expectation that the new connection fulfils.
    pub expected: Option<Expectation>,
    /// The connection's generation before its state was read.
    pub generation: Option<u32>,
    /// The packet announces another connection to an ALG.
    announced: bool,
}

impl<'a> Pass<'a> {
    /// Tracks a packet that was not parsed.
    pub fn slow_path_unparsed(&mut self, frame: &mut Frame) {
        // An empty packet is a fragment that is held.
        if frame.packet.is_empty() {
            return;
        }
        match Extracted::of(frame, self.action.zone.0) {
            Ok(extracted) => {
                let hash = extracted.key.hash(&self.connections.secrets);
                self.slow_path(frame, extracted, hash);
            }
            Err(event) => {
                self.context.counters.count(event);
                self.write(frame, CtState::INV, None, &OriginalTuple::Nothing, None);
            }
        }
    }

    /// Tracks a packet after its fast parse.
    #[inline(never)]
    pub fn slow_path_parsed(
        &mut self,
        frame: &mut Frame,
        fast: &FastParse<'_>,
        segments: &Segments,
    ) {
        match fast.is_parsed() {
            true => self.slow_path(frame, fast.extracted(segments), fast.hash),
            false => self.slow_path_unparsed(frame),
        }
    }

    /// Tracks a parsed packet.
    pub fn slow_path(&mut self, frame: &mut Frame, extracted: Extracted, hash: u32) {
        // The state of another zone does not count.
        let same_zone = frame.key.ct_zone() == self.action.zone;
        let state = if same_zone { frame.key.ct_state() } else { CtState::empty() };
        let mut packet = SlowPathPacket {
            key: extracted.key,
            hash,
            is_reply: false,
            extracted,
            state,
            expected: None,
            generation: None,
            announced: false,
            began: false,
        };
        let mut found = self.look_up(&mut packet);
        if let Some(Found { id, .. }) = found
            && self.action.force
            && packet.is_reply
        {
            // `force` asks for a connection whose original direction is the packet's.
            self.connections.remove(self.guard, self.context, id, Event::Replaced);
            found = None;
        }
        let (mut connection, mut begins) = (None, false);
        if let Some(found) = found {
            begins = !self.follow(&mut packet, found.id, frame);
            connection = Some(found.id).filter(|_| !begins);
            // With NAT done in an earlier pass, the ALG has seen the packet before it.
            if !state.intersects(NATTED) {
                self.help(&mut packet, connection, frame);
            }
            if self.action.nat.is_some() {
                self.rewrite_as_before(&mut packet, connection, frame);
            }
        } else if let Some(id) = self.by_original_tuple(&packet, &frame.key) {
            begins = !self.follow(&mut packet, id, frame);
            connection = Some(id).filter(|_| !begins);
        } else if packet.extracted.related {
            self.context.counters.count(Event::RelatedUnknown);
            packet.state = CtState::INV;
        } else {
            begins = true;
        }
        if begins {
            // The packet may have been a reply of the connection that it replaces.
            packet.is_reply = false;
            connection = self.begin(&mut packet, frame);
            packet.began = connection.is_some() && self.action.nat.is_none();
            // A first packet may announce a connection, as a TFTP request does.
            self.help(&mut packet, connection, frame);
        }
        self.write_result(frame, &packet, connection);
        if packet.began {
            frame.key.set_ct_began();
        }
    }

    fn write_result(&mut self, frame: &mut Frame, packet: &SlowPathPacket, connection: Option<Id>) {
        let connections = self.connections;
        let record = connection.map(|id| (id, connections.record(id)));
        let Extracted { related, segment, chunks, .. } = &packet.extracted;
        let has_helper = record.as_ref().is_some_and(|(_, it)| it.state().has_helper());
        // The second TCP segment makes a connection established, and an SCTP handshake is not yet
        // its data: no `ConnectionRef` for these.
        let has_states = segment.is_some() || chunks.is_some();
        let begins = has_states && !packet.state.contains(CtState::EST);
        let is_odd = *related || begins || has_helper;
        let is_usual = !is_odd && segment.is_none_or(|it| it.is_usual());
        let generation = packet.generation.filter(|_| is_usual);
        let is_reply = packet.is_reply;
        let connection = record.as_ref().map(|(id, it)| (Found { id: *id, is_reply }, it));
        let tuple = match &packet.expected {
            Some(expected) => OriginalTuple::Expected(expected),
            None => OriginalTuple::Key(&packet.key),
        };
        self.write(frame, packet.state, connection, &tuple, generation);
        if let Some((id, record)) = record.filter(|_| packet.announced) {
            let ([high, low], mark) = (record.label(), record.state().mark());
            let label = u128::from(high) << 64 | u128::from(low);
            connections.algs.with(|algs| algs.bequeath(id, mark, label));
        }
    }

    /// Finds the packet's connection and its direction. A packet after NAT is found by its reverse,
    /// since packets in the other direction are not rewritten yet.
    fn look_up(&mut self, packet: &mut SlowPathPacket) -> Option<Found> {
        if !packet.state.intersects(NATTED) {
            let found = self.find_key(&packet.key, packet.hash)?;
            packet.is_reply = found.is_reply;
            return Some(found);
        }
        let reverse = packet.key.reversed();
        let Some(found) = self.find_key(&reverse, packet.hash) else {
            self.context.counters.count(Event::NattedMiss);
            return None;
        };
        packet.is_reply = !found.is_reply;
        let record = self.connections.record(found.id);
        packet.key = if packet.is_reply { record.reply() } else { record.original() };
        packet.hash = packet.key.hash(&self.connections.secrets);
        Some(Found { id: found.id, is_reply: packet.is_reply })
    }

    pub fn find_key(&mut self, key: &Key, hash: u32) -> Option<Found> {
        let Pass { connections, guard, context, index, now_ms, .. } = self;
        connections.find(guard, context, *index, (key, hash), *now_ms)
    }

    /// Updates the packet's connection. Returns false if the connection was removed because the
    /// packet begins another.
    fn follow(&mut self, packet: &mut SlowPathPacket, id: Id, frame: &Frame) -> bool {
        let connections = self.connections;
        let record = connections.record(id);
        let (life, state) = record.look();
        packet.generation = Some(life.generation());
        let protects = self.settings.check_tcp_windows;
        let tuple = connections.parent_of(id, state).unwrap_or_else(|| record.original());
        if was_followed(packet, &tuple, &frame.key) {
            return true;
        }
        if made_by_this_packet(packet, &tuple, &frame.key) && !self.action.force {
            packet.began = true;
            return true;
        }
        // A packet that was invalid in an earlier pass may have a connection by now.
        packet.state.remove(CtState::INV);
        if packet.extracted.related {
            // The quoted packet ran in the other direction.
            let is_quoted_reply = !packet.is_reply;
            let mut number = packet.extracted.quoted_number;
            if state.has_helper() {
                number =
                    connections.algs.with(|all| all.unshift_quoted(id, is_quoted_reply, number));
            }
            if protects && !icmp_error::may_be_of(&record.protocol(), number, is_quoted_reply) {
                self.context.counters.count(Event::IcmpForged);
                packet.state = CtState::INV;
                return true;
            }
            packet.state |= CtState::REL;
            packet.state.set(CtState::RPL, packet.is_reply || packet.state.contains(CtState::RPL));
            return true;
        }
        let found = Found { id, is_reply: packet.is_reply };
        let mut segment = packet.extracted.segment;
        if state.has_helper() && !packet.state.intersects(NATTED) {
            let unshift = |it| connections.algs.with(|all| all.unshift(id, found.is_reply, it));
            segment = segment.map(unshift);
        }
        if state.is_expected() {
            packet.state |= CtState::REL;
        }
        let seen = (segment.as_ref(), packet.extracted.chunks.as_ref());
        let update = match self.update(&record, found, seen, &mut packet.generation) {
            Update::Invalid if self.update_marked_record(frame, &record, found, seen.0) => {
                Update::Valid
            }
            update => update,
        };
        match update {
            Update::Valid => {
                packet.state.remove(CtState::NEW);
                packet.state |= CtState::EST;
                if packet.is_reply {
                    packet.state |= CtState::RPL;
                }
            }
            Update::ValidNew => packet.state |= CtState::NEW,
            Update::Invalid => {
                packet.state = CtState::INV;
                return true;
            }
            Update::Reopens => {
                connections.remove(self.guard, self.context, id, Event::Replaced);
                return false;
            }
        }
        self.count(&record, frame, packet.is_reply);
        true
    }

    /// Returns the connection that an earlier pass in this zone wrote into the packet's key, for a
    /// packet that was rewritten since and so is not found by its own tuple (ovs:
    /// `lib/conntrack.c`, `check_orig_tuple`).
    fn by_original_tuple(&mut self, packet: &SlowPathPacket, seen: &FlowKey) -> Option<Id> {
        if self.action.nat.is_some() || !packet.state.intersects(NATTED) {
            return None;
        }
        let key = original_tuple::read(seen, &packet.key)?;
        let hash = key.hash(&self.connections.secrets);
        Some(self.find_key(&key, hash)?.id)
    }

    /// Applies a connection's NAT to a packet, once per zone.
    fn rewrite_as_before(
        &mut self,
        packet: &mut SlowPathPacket,
        connection: Option<Id>,
        frame: &mut Frame,
    ) {
        let Some(id) = connection else { return };
        let record = self.connections.record(id);
        if let Some(kind) = record.state().nat()
            && !packet.state.intersects(NATTED)
        {
            let (kind, target) = match (packet.is_reply, kind) {
                (false, kind) => (kind, record.reply().reversed()),
                (true, NatKind::Src) => (NatKind::Dst, record.original().reversed()),
                (true, NatKind::Dst) => (NatKind::Src, record.original().reversed()),
            };
            packet.state |= nat::state_bit(kind);
            rewrite_nat(frame, kind, &target, packet.extracted.related);
            if record.state().has_helper() && !packet.extracted.related {
                let is_reply = packet.is_reply;
                self.connections.algs.with(|algs| algs.apply(id, is_reply, frame));
            }
        }
    }

    /// Passes a packet to its connection's ALG. A packet with an invalid announcement becomes
    /// invalid.
    fn help(&mut self, packet: &mut SlowPathPacket, connection: Option<Id>, frame: &Frame) {
        let refused = CtState::INV | CtState::REL;
        let Some(id) = connection else { return };
        let record = self.connections.record(id);
        let state = record.state();
        if !state.has_helper() || state.is_expected() || packet.state.intersects(refused) {
            return;
        }
        let Some(l4) = frame.l4() else { return };
        let (original, reply) = (record.original(), record.reply());
        let connection =
            Connection { id, original, reply, nat: state.nat(), helper: state.helper() };
        let observed = self.connections.algs.with(|algs| {
            // A connection that another thread ended must leave nothing in the ALGs.
            if record.life().is_dead() {
                return Ok(Announced(false));
            }
            algs.observe(&connection, packet.is_reply, l4, self.now)
        });
        match observed {
            Ok(Announced(announced)) => packet.announced = announced,
            Err(event) => {
                self.context.counters.count(event);
                if event == Event::HelperRefused {
                    packet.state |= CtState::INV;
                }
            }
        }
    }
}

/// Whether an earlier pass in this zone assigned the packet to this connection and updated it, so
/// that this pass must not. Open vSwitch keeps the connection in the packet's metadata for this
/// (ovs: `lib/conntrack.c`, `process_one_fast`); the tuple in the key survives an upcall too, which
/// metadata does not.
///
/// `tuple` is the tuple that keys have for the connection: its original direction, or its parent's.
fn was_followed(packet: &SlowPathPacket, tuple: &Key, seen: &FlowKey) -> bool {
    if !packet.state.contains(CtState::TRK) || packet.state.contains(CtState::NEW) {
        return false;
    }
    original_tuple::read(seen, tuple) == Some(*tuple)
}

/// Whether the packet created this connection in an earlier pass in this zone. It then stays new,
/// and does not update the connection again. A packet that is new only because no pass committed it
/// is not meant.
fn made_by_this_packet(packet: &SlowPathPacket, tuple: &Key, seen: &FlowKey) -> bool {
    if !seen.ct_began() || !packet.state.contains(CtState::NEW) {
        return false;
    }
    original_tuple::read(seen, tuple) == Some(*tuple)
}
