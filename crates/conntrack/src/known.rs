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
use crate::tcp::{TcpPeers, Update};
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
        if !Connections::is_v4(id) {
            return None;
        }
        let record = Record::v4(self.connections.words_v4(id));
        let (life, state, zone) = (record.life(), record.state(), record.zone());
        let is_flushed = || self.connections.zones.number(zone) != state.header();
        if life.generation() != generation || life.is_over(passed_ms(self.now)) || is_flushed() {
            return None;
        }
        // A helper reads all of its connection's packets.
        if state.has_helper() {
            return None;
        }
        let sight = Sight::of(frame, zone, &self.connections.secrets);
        let direction = record.direction_v4(sight.addresses, sight.rest)?;
        if !sight.is_seen() || direction != is_reply {
            return None;
        }
        let timeout = match record.state().kind() {
            Kind::Tcp => self.follow_segment(&record, &sight, frame, tools)?,
            _ => follow_exchange(&record, is_reply)?,
        };
        self.set_deadline(&record, timeout)?;
        if self.settings.counts_traffic {
            record.count(is_reply, frame.packet.len());
        }
        Some(())
    }

    /// A timeout's absence, which is a segment that fits only loosely, ends in `None` too: those are
    /// few, and the whole way knows what to do with them.
    fn follow_segment(
        &self,
        record: &Record<'_>,
        sight: &Sight<'_>,
        frame: &Frame,
        tools: &mut Tools,
    ) -> Option<Timeout> {
        let segment = sight.segment(frame).filter(|it| it.is_usual())?;
        let before = record.tcp_words();
        let mut after = TcpPeers::from_words(before);
        let check = self.settings.check_tcp_windows;
        let trial = &mut tools.trial;
        let (update, timeout) = after.update(&segment, self.connection.is_reply, check, trial);
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

/// Follows a packet that changes nothing.
fn follow_exchange(record: &Record<'_>, is_reply: bool) -> Option<Timeout> {
    let before = record.state().exchange();
    let mut after = before;
    let (_, timeout) = after.update(is_reply);
    (before == after).then_some(timeout)
}
