//! One exchange of UDP messages, seen from either end. Each datagram carries the number of its message, so
//! that a repeated answer differs from the next one.

use crate::frame_in::Datagram;
use crate::pattern;
use crate::statistics::{End, Statistics};
use crate::tcp::{NEVER, Settings, message_random};

/// One end of one exchange.
#[derive(Clone, Debug)]
pub(crate) struct Udp {
    client: bool,
    retries: u8,
    /// The connection's number, from which its random bits are computed.
    own: u32,
    /// Message number of the datagram to send now.
    outgoing: Option<u32>,
    /// Client: the current request. Server: the number of requests answered in order.
    message: u32,
    /// The answer that waits for the server's pause to end.
    paused: Option<u32>,
    /// Client: when it sent its request; 0 where no request is open. Server: when its last pause was due to
    /// end; 0 before the first.
    asked_at: u64,
    due: u64,
}

impl Udp {
    /// A client that will send its first request.
    pub fn connect(now: u64) -> Udp {
        let (outgoing, due) = (Some(0), NEVER);
        let asked_at = now;
        Udp { client: true, retries: 0, own: 0, outgoing, message: 0, paused: None, asked_at, due }
    }

    /// A server that will receive its first datagram.
    pub fn accept(own: u32, now: u64, set: &Settings) -> Udp {
        let due = now.saturating_add(set.idle_ns);
        let (outgoing, paused) = (None, None);
        Udp { client: false, retries: 0, own, outgoing, message: 0, paused, asked_at: 0, due }
    }

    /// Returns the time of the next [`Udp::on_timer`].
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Processes a datagram.
    pub fn on_datagram(
        &mut self,
        datagram: &Datagram<'_>,
        now: u64,
        set: &Settings,
        stats: &mut Statistics,
    ) -> Option<End> {
        let Some((number, rest)) = datagram.payload.split_first_chunk::<4>() else {
            stats.rx_malformed += 1;
            return None;
        };
        let number = u32::from_be_bytes(*number);
        let expected = if self.client { set.reply_bytes } else { set.request_bytes };
        let whole = datagram.payload.len() == expected as usize && number < set.messages;
        if set.verify && !(whole && pattern::matches(number, rest)) {
            return Some(End::Corrupted);
        }
        if self.client {
            self.on_reply(number, now, set, stats)
        } else {
            self.on_request(number, now, set, stats);
            None
        }
    }

    fn on_reply(
        &mut self,
        number: u32,
        now: u64,
        set: &Settings,
        stats: &mut Statistics,
    ) -> Option<End> {
        if number != self.message || self.asked_at == 0 {
            stats.rx_duplicate += 1;
            return None;
        }
        stats.reply_ns.record(now.saturating_sub(self.asked_at));
        stats.rx_payload_bytes += u64::from(set.reply_bytes);
        stats.acknowledged_bytes += u64::from(set.request_bytes);
        self.message += 1;
        self.retries = 0;
        self.outgoing = None;
        if self.message == set.messages {
            return Some(End::Completed);
        }
        if set.think_ns > 0 {
            self.asked_at = 0;
            self.due = now.saturating_add(set.think_ns);
        } else {
            self.ask(now);
        }
        None
    }

    fn ask(&mut self, now: u64) {
        self.asked_at = now.max(1);
        self.due = NEVER;
        self.outgoing = Some(self.message);
    }

    fn on_request(&mut self, number: u32, now: u64, set: &Settings, stats: &mut Statistics) {
        if number < self.message {
            stats.rx_duplicate += 1;
        } else {
            self.message = number + 1;
            stats.rx_payload_bytes += u64::from(set.request_bytes);
        }
        if set.server_wait_ns > 0 {
            self.paused = Some(number);
            self.due = set.reply_at(self.asked_at, now, message_random(self.own, number));
        } else {
            self.outgoing = Some(number);
            self.linger(now, set);
        }
    }

    /// After its last answer a server stays for a while, so that it can answer a repeated request.
    fn linger(&mut self, now: u64, set: &Settings) {
        let ns = if self.message == set.messages { set.time_wait_ns } else { set.idle_ns };
        self.due = now.saturating_add(ns);
    }

    /// Returns the message whose datagram is to be sent now.
    pub fn poll(&mut self, now: u64, set: &Settings) -> Option<u32> {
        let message = self.outgoing.take()?;
        if self.client {
            let factor = 1u64 << self.retries.min(16);
            let ms = u64::from(set.initial_rto_us) * factor;
            self.due = now + ms.min(u64::from(set.max_rto_us)) * 1000;
        }
        Some(message)
    }

    /// Runs the timer that [`Udp::due`] returned.
    pub fn on_timer(&mut self, now: u64, set: &Settings, stats: &mut Statistics) -> Option<End> {
        if !self.client {
            if let Some(number) = self.paused.take() {
                set.count_pause(self.due, now, stats);
                self.asked_at = self.due;
                self.outgoing = Some(number);
                self.linger(now, set);
                return None;
            }
            let all = self.message == set.messages;
            return Some(if all { End::Completed } else { End::TimedOut });
        }
        if self.asked_at == 0 {
            set.count_pause(self.due, now, stats);
            self.ask(now);
            return None;
        }
        stats.retransmission_timeouts += 1;
        if self.retries >= set.retries {
            return Some(End::TimedOut);
        }
        self.retries += 1;
        stats.retransmitted += 1;
        self.due = NEVER;
        self.outgoing = Some(self.message);
        None
    }
}
