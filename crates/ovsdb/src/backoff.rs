//! The wait before the next connection attempt.
//!
//! The rule is Open vSwitch's (ovs: lib/reconnect.c, `reconnect_disconnected`): the first attempt is
//! immediate; each failure doubles the wait, from 1 s to 8 s; a connection that carried data for longer than
//! the last wait resets it.

use base::Instant;
use std::time::Duration;

/// The state of the reconnection timer.
#[derive(Debug, Clone)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    wait: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Waiting { until: Instant },
    Connected { since: Instant, last_activity: Instant },
}

impl Default for Backoff {
    /// From 1 s to 8 s, as in Open vSwitch.
    fn default() -> Self {
        Backoff::new(Duration::from_secs(1), Duration::from_secs(8))
    }
}

impl Backoff {
    /// A timer that waits from `min` to `max`; the first attempt is immediate.
    pub fn new(min: Duration, max: Duration) -> Self {
        Backoff {
            min,
            max: max.max(min),
            wait: Duration::ZERO,
            state: State::Waiting { until: Instant::ZERO },
        }
    }

    /// Returns the time of the next attempt; `None` while connected.
    pub fn next_attempt(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Connected { .. } => None,
        }
    }

    /// Records that the connection was established.
    pub fn connected(&mut self, now: Instant) {
        self.state = State::Connected { since: now, last_activity: now };
    }

    /// Records that data arrived.
    pub fn active(&mut self, now: Instant) {
        if let State::Connected { last_activity, .. } = &mut self.state {
            *last_activity = now;
        }
    }

    /// Records that the connection ended or an attempt failed. Returns the wait.
    pub fn disconnected(&mut self, now: Instant) -> Duration {
        let lasted = match self.state {
            State::Connected { since, last_activity } => last_activity - since >= self.wait,
            State::Waiting { .. } => false,
        };
        self.wait = if lasted || self.wait < self.min {
            self.min
        } else {
            self.wait.saturating_mul(2).min(self.max)
        };
        self.state = State::Waiting { until: now + self.wait };
        self.wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::from_millis(s * 1000)
    }

    #[test]
    fn failures_double_the_wait_up_to_the_maximum() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next_attempt(), Some(Instant::ZERO));
        let waits: Vec<u64> = (0..6).map(|s| backoff.disconnected(at(s)).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 8, 8]);
        assert_eq!(backoff.next_attempt(), Some(at(5 + 8)));
    }

    #[test]
    fn only_a_connection_that_lasted_resets_the_wait() {
        let mut backoff = Backoff::default();
        for _ in 0..3 {
            backoff.disconnected(at(0));
        }
        backoff.connected(at(10));
        assert_eq!(backoff.next_attempt(), None);
        backoff.active(at(11));
        assert_eq!(backoff.disconnected(at(12)).as_secs(), 8, "4 s had not passed");
        backoff.connected(at(20));
        backoff.active(at(30));
        assert_eq!(backoff.disconnected(at(30)).as_secs(), 1);
    }
}
