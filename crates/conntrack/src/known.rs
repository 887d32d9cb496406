//! Follows packets of connections that are known from earlier packets of the same tuple.
//!
//! Whoever remembers a packet's whole way, and with it a [`ConnectionRef`], asks here whether the next
//! packet of the tuple would go the same way. It does while nothing changed that flows can see, which
//! the connection's generation says; and while the packet is a usual one, since others may change it.

use crate::change::What;
use crate::connections::{Connections, Tools};
use crate::record::{Kind, Record, next_ms, passed_ms};
use crate::settings::Settings;
use crate::sight::Sight;
use crate::sight_v6::SightV6;
use crate::tcp::{Segment, TcpPeers, Update};
use crate::timeout::Timeout;
use base::Instant;
use flow::{ConnectionRef, Frame};

/// One packet's question.
pub(crate) struct Asked<'a> {
    pub connections: &'a Connections,
    pub settings: &'a Settings,
    pub now: Instant,
    pub connection: ConnectionRef,
}

impl Asked<'_> {
    /// Follows the packet if it goes the same way as the one before it; `None` did nothing.
    #[inline]
    pub fn follow(&self, frame: &Frame, tools: &mut Tools) -> Option<()> {
        let ConnectionRef { id, generation, is_reply } = self.connection;
        let record = self.connections.record(id);
        let (life, state, zone) = (record.life(), record.state(), record.zone());
        let is_flushed = || self.connections.zones.number(zone) != state.header();
        if life.generation() != generation || life.is_over(passed_ms(self.now)) || is_flushed() {
            return None;
        }
        // A helper reads all of its connection's packets.
        if state.has_helper() {
            return None;
        }
        let (direction, segment) = match Connections::is_v4(id) {
            true => self.see_v4(&record, frame, zone),
            false => see_v6(&record, frame, zone),
        }?;
        if direction != is_reply {
            return None;
        }
        let timeout = match record.state().kind() {
            Kind::Tcp => self.follow_segment(&record, &segment?, tools)?,
            Kind::Other => follow_exchange(&record, is_reply)?,
            Kind::Icmp | Kind::Sctp => return None,
        };
        self.set_deadline(&record, timeout)?;
        if self.settings.counts_traffic {
            record.count(is_reply, frame.packet.len());
        }
        Some(())
    }

    /// Which direction of its connection a whole packet of TCP or UDP is of, and its segment.
    #[inline(always)]
    fn see_v4(
        &self,
        record: &Record<'_>,
        frame: &Frame,
        zone: u16,
    ) -> Option<(bool, Option<Segment>)> {
        let sight = Sight::of(frame, zone, &self.connections.secrets);
        let direction = record.direction_v4(sight.addresses, sight.rest)?;
        sight.is_seen().then(|| (direction, sight.segment(frame)))
    }

    /// A timeout's absence, which is a segment that fits only loosely, ends in `None` too: those are
    /// few, and the whole way knows what to do with them.
    fn follow_segment(
        &self,
        record: &Record<'_>,
        segment: &Segment,
        tools: &mut Tools,
    ) -> Option<Timeout> {
        if !segment.is_usual() {
            return None;
        }
        let before = record.tcp_words();
        let mut after = TcpPeers::from_words(before);
        let check = self.settings.check_tcp_windows;
        let trial = &mut tools.trial;
        let (update, timeout) = after.update(segment, self.connection.is_reply, check, trial);
        let counted = !trial.is_zero();
        let followed =
            update == Update::Valid && timeout.is_some() && record.set_tcp(before, &after);
        let shown = || TcpPeers::from_words(before).shown();
        if followed && tools.is_watched && shown() != after.shown() {
            tools.note(record, What::Updated);
        }
        if counted {
            tools.settle_trial(followed);
        }
        timeout.filter(|_| followed)
    }

    fn set_deadline(&self, record: &Record<'_>, timeout: Timeout) -> Option<()> {
        let seconds = self.settings.policy(record.zone()).get(timeout);
        let deadline = next_ms(self.now) + u64::from(seconds) * 1000;
        if deadline < record.set_deadline(record.life(), deadline)? {
            self.connections.hasten(record, self.connection.id, deadline);
        }
        Some(())
    }
}

/// The same of IPv6.
#[inline(never)]
fn see_v6(record: &Record<'_>, frame: &Frame, zone: u16) -> Option<(bool, Option<Segment>)> {
    let sight = SightV6::of(frame)?;
    Some((sight.direction(record, zone)?, sight.segment()))
}

/// Follows a packet that changes nothing.
fn follow_exchange(record: &Record<'_>, is_reply: bool) -> Option<Timeout> {
    let before = record.state().exchange();
    let mut after = before;
    let (_, timeout) = after.update(is_reply);
    (before == after).then_some(timeout)
}
