//! A bridge's flow tables.

use crate::ids::RuleId;
use crate::rule::Rule;
use base::{TableId, limits};
use classifier::{Classifier, Clause, PrefixField};
use flow::{Field, FlowKey, Mask, Match};
use openflow::action::Action;
use openflow::message::{TableMiss, TableStats};
use openflow::message::{TableReason, VacancyEvents};
use openflow::text::NamedBits;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use table::{HashTrie, Remains};

/// The configuration of a flow table (table `Flow_Table` of the database).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableConfig {
    /// Its name in OpenFlow.
    pub name: Option<String>,
    /// Maximum number of flows, if not [`limits::FLOWS_PER_TABLE`].
    pub flow_limit: Option<u32>,
    /// Whether a full table evicts a flow for a new one; otherwise the new one is refused.
    pub evicts: bool,
    /// The fields by which flows are grouped for eviction.
    pub groups: Vec<NamedBits>,
    /// The fields with prefix tracking; `None` is the default set.
    pub prefixes: Option<Vec<PrefixField>>,
}

/// One flow table, searchable by packet and by match. A clone is a snapshot that shares unchanged parts.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub(crate) flows: Classifier<RuleId>,
    /// The flows that are clauses of conjunctive matches.
    clauses: HashTrie<(RuleId, Arc<[Clause]>)>,
    config: Arc<TableConfig>,
    pub(crate) controlled: Controlled,
}

/// Lookup counters of a table.
#[derive(Debug, Default)]
struct Lookups {
    /// Packets that matched a flow.
    matched: AtomicU64,
    /// Packets that matched none.
    missed: AtomicU64,
}

impl Table {
    pub(crate) fn config(&self) -> &TableConfig {
        &self.config
    }

    /// Its name, empty if it has none.
    fn name(&self) -> &str {
        self.config.name.as_deref().or(self.controlled.name.as_deref()).unwrap_or_default()
    }

    /// Its flow limit.
    fn limit(&self) -> usize {
        let limit = self.config.flow_limit.map_or(limits::FLOWS_PER_TABLE, |limit| limit as usize);
        limit.min(limits::FLOWS_PER_TABLE)
    }

    fn configure(&mut self, config: TableConfig) {
        let before = std::mem::replace(&mut self.config, Arc::new(config));
        if self.config.name.is_some() {
            self.controlled.name = None;
        }
        if before.prefixes != self.config.prefixes {
            let fields = self.config.prefixes.as_deref();
            self.flows.set_prefix_fields(fields.unwrap_or(PrefixField::DEFAULT));
        }
    }

    /// The free share of the table, in percent; without a limit, of a large table.
    pub(crate) fn vacancy(&self) -> u8 {
        let size = u64::from(self.config.flow_limit.unwrap_or(u32::MAX));
        let free = size.saturating_sub(self.flows.len() as u64);
        (free * 100).checked_div(size).map_or(100, |percent| percent as u8)
    }

    /// The grouping fields of eviction; `None` if the table does not evict.
    pub(crate) fn evicted_by(&self) -> Option<&[NamedBits]> {
        (self.config.evicts || self.controlled.evicts).then_some(&self.config.groups)
    }
}

/// A table's settings by controllers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controlled {
    /// The full table evicts, regardless of the database.
    pub evicts: bool,
    /// The table's name, if the database has none.
    pub name: Option<String>,
    /// The handling of packets that no flow matches; `None` is the default of the connections.
    pub miss: Option<TableMiss>,
    /// The vacancy thresholds, and the next event to send.
    pub vacancy: Option<(VacancyEvents, TableReason)>,
}

/// All tables of a bridge. A table costs nothing while it is empty. A clone is a snapshot.
#[derive(Clone, Debug)]
pub struct Tables {
    tables: Arc<Vec<Option<Arc<Table>>>>,
    /// Lookup counters, also of empty tables.
    lookups: Arc<[Lookups]>,
    /// Tables with vacancy events enabled.
    pub(crate) telling: BTreeSet<u8>,
}

impl Default for Tables {
    fn default() -> Self {
        let mut tables = Vec::new();
        tables.resize_with(limits::TABLES, || None);
        let lookups = (0..limits::TABLES).map(|_| Lookups::default()).collect();
        Tables { tables: Arc::new(tables), lookups, telling: BTreeSet::new() }
    }
}

impl Tables {
    /// Configures the tables; those not named get the defaults. Flows beyond a new limit stay until they are
    /// evicted.
    pub(crate) fn configure(&mut self, configs: &BTreeMap<u8, TableConfig>) {
        let blank = TableConfig::default();
        for number in 0..limits::TABLES as u8 {
            let (wanted, table) = (configs.get(&number), self.get(TableId(number)));
            let is_same = match (wanted, table) {
                (Some(wanted), Some(table)) => *wanted == *table.config,
                (None, Some(table)) => blank == *table.config,
                (Some(_), None) => false,
                (None, None) => true,
            };
            if !is_same && let Some(table) = self.get_mut(TableId(number)) {
                table.configure(wanted.unwrap_or(&blank).clone());
            }
        }
    }

    /// How many flows the table has above its limit, after adding `more`.
    pub(crate) fn excess(&self, table: TableId, more: usize) -> usize {
        match self.get(table) {
            Some(table) => (table.flows.len() + more).saturating_sub(table.limit()),
            None => 0,
        }
    }

    /// The matching flow of highest priority. Adds the bits that decided to `wildcards`.
    pub fn lookup(&self, table: TableId, key: &FlowKey, wildcards: &mut Mask) -> Option<RuleId> {
        let Table { flows, clauses, .. } = self.get(table)?;
        let key = &*looked_up(key);
        // The source of a packet decides its packet type and is in the mask already; the lookup adds none.
        let looked_at = wildcards.has(Field::PacketType);
        let found = if clauses.is_empty() {
            flows.lookup(key, wildcards)
        } else {
            let of = |id: &RuleId| {
                let found = clauses.find(id.hash(), |(of, _)| of == id);
                found.map_or(&[][..], |(_, clauses)| clauses)
            };
            flows.lookup_conjunctive(key, wildcards, of)
        };
        if !looked_at {
            wildcards.set(Field::PacketType, 0);
        }
        found.copied()
    }

    /// The flow with just this match and priority.
    pub fn find(&self, table: TableId, matching: &Match, priority: u16) -> Option<RuleId> {
        self.get(table)?.flows.get(&kept_match(matching), priority).copied()
    }

    /// Whether a flow of this priority could match a packet that `matching` matches; a flow of exactly this
    /// match does not count.
    pub fn overlaps(&self, table: TableId, matching: &Match, priority: u16) -> bool {
        let Some(table) = self.get(table) else { return false };
        let matching = kept_match(matching);
        table.flows.overlapping(&matching, priority).any(|found| {
            let other = found.matching();
            let is_apart = |one: &Match, other: &Match| {
                one.mask().has(Field::EthType) && other.key().get(Field::PacketType) != 0
            };
            other != *matching && !is_apart(&matching, &other) && !is_apart(&other, &matching)
        })
    }

    /// Removes all flows. Returns the tables as they were, and the number of their flows.
    pub(crate) fn clear(&mut self) -> (Tables, usize) {
        let (before, mut count) = (self.clone(), 0);
        for table in Arc::make_mut(&mut self.tables).iter_mut().flatten() {
            count += table.flows.len();
            let fields = table.config.prefixes.as_deref().unwrap_or(PrefixField::DEFAULT);
            *table = Arc::new(Table {
                flows: Classifier::with_prefix_fields(fields),
                clauses: HashTrie::default(),
                config: Arc::clone(&table.config),
                controlled: table.controlled.clone(),
            });
        }
        (before, count)
    }

    /// All flows.
    pub fn all(&self) -> Vec<RuleId> {
        let tables = self.tables.iter().flatten();
        tables.flat_map(|table| table.flows.iter().map(|found| *found.rule)).collect()
    }

    /// Adds a flow, replacing the one of its match and priority.
    pub(crate) fn insert(&mut self, rule: &Rule) {
        let Some(table) = self.get_mut(rule.table) else { return };
        table.flows.insert(&kept_match(&rule.matching.unpack()), rule.priority, rule.id);
        table.clauses.remove(rule.id.hash(), |(of, _)| *of == rule.id);
        let clauses = clauses(&rule.actions);
        if !clauses.is_empty() {
            table.clauses.insert(rule.id.hash(), (rule.id, clauses.into()));
        }
    }

    /// Forgets the clauses of a flow in whose place another one is.
    pub(crate) fn forget_clauses(&mut self, rule: &Rule) {
        if !clauses(&rule.actions).is_empty()
            && let Some(table) = self.get_mut(rule.table)
        {
            table.clauses.remove(rule.id.hash(), |(of, _)| *of == rule.id);
        }
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, rule: &Rule) {
        if self.get(rule.table).is_none() {
            return;
        }
        let Some(table) = self.get_mut(rule.table) else { return };
        table.flows.remove(&kept_match(&rule.matching.unpack()), rule.priority);
        table.clauses.remove(rule.id.hash(), |(of, _)| *of == rule.id);
    }

    /// Counts lookups in a table.
    pub(crate) fn count_lookup(&self, table: TableId, found: bool, packets: u64) {
        if let Some(Lookups { matched, missed }) = self.lookups.get(usize::from(table.0)) {
            let counter = if found { matched } else { missed };
            counter.fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// The configured handling of packets that no flow of the table matches.
    pub(crate) fn miss(&self, table: TableId) -> Option<TableMiss> {
        self.get(table)?.controlled.miss
    }

    /// Statistics of each table.
    pub fn stats(&self) -> Vec<TableStats> {
        let empty = Table::default();
        let stats = |(number, table): (usize, &Option<Arc<Table>>)| {
            let table = table.as_deref().unwrap_or(&empty);
            let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
            let Lookups { matched, missed } = &self.lookups[number];
            let (matched, missed) = (count(matched), count(missed));
            TableStats {
                table: TableId(number as u8),
                name: table.name().to_owned(),
                active: table.flows.len() as u32,
                max_entries: table.limit() as u32,
                lookups: matched + missed,
                matched,
                miss: table.controlled.miss.unwrap_or(TableMiss::Controller),
            }
        };
        self.tables.iter().enumerate().map(stats).collect()
    }

    pub(crate) fn get(&self, table: TableId) -> Option<&Table> {
        self.tables.get(usize::from(table.0))?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: TableId) -> Option<&mut Table> {
        let place = Arc::make_mut(&mut self.tables).get_mut(usize::from(number.0))?;
        Some(Arc::make_mut(place.get_or_insert_default()))
    }

    /// Frees the flows a part at a time.
    pub(crate) fn hand_over(self, remains: &mut Remains) {
        let tables = Arc::into_inner(self.tables).into_iter().flatten().flatten();
        for table in tables.filter_map(Arc::into_inner) {
            table.flows.hand_over(remains);
            table.clauses.hand_over(remains);
        }
    }
}

/// The match under which the classifier stores a flow. Flows on headers match only frames, unless they match
/// `packet_type`. Either they match the Ethernet type, which packets without an Ethernet header lack in a
/// lookup ([`looked_up`]), or the stored match adds the packet type. Few flows need the latter, so most need
/// no further word.
pub(crate) fn kept_match(matching: &Match) -> Cow<'_, Match> {
    let has_type = matching.mask().has(Field::EthType) && matching.key().eth_type() != 0;
    if matching.implies_frames() && !has_type {
        Cow::Owned(matching.clone().with(Field::PacketType, 0))
    } else {
        Cow::Borrowed(matching)
    }
}

/// The key of a lookup: without an Ethernet type if the packet has no Ethernet header.
pub(crate) fn looked_up(key: &FlowKey) -> Cow<'_, FlowKey> {
    if key.get(Field::PacketType) == 0 {
        return Cow::Borrowed(key);
    }
    let mut key = key.clone();
    key.set(Field::EthType, 0);
    Cow::Owned(key)
}

/// Whether a flow's match is at least as specific as `asked`.
pub(crate) fn is_within(flow: &Match, asked: &Match) -> bool {
    let (wider, says_frames) = widened(asked);
    flow.is_within(&wider) && (!says_frames || is_of_frames(flow))
}

/// Returns the match to search with, and whether to filter the result to flows of frames. Most flows of
/// frames do not match `packet_type`, so a search for frames does not match it either.
pub(crate) fn widened(asked: &Match) -> (Cow<'_, Match>, bool) {
    if !asked.mask().has(Field::PacketType) || !is_of_frames(asked) {
        return (Cow::Borrowed(asked), false);
    }
    let mut wider = asked.clone();
    wider.wildcard(Field::PacketType);
    (Cow::Owned(wider), true)
}

/// Whether it matches only frames.
pub(crate) fn is_of_frames(matching: &Match) -> bool {
    let says = matching.mask().has(Field::PacketType);
    matching.implies_frames() || says && matching.key().get(Field::PacketType) == 0
}

/// The conjunctive clauses of a flow.
fn clauses(actions: &[Action]) -> Vec<Clause> {
    let clause = |action: &Action| match action {
        Action::Conjunction(it) => {
            Some(Clause { id: it.id, clause: it.clause, clauses: it.clauses })
        }
        _ => None,
    };
    actions.iter().filter_map(clause).collect()
}
