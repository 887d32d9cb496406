//! Idle and hard timeouts of flows.

use crate::ids::RuleId;
use crate::rule::{Rule, Rules};
use base::Instant;
use classifier::{PartedMap, Slab};
use openflow::message::RemovedReason;
use std::time::Duration;
use table::Wheel;
use table::atomic::AtomicU64;

/// Flows examined at once. Deleting one takes some microseconds.
const FLOWS_AT_ONCE: usize = 256;

/// When to check each flow. A flow that was used or changed meanwhile is scheduled again at its new time, so
/// packets cost nothing here.
///
/// A hard timeout passes by the clock. An idle timeout passes when the statistics of all workers are complete
/// up to that time: a packet not reported yet may keep the flow.
#[derive(Debug, Default)]
pub struct Timeouts {
    hard: Timer,
    idle: Timer,
}

/// Flows on a timing wheel.
#[derive(Default)]
struct Timer {
    wheel: Wheel,
    places: Places,
    by_rule: PartedMap<RuleId, u32>,
}

/// The flows on a wheel, by their slots, which begin at 1.
#[derive(Default)]
struct Places {
    slab: Slab<Place>,
    /// The word of unused slots.
    unused: AtomicU64,
}

struct Place {
    rule: RuleId,
    wheel: AtomicU64,
}

impl Timeouts {
    /// Schedules a flow with its current timeouts.
    pub fn watch(&mut self, rule: &Rule) {
        self.hard.watch(rule, hard(rule));
        self.idle.watch(rule, idle(rule));
    }

    /// The flow was removed.
    pub fn forget(&mut self, id: RuleId) {
        self.hard.forget(id);
        self.idle.forget(id);
    }

    /// Finds flows that have timed out, with statistics complete up to `collected`, the earliest first,
    /// examining a bounded number. The caller deletes them. Returns whether there may be more.
    pub fn take_due(
        &mut self,
        rules: &Rules,
        now: Instant,
        collected: Instant,
        due: &mut Vec<(RuleId, RemovedReason)>,
    ) -> bool {
        let mut found = Vec::new();
        let mut look = |rule: RuleId, timeout: fn(&Rule) -> Option<Instant>| {
            let rule = rules.get(rule)?;
            let at = timeout(rule)?;
            match expired(rule, now, collected) {
                Some(reason) => found.push((at, rule.id, reason)),
                None => return Some(at),
            }
            None
        };
        let has_hard = self.hard.advance(now, |rule| look(rule, hard));
        let has_idle = self.idle.advance(collected, |rule| look(rule, idle));
        found.sort_unstable_by_key(|(at, id, _)| (*at, *id));
        due.extend(found.into_iter().map(|(_, id, reason)| (id, reason)));
        has_hard || has_idle
    }

    /// How many timeouts are scheduled.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.hard.places.slab.len() + self.idle.places.slab.len()
    }
}

impl Timer {
    fn watch(&mut self, rule: &Rule, at: Option<Instant>) {
        let Some(at) = at else { return self.forget(rule.id) };
        let place = self.by_rule.get(&rule.id).copied().unwrap_or_else(|| {
            let place = Place { rule: rule.id, wheel: AtomicU64::new(0) };
            let place = self.places.slab.insert(place).index() as u32 + 1;
            self.by_rule.insert(rule.id, place);
            place
        });
        self.wheel.arm(&self.places, place, rule.modified, at);
    }

    fn forget(&mut self, id: RuleId) {
        let Some(place) = self.by_rule.remove(&id) else { return };
        self.wheel.disarm(&self.places, place);
        if let Some(handle) = self.places.slab.handle_at(place as usize - 1) {
            self.places.slab.remove(handle);
        }
    }

    /// Examines flows that are due. `look` returns when to examine the flow again. Returns whether there may
    /// be more.
    fn advance(&mut self, until: Instant, mut look: impl FnMut(RuleId) -> Option<Instant>) -> bool {
        let places = &self.places;
        let look = |place: u32| look(places.at(place)?.rule);
        self.wheel.advance(places, until, FLOWS_AT_ONCE, look) == 0
    }
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Timer({})", self.wheel.armed())
    }
}

impl Places {
    fn at(&self, place: u32) -> Option<&Place> {
        self.slab.at((place as usize).checked_sub(1)?)
    }
}

impl table::Links for Places {
    fn link(&self, id: table::Id) -> &AtomicU64 {
        self.at(id).map_or(&self.unused, |place| &place.wheel)
    }
}

/// Why the flow has timed out, if it has, with statistics complete up to `collected`. The hard timeout counts
/// from the last modification, the idle timeout from the last packet (OpenFlow 1.3.5 section 5.5; ovs:
/// `ofproto/ofproto-dpif.c`, `rule_expire`).
pub fn expired(rule: &Rule, now: Instant, collected: Instant) -> Option<RemovedReason> {
    let hard = hard(rule).filter(|at| *at <= now);
    let idle = idle(rule).filter(|at| *at <= collected);
    match (hard, idle) {
        (Some(hard), Some(idle)) if idle < hard => Some(RemovedReason::IdleTimeout),
        (Some(_), _) => Some(RemovedReason::HardTimeout),
        (None, idle) => idle.map(|_| RemovedReason::IdleTimeout),
    }
}

/// When the flow times out without further packets.
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
