//! Idle and hard timeouts of flows.

use crate::rule::{Rule, RuleId};
use base::Instant;
use hashbrown::HashMap;
use openflow::message::RemovedReason;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// When flows must be looked at. A flow that was used or changed meanwhile is put back with its new
/// time, so that traffic costs nothing here.
///
/// A hard timeout passes by the clock. An idle timeout passes when all workers have told of the packets
/// that came until then: what they have not told yet may be a packet that keeps the flow.
#[derive(Debug, Default)]
pub struct Timeouts {
    hard: Queue,
    idle: Queue,
}

/// Flows by the time at which to look at them, each once.
#[derive(Debug, Default)]
struct Queue {
    due: BinaryHeap<Reverse<(Instant, RuleId)>>,
    armed: HashMap<RuleId, Instant>,
}

impl Timeouts {
    /// Watches a flow, if it has a timeout.
    pub fn watch(&mut self, rule: &Rule) {
        if let Some(at) = hard(rule) {
            self.hard.arm(rule.id, at);
        }
        if let Some(at) = idle(rule) {
            self.idle.arm(rule.id, at);
        }
    }

    /// A flow that must be looked at by now, where all packets until `collected` are known. The caller
    /// asks until there is none, and watches the flow again if it stays.
    pub fn pop_due(&mut self, now: Instant, collected: Instant) -> Option<RuleId> {
        match (self.hard.next(now), self.idle.next(collected)) {
            (Some(hard), Some(idle)) if idle < hard => self.idle.pop(),
            (Some(_), _) => self.hard.pop(),
            (None, Some(_)) => self.idle.pop(),
            (None, None) => None,
        }
    }
}

impl Queue {
    /// Looks at a flow no later than this.
    fn arm(&mut self, id: RuleId, at: Instant) {
        if self.armed.get(&id).is_none_or(|armed| at < *armed) {
            self.armed.insert(id, at);
            self.due.push(Reverse((at, id)));
        }
    }

    /// The time of the first flow, if it is not after `until`.
    fn next(&mut self, until: Instant) -> Option<Instant> {
        while let Some(&Reverse((at, id))) = self.due.peek()
            && at <= until
        {
            if self.armed.get(&id) == Some(&at) {
                return Some(at);
            }
            self.due.pop();
        }
        None
    }

    /// Takes the first flow out.
    fn pop(&mut self) -> Option<RuleId> {
        let Reverse((_, id)) = self.due.pop()?;
        self.armed.remove(&id);
        Some(id)
    }
}

/// Why the flow has timed out, if it has, where all packets until `collected` are known. The hard
/// timeout counts from the last change, the idle timeout from the last packet (OpenFlow 1.3.5 section
/// 5.5; ovs: `ofproto/ofproto-dpif.c`, `rule_expire`).
pub fn expired(rule: &Rule, now: Instant, collected: Instant) -> Option<RemovedReason> {
    let hard = hard(rule).filter(|at| *at <= now);
    let idle = idle(rule).filter(|at| *at <= collected);
    match (hard, idle) {
        (Some(hard), Some(idle)) if idle < hard => Some(RemovedReason::IdleTimeout),
        (Some(_), _) => Some(RemovedReason::HardTimeout),
        (None, idle) => idle.map(|_| RemovedReason::IdleTimeout),
    }
}

/// When the flow times out if no packet comes.
pub fn expiry(rule: &Rule) -> Option<Instant> {
    hard(rule).into_iter().chain(idle(rule)).min()
}

fn hard(rule: &Rule) -> Option<Instant> {
    let after = Duration::from_secs(rule.hard_timeout_s.into());
    (!after.is_zero()).then(|| rule.modified + after)
}

fn idle(rule: &Rule) -> Option<Instant> {
    let after = Duration::from_secs(rule.idle_timeout_s.into());
    (!after.is_zero()).then(|| rule.carried.used() + after)
}
