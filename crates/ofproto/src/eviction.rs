//! Which flow of a full table is evicted (ovs: `ofproto/ofproto.c`, `choose_rule_to_evict`,
//! `rule_eviction_priority`).

use crate::ids::RuleId;
use crate::rule::{Rule, Rules};
use crate::table::Tables;
use crate::timeouts;
use base::{Instant, TableId, limits};
use hashbrown::HashMap;
use openflow::text::NamedBits;
use std::collections::{BTreeMap, BTreeSet};

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
                Some((table, fields)) => {
                    let known = self.by_table.get(&number);
                    if known.is_none_or(|known| known.fields != *fields) {
                        let mut eviction = Eviction::new(fields.to_vec());
                        let own = table.flows.iter().filter_map(|found| rules.get(*found.rule));
                        own.for_each(|rule| eviction.put(rule));
                        self.by_table.insert(number, eviction);
                    }
                }
            }
        }
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
}

impl Eviction {
    /// Without flows, grouped by these fields.
    pub fn new(fields: Vec<NamedBits>) -> Self {
        Eviction { fields, ..Eviction::default() }
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

#[cfg(test)]
mod tests;
