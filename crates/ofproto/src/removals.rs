//! Removed flows whose last packets are not counted yet.
//!
//! A flow leaves its table at once. Its counters are final, and controllers are told, when
//!
//! 1. no handler or revalidator works with a snapshot that has the flow,
//! 2. no megaflow counts for it any more, so that the workers were told,
//! 3. each worker has answered a request for statistics that was sent after that.
//!
//! Flows go through these stages in the order of their removal, a bounded number per step.

use crate::events::Event;
use crate::ids::{BridgeId, RuleId};
use crate::installed::{Requests, Since};
use crate::rule::Rule;
use crate::{Ofproto, Outbox};
use base::Instant;
use classifier::{PartedMap, Queue};
use flow::{FlowStats, OptionMapping};
use openflow::message::RemovedReason;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use table::UnderWay;

/// How long controllers are not told because threads do not answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Flows that enter a stage in a step.
const FLOWS_AT_ONCE: usize = 256;

/// A removed flow.
#[derive(Debug)]
struct Removal {
    number: u64,
    flow: Rule,
    at: Instant,
    then: Then,
}

/// What follows when the counters are final.
#[derive(Debug)]
enum Then {
    /// Controllers are told, with the options behind the flow's fields.
    Tell(RemovedReason, Arc<[OptionMapping]>),
    /// Nothing: this flow is in its place, and counts from zero. Until then its idle time begins anew with packets of
    /// the old one.
    Forget(RuleId),
}

/// The number of a removal, and its flow. A removal that was undone is in a queue, but not in the map.
type Key = (u64, RuleId);

/// All removed flows whose counters may change.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    by_rule: PartedMap<RuleId, Removal>,
    /// The number of the last one, of all bridges and of each.
    last: u64,
    last_of: BTreeMap<BridgeId, u64>,
    /// Those before the first stage.
    new: Queue<Key>,
    /// Those of which handlers and revalidators may still know.
    passing: Queue<Key>,
    under_way: Option<UnderWay>,
    /// Those for which megaflows may still count.
    linked: Queue<Key>,
    /// Those for which workers may still report packets.
    reported: Queue<Key>,
    /// The numbers of flows in `reported`, with the requests sent before.
    rounds: VecDeque<Round>,
}

#[derive(Debug)]
struct Round {
    flows: usize,
    before: Requests,
    /// How often workers had been removed. New workers know nothing of the flows.
    workers_lost: u64,
}

impl Removals {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.oldest().is_none()
    }

    /// Forgets a flow that is in its table again.
    pub fn cancel(&mut self, rule: RuleId) {
        self.by_rule.remove(&rule);
    }

    /// Forgets a bridge that was removed.
    pub fn forget_bridge(&mut self, bridge: BridgeId) {
        self.last_of.remove(&bridge);
    }

    fn add(&mut self, flow: Rule, at: Instant, then: Then) {
        self.last += 1;
        let (number, id) = (self.last, flow.id);
        self.last_of.insert(flow.bridge, number);
        self.new.push((number, id));
        self.by_rule.insert(id, Removal { number, flow, at, then });
    }

    fn oldest(&self) -> Option<Key> {
        let queues = [&self.reported, &self.linked, &self.passing, &self.new];
        queues.into_iter().find_map(Queue::front).copied()
    }

    fn take_oldest(&mut self) -> Option<Key> {
        if let Some(key) = self.reported.pop() {
            if let Some(round) = self.rounds.front_mut() {
                round.flows -= 1;
            }
            self.rounds.pop_front_if(|round| round.flows == 0);
            return Some(key);
        }
        let queues = [&mut self.linked, &mut self.passing, &mut self.new];
        queues.into_iter().find_map(Queue::pop)
    }

    /// The removal, unless it was undone.
    fn take(&mut self, (number, rule): Key) -> Option<Removal> {
        let is_it = self.by_rule.get(&rule).is_some_and(|it| it.number == number);
        if is_it { self.by_rule.remove(&rule) } else { None }
    }

    fn is_overdue(&self, (number, rule): Key, now: Instant) -> bool {
        let removal = self.by_rule.get(&rule).filter(|it| it.number == number);
        removal.is_none_or(|it| it.at + PATIENCE <= now)
    }
}

impl Ofproto {
    /// Tells controllers of a removed flow when its counters are final.
    pub(crate) fn tell_removed(&mut self, flow: Rule, reason: RemovedReason, now: Instant) {
        let bridge = self.bridges.get(flow.bridge);
        let options = bridge.map_or_else(|| Arc::new([]) as _, |it| Arc::clone(&it.tunnel_options));
        self.removals.add(flow, now, Then::Tell(reason, options));
    }

    /// A flow is replaced by one that counts from zero.
    pub(crate) fn forget_counts(&mut self, flow: Rule, by: RuleId, now: Instant) {
        if flow.idle_timeout_s > 0 {
            self.removals.add(flow, now, Then::Forget(by));
        }
    }

    /// Adds packets to a flow that was removed after they had been processed.
    pub(crate) fn credit_removed(&self, id: RuleId, more: &FlowStats, now: Instant) {
        let Some(removal) = self.removals.by_rule.get(&id) else { return };
        removal.flow.carried.add(more, now);
        if let Then::Forget(by) = removal.then
            && let Some((rule, used)) = self.rules.get(by).zip(more.used)
        {
            rule.carried.saw(used);
        }
    }

    /// The number of the bridge's last removed flow.
    pub(crate) fn last_removal(&self, bridge: BridgeId) -> u64 {
        self.removals.last_of.get(&bridge).copied().unwrap_or_default()
    }

    /// Whether controllers were told of the removed flows up to this number.
    pub(crate) fn is_removal_told(&self, number: u64) -> bool {
        self.removals.oldest().is_none_or(|(oldest, _)| number < oldest)
    }

    /// Whether removed flows wait for revalidators on other threads.
    pub fn awaits_revalidators(&self) -> bool {
        !self.revalidates && !self.removals.linked.is_empty()
    }

    /// Moves removed flows on, after all changes are published. Returns whether more can be done at once.
    pub(crate) fn settle_removals(&mut self, now: Instant, out: &mut Outbox) -> bool {
        // A change that goes on is not published, and a bundle's may be undone.
        if self.is_held || self.removals.is_empty() {
            return false;
        }
        let is_passing = self.pass_removals();
        let is_unlinking = self.unlink_removals();
        self.tell_removals(now, out) | is_unlinking | is_passing
    }

    /// Ends the first stage when the passages that were under way are over. Returns whether to wait for that.
    fn pass_removals(&mut self) -> bool {
        let removals = &mut self.removals;
        if removals.under_way.is_none() {
            removals.passing.append(&mut removals.new);
            removals.under_way = (!removals.passing.is_empty()).then(|| self.passages.under_way());
        }
        let are_over = removals.under_way.as_ref().is_some_and(UnderWay::are_over);
        if are_over {
            removals.under_way = None;
            removals.linked.append(&mut removals.passing);
        }
        removals.under_way.is_some() || !removals.new.is_empty()
    }

    /// Ends the second stage of flows for which no megaflow counts any more. Returns whether there may be more.
    fn unlink_removals(&mut self) -> bool {
        let (removals, workers_lost) = (&mut self.removals, self.workers_lost);
        let megaflows = self.shared.lock();
        let installed = &megaflows.installed;
        let mut flows = 0;
        while flows < FLOWS_AT_ONCE
            && let Some(&(_, rule)) = removals.linked.front()
            && !installed.counts_for(rule)
        {
            removals.linked.pop().into_iter().for_each(|key| removals.reported.push(key));
            flows += 1;
        }
        let before = installed.requests(self.config.workers);
        match removals.rounds.back_mut() {
            _ if flows == 0 => {}
            Some(round) if round.before == before && round.workers_lost == workers_lost => {
                round.flows += flows;
            }
            _ => removals.rounds.push_back(Round { flows, before, workers_lost }),
        }
        flows == FLOWS_AT_ONCE
    }

    /// Tells controllers of flows whose counters are final, or of which they were not told for too long. Returns
    /// whether there are more.
    fn tell_removals(&mut self, now: Instant, out: &mut Outbox) -> bool {
        // Handlers may have answered packets without a megaflow.
        self.apply_credits(now);
        for _ in 0..FLOWS_AT_ONCE {
            let Some(oldest) = self.removals.oldest() else { return false };
            let is_over = self.upkeep.is_paused() || self.removals.is_overdue(oldest, now);
            if !is_over && !self.is_reported(out) {
                return false;
            }
            let oldest = self.removals.take_oldest();
            if let Some(Removal { flow, at, then, .. }) =
                oldest.and_then(|key| self.removals.take(key))
                && let Then::Tell(reason, options) = then
            {
                let bridge = flow.bridge;
                let mut flow = Box::new(flow.stats(at));
                flow.matching = flow.matching.with_options_apart(&options);
                self.events.push(Event::FlowRemoved { bridge, flow, reason });
            }
        }
        !self.removals.is_empty()
    }

    /// Whether all packets of the oldest flows are reported. If not, the workers are asked.
    fn is_reported(&mut self, out: &mut Outbox) -> bool {
        let Some(round) = self.removals.rounds.front() else { return false };
        if round.workers_lost != self.workers_lost {
            return true;
        }
        let since = {
            let megaflows = self.shared.lock();
            let installed = &megaflows.installed;
            // Without former megaflows the workers have nothing to report.
            let has_former = installed.has_former();
            if has_former { installed.answers_since(&round.before) } else { Since::Answered }
        };
        if since == Since::Unasked {
            self.collect(out);
        }
        since == Since::Answered
    }
}

#[cfg(test)]
mod tests;
