//! A bridge's flow tables.

use crate::rule::{Rule, RuleId, Rules};
use base::{TableId, limits};
use classifier::{Classifier, PrefixField};
use flow::{FlowKey, Mask, Match};
use openflow::message::TableStats;
use std::collections::BTreeMap;

/// One flow table: finds flows by packets and by their match.
#[derive(Debug, Default)]
pub struct Table {
    pub(crate) flows: Classifier<RuleId>,
    /// Packets that found a flow.
    pub(crate) matched: u64,
    /// Packets that found none.
    pub(crate) missed: u64,
}

/// All tables of a bridge. A table costs nothing until a flow is put into it.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<Option<Box<Table>>>,
    /// The fields whose prefixes are tracked, of tables that do not have the defaults.
    prefixes: BTreeMap<u8, Vec<PrefixField>>,
}

impl Default for Tables {
    fn default() -> Self {
        let mut tables = Vec::new();
        tables.resize_with(limits::TABLES, || None);
        Tables { tables, prefixes: BTreeMap::new() }
    }
}

impl Tables {
    /// Says of which fields tables track prefixes; those that are not named have the defaults.
    pub fn set_prefixes(&mut self, prefixes: BTreeMap<u8, Vec<PrefixField>>) {
        self.prefixes = prefixes;
        for (number, table) in self.tables.iter_mut().enumerate() {
            if let Some(table) = table {
                let fields = self.prefixes.get(&(number as u8)).map(Vec::as_slice);
                table.flows.set_prefix_fields(fields.unwrap_or(PrefixField::DEFAULT));
            }
        }
    }

    /// The flow of highest priority that the packet matches; what decided it is made to matter in
    /// `wildcards`.
    pub fn lookup(&self, table: TableId, key: &FlowKey, wildcards: &mut Mask) -> Option<RuleId> {
        self.get(table)?.flows.lookup(key, wildcards).copied()
    }

    /// The flow with just this match and priority.
    pub fn find(&self, table: TableId, matching: &Match, priority: u16) -> Option<RuleId> {
        self.get(table)?.flows.get(matching, priority).copied()
    }

    /// Flows that match nothing that `matching` does not, by table and then in the order of Open
    /// vSwitch's dumps (see [`in_mask_order`]).
    pub fn within(&self, table: Option<TableId>, matching: &Match, rules: &Rules) -> Vec<RuleId> {
        let mut found = Vec::new();
        for flows in self.some(table) {
            let ids = flows.matching_within(matching).map(|found| *found.rule);
            found.append(&mut in_mask_order(ids, rules));
        }
        found
    }

    /// Whether a flow of this priority could match a packet that `matching` matches, too; a flow
    /// of just this match does not count.
    pub fn overlaps(&self, table: TableId, matching: &Match, priority: u16) -> bool {
        let Some(table) = self.get(table) else { return false };
        table.flows.overlapping(matching, priority).any(|found| found.matching() != *matching)
    }

    /// All flows.
    pub fn all(&self) -> Vec<RuleId> {
        self.some(None).flat_map(|flows| flows.iter().map(|found| *found.rule)).collect()
    }

    /// Puts a flow in. Gives the one that had its place.
    pub(crate) fn insert(
        &mut self,
        table: TableId,
        matching: &Match,
        priority: u16,
        rule: RuleId,
    ) -> Option<RuleId> {
        self.get_mut(table)?.flows.insert(matching, priority, rule)
    }

    /// Takes a flow out.
    pub(crate) fn remove(
        &mut self,
        table: TableId,
        matching: &Match,
        priority: u16,
    ) -> Option<RuleId> {
        self.tables.get_mut(usize::from(table.0))?.as_mut()?.flows.remove(matching, priority)
    }

    /// How many flows the table has.
    pub fn len(&self, table: TableId) -> usize {
        self.get(table).map_or(0, |table| table.flows.len())
    }

    /// Counts lookups in a table.
    pub(crate) fn count_lookup(&mut self, table: TableId, found: bool, packets: u64) {
        if let Some(table) = self.get_mut(table) {
            let counter = if found { &mut table.matched } else { &mut table.missed };
            *counter += packets;
        }
    }

    /// What each table says of itself.
    pub fn stats(&self) -> Vec<TableStats> {
        let empty = Table::default();
        let stats = |(number, table): (usize, &Option<Box<Table>>)| {
            let table = table.as_deref().unwrap_or(&empty);
            TableStats {
                table: TableId(number as u8),
                name: String::new(),
                active: table.flows.len() as u32,
                max_entries: limits::FLOWS_PER_TABLE as u32,
                lookups: table.matched + table.missed,
                matched: table.matched,
            }
        };
        self.tables.iter().enumerate().map(stats).collect()
    }

    fn get(&self, table: TableId) -> Option<&Table> {
        self.tables.get(usize::from(table.0))?.as_deref()
    }

    fn get_mut(&mut self, number: TableId) -> Option<&mut Table> {
        let place = self.tables.get_mut(usize::from(number.0))?;
        Some(place.get_or_insert_with(|| {
            let mut table = Box::<Table>::default();
            if let Some(fields) = self.prefixes.get(&number.0) {
                table.flows.set_prefix_fields(fields);
            }
            table
        }))
    }

    fn some(&self, table: Option<TableId>) -> impl Iterator<Item = &Classifier<RuleId>> {
        let chosen = move |number: usize| table.is_none_or(|table| usize::from(table.0) == number);
        let tables = self.tables.iter().enumerate().filter(move |(number, _)| chosen(*number));
        tables.filter_map(|(_, table)| Some(&table.as_deref()?.flows))
    }
}

/// Flows as Open vSwitch's dumps have them: those of one mask stand together, the mask whose best
/// flow has the highest priority first, and within a mask the flow put there first. The classifier
/// keeps its masks in just that order, for it looks them up in it (ovs: `lib/classifier.c`,
/// `cls_cursor_start`; `lib/pvector.c`), so that only flows of one mask are left to be sorted.
fn in_mask_order(ids: impl Iterator<Item = RuleId>, rules: &Rules) -> Vec<RuleId> {
    let mut found: Vec<&Rule> = ids.filter_map(|id| rules.get(id)).collect();
    for of_one_mask in found.chunk_by_mut(|a, b| a.matching.mask() == b.matching.mask()) {
        of_one_mask.sort_by_key(|rule| rule.order);
    }
    found.into_iter().map(|rule| rule.id).collect()
}
