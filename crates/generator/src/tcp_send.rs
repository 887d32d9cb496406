//! Selection of the next segment of a TCP connection.

use crate::frame::{ACK, FIN, PSH, RST, SYN, SegmentOut};
use crate::statistics::{End, Statistics};
use crate::tcp::{NEVER, Settings, State, Tcp};

/// What a connection has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Send {
    /// This segment; then poll again.
    Segment(SegmentOut),
    /// This segment, which ends the connection.
    Last(SegmentOut, End),
    /// This segment; then only TIME-WAIT is left, after which the connection has ended like this.
    Close(SegmentOut, End),
    /// Nothing for now.
    Nothing,
}

impl Tcp {
    /// Returns the next segment to send at `now`.
    pub fn poll(&mut self, now: u64, set: &Settings, stats: &mut Statistics) -> Send {
        let position = match self.state {
            State::SynSent | State::SynReceived => return self.poll_syn(now, set, stats),
            State::Open | State::TimeWait => self.next,
        };
        if self.flags.reset_wanted {
            let out = self.segment(position, RST | ACK, 0, set);
            return Send::Last(out, End::Completed);
        }
        if self.flags.resend_first && self.highest > self.unacknowledged {
            self.flags.resend_first = false;
            let length = u32::from(self.mss)
                .min(self.written.saturating_sub(self.unacknowledged))
                .min(self.highest - self.unacknowledged);
            return self.emit(self.unacknowledged, length, now, set, stats);
        }
        let window = self.peer_window.min(self.congestion_window);
        // One byte is sent into a closed window when the persist timer expired (RFC 9293 section 3.8.6.1).
        let window = if self.flags.probe { window.max(1) } else { window };
        let limit = self.unacknowledged + window;
        let left = self.written.saturating_sub(self.next);
        let length = left.min(u32::from(self.mss)).min(limit.saturating_sub(self.next));
        let fin_left = self.flags.fin_wanted && self.next <= self.written;
        if length > 0 || (left == 0 && fin_left && self.state == State::Open) {
            self.flags.probe = false;
            return self.emit(self.next, length, now, set, stats);
        }
        if left > 0 && self.highest == self.unacknowledged && self.retransmit_at == NEVER {
            self.retransmit_at = now + u64::from(self.rto_us) * 1000;
        }
        if self.flags.ack_owed {
            let out = self.segment(position.max(self.highest), ACK, 0, set);
            return match (self.state, set.time_wait_ns) {
                (State::TimeWait, 0) => Send::Last(out, self.how_it_ends()),
                (State::TimeWait, _) => Send::Close(out, self.how_it_ends()),
                _ => Send::Segment(out),
            };
        }
        Send::Nothing
    }

    fn poll_syn(&mut self, now: u64, set: &Settings, stats: &mut Statistics) -> Send {
        let again = std::mem::take(&mut self.flags.resend_first);
        if self.next > 0 && !again {
            return Send::Nothing;
        }
        if self.highest > 0 {
            stats.retransmitted_syn += 1;
        }
        let (flags, window) = match self.state {
            State::SynSent => (SYN, set.window),
            _ => (SYN | ACK, set.window),
        };
        let mut out = self.segment(0, flags, 0, set);
        // A SYN/ACK offers scaling only if the SYN did (RFC 7323 section 2.2).
        let offer = self.state == State::SynSent || self.flags.scaled;
        out.options = Some((set.mss, offer.then_some(set.scale)));
        out.window = window.min(0xffff) as u16;
        if self.state == State::SynSent {
            out.ack = 0;
        }
        self.sent(0, 1, now, stats);
        Send::Segment(out)
    }

    /// Sends `length` bytes from `start` on, with FIN at the end of the stream.
    fn emit(
        &mut self,
        start: u32,
        length: u32,
        now: u64,
        set: &Settings,
        stats: &mut Statistics,
    ) -> Send {
        let end = start + length;
        let mut flags = ACK;
        if length > 0 && end == self.written {
            flags |= PSH;
        }
        let fin = self.flags.fin_wanted && end == self.written;
        if fin {
            flags |= FIN;
        }
        let out = self.segment(start, flags, length, set);
        self.sent(start, end + u32::from(fin), now, stats);
        Send::Segment(out)
    }

    /// Updates counters, round trip measurement and timer for the positions from `start` to `end`, which are
    /// sent now.
    fn sent(&mut self, start: u32, end: u32, now: u64, stats: &mut Statistics) {
        if start < self.highest {
            stats.retransmitted += 1;
            // A segment that was sent twice cannot be timed (RFC 6298 section 3).
            self.flags.timing = false;
        } else if !self.flags.timing {
            self.flags.timing = true;
            self.timed = start;
            self.timed_at = now;
        }
        self.next = self.next.max(end);
        self.highest = self.highest.max(end);
        if self.retransmit_at == NEVER {
            self.retransmit_at = now + u64::from(self.rto_us) * 1000;
        }
    }

    fn segment(&mut self, position: u32, flags: u8, length: u32, set: &Settings) -> SegmentOut {
        self.flags.ack_owed = false;
        SegmentOut {
            seq: self.initial_seq.wrapping_add(position),
            ack: self.peer_initial_seq.wrapping_add(self.expected),
            flags,
            window: (set.window >> if self.flags.scaled { set.scale } else { 0 }).min(0xffff)
                as u16,
            options: None,
            offset: position.saturating_sub(1),
            length: length as u16,
        }
    }
}
