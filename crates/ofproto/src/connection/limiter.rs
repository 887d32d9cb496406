//! The rate at which packet-ins are sent to a controller (ovs: `ofproto/pinsched.c`).
//!
//! Packet-ins beyond the rate wait in one queue per port, served round robin. When too many wait, the longest
//! queue loses a packet, so a port that floods does not displace the others.

use base::{Instant, OfPort};
use openflow::message::Message;
use std::collections::{BTreeMap, VecDeque};

/// A limit of `Controller.controller_rate_limit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Packet-ins per second.
    pub per_s: u32,
    /// Packet-ins that may exceed the rate at once, and the queue limit.
    pub burst: u32,
}

/// The cost of a packet. Each nanosecond adds the rate per second to the credit.
const COST: u64 = 1_000_000_000;

/// Lets packet-ins through at a rate.
#[derive(Debug)]
pub(super) struct Limiter {
    pub rate: Rate,
    credit: u64,
    earned_until: Instant,
    waiting: BTreeMap<u16, VecDeque<Message>>,
    count: usize,
    /// The port served last.
    last: u16,
}

impl Limiter {
    pub fn new(rate: Rate, now: Instant) -> Self {
        let credit = u64::from(rate.burst) * COST;
        let waiting = BTreeMap::new();
        Limiter { rate, credit, earned_until: now, waiting, count: 0, last: 0 }
    }

    /// Queues a packet-in. Returns whether one was dropped to make room.
    pub fn push(&mut self, port: OfPort, message: Message) -> bool {
        let is_full = self.count >= self.rate.burst.max(1) as usize;
        if is_full {
            self.drop_one();
        }
        self.waiting.entry(port.0).or_default().push_back(message);
        self.count += 1;
        is_full
    }

    /// The next packet-in that the rate permits now.
    pub fn pop(&mut self, now: Instant) -> Option<Message> {
        self.earn(now);
        if self.count == 0 || self.credit < COST {
            return None;
        }
        let after = self.waiting.range(self.last.checked_add(1)?..).next();
        let port = *after.or_else(|| self.waiting.iter().next())?.0;
        self.credit -= COST;
        self.last = port;
        self.take(port, VecDeque::pop_front)
    }

    fn earn(&mut self, now: Instant) {
        let passed_ns = u64::try_from((now - self.earned_until).as_nanos()).unwrap_or(u64::MAX);
        self.earned_until = self.earned_until.max(now);
        let earned = passed_ns.saturating_mul(self.rate.per_s.into());
        let most = u64::from(self.rate.burst.max(1)) * COST;
        self.credit = self.credit.saturating_add(earned).min(most);
    }

    fn drop_one(&mut self) {
        let longest = self.waiting.iter().max_by_key(|(_, queue)| queue.len());
        if let Some(port) = longest.map(|(port, _)| *port) {
            self.take(port, VecDeque::pop_back);
        }
    }

    fn take(
        &mut self,
        port: u16,
        from: fn(&mut VecDeque<Message>) -> Option<Message>,
    ) -> Option<Message> {
        let queue = self.waiting.get_mut(&port)?;
        let message = from(queue);
        if queue.is_empty() {
            self.waiting.remove(&port);
        }
        self.count -= usize::from(message.is_some());
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(port: u16, number: u8) -> Message {
        Message::EchoRequest(vec![port as u8, number])
    }

    fn drain(limiter: &mut Limiter, now: Instant) -> Vec<(u8, u8)> {
        let out = std::iter::from_fn(|| limiter.pop(now));
        out.map(|message| match message {
            Message::EchoRequest(data) => (data[0], data[1]),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut now = Instant::from_millis(1000);
        let mut limiter = Limiter::new(Rate { per_s: 100, burst: 4 }, now);
        let mut sent = 0;
        for number in 0..8 {
            assert!(!limiter.push(OfPort(1), packet(1, number)) || number >= 8);
            sent += drain(&mut limiter, now).len();
        }
        assert_eq!(sent, 4);
        now = now + std::time::Duration::from_millis(20);
        assert_eq!(drain(&mut limiter, now), [(1, 4), (1, 5)]);
        now = now + std::time::Duration::from_secs(5);
        assert_eq!(drain(&mut limiter, now), [(1, 6), (1, 7)]);
        // Credit is limited to the burst.
        for number in 0..4 {
            limiter.push(OfPort(1), packet(1, number));
        }
        assert!(limiter.push(OfPort(1), packet(1, 9)), "one too many");
        assert_eq!(drain(&mut limiter, now).len(), 2);
    }

    #[test]
    fn ports_take_turns_and_the_one_with_most_loses() {
        let now = Instant::from_millis(1000);
        let mut limiter = Limiter::new(Rate { per_s: 100, burst: 4 }, now);
        limiter.credit = 0;
        let dropped: Vec<bool> = [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (3, 0)]
            .map(|(port, number)| limiter.push(OfPort(port), packet(port, number)))
            .into();
        assert_eq!(dropped, [false, false, false, false, true, true]);
        let later = now + std::time::Duration::from_millis(40);
        assert_eq!(drain(&mut limiter, later), [(1, 0), (2, 0), (3, 0), (1, 1)]);
    }
}
