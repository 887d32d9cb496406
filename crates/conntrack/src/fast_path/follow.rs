//! Follows packets of connections that are known from earlier packets of the same tuple.
//!
//! A caller that caches a packet's flow path together with a [`ConnectionRef`] calls this to learn
//! whether the next packet of the tuple takes the same path. It does if nothing that flows can
//! match on changed (by the connection's generation) and the packet cannot change it (no SYN, FIN,
//! RST).

use crate::connections::{Connections, ThreadContext};
use crate::headers::fast_parse::Datagram;
use crate::headers::parsed::{self, OF_PACKET, Parsed, ParsedVisitor};
use crate::management::change::What;
use crate::management::settings::Settings;
use crate::protocols::sctp::Chunks;
use crate::protocols::tcp::{Ends, Segment, TcpPeers, Update};
use crate::record::{Kind, Life, Record, State, next_ms, passed_ms};
use crate::timeout::Timeout;
use base::Instant;
use flow::{ConnectionRef, Frame};

/// Later than any deadline, which has fewer bits.
const NEVER: u64 = 1 << 63;

/// A connection's record, with the life and state that were read from it.
pub(crate) type RecordView<'a> = (Record<'a>, Life, State);

/// A connection whose generation is the remembered one, with what was read from its record.
pub(crate) struct Unchanged<'a> {
    pub connection: ConnectionRef,
    record: Record<'a>,
    life: Life,
    state: State,
}

/// A packet's effect on its connection: a new deadline, and for TCP new states of both ends.
pub(crate) struct Step {
    timeout: Timeout,
    /// The TCP words before and after.
    peers: Option<([u64; 3], [u64; 3])>,
}

/// Follows a packet on one connection.
struct One<'m, 'a> {
    follower: &'m Follower<'a>,
    unchanged: Unchanged<'a>,
    frame: &'m Frame,
    context: &'m mut ThreadContext,
}

impl ParsedVisitor for One<'_, '_> {
    #[inline(always)]
    fn visit(self, parsed: &impl Parsed) -> Option<()> {
        let One { follower, unchanged, frame, context } = self;
        let step = follower.judge(&unchanged, parsed, context)?;
        follower.take(&unchanged, &step, frame, context)
    }
}

/// Follows packets with the same time of reception.
pub(crate) struct Follower<'a> {
    pub connections: &'a Connections,
    pub settings: &'a Settings,
    now: Option<Instant>,
    /// The current time in milliseconds, rounded down; `next_ms` is rounded up.
    now_ms: u64,
    next_ms: u64,
    /// The deadlines of UDP connections, unanswered and answered. [`NEVER`] where zones have
    /// timeouts of their own, traffic is not counted, or the timeout is 0.
    ends_ms: [u64; 2],
}

impl<'a> Follower<'a> {
    pub fn new(connections: &'a Connections, settings: &'a Settings) -> Self {
        Follower { connections, settings, now: None, now_ms: 0, next_ms: 0, ends_ms: [0; 2] }
    }

    /// Sets the time, which seldom changes within a batch.
    #[inline(always)]
    pub fn set(&mut self, now: Instant, context: &mut ThreadContext) {
        if Some(now) != self.now {
            context.now = now;
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

    /// The deadline of a default timeout that starts now.
    #[inline(always)]
    fn end_ms(&self, timeout: Timeout) -> u64 {
        let end = self.next_ms + u64::from(self.settings.timeouts.get(timeout)) * 1000;
        if end > self.now_ms { end } else { NEVER }
    }

    /// Follows a packet of a remembered connection. Returns `None`, with nothing changed, if it
    /// needs the slow path.
    ///
    /// The inlined part is for UDP over IPv4 that does not change the connection's state; it
    /// touches only the first line of the record.
    #[inline(always)]
    pub fn follow(
        &self,
        connection: ConnectionRef,
        frame: &Frame,
        context: &mut ThreadContext,
    ) -> Option<()> {
        if !Connections::is_remembered_datagram(connection.id) {
            return self.follow_other(connection, frame, context);
        }
        let Some(parsed) = Datagram::of(frame) else {
            return self.follow_other(connection, frame, context);
        };
        let seen = self.view_for(connection, &parsed)?;
        self.follow_datagram(connection, seen, parsed.len, frame)
    }

    /// Returns the record of a UDP connection if it is unchanged and the datagram does not change
    /// its state. The caller checks whether it has expired.
    #[inline(always)]
    pub fn view_for(&self, connection: ConnectionRef, parsed: &Datagram) -> Option<RecordView<'a>> {
        let ConnectionRef { id, generation, is_reply } = connection;
        let record = Record::v4(self.connections.words_v4(id));
        let (life, state) = record.look();
        let (addresses, rest) = record.key_v4(is_reply);
        let number = self.connections.zones.number((rest >> 16) as u16);
        let differs = (addresses ^ parsed.addresses)
            | (rest ^ parsed.ports_protocol) & OF_PACKET
            | life.differs_from(generation)
            | state.differs_from_settled(number, is_reply);
        (differs == 0).then_some((record, life, state))
    }

    /// Updates a UDP connection for a datagram: deadline and counters.
    #[inline(always)]
    pub fn follow_datagram(
        &self,
        connection: ConnectionRef,
        (record, life, state): RecordView<'a>,
        len: usize,
        frame: &Frame,
    ) -> Option<()> {
        let is_reply = connection.is_reply;
        if !life.is_about(self.ends_ms[state.exchange() as usize]) {
            let timeout = settled(state, is_reply).filter(|_| !life.is_over(self.now_ms))?;
            return self.note_packet(connection, life, timeout, frame);
        }
        record.count(is_reply, len);
        Some(())
    }

    /// Whether the connection has expired.
    #[inline(always)]
    pub fn is_over(&self, (_, life, _): &RecordView<'a>) -> bool {
        life.is_over(self.now_ms)
    }

    /// [`Self::follow`] for all packets but UDP over IPv4 without options.
    #[inline(never)]
    fn follow_other(
        &self,
        connection: ConnectionRef,
        frame: &Frame,
        context: &mut ThreadContext,
    ) -> Option<()> {
        let unchanged = self.unchanged(connection)?;
        let is_v4 = Connections::is_v4(connection.id);
        let one = One { follower: self, unchanged, frame, context: &mut *context };
        let followed = parsed::read(frame, is_v4, one);
        settle(context, followed.is_some());
        followed
    }

    /// Follows a packet that was parsed already a second time.
    #[inline(never)]
    pub fn follow_again(
        &self,
        connection: ConnectionRef,
        parsed: &impl Parsed,
        frame: &Frame,
        context: &mut ThreadContext,
    ) -> Option<()> {
        let unchanged = self.unchanged(connection)?;
        One { follower: self, unchanged, frame, context }.visit(parsed)
    }

    /// Returns the connection if it lives and nothing that flows can match on changed.
    #[inline(always)]
    pub fn unchanged(&self, connection: ConnectionRef) -> Option<Unchanged<'a>> {
        let record = self.connections.record(connection.id);
        let (life, state) = record.look();
        let is_over = life.differs_from(connection.generation) != 0 || life.is_over(self.now_ms);
        // A connection with a helper takes the slow path, since the helper reads every packet.
        let number = self.connections.zones.number(record.zone());
        let is_same = !is_over && state.differs_from_plain(number) == 0;
        is_same.then_some(Unchanged { connection, record, life, state })
    }

    /// Returns a packet's effect on its connection, or `None` if flows could see it. A segment
    /// without a timeout, which fits the windows only loosely, is rare and takes the slow path as
    /// well. Counters go to `context.trial`.
    #[inline(always)]
    pub fn judge(
        &self,
        unchanged: &Unchanged<'_>,
        parsed: &impl Parsed,
        context: &mut ThreadContext,
    ) -> Option<Step> {
        let Unchanged { record, state, .. } = unchanged;
        let is_reply = unchanged.connection.is_reply;
        if !parsed.is_of(record, is_reply) {
            return None;
        }
        match state.kind() {
            Kind::Tcp => {
                let segment = parsed.segment().filter(Segment::is_usual)?;
                let before = record.tcp_words();
                let mut ends = Ends::from_words(before, is_reply);
                let settings = self.settings;
                let check = || settings.check_tcp_windows && !state.has_any(State::LOOSE);
                let (update, timeout) = ends.update(&segment, check, &mut context.trial);
                let timeout = timeout.filter(|_| update == Update::Valid)?;
                Some(Step { timeout, peers: Some((before, ends.words(is_reply))) })
            }
            Kind::Other | Kind::Icmp => {
                Some(Step { timeout: settled(*state, is_reply)?, peers: None })
            }
            Kind::Sctp => {
                let timeout = judge_chunks(record, is_reply, &parsed.chunks()?, context)?;
                Some(Step { timeout, peers: None })
            }
        }
    }

    /// Applies a packet's effect to its connection. Returns `None` if another thread changed or ended
    /// the connection meanwhile.
    #[inline(always)]
    pub fn take(
        &self,
        unchanged: &Unchanged<'_>,
        step: &Step,
        frame: &Frame,
        context: &mut ThreadContext,
    ) -> Option<()> {
        let Unchanged { connection, record, life, .. } = unchanged;
        if let Some((before, after)) = &step.peers {
            if !record.set_tcp(*before, *after) {
                return None;
            }
            let shown = |words| TcpPeers::from_words(words).shown();
            if context.is_watched && shown(*before) != shown(*after) {
                self.connections.note(context, record, What::Updated);
            }
        }
        self.note_packet(*connection, *life, step.timeout, frame)
    }

    /// Sets a new deadline and counts the packet.
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
            self.connections.rearm_earlier(record, Connections::plain(connection.id), deadline);
        }
        if self.settings.counts_traffic {
            record.count(connection.is_reply, frame.packet.len());
        }
        Some(())
    }
}

/// Adds the counters of a trial to the thread's, or discards them.
#[inline(always)]
pub(crate) fn settle(context: &mut ThreadContext, came_to_pass: bool) {
    if !context.trial.is_zero() {
        context.settle_trial(came_to_pass);
    }
}

/// Returns the timeout of an association if the packet does not change it, as DATA chunks do not.
#[inline(never)]
fn judge_chunks(
    record: &Record<'_>,
    is_reply: bool,
    chunks: &Chunks,
    context: &mut ThreadContext,
) -> Option<Timeout> {
    let seen = record.sctp_seen();
    let mut after = seen.0;
    let (update, timeout) = after.update(chunks, is_reply, &mut context.trial);
    let is_same = after == seen.0 && record.set_sctp(seen, &after);
    timeout.filter(|_| is_same && update == Update::Valid)
}

/// Returns the timeout of a connection without handshake if a packet in this direction does not
/// change its state.
#[inline(always)]
fn settled(state: State, is_reply: bool) -> Option<Timeout> {
    if state.kind() == Kind::Icmp {
        let mut query = state.query();
        let (_, timeout) = query.update(is_reply);
        return (query == state.query()).then_some(timeout);
    }
    let is_answered = state.is_settled(is_reply)?;
    Some(if is_answered { Timeout::UdpMultiple } else { Timeout::UdpSingle })
}
