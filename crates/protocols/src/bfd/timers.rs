//! The intervals and timers of a session (RFC 5880 sections 6.8.2 to 6.8.4).

use super::{Bfd, SLOW_MS, State, diagnostic, flag, ms};
use base::Instant;
use log::Level;

/// The shortest interval in which traffic is looked for, in milliseconds (ovs: `lib/bfd.c`, `bfd_decay_update`).
const TRAFFIC_MS: u64 = 2000;
/// The interval in which received packets are counted where they make a port forward.
const COUNT_MS: u64 = 100;

impl Bfd {
    /// Does what is due. [`Self::send`] comes first.
    pub fn run(&mut self, now: Instant) {
        self.ran = now;
        let was_in_decay = self.is_in_decay;
        if self.state > State::Down && now >= self.detect {
            self.set_state(now, State::Down, diagnostic::EXPIRED);
        }
        self.update_forwarding(now);
        let decay_ms = self.config.decay_min_rx_ms;
        if self.state == State::Up && decay_ms > 0 && now >= self.decay_at {
            self.try_decay(now);
        }
        let is_other_rx = self.min_rx_ms != self.config.min_rx_ms && self.min_rx_ms != decay_ms;
        if self.min_tx_ms != self.config.min_tx_ms
            || is_other_rx
            || self.is_in_decay != was_in_decay
        {
            self.poll_peer();
        }
    }

    /// Returns when [`Self::send`] and [`Self::run`] must be called next; [`Instant::ZERO`] is at once.
    pub fn next_timeout(&self) -> Instant {
        if self.flags & flag::FINAL != 0 {
            return Instant::ZERO;
        }
        let mut next = self.next_tx;
        if self.state > State::Down {
            next = next.min(self.detect);
        }
        if self.state == State::Up && self.config.decay_min_rx_ms > 0 {
            next = next.min(self.decay_at);
        }
        if self.config.forwarding_if_rx && self.next_tx != Instant::ZERO {
            next = next.min(self.ran + ms(COUNT_MS));
        }
        next
    }

    pub(super) fn is_polling(&self) -> bool {
        self.flags & flag::POLL != 0
    }

    /// Begins a poll sequence, which negotiates the configured intervals.
    pub(super) fn poll_peer(&mut self) {
        if self.state > State::Down && self.flags & (flag::POLL | flag::FINAL) == 0 {
            self.polled_tx_ms = self.config.min_tx_ms;
            self.polled_rx_ms = match self.is_in_decay {
                true => self.config.decay_min_rx_ms,
                false => self.config.min_rx_ms,
            };
            self.flags |= flag::POLL;
            self.next_tx = Instant::ZERO;
            let name = &self.name;
            self.lines.add(Level::Info, || format!("{name}: Initiating poll sequence"));
        }
    }

    pub(super) fn own_min_tx_ms(&self) -> u32 {
        match self.state {
            State::Up => self.min_tx_ms,
            _ => self.min_tx_ms.max(SLOW_MS),
        }
    }

    pub(super) fn tx_interval_ms(&self) -> u64 {
        self.own_min_tx_ms().max(self.remote.min_rx_ms).into()
    }

    pub(super) fn rx_interval_ms(&self) -> u64 {
        self.min_rx_ms.max(self.remote.min_tx_ms).into()
    }

    /// Sets when the next packet is sent: up to a quarter earlier than the interval, and never at its end if a single
    /// missing packet counts (RFC 5880 section 6.8.7).
    pub(super) fn set_next_tx(&mut self) {
        let interval = self.tx_interval_ms();
        let percent = match self.config.multiplier {
            1 => 10 + self.random.u64(0..16),
            _ => self.random.u64(0..26),
        };
        self.next_tx = self.last_tx + ms(interval - interval * percent / 100);
    }

    /// Logs that a packet is late.
    pub(super) fn tell_delay(&mut self, now: Instant) {
        let interval = ms(self.tx_interval_ms());
        let delay = now - self.next_tx;
        if self.next_tx != Instant::ZERO && delay > interval * 3 / 2 {
            let (name, delay, interval) = (&self.name, delay.as_millis(), interval.as_millis());
            self.lines.add(Level::Info, || {
                format!(
                    "{name}: long delay of {delay}ms (expected {interval}ms) sending BFD control message"
                )
            });
        }
    }

    /// The port decays if it received hardly more than control packets. The counter of the port may be behind, so
    /// twice as many are allowed.
    fn try_decay(&mut self, now: Instant) {
        let received = self.received.saturating_sub(self.decay_received);
        self.is_in_decay = received <= 2 * self.decay_controls.max(1);
        self.begin_decay(now);
    }

    /// Begins an interval in which traffic is looked for.
    pub(super) fn begin_decay(&mut self, now: Instant) {
        self.decay_received = self.received;
        self.decay_controls = 0;
        self.decay_at = now + ms(TRAFFIC_MS.max(self.config.decay_min_rx_ms.into()));
    }

    /// The port received packets.
    pub(super) fn note_received(&mut self, now: Instant) {
        let detection = self.rx_interval_ms() * u64::from(self.config.multiplier);
        self.received_until = now + ms(detection.max(TRAFFIC_MS));
    }
}
