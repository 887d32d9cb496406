//! Which flow of a full table is evicted (ovs: `ofproto/ofproto.c`, `choose_rule_to_evict`,
//! `rule_eviction_priority`).

use crate::Ofproto;
use crate::ids::{BridgeId, RuleId};
use crate::rule::{Rule, Rules};
use crate::selection::Selection;
use crate::table::Tables;
use crate::timeouts;
use base::{Instant, TableId, limits};
use hashbrown::HashMap;
use openflow::message::{FlowStatsRequest, RemovedReason};
use openflow::text::NamedBits;
use std::collections::{BTreeMap, BTreeSet};
use table::Remains;

/// Flows that are looked at at once when a table begins to evict.
const FLOWS_AT_ONCE: usize = 512;
/// Flows that are evicted at once.
const EVICTED_AT_ONCE: usize = 256;

/// The values of the fields by which the table's flows are grouped.
type GroupKey = Vec<u128>;

/// The evictable flows, by table.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    by_table: BTreeMap<u8, Eviction>,
}

impl Evictions {
    /// Applies the tables' configuration: starts or stops tracking evictable flows.
    pub fn follow(&mut self, tables: &Tables, rules: &Rules) {
        for number in 0..limits::TABLES as u8 {
            let table = tables.get(TableId(number));
            match table.and_then(|table| Some((table, table.evicted_by()?))) {
                None => drop(self.by_table.remove(&number)),
                Some((_, fields)) => {
                    let known = self.by_table.get(&number);
                    if known.is_none_or(|known| known.fields != *fields) {
                        let of_table = Some(TableId(number));
                        let all = FlowStatsRequest { table: of_table, ..Default::default() };
                        let mut eviction = Eviction::new(fields.to_vec());
                        eviction.unseen = Some(Selection::new(tables, rules, all));
                        self.by_table.insert(number, eviction);
                    }
                }
            }
        }
    }

    /// Looks at some flows that were there before their table began to evict. Returns whether there are more.
    pub fn go_on(&mut self, rules: &Rules, remains: &mut Remains) -> bool {
        let mut left = FLOWS_AT_ONCE;
        self.by_table.values_mut().for_each(|eviction| eviction.go_on(rules, &mut left, remains));
        !self.is_complete()
    }

    /// Whether all evictable flows are known.
    pub fn is_complete(&self) -> bool {
        self.by_table.values().all(|eviction| eviction.unseen.is_none())
    }

    /// Adds a flow, or updates a changed one.
    pub fn put(&mut self, rule: &Rule) {
        if let Some(eviction) = self.by_table.get_mut(&rule.table.0) {
            eviction.put(rule);
        }
    }

    /// Removes a flow.
    pub fn remove(&mut self, rule: &Rule) {
        if let Some(eviction) = self.by_table.get_mut(&rule.table.0) {
            eviction.remove(rule.id);
        }
    }

    /// The flow of a table to evict; `None` if no flow is evictable.
    pub fn choose(&mut self, table: TableId, rules: &Rules) -> Option<RuleId> {
        self.by_table.get_mut(&table.0)?.choose(rules)
    }
}

/// Eviction order within a group: least importance first, then earliest expiry, then oldest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    importance: u16,
    expires: Instant,
    rule: RuleId,
}

/// The evictable flows of a table: those with a timeout. The largest group loses a flow first, so that a
/// sender of many flows does not displace those of others.
#[derive(Debug, Default)]
pub(crate) struct Eviction {
    fields: Vec<NamedBits>,
    groups: BTreeMap<GroupKey, BTreeSet<Rank>>,
    by_size: BTreeSet<(usize, GroupKey)>,
    places: HashMap<RuleId, (GroupKey, Rank)>,
    /// The flows that were there before the table began to evict, as far as they are not looked at.
    unseen: Option<Selection>,
}

impl Eviction {
    /// Without flows, grouped by these fields.
    pub fn new(fields: Vec<NamedBits>) -> Self {
        Eviction { fields, ..Eviction::default() }
    }

    /// Looks at some flows that were there before.
    fn go_on(&mut self, rules: &Rules, left: &mut usize, remains: &mut Remains) {
        let Some(mut unseen) = self.unseen.take() else { return };
        let has_more = unseen.go_on(left, |rule| {
            // It may have changed since.
            if let Some(rule) = rules.get(rule.id) {
                self.put(rule);
            }
        });
        match has_more {
            true => self.unseen = Some(unseen),
            false => unseen.hand_over(remains),
        }
    }

    /// Adds a flow, or updates a changed one.
    pub fn put(&mut self, rule: &Rule) {
        self.remove(rule.id);
        let Some(rank) = rank(rule) else { return };
        let matching = rule.matching.unpack();
        let key: GroupKey = self.fields.iter().map(|bits| bits.of(&matching)).collect();
        self.places.insert(rule.id, (key.clone(), rank));
        self.in_group(key, |group| group.insert(rank));
    }

    /// Removes a flow.
    pub fn remove(&mut self, rule: RuleId) {
        if let Some((key, rank)) = self.places.remove(&rule) {
            self.in_group(key, |group| group.remove(&rank));
        }
    }

    /// The flow to evict next. Packets postpone a flow's expiry without an update here, so the rank of the
    /// first flow is computed anew; it can only have become later.
    pub fn choose(&mut self, rules: &Rules) -> Option<RuleId> {
        // Few flows are known at once after a table began to evict; one of these goes.
        let mut remains = Remains::default();
        while self.by_size.is_empty() && self.unseen.is_some() {
            self.go_on(rules, &mut FLOWS_AT_ONCE.clone(), &mut remains);
        }
        loop {
            let (_, key) = self.by_size.last()?;
            let first = *self.groups.get(key)?.first()?;
            match rules.get(first.rule) {
                Some(rule) if rank(rule) == Some(first) => return Some(first.rule),
                Some(rule) => self.put(rule),
                None => self.remove(first.rule),
            }
        }
    }

    fn in_group(&mut self, key: GroupKey, change: impl FnOnce(&mut BTreeSet<Rank>) -> bool) {
        let group = self.groups.entry(key.clone()).or_default();
        let before = group.len();
        change(group);
        let after = group.len();
        if after == 0 {
            self.groups.remove(&key);
        }
        self.by_size.remove(&(before, key.clone()));
        if after > 0 {
            self.by_size.insert((after, key));
        }
    }
}

/// The flow's rank; `None` for a flow without a timeout, which is not evictable.
fn rank(rule: &Rule) -> Option<Rank> {
    let expires = timeouts::expiry(rule)?;
    Some(Rank { importance: rule.importance, expires, rule: rule.id })
}

impl Ofproto {
    /// Evicts a flow of a table. Returns whether there was one.
    pub(crate) fn evict(&mut self, id: BridgeId, table: TableId, now: Instant) -> bool {
        let Some(ledger) = self.ledgers.get_mut(&id) else { return false };
        let Some(rule) = ledger.evictions.choose(table, &self.rules) else { return false };
        self.delete_rule(rule, RemovedReason::Eviction, now);
        true
    }

    /// Evicts flows from tables above their limit, as far as flows are evictable, a bounded number. Returns whether
    /// there may be more, which [`Self::go_on`] evicts.
    pub(crate) fn evict_excess(&mut self, id: BridgeId, now: Instant) -> bool {
        let has_more = self.evict_some(id, now);
        match has_more {
            true => self.evicting.insert(id),
            false => self.evicting.remove(&id),
        };
        has_more
    }

    fn evict_some(&mut self, id: BridgeId, now: Instant) -> bool {
        let Some(bridge) = self.bridges.get(id) else { return false };
        // The right one is known only when all are.
        let is_complete = self.ledger(id).is_some_and(|ledger| ledger.evictions.is_complete());
        if self.is_held || !is_complete {
            return true;
        }
        let numbers: Vec<u8> = bridge.config.tables.keys().copied().collect();
        let mut left = EVICTED_AT_ONCE;
        for table in numbers.into_iter().map(TableId) {
            let excess = self.bridges.get(id).map_or(0, |bridge| bridge.tables.excess(table, 0));
            left -= (0..excess.min(left)).take_while(|_| self.evict(id, table, now)).count();
        }
        left == 0
    }
}

#[cfg(test)]
mod tests;
