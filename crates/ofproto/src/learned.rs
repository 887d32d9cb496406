//! Flows that `learn` adds, and those deleted with their teachers.

use crate::Ofproto;
use crate::change::Change;
use crate::ids::BridgeId;
use crate::ids::RuleId;
use crate::rule::{Rule, Rules};
use crate::table::Tables;
use crate::timeouts::Timeouts;
use base::{Instant, TableId};
use flow::FlowStats;
use openflow::action::Action;
use openflow::message::FlowMod;
use std::collections::BTreeMap;

/// The effect of learning a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The flow exists already.
    Unchanged,
    /// The flow is added, or replaces another one of its match.
    New,
    /// The table has `limit` flows of this cookie.
    TooMany,
}

impl Tables {
    /// The effect of learning this flow, if `more` of its cookie are pending for its table (ovs:
    /// `ofproto/ofproto.c`, `ofproto_flow_mod_init_for_learn`, `ofproto_flow_mod_learn`).
    pub(crate) fn learning(
        &self,
        flow: &FlowMod,
        limit: u32,
        more: usize,
        rules: &Rules,
    ) -> Outcome {
        let table = flow.table.unwrap_or(TableId(0));
        let same = self.find(table, &flow.matching, flow.priority);
        if same.and_then(|id| rules.get(id)).is_some_and(|rule| is_as_learned(rule, flow)) {
            return Outcome::Unchanged;
        }
        if limit != 0 {
            let ids = self.get(table).into_iter().flat_map(|table| table.flows.iter());
            let own = ids.filter_map(|found| rules.get(*found.rule));
            let count = own.filter(|rule| rule.cookie == flow.new_cookie).count();
            if count + more >= limit as usize {
                return Outcome::TooMany;
            }
        }
        Outcome::New
    }
}

fn is_as_learned(rule: &Rule, flow: &FlowMod) -> bool {
    rule.idle_timeout_s == flow.idle_timeout_s
        && rule.hard_timeout_s == flow.hard_timeout_s
        && rule.importance == flow.importance
        && rule.flags == flow.flags
        && (!flow.modify_cookie || rule.cookie == flow.new_cookie)
        && *rule.actions == *flow.actions
}

/// Per table and cookie, the number of a bridge's flows with `learn(delete_learned)` for them.
#[derive(Debug, Default)]
pub(crate) struct LearnedCookies {
    teachers: BTreeMap<(TableId, u64), usize>,
    /// Those whose last teacher was removed.
    orphans: Vec<(TableId, u64)>,
}

impl LearnedCookies {
    pub fn add(&mut self, actions: &[Action]) {
        each_deleted(actions, &mut |of| *self.teachers.entry(of).or_default() += 1);
    }

    pub fn remove(&mut self, actions: &[Action]) {
        each_deleted(actions, &mut |of| {
            let Some(count) = self.teachers.get_mut(&of) else { return };
            *count -= 1;
            if *count == 0 {
                self.teachers.remove(&of);
                self.orphans.push(of);
            }
        });
    }

    /// Takes a table and cookie without a teacher.
    pub fn take_orphan(&mut self) -> Option<(TableId, u64)> {
        while let Some(of) = self.orphans.pop() {
            if !self.teachers.contains_key(&of) {
                return Some(of);
            }
        }
        None
    }

    /// Whether some teacher was removed whose learned flows may remain.
    pub fn has_orphans(&self) -> bool {
        !self.orphans.is_empty()
    }

    /// Leaves flows without a teacher in place.
    pub fn forget_orphans(&mut self) {
        self.orphans.clear();
    }
}

/// The table and cookie of each `learn(delete_learned)`.
fn each_deleted(actions: &[Action], visit: &mut impl FnMut((TableId, u64))) {
    for action in actions {
        match action {
            Action::Learn(learn) if learn.delete_learned => visit((learn.table, learn.cookie)),
            Action::Clone(inner) | Action::WriteActions(inner) => each_deleted(inner, visit),
            _ => {}
        }
    }
}

impl Ofproto {
    /// Adds a learned flow to its table, or restarts its hard timeout.
    pub(crate) fn learn_flow(&mut self, id: BridgeId, flow: &FlowMod, limit: u32, now: Instant) {
        let Some(bridge) = self.bridges.get(id) else { return };
        match bridge.tables.learning(flow, limit, 0, &self.rules) {
            Outcome::Unchanged => {
                if let Some(rule) =
                    self.find_learned(id, flow).and_then(|id| self.rules.time_mut(id))
                {
                    rule.modified = now;
                }
            }
            Outcome::New => {
                // Learning into a full table fails silently: no controller waits for a reply.
                // What packets do is no part of a controller's bundle.
                let undo = self.undo.take();
                let _ = self.flow_mod(id, flow, now);
                self.undo = undo;
            }
            Outcome::TooMany => {}
        }
    }

    /// Whether the flow is in its table as it would be learned.
    pub(crate) fn is_learned(&self, id: BridgeId, flow: &FlowMod) -> bool {
        let rule = self.find_learned(id, flow).and_then(|id| self.rules.get(id));
        rule.is_some_and(|rule| is_as_learned(rule, flow))
    }

    /// Counts packets for a learned flow.
    pub(crate) fn hit_learned(&mut self, id: BridgeId, flow: &FlowMod, more: &FlowStats) {
        if let Some(rule) = self.find_learned(id, flow).and_then(|id| self.rules.get(id)) {
            rule.carried.add(more, rule.carried.used());
        }
    }

    fn find_learned(&self, id: BridgeId, flow: &FlowMod) -> Option<RuleId> {
        let tables = &self.bridges.get(id)?.tables;
        tables.find(flow.table?, &flow.matching, flow.priority)
    }

    /// Deletes learned flows whose last teacher was removed, and in turn the flows that these learned.
    pub(crate) fn delete_orphans(&mut self, id: BridgeId, now: Instant) {
        // Such a change has no error.
        let _ = self.change(Change::orphans(id), now);
    }

    /// Shortens a flow's timeouts after a FIN or RST (ovs: `ofproto/ofproto.c`,
    /// `ofproto_rule_reduce_timeouts`).
    pub(crate) fn reduce_timeouts(&mut self, id: RuleId, idle_s: u16, hard_s: u16) {
        let Some(rule) = self.rules.time_mut(id) else { return };
        reduce(&mut rule.idle_timeout_s, idle_s);
        reduce(&mut rule.hard_timeout_s, hard_s);
        Timeouts::watch(&mut self.timeouts, rule);
    }
}

/// Limits a timeout to `max`; 0 is no timeout.
fn reduce(timeout_s: &mut u16, max: u16) {
    if max != 0 && (*timeout_s == 0 || *timeout_s > max) {
        *timeout_s = max;
    }
}

#[cfg(test)]
mod tests;
