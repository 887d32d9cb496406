//! Idle and hard timeouts of flows.

use crate::rule::{Rule, RuleId};
use base::Instant;
use openflow::message::RemovedReason;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// When flows must be looked at. A flow that was used meanwhile is put back with its new time, so
/// that traffic costs nothing here.
#[derive(Debug, Default)]
pub struct Timeouts {
    due: BinaryHeap<Reverse<(Instant, RuleId)>>,
}

impl Timeouts {
    /// Watches a flow, if it has a timeout.
    pub fn watch(&mut self, rule: &Rule) {
        if let Some((at, _)) = next(rule) {
            self.due.push(Reverse((at, rule.id)));
        }
    }

    /// A flow that must be looked at by now. The caller asks until there is none, and watches the
    /// flow again if it stays.
    pub fn pop_due(&mut self, now: Instant) -> Option<RuleId> {
        let Reverse((at, _)) = self.due.peek()?;
        if *at > now {
            return None;
        }
        self.due.pop().map(|Reverse((_, id))| id)
    }
}

/// Why the flow has timed out, if it has. The hard timeout counts from the last change, the idle
/// timeout from the last packet (OpenFlow 1.3.5 section 5.5; ovs: `ofproto/ofproto-dpif.c`,
/// `rule_expire`).
pub fn expired(rule: &Rule, now: Instant) -> Option<RemovedReason> {
    next(rule).filter(|(at, _)| *at <= now).map(|(_, reason)| reason)
}

/// When the flow times out if no packet comes.
pub fn expiry(rule: &Rule) -> Option<Instant> {
    next(rule).map(|(at, _)| at)
}

fn next(rule: &Rule) -> Option<(Instant, RemovedReason)> {
    let after = |since: Instant, timeout_s: u16, reason| {
        (timeout_s > 0).then(|| (since + Duration::from_secs(timeout_s.into()), reason))
    };
    let hard = after(rule.modified, rule.hard_timeout_s, RemovedReason::HardTimeout);
    let idle = after(rule.used, rule.idle_timeout_s, RemovedReason::IdleTimeout);
    match (hard, idle) {
        (Some(hard), Some(idle)) => Some(if idle.0 < hard.0 { idle } else { hard }),
        (hard, idle) => hard.or(idle),
    }
}
