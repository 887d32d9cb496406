//! One TCP connection (RFC 9293) with its application, seen from either end. This file changes state on
//! arriving segments, timers and messages; `tcp_send` decides what is sent.
//!
//! The stream's contents are known at every offset ([`crate::pattern`]), so neither end keeps buffers: data
//! is generated again for a retransmission, and of data that arrived early only the range is kept. Sequence
//! numbers are stored as positions relative to the initial one: SYN is position 0, the stream starts at 1,
//! and positions do not wrap within 2^31.

mod application;
mod arrivals;

pub(crate) use application::message_random;

use crate::frame::{ACK, RST, SYN};
use crate::frame_in::Segment;
use crate::profile::{Close, Profile};
use crate::statistics::{End, Statistics};

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;
/// Ranges that may have arrived early. Segments that would add more are dropped and sent again.
const RANGES: usize = 3;

/// A profile's TCP settings, in the units of the state machine.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub messages: u32,
    pub request_bytes: u32,
    pub reply_bytes: u32,
    pub server_wait_ns: u64,
    pub spreads_waits: bool,
    pub think_ns: u64,
    pub idle_ns: u64,
    pub time_wait_ns: u64,
    pub close: Close,
    pub mss: u16,
    pub window: u32,
    pub scale: u8,
    pub initial_window: u8,
    pub initial_rto_us: u32,
    pub min_rto_us: u32,
    pub max_rto_us: u32,
    pub syn_retries: u8,
    pub retries: u8,
    pub verify: bool,
}

impl Settings {
    pub fn new(profile: &Profile) -> Settings {
        let us = |ms: u32| ms.saturating_mul(1000);
        let ns = |ms: u32| u64::from(ms) * 1_000_000;
        let mut scale = 0;
        while profile.window_bytes >> scale > 0xffff {
            scale += 1;
        }
        Settings {
            messages: profile.messages,
            request_bytes: profile.request_bytes,
            reply_bytes: profile.reply_bytes,
            server_wait_ns: ns(profile.server_wait_ms),
            spreads_waits: profile.connections_per_second.is_some(),
            think_ns: ns(profile.think_time_ms),
            idle_ns: ns(profile.idle_timeout_ms),
            time_wait_ns: ns(profile.time_wait_ms),
            close: profile.close,
            mss: profile.mss,
            window: profile.window_bytes,
            scale,
            initial_window: profile.initial_window,
            initial_rto_us: us(profile.initial_rto_ms),
            min_rto_us: us(profile.min_rto_ms),
            max_rto_us: us(profile.max_rto_ms),
            syn_retries: profile.syn_retries,
            retries: profile.retries,
            verify: profile.verify_payload,
        }
    }
}

/// State of the connection; [`Flags`] record which FINs were sent and received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    SynSent,
    SynReceived,
    Open,
    TimeWait,
}

/// Purpose of the application's timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// The next message is written when it expires.
    Pause,
    /// The connection is given up when it expires.
    Peer,
    /// The connection is removed when it expires.
    TimeWait,
}

/// Boolean states.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub client: bool,
    /// An acknowledgement must be sent.
    pub ack_owed: bool,
    /// The first unacknowledged segment is retransmitted next.
    pub resend_first: bool,
    /// One byte may be sent into a closed window.
    pub probe: bool,
    pub fin_wanted: bool,
    pub reset_wanted: bool,
    pub peer_fin: bool,
    /// This side sent its FIN first, so it waits in TIME-WAIT.
    pub closed_first: bool,
    pub closed_early: bool,
    /// The round trip of the segment at `timed` is being measured.
    pub timing: bool,
    /// Both ends offered window scaling.
    pub scaled: bool,
}

/// One end of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub state: State,
    pub waiting: Waiting,
    pub flags: Flags,
    pub retries: u8,
    pub duplicates: u8,
    pub peer_scale: u8,
    pub mss: u16,
    pub initial_seq: u32,
    pub peer_initial_seq: u32,
    /// The oldest unacknowledged position.
    pub unacknowledged: u32,
    /// The next position to send. It falls back when the retransmission timer expires.
    pub next: u32,
    /// The position after everything that was ever sent.
    pub highest: u32,
    /// The position after everything that the application wrote.
    pub written: u32,
    /// The next position expected from the peer.
    pub expected: u32,
    /// The position of the peer's FIN; 0 until it arrives.
    pub fin_at: u32,
    /// Ranges that arrived early, as start and end; empty where both are equal.
    pub early: [(u32, u32); RANGES],
    pub peer_window: u32,
    pub congestion_window: u32,
    pub slow_start_threshold: u32,
    /// Loss recovery lasts until this position is acknowledged; 0 outside recovery.
    pub recover: u32,
    pub smoothed_us: u32,
    pub variance_us: u32,
    pub rto_us: u32,
    pub timed: u32,
    /// Requests (client) or replies (server) that were written.
    pub messages: u32,
    pub timed_at: u64,
    pub retransmit_at: u64,
    pub wait_until: u64,
    /// Client: when it sent its first SYN or wrote its last request; 0 where no request is open. Server: when
    /// its last pause was due to end; 0 before the first.
    pub asked_at: u64,
}

impl Tcp {
    /// A client about to send SYN.
    pub fn connect(initial_seq: u32, now: u64, set: &Settings) -> Tcp {
        let flags = Flags { client: true, ..Flags::default() };
        Tcp {
            state: State::SynSent,
            waiting: Waiting::Peer,
            flags,
            retries: 0,
            duplicates: 0,
            peer_scale: 0,
            mss: set.mss,
            initial_seq,
            peer_initial_seq: 0,
            unacknowledged: 0,
            next: 0,
            highest: 0,
            written: 1,
            expected: 0,
            fin_at: 0,
            early: [(0, 0); RANGES],
            peer_window: 0,
            congestion_window: 0,
            slow_start_threshold: u32::MAX / 2,
            recover: 0,
            smoothed_us: 0,
            variance_us: 0,
            rto_us: set.initial_rto_us,
            timed: 0,
            messages: 0,
            timed_at: 0,
            retransmit_at: NEVER,
            wait_until: now.saturating_add(set.idle_ns),
            asked_at: now,
        }
    }

    /// A server that received this SYN and will answer it.
    pub fn accept(initial_seq: u32, syn: &Segment<'_>, now: u64, set: &Settings) -> Tcp {
        let mut tcp = Tcp::connect(initial_seq, now, set);
        tcp.state = State::SynReceived;
        tcp.flags.client = false;
        tcp.asked_at = 0;
        tcp.take_syn(syn, set);
        tcp
    }

    fn take_syn(&mut self, syn: &Segment<'_>, set: &Settings) {
        self.peer_initial_seq = syn.seq;
        self.expected = 1;
        // Without the option the peer's MSS is 536 bytes (RFC 9293 section 3.7.1).
        self.mss = set.mss.min(syn.mss.unwrap_or(536).max(64));
        // Scaling applies only if both ends offer it (RFC 7323 section 2.2); this side always does.
        self.peer_scale = syn.scale.unwrap_or(0).min(14);
        self.flags.scaled = syn.scale.is_some();
        // The window of a SYN is not scaled.
        self.peer_window = u32::from(syn.window);
        self.congestion_window = u32::from(self.mss) * u32::from(set.initial_window);
    }

    /// Returns the time of the next [`Tcp::on_timer`].
    pub fn due(&self) -> u64 {
        self.retransmit_at.min(self.wait_until)
    }

    /// Processes a segment. Returns how the connection ended, if it did.
    pub fn on_segment(
        &mut self,
        segment: &Segment<'_>,
        now: u64,
        set: &Settings,
        stats: &mut Statistics,
    ) -> Option<End> {
        if self.state == State::SynSent {
            return self.on_answer_to_syn(segment, now, set, stats);
        }
        let position = segment.seq.wrapping_sub(self.peer_initial_seq);
        // Distance from the next expected position; negative for data that arrived before.
        let ahead = position.wrapping_sub(self.expected) as i32;
        if segment.flags & RST != 0 {
            return self.on_reset(ahead, set, stats);
        }
        if segment.flags & SYN != 0 {
            // A repeated SYN or SYN/ACK means that its answer was lost; any other SYN gets a challenge ACK
            // (RFC 9293 section 3.10.7.4).
            stats.rx_duplicate += 1;
            self.flags.resend_first |= self.state == State::SynReceived;
            self.flags.ack_owed |= self.state != State::SynReceived;
            return None;
        }
        if segment.flags & ACK == 0 {
            stats.rx_unacceptable += 1;
            return None;
        }
        if !self.on_acknowledgement(segment, now, set, stats) || self.state == State::SynReceived {
            return None;
        }
        if let Some(end) = self.on_payload(segment, ahead, now, set, stats) {
            return Some(end);
        }
        self.advance_application(now, set, stats);
        self.finished(now, set)
    }

    fn on_answer_to_syn(
        &mut self,
        segment: &Segment<'_>,
        now: u64,
        set: &Settings,
        stats: &mut Statistics,
    ) -> Option<End> {
        let answers = segment.flags & ACK != 0 && segment.ack.wrapping_sub(self.initial_seq) == 1;
        if !answers || self.highest == 0 || segment.flags & (SYN | RST) == 0 {
            stats.rx_unacceptable += 1;
            return None;
        }
        if segment.flags & RST != 0 {
            return Some(End::Refused);
        }
        self.take_syn(segment, set);
        self.acknowledge(1, now, set);
        self.state = State::Open;
        self.flags.ack_owed = true;
        stats.established += 1;
        stats.handshake_ns.record(now.saturating_sub(self.asked_at));
        self.asked_at = 0;
        self.advance_application(now, set, stats);
        None
    }

    fn on_reset(&mut self, ahead: i32, set: &Settings, stats: &mut Statistics) -> Option<End> {
        if ahead < 0 || ahead as u32 >= set.window {
            stats.rx_unacceptable += 1;
            return None;
        }
        let all_said = self.messages == set.messages;
        // After all data was exchanged, a reset only ends the connection sooner: a client closes like this if
        // configured, and so does a peer that has already forgotten the connection.
        let expected = all_said
            && (self.flags.peer_fin
                || self.state == State::TimeWait
                || (!self.flags.client && set.close == Close::ClientReset));
        Some(if expected { self.how_it_ends() } else { End::Reset })
    }

    /// Returns how a connection that closed in order ended.
    pub fn how_it_ends(&self) -> End {
        if self.flags.closed_early { End::ClosedEarly } else { End::Completed }
    }

    /// Both FINs were exchanged: TIME-WAIT for the side that closed first, otherwise the end.
    fn finished(&mut self, now: u64, set: &Settings) -> Option<End> {
        let ours_arrived = self.flags.fin_wanted && self.unacknowledged > self.written;
        if self.state != State::Open || !ours_arrived || !self.flags.peer_fin {
            return None;
        }
        if !self.flags.closed_first {
            return Some(self.how_it_ends());
        }
        self.state = State::TimeWait;
        self.waiting = Waiting::TimeWait;
        self.wait_until = now.saturating_add(set.time_wait_ns);
        self.retransmit_at = NEVER;
        None
    }

    /// Runs the timer that [`Tcp::due`] returned.
    pub fn on_timer(&mut self, now: u64, set: &Settings, stats: &mut Statistics) -> Option<End> {
        if self.wait_until <= now {
            match self.waiting {
                // The connection must not be removed before its last acknowledgement is sent.
                Waiting::TimeWait if self.flags.ack_owed => {}
                Waiting::TimeWait => return Some(self.how_it_ends()),
                Waiting::Peer => return Some(self.timed_out()),
                Waiting::Pause => {
                    set.count_pause(self.wait_until, now, stats);
                    self.asked_at = self.wait_until;
                    self.write(now, set);
                    self.advance_application(now, set, stats);
                }
            }
        }
        if self.retransmit_at <= now {
            return self.on_silence(set, stats);
        }
        None
    }

    fn timed_out(&self) -> End {
        match self.state {
            State::SynSent | State::SynReceived => End::TimedOutOpening,
            State::Open | State::TimeWait => End::TimedOut,
        }
    }

    /// The retransmission timer expired: everything unacknowledged is sent again, from a small window (RFC
    /// 6298 section 5, RFC 5681 section 3.1).
    fn on_silence(&mut self, set: &Settings, stats: &mut Statistics) -> Option<End> {
        stats.retransmission_timeouts += 1;
        let opening = matches!(self.state, State::SynSent | State::SynReceived);
        if self.retries >= if opening { set.syn_retries } else { set.retries } {
            return Some(self.timed_out());
        }
        self.retries += 1;
        self.rto_us = self.rto_us.saturating_mul(2).min(set.max_rto_us);
        self.retransmit_at = NEVER;
        self.flags.timing = false;
        if self.highest == self.unacknowledged {
            self.flags.probe = true;
            return None;
        }
        if self.retries == 1 {
            self.halve();
        }
        self.congestion_window = u32::from(self.mss);
        self.next = self.unacknowledged;
        self.recover = 0;
        self.duplicates = 0;
        self.flags.resend_first = false;
        self.flags.probe = self.peer_window == 0;
        None
    }
}
