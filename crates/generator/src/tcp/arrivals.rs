//! Processing of acknowledgements and payload: the window, the round trip estimate, loss recovery, and the
//! received ranges.

use super::{NEVER, Settings, State, Tcp};
use crate::frame::FIN;
use crate::frame_in::Segment;
use crate::pattern;
use crate::statistics::{End, Statistics};

/// Duplicate acknowledgements that signal a loss (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;

impl Tcp {
    /// Returns false if it acknowledges unsent data: such a segment is ignored.
    pub(super) fn on_acknowledgement(
        &mut self,
        segment: &Segment<'_>,
        now: u64,
        set: &Settings,
        stats: &mut Statistics,
    ) -> bool {
        let acknowledged = segment.ack.wrapping_sub(self.initial_seq);
        if acknowledged > self.highest {
            // A number below the initial one is a very large position, and equally wrong.
            stats.rx_unacceptable += 1;
            self.flags.ack_owed = true;
            return false;
        }
        let window = u32::from(segment.window) << self.peer_scale;
        if acknowledged > self.unacknowledged {
            if self.state == State::SynReceived {
                self.state = State::Open;
                stats.established += 1;
            }
            let in_stream = |position: u32| position.clamp(1, self.written);
            stats.acknowledged_bytes +=
                u64::from(in_stream(acknowledged) - in_stream(self.unacknowledged));
            self.acknowledge(acknowledged, now, set);
            self.peer_window = window;
            self.wait_for_peer(now, set);
        } else if acknowledged == self.unacknowledged {
            let plain = segment.payload.is_empty() && segment.flags & FIN == 0;
            if plain && window == self.peer_window && self.highest > self.unacknowledged {
                stats.rx_duplicate += 1;
                self.duplicates = self.duplicates.saturating_add(1);
                if self.duplicates == DUPLICATES && self.recover == 0 {
                    self.halve();
                    self.recover = self.highest;
                    self.congestion_window = self.slow_start_threshold;
                    self.flags.resend_first = true;
                }
            }
            if self.peer_window == 0 && window > 0 && self.unacknowledged == self.highest {
                self.retransmit_at = NEVER;
            }
            if self.peer_window == 0 || window == 0 {
                // A peer that answers probes is alive, however long its window stays closed.
                self.retries = 0;
            }
            self.peer_window = window;
        }
        true
    }

    /// The peer received everything below `position`.
    pub(super) fn acknowledge(&mut self, position: u32, now: u64, set: &Settings) {
        if self.flags.timing && position > self.timed {
            self.flags.timing = false;
            self.measure(now.saturating_sub(self.timed_at) / 1000, set);
        }
        let bytes = position - self.unacknowledged;
        self.unacknowledged = position;
        self.next = self.next.max(position);
        self.retries = 0;
        self.duplicates = 0;
        if self.recover != 0 && position < self.recover {
            // A partial acknowledgement: the next hole of the same loss (RFC 6582 section 3.2).
            self.flags.resend_first = true;
        } else {
            self.recover = 0;
            self.flags.resend_first = false;
            let mss = u32::from(self.mss);
            let grown = if self.congestion_window < self.slow_start_threshold {
                bytes.min(mss)
            } else {
                (mss * mss / self.congestion_window.max(1)).max(1)
            };
            self.congestion_window = self.congestion_window.saturating_add(grown).min(1 << 30);
        }
        let outstanding = self.highest > self.unacknowledged;
        self.retransmit_at = if outstanding { now + u64::from(self.rto_us) * 1000 } else { NEVER };
    }

    /// Updates the round trip estimate and the timeout (RFC 6298 section 2).
    fn measure(&mut self, us: u64, set: &Settings) {
        let sample = u32::try_from(us).unwrap_or(u32::MAX).clamp(1, 60_000_000);
        if self.smoothed_us == 0 {
            self.smoothed_us = sample;
            self.variance_us = sample / 2;
        } else {
            let error = self.smoothed_us.abs_diff(sample);
            self.variance_us = self.variance_us - self.variance_us / 4 + error / 4;
            self.smoothed_us = (self.smoothed_us - self.smoothed_us / 8 + sample / 8).max(1);
        }
        let rto = self.smoothed_us.saturating_add(self.variance_us.saturating_mul(4));
        self.rto_us = rto.clamp(set.min_rto_us, set.max_rto_us);
    }

    pub(super) fn halve(&mut self) {
        let flight = self.highest - self.unacknowledged;
        self.slow_start_threshold = (flight / 2).max(2 * u32::from(self.mss));
    }

    pub(super) fn on_payload(
        &mut self,
        segment: &Segment<'_>,
        ahead: i32,
        now: u64,
        set: &Settings,
        stats: &mut Statistics,
    ) -> Option<End> {
        let fin = segment.flags & FIN != 0;
        let length = segment.payload.len() as u32;
        if length == 0 && !fin {
            // A keep-alive probe has an old sequence number.
            self.flags.ack_owed |= ahead < 0;
            return None;
        }
        self.flags.ack_owed = true;
        if ahead >= set.window as i32 {
            stats.rx_unacceptable += 1;
            return None;
        }
        let start = self.expected.wrapping_add_signed(ahead);
        let end = start.wrapping_add(length);
        let before = self.expected;
        // A FIN that was received counts as one position after the stream.
        let old = (end.wrapping_sub(self.expected) as i32) <= 0;
        if set.verify && !old && !pattern::matches(start.saturating_sub(1), segment.payload) {
            return Some(End::Corrupted);
        }
        if fin {
            self.fin_at = end;
        }
        if ahead > 0 {
            stats.rx_out_of_order += 1;
            self.remember(start, end);
        } else if old {
            stats.rx_duplicate += u64::from(length > 0 || self.flags.peer_fin);
        } else {
            self.expected = end;
            self.join_early();
        }
        stats.rx_payload_bytes += u64::from(self.expected - before);
        if self.fin_at != 0 && self.expected == self.fin_at && !self.flags.peer_fin {
            self.flags.peer_fin = true;
            self.expected += 1;
        }
        if self.expected != before {
            self.wait_for_peer(now, set);
        }
        None
    }

    /// Stores a range that arrived early, merged with those that it touches.
    fn remember(&mut self, mut from: u32, mut to: u32) {
        for range in &mut self.early {
            if range.0 != range.1 && from <= range.1 && range.0 <= to {
                (from, to) = (from.min(range.0), to.max(range.1));
                *range = (0, 0);
            }
        }
        if let Some(free) = self.early.iter_mut().find(|range| range.0 == range.1) {
            *free = (from, to);
        }
    }

    fn join_early(&mut self) {
        while let Some(range) = self.early.iter_mut().find(|r| r.0 != r.1 && r.0 <= self.expected) {
            self.expected = self.expected.max(range.1);
            *range = (0, 0);
        }
    }
}
