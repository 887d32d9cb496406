//! Tracks a batch: parse, look up, update, write the key.
//!
//! [`Pass::track`] is the fast path, phase by phase, so that the memory that one packet needs is
//! fetched while others are processed. It handles whole TCP and UDP packets over IPv4 of existing
//! connections without NAT; `track_v6.rs` does so over IPv6. Every other packet takes the [slow
//! path](crate::slow_path), which is right for all of them and repeats the lookup.
//!
//! Bulk senders send many packets of one connection in a row. Such a run is hashed and looked up
//! once, and where its first packet leaves nothing to change, the others are only counted.

use crate::connections::{Connections, Found};
use crate::headers::fast_parse::{FastParse, Segments};
use crate::pass::Pass;
use crate::protocols::tcp::{Segment, Update};
use crate::record::{Life, Record, Words};
use crate::timeout::Timeout;
use base::limits::BATCH_SIZE;
use flow::{CtState, Frame};
use table::{Index, Lookup, Spot};
use wire::ethertype;

/// The result of following a packet on its candidate connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The packet is not of that connection, or needs the slow path. Nothing was changed that the
    /// slow path does not do again.
    Not,
    /// The connection was updated.
    Once,
    /// The connection was updated, and an equal packet would change only its counters.
    Settled,
}

/// The fast parse of each frame of a batch.
type FastParses<'a> = arrayvec::ArrayVec<FastParse<'a>, BATCH_SIZE>;

impl<'a> Pass<'a> {
    /// Tracks a batch of packets.
    #[inline]
    pub fn track(&mut self, frames: &mut [Frame]) {
        match frames {
            [frame] => self.track_one(frame),
            [first, ..] if is_v6(first) => self.track_mixed(frames),
            _ => self.track_many(frames),
        }
    }

    /// Tracks a batch whose first packets are over IPv6.
    #[inline(never)]
    fn track_mixed(&mut self, frames: &mut [Frame]) {
        let wide = frames.iter().take_while(|frame| is_v6(frame)).count();
        let (wide, others) = frames.split_at_mut(wide);
        self.track_v6(wide);
        self.track_many(others);
    }

    /// Tracks a single packet, without the arrays of a batch.
    #[inline(always)]
    fn track_one(&mut self, frame: &mut Frame) {
        let mut segments = Segments::new();
        let zone = self.action.zone.0;
        let mut fast = FastParse::of(frame, zone, &mut segments).unwrap_or(FastParse::NOTHING);
        if fast.is_parsed() {
            fast.hash = fast.hashed(&self.connections.secrets);
            if let Some(lookup) = self.index.map(Index::lookup) {
                let spot = lookup.spot(fast.hash);
                self.find_one(lookup, spot, &mut fast);
            }
        }
        if self.follow_parsed(frame, &fast, &segments) == Followed::Not {
            self.track_unknown(frame, &fast, &segments);
        }
    }

    #[inline(always)]
    fn track_many(&mut self, frames: &mut [Frame]) {
        let (mut parses, mut segments) = (FastParses::new(), Segments::new());
        let lookup = self.index.map(Index::lookup);
        self.read(frames, lookup, &mut parses, &mut segments);
        if let Some(lookup) = lookup {
            self.find(lookup, &mut parses);
        }
        // The previous packet, if it left nothing to change for an equal one.
        let mut settled: Option<&Frame> = None;
        for (frame, fast) in frames.iter_mut().zip(&parses) {
            let before = if fast.repeats { settled } else { None };
            let followed = match before.is_some_and(|before| self.repeat(frame, fast, before)) {
                true => Followed::Settled,
                false => self.follow_parsed(frame, fast, &segments),
            };
            if followed == Followed::Not {
                self.track_unknown(frame, fast, &segments);
            }
            settled = (followed == Followed::Settled).then_some(frame);
        }
    }

    /// Tracks a packet that could not be followed on a candidate.
    #[inline(never)]
    fn track_unknown(&mut self, frame: &mut Frame, fast: &FastParse<'_>, segments: &Segments) {
        if is_v6(frame) {
            self.track_v6(std::slice::from_mut(frame));
        } else if !self.begin_parsed(frame, fast, segments) {
            self.slow_path_parsed(frame, fast, segments);
        }
    }

    /// Parses and hashes all packets, and prefetches the buckets of their connections.
    #[inline(always)]
    fn read(
        &self,
        frames: &[Frame],
        lookup: Option<Lookup<'a>>,
        parses: &mut FastParses<'a>,
        segments: &mut Segments,
    ) {
        let (zone, secrets) = (self.action.zone.0, &self.connections.secrets);
        let (mut before, mut hash) = ((0, 0), 0);
        for frame in frames {
            let Some(mut fast) = FastParse::of(frame, zone, segments) else {
                parses.push(FastParse::NOTHING);
                continue;
            };
            let words = (fast.addresses, fast.rest);
            fast.repeats = words == before;
            if !fast.repeats {
                hash = fast.hashed(secrets);
                fast.spot = lookup.map(|lookup| lookup.spot(hash));
                before = words;
            }
            fast.hash = hash;
            parses.push(fast);
        }
    }

    /// Finds a candidate for each packet by its hash alone, and prefetches its record.
    #[inline(always)]
    fn find(&self, lookup: Lookup<'a>, parses: &mut FastParses<'a>) {
        let mut before = (0, None);
        for fast in parses {
            if fast.repeats {
                (fast.id, fast.candidate) = before;
                continue;
            }
            let Some(spot) = fast.spot else { continue };
            self.find_one(lookup, spot, fast);
            before = (fast.id, fast.candidate);
        }
    }

    #[inline(always)]
    fn find_one(&self, lookup: Lookup<'a>, spot: Spot<'a>, fast: &mut FastParse<'a>) {
        if let Some(id) = lookup.find_at(spot, fast.hash) {
            fast.id = Connections::plain(id);
            // A hash collision may be with a connection of the other IP version.
            fast.candidate =
                Connections::is_v4(id).then(|| self.connections.fetch_v4(id, fast.is_tcp()));
        }
    }

    /// Follows a packet that repeats the one `before` it: copies its connection fields and counts
    /// it. Returns false, with nothing changed, where the packet needs more.
    #[inline(always)]
    fn repeat(&self, frame: &mut Frame, fast: &FastParse<'_>, before: &Frame) -> bool {
        let (Some(words), Some(connection)) = (fast.candidate, before.connection) else {
            return false;
        };
        if self.was_tracked_here(frame) {
            return false;
        }
        self.count(&Record::v4(words), frame, connection.is_reply);
        frame.key.copy_ct(&before.key);
        frame.connection = before.connection;
        true
    }

    /// Follows a packet on its candidate.
    #[inline(always)]
    fn follow_parsed(
        &mut self,
        frame: &mut Frame,
        fast: &FastParse<'_>,
        segments: &Segments,
    ) -> Followed {
        let Some(words) = fast.candidate else { return Followed::Not };
        let record = Record::v4(words);
        let Some(is_reply) = record.direction_v4(fast.addresses, fast.rest) else {
            return Followed::Not;
        };
        let found = Found { id: fast.id, is_reply };
        self.follow_found(frame, words, found, || fast.segment(segments))
    }

    /// Follows a packet on its connection.
    #[inline(always)]
    pub fn follow_found<'w, 's>(
        &mut self,
        frame: &mut Frame,
        words: impl Words<'w>,
        found: Found,
        segment: impl FnOnce() -> Option<&'s Segment>,
    ) -> Followed {
        let (record, is_reply) = (words.record(), found.is_reply);
        let (life, state) = record.look();
        let is_special = self.action.force && is_reply
            || state.has_any(self.slow_path_bits)
            || self.was_tracked_here(frame);
        if is_special || life.is_over(self.now_ms) {
            return Followed::Not;
        }
        let Some(is_answered) = state.is_settled(is_reply) else {
            return self.follow_segment(frame, segment(), found, life, words);
        };
        let new = (CtState::NEW, Timeout::UdpSingle);
        let established = (CtState::EST, Timeout::UdpMultiple);
        let (state, timeout) = if is_answered { established } else { new };
        self.set_deadline(&record, found, life, timeout);
        self.write_followed(frame, state, found, words, Some(life.generation()));
        Followed::Settled
    }

    /// Follows a TCP segment on its connection.
    #[inline(always)]
    fn follow_segment<'w>(
        &mut self,
        frame: &mut Frame,
        segment: Option<&Segment>,
        found: Found,
        life: Life,
        words: impl Words<'w>,
    ) -> Followed {
        let Some(segment) = segment else { return Followed::Not };
        let state = match self.update_segment(words, found, segment) {
            Update::Valid => CtState::EST,
            Update::ValidNew => CtState::NEW,
            Update::Invalid if self.update_marked(frame, words, found, segment) => CtState::EST,
            Update::Invalid => CtState::INV,
            // The segment ends this connection and begins another.
            Update::Reopens => return Followed::Not,
        };
        let generation = segment.is_usual().then_some(life.generation());
        self.write_followed(frame, state, found, words, generation);
        Followed::Once
    }

    /// Counts a packet unless it is invalid, and writes its connection fields.
    #[inline(always)]
    fn write_followed<'w>(
        &mut self,
        frame: &mut Frame,
        state: CtState,
        found: Found,
        words: impl Words<'w>,
        generation: Option<u32>,
    ) {
        if state != CtState::INV {
            self.count(&words.record(), frame, found.is_reply);
        }
        let is_answer = found.is_reply && state == CtState::EST;
        let reply = if is_answer { CtState::RPL } else { CtState::empty() };
        self.write_parsed(frame, state | reply, found, words, generation);
    }
}

/// Whether a frame's packet is over IPv6.
#[inline(always)]
fn is_v6(frame: &Frame) -> bool {
    frame.key.eth_type() == ethertype::IPV6
}
