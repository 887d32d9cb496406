//! Which flow of a full table gives way (ovs: `ofproto/ofproto.c`, `choose_rule_to_evict`,
//! `rule_eviction_priority`).

use crate::rule::{Rule, RuleId, Rules};
use crate::table::Tables;
use crate::timeouts;
use base::{Instant, TableId, limits};
use hashbrown::HashMap;
use openflow::text::NamedBits;
use std::collections::{BTreeMap, BTreeSet};

/// What flows of one group agree in: their values of the fields that the table is grouped by.
type GroupKey = Vec<u128>;

/// The flows that may give way, by the number of their table.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    by_table: BTreeMap<u8, Eviction>,
}

impl Evictions {
    /// Follows how tables are configured: begins to keep the flows that may give way in order, or stops.
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

    /// Takes a flow in, or notes its change.
    pub fn put(&mut self, rule: &Rule) {
        if let Some(eviction) = self.by_table.get_mut(&rule.table.0) {
            eviction.put(rule);
        }
    }

    /// Forgets a flow.
    pub fn remove(&mut self, rule: &Rule) {
        if let Some(eviction) = self.by_table.get_mut(&rule.table.0) {
            eviction.remove(rule.id);
        }
    }

    /// The flow of a table that gives way to another; `None` if all stay.
    pub fn choose(&mut self, table: TableId, rules: &Rules) -> Option<RuleId> {
        self.by_table.get_mut(&table.0)?.choose(rules)
    }
}

/// The order of eviction within a group: the least important flow first, then the one that would
/// time out first, then the oldest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    importance: u16,
    expires: Instant,
    rule: RuleId,
}

/// The flows of a table that may give way: those with a timeout. The largest group gives first, so
/// that a sender of many flows does not take the room of others.
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

    /// Takes a flow in, or notes its change.
    pub fn put(&mut self, rule: &Rule) {
        self.remove(rule.id);
        let Some(rank) = rank(rule) else { return };
        let key: GroupKey = self.fields.iter().map(|bits| bits.of(&rule.matching)).collect();
        self.places.insert(rule.id, (key.clone(), rank));
        self.in_group(key, |group| group.insert(rank));
    }

    /// Forgets a flow.
    pub fn remove(&mut self, rule: RuleId) {
        if let Some((key, rank)) = self.places.remove(&rule) {
            self.in_group(key, |group| group.remove(&rank));
        }
    }

    /// The flow that gives way next. Packets put off the expiry of flows without being told here, so
    /// the rank of the first flow is looked at anew; it can only have got worse.
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

/// The flow's rank, unless it has no timeout: such flows stay.
fn rank(rule: &Rule) -> Option<Rank> {
    let expires = timeouts::expiry(rule)?;
    Some(Rank { importance: rule.importance, expires, rule: rule.id })
}

#[cfg(test)]
mod tests;
