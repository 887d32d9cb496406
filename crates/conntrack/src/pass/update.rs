//! Updates a connection's state and deadline for a packet.

use crate::connections::Found;
use crate::counters::{Counters, Event};
use crate::management::change::What;
use crate::pass::Pass;
use crate::protocols::sctp::Chunks;
use crate::protocols::tcp::{Ends, Segment, TcpPeers, Update};
use crate::record::{Kind, Record, State, Words};
use crate::timeout::Timeout;
use flow::{Frame, MARK_IN_WINDOW};

impl Pass<'_> {
    /// Updates a connection's state and deadline. If flows can see the change, `generation` becomes
    /// the new generation.
    #[inline]
    pub fn update(
        &mut self,
        record: &Record<'_>,
        found: Found,
        (segment, chunks): (Option<&Segment>, Option<&Chunks>),
        generation: &mut Option<u32>,
    ) -> Update {
        let (update, timeout) =
            self.update_state(record, found.is_reply, (segment, chunks), generation);
        if let Some(timeout) = timeout {
            self.set_deadline(record, found, record.life(), timeout);
        }
        update
    }

    /// [`Pass::update`] for a TCP segment.
    #[inline(never)]
    pub fn update_segment<'w>(
        &mut self,
        words: impl Words<'w>,
        found: Found,
        segment: &Segment,
    ) -> Update {
        let record = &words.record();
        let (update, timeout) = self.update_tcp(record, found.is_reply, segment);
        if let Some(timeout) = timeout {
            self.set_deadline(record, found, record.life(), timeout);
        }
        update
    }

    #[inline]
    fn update_state(
        &mut self,
        record: &Record<'_>,
        is_reply: bool,
        (segment, chunks): (Option<&Segment>, Option<&Chunks>),
        generation: &mut Option<u32>,
    ) -> (Update, Option<Timeout>) {
        let mut state = record.state();
        if state.kind() == Kind::Tcp {
            // Packets of a TCP connection all have a segment.
            let Some(segment) = segment else { return (Update::Invalid, None) };
            return self.update_tcp(record, is_reply, segment);
        }
        if state.kind() == Kind::Sctp {
            // Packets of an association all have chunks.
            let Some(chunks) = chunks else { return (Update::Invalid, None) };
            return self.update_sctp(record, is_reply, chunks);
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
                    // The connection was new to flows and is established now.
                    if update == Update::Valid {
                        *generation = record.age();
                        self.connections.note(self.context, record, What::Updated);
                    }
                    return (update, Some(timeout));
                }
                Err(changed) => state = changed,
            }
        }
    }

    #[cold]
    fn update_sctp(
        &mut self,
        record: &Record<'_>,
        is_reply: bool,
        chunks: &Chunks,
    ) -> (Update, Option<Timeout>) {
        loop {
            let seen = record.sctp_seen();
            let mut after = seen.0;
            let answer = after.update(chunks, is_reply, &mut self.context.counters);
            if record.set_sctp(seen, &after) {
                if seen.0.state != after.state {
                    self.connections.note(self.context, record, What::Updated);
                }
                return answer;
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
        match self.try_tcp(record, is_reply, segment) {
            Some(answer) => answer,
            None => self.retry_tcp(record, is_reply, segment),
        }
    }

    /// A function of its own, out of line: as a loop it would make the compiler spill values for a
    /// second try that is very rare.
    #[cold]
    #[inline(never)]
    fn retry_tcp(
        &mut self,
        record: &Record<'_>,
        is_reply: bool,
        segment: &Segment,
    ) -> (Update, Option<Timeout>) {
        loop {
            if let Some(answer) = self.try_tcp(record, is_reply, segment) {
                return answer;
            }
        }
    }

    /// Returns `None` if the other direction changed the states meanwhile; the segment must be
    /// judged again.
    #[inline(always)]
    fn try_tcp(
        &mut self,
        record: &Record<'_>,
        is_reply: bool,
        segment: &Segment,
    ) -> Option<(Update, Option<Timeout>)> {
        let before = record.tcp_words();
        let mut ends = Ends::from_words(before, is_reply);
        let settings = self.settings;
        let check = || settings.check_tcp_windows && !record.state().has_any(State::LOOSE);
        let answer = ends.update(segment, check, &mut self.context.counters);
        self.set_ends(record, before, ends.words(is_reply)).then_some(answer)
    }

    /// Stores a segment's effect. Returns false if the other direction changed the states meanwhile.
    #[inline(always)]
    fn set_ends(&mut self, record: &Record<'_>, before: [u64; 3], after: [u64; 3]) -> bool {
        if !record.set_tcp(before, after) {
            return false;
        }
        if self.context.is_watched {
            self.note_tcp(record, before, after);
        }
        true
    }

    /// Updates a connection for a segment outside the windows that the switch knows, if a device that keeps newer
    /// ones found it within them ([`MARK_IN_WINDOW`]). Returns false, with nothing changed, for others.
    #[cold]
    #[inline(never)]
    pub fn update_marked<'w>(
        &mut self,
        frame: &Frame,
        words: impl Words<'w>,
        found: Found,
        segment: &Segment,
    ) -> bool {
        self.update_marked_record(frame, &words.record(), found, Some(segment))
    }

    /// [`Pass::update_marked`] of a record, for a packet that may be no segment.
    #[cold]
    #[inline(never)]
    pub fn update_marked_record(
        &mut self,
        frame: &Frame,
        record: &Record<'_>,
        found: Found,
        segment: Option<&Segment>,
    ) -> bool {
        let Some(segment) = segment.filter(|it| !it.has_odd_flags()) else { return false };
        if frame.packet.mark != MARK_IN_WINDOW || record.state().kind() != Kind::Tcp {
            return false;
        }
        // It was counted as outside.
        self.context.counters.uncount(Event::TcpWindow);
        let (update, timeout) = loop {
            let before = record.tcp_words();
            let mut ends = Ends::from_words(before, found.is_reply);
            let answer = ends.update(segment, || false, &mut Counters::new());
            if self.set_ends(record, before, ends.words(found.is_reply)) {
                break answer;
            }
        };
        if let Some(timeout) = timeout {
            self.set_deadline(record, found, record.life(), timeout);
        }
        update == Update::Valid
    }

    #[cold]
    fn note_tcp(&mut self, record: &Record<'_>, before: [u64; 3], after: [u64; 3]) {
        let shown = |words| TcpPeers::from_words(words).shown();
        if shown(before) != shown(after) {
            self.connections.note(self.context, record, What::Updated);
        }
    }
}
