//! Follows packets of connections that are known from earlier packets of the same tuple.
//!
//! Whoever remembers a packet's whole way, and with it a [`ConnectionRef`], asks here whether the next
//! packet of the tuple would go the same way. It does while nothing changed that flows can see, which
//! the connection's generation says; and while the packet is a usual one, since others may change it.

use crate::change::What;
use crate::connections::{Connections, Tools};
use crate::extract::Reading;
use crate::record::{Kind, Life, Record, State, next_ms, passed_ms};
use crate::settings::Settings;
use crate::sight::{self, Datagram};
use crate::sight_v6::SightV6;
use crate::tcp::{Ends, Segment, TcpPeers, Update};
use crate::timeout::Timeout;
use base::Instant;
use flow::{ConnectionRef, Frame};

/// What of a key's last word a packet says itself: its ports and its protocol, not the zone.
const OF_PACKET: u64 = 0xffff_ffff_0000_ff00;

/// No connection ends then: a deadline has fewer bits.
const NEVER: u64 = u64::MAX;

/// A conversation's record, and its life and state when it was looked at.
pub(crate) type Seen<'a> = (Record<'a>, Life, State);

/// What packets of one moment are followed by.
pub(crate) struct Moment<'a> {
    pub connections: &'a Connections,
    pub settings: &'a Settings,
    now: Option<Instant>,
    /// Milliseconds that are over, and the first that is not.
    now_ms: u64,
    next_ms: u64,
    /// When conversations end that go one way, and both ways; [`NEVER`] where that is not all there is
    /// to do with a packet, or where its zone must be asked.
    ends_ms: [u64; 2],
}

impl<'a> Moment<'a> {
    pub fn new(connections: &'a Connections, settings: &'a Settings) -> Self {
        Moment { connections, settings, now: None, now_ms: 0, next_ms: 0, ends_ms: [0; 2] }
    }

    /// Goes to another one, which seldom comes within a batch.
    #[inline(always)]
    pub fn set(&mut self, now: Instant, tools: &mut Tools) {
        if Some(now) != self.now {
            tools.now = now;
            self.go_to(now);
        }
    }

    #[inline(never)]
    fn go_to(&mut self, now: Instant) {
        (self.now, self.now_ms, self.next_ms) = (Some(now), passed_ms(now), next_ms(now));
        let is_usual = self.settings.zone_timeouts.is_empty() && self.settings.counts_traffic;
        self.ends_ms = [NEVER; 2];
        if is_usual {
            self.ends_ms = [self.end_ms(Timeout::UdpSingle), self.end_ms(Timeout::UdpMultiple)];
        }
    }

    /// When ends what begins now by the settings of most zones.
    #[inline(always)]
    fn end_ms(&self, timeout: Timeout) -> u64 {
        let end = self.next_ms + u64::from(self.settings.timeouts.get(timeout)) * 1000;
        if end > self.now_ms { end } else { NEVER }
    }

    /// Follows the packet if it goes the same way as the one before it; `None` did nothing.
    ///
    /// Here is the way of UDP over IPv4 in a conversation to which it adds nothing, in one line of the
    /// record; all others' is beside it.
    #[inline]
    pub fn follow(
        &self,
        connection: ConnectionRef,
        frame: &Frame,
        tools: &mut Tools,
    ) -> Option<()> {
        if !Connections::is_remembered_datagram(connection.id) {
            return self.follow_other(connection, frame, tools);
        }
        let Some(said) = Datagram::of(frame) else {
            return self.follow_settled(connection, frame);
        };
        let seen = self.seen_by(connection, &said)?;
        self.follow_seen(connection, seen, said.len, frame)
    }

    /// The record, life and state of a datagram's conversation, if they are what they were and it adds
    /// nothing; its time may be over.
    #[inline(always)]
    pub fn seen_by(&self, connection: ConnectionRef, said: &Datagram) -> Option<Seen<'a>> {
        let ConnectionRef { id, generation, is_reply } = connection;
        let record = Record::v4(self.connections.words_v4(id));
        let (life, state) = (record.life(), record.state());
        let (addresses, rest) = record.key_v4(is_reply);
        let number = self.connections.zones.number((rest >> 16) as u16);
        let differs = (addresses ^ said.addresses)
            | (rest ^ said.ports_protocol) & OF_PACKET
            | life.differs_from(generation)
            | state.differs_from_settled(number, is_reply);
        (differs == 0).then_some((record, life, state))
    }

    /// Tells a conversation of a datagram.
    #[inline(always)]
    pub fn follow_seen(
        &self,
        connection: ConnectionRef,
        (record, life, state): Seen<'a>,
        len: usize,
        frame: &Frame,
    ) -> Option<()> {
        let is_reply = connection.is_reply;
        if life.deadline_ms() != self.ends_ms[state.exchange() as usize] {
            let timeout = settled(state, is_reply).filter(|_| !life.is_over(self.now_ms))?;
            return self.note_packet(connection, life, timeout, frame);
        }
        record.count(is_reply, len);
        Some(())
    }

    /// Whether a conversation's time is over.
    #[inline(always)]
    pub fn is_over(&self, (_, life, _): &Seen<'a>) -> bool {
        life.is_over(self.now_ms)
    }

    /// The same of TCP over IPv4, and of all over IPv6.
    #[inline(never)]
    fn follow_other(
        &self,
        connection: ConnectionRef,
        frame: &Frame,
        tools: &mut Tools,
    ) -> Option<()> {
        if !Connections::is_v4(connection.id) {
            return self.follow_v6(connection, frame, tools);
        }
        let record = Record::v4(self.connections.words_v4(connection.id));
        let (life, state) = self.unchanged(&record, connection)?;
        if state.kind() != Kind::Tcp {
            return None;
        }
        let (addresses, ports_protocol, segment) = sight::segment_of(frame)?;
        let is_reply = connection.is_reply;
        let (ours, rest) = record.key_v4(is_reply);
        if (ours ^ addresses) | (rest ^ ports_protocol) & OF_PACKET != 0 {
            return None;
        }
        let timeout = self.follow_segment(&record, is_reply, &segment, tools)?;
        self.note_packet(connection, life, timeout, frame)
    }

    /// The same of what has no handshake and is no plain UDP: ICMP's queries and their answers, and
    /// protocols whose packets are told apart by their addresses alone. There are few such packets, so
    /// that the whole reading serves, which knows what is wrong with each.
    #[inline(never)]
    fn follow_settled(&self, connection: ConnectionRef, frame: &Frame) -> Option<()> {
        let (record, is_reply) = (self.connections.record(connection.id), connection.is_reply);
        let (life, state) = self.unchanged(&record, connection)?;
        let timeout = settled(state, is_reply)?;
        let reading = Reading::of(frame, record.zone()).ok().filter(|it| !it.related)?;
        if record.direction(&reading.key)? != is_reply {
            return None;
        }
        self.note_packet(connection, life, timeout, frame)
    }

    /// The same of TCP, UDP and ICMP over IPv6.
    fn follow_v6(&self, connection: ConnectionRef, frame: &Frame, tools: &mut Tools) -> Option<()> {
        let (record, is_reply) = (self.connections.record(connection.id), connection.is_reply);
        let (life, state) = self.unchanged(&record, connection)?;
        let Some(sight) = SightV6::of(frame) else {
            return self.follow_settled(connection, frame);
        };
        if sight.direction(&record, record.zone())? != is_reply {
            return None;
        }
        let timeout = match state.kind() {
            Kind::Other => settled(state, is_reply)?,
            Kind::Tcp => self.follow_segment(&record, is_reply, &sight.segment()?, tools)?,
            Kind::Icmp | Kind::Sctp => return None,
        };
        self.note_packet(connection, life, timeout, frame)
    }

    /// Life and state of a connection of which flows see what they saw.
    #[inline(always)]
    pub fn unchanged(
        &self,
        record: &Record<'_>,
        connection: ConnectionRef,
    ) -> Option<(Life, State)> {
        let (life, state) = (record.life(), record.state());
        let is_over = life.differs_from(connection.generation) != 0 || life.is_over(self.now_ms);
        // A helper reads all of its connection's packets.
        let number = self.connections.zones.number(record.zone());
        (!is_over && state.differs_from_plain(number) == 0).then_some((life, state))
    }

    /// A timeout's absence, which is a segment that fits only loosely, ends in `None` too: those are
    /// few, and the whole way knows what to do with them.
    fn follow_segment(
        &self,
        record: &Record<'_>,
        is_reply: bool,
        segment: &Segment,
        tools: &mut Tools,
    ) -> Option<Timeout> {
        if !segment.is_usual() {
            return None;
        }
        let before = record.tcp_words();
        let mut ends = Ends::from_words(before, is_reply);
        let check = self.settings.check_tcp_windows;
        let trial = &mut tools.trial;
        let (update, timeout) = ends.update(segment, check, trial);
        let after = ends.words(is_reply);
        let counted = !trial.is_zero();
        let followed =
            update == Update::Valid && timeout.is_some() && record.set_tcp(before, after);
        let shown = |words| TcpPeers::from_words(words).shown();
        if followed && tools.is_watched && shown(before) != shown(after) {
            tools.note(record, What::Updated);
        }
        if counted {
            tools.settle_trial(followed);
        }
        timeout.filter(|_| followed)
    }

    /// Begins the connection's time anew, and counts the packet.
    #[inline(never)]
    fn note_packet(
        &self,
        connection: ConnectionRef,
        life: Life,
        timeout: Timeout,
        frame: &Frame,
    ) -> Option<()> {
        let record = self.connections.record(connection.id);
        let seconds = self.settings.policy(record.zone()).get(timeout);
        let deadline = self.next_ms + u64::from(seconds) * 1000;
        if deadline < record.set_deadline(life, deadline)? {
            self.connections.hasten(&record, Connections::plain(connection.id), deadline);
        }
        if self.settings.counts_traffic {
            record.count(connection.is_reply, frame.packet.len());
        }
        Some(())
    }
}

/// The timeout of a conversation without handshake to which a packet adds nothing.
#[inline(always)]
pub(crate) fn settled(state: State, is_reply: bool) -> Option<Timeout> {
    if state.kind() == Kind::Icmp {
        let mut query = state.query();
        let (_, timeout) = query.update(is_reply);
        return (query == state.query()).then_some(timeout);
    }
    let is_answered = state.is_settled(is_reply)?;
    Some(if is_answered { Timeout::UdpMultiple } else { Timeout::UdpSingle })
}
