//! What a megaflow's packets count for, and what its translation depends on.

use crate::dependency::Dependency;
use crate::effect::Effect;
use crate::ids::{BridgeId, RuleId};
use crate::lookup::{Added, Lookup};
use base::{RecircId, TableId};
use flow::FlowStats;
use std::ops::Range;

/// The part of a translation behind the encapsulation of a tunnel, which counts outer packets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OuterPart {
    pub rules: Range<usize>,
    pub effects: Range<usize>,
    /// Bytes of the outer headers. Parts may nest; packets of an inner part have both headers.
    pub header_len: usize,
}

impl OuterPart {
    /// Statistics of packets within these parts: each packet is longer by their headers (ovs:
    /// `ofproto/ofproto-dpif-xlate-cache.c`, `XC_TUNNEL_HEADER`).
    fn lengthen<'a>(parts: impl Iterator<Item = &'a OuterPart>, inner: &FlowStats) -> FlowStats {
        let header_len: usize = parts.map(|part| part.header_len).sum();
        FlowStats { bytes: inner.bytes + inner.packets * header_len as u64, ..*inner }
    }
}

/// What a megaflow's packets count for, and what its translation depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Links {
    pub rules: Vec<RuleId>,
    pub effects: Vec<Effect>,
    /// The parts of `rules` and `effects` that count outer packets.
    pub outer_parts: Vec<OuterPart>,
    /// Frozen states that it refers to, its own included.
    pub recircs: Vec<RecircId>,
    /// Its dependencies, each once: a change of one triggers revalidation.
    pub dependencies: Vec<Dependency>,
    /// Its lookups in flow tables.
    pub lookups: Vec<Lookup>,
}

impl Links {
    /// Whether packets count for the same flows and have the same effects as with `other`.
    pub fn counts_like(&self, other: &Links) -> bool {
        (&self.rules, &self.effects, &self.outer_parts)
            == (&other.rules, &other.effects, &other.outer_parts)
    }

    /// The statistics to add to the flow at this index of `rules`, for a megaflow that counted `inner`.
    pub fn stats_of_rule(&self, at: usize, inner: &FlowStats) -> FlowStats {
        let parts = self.outer_parts.iter().filter(|part| part.rules.contains(&at));
        OuterPart::lengthen(parts, inner)
    }

    /// The same for the effect at this index of `effects`.
    pub fn stats_of_effect(&self, at: usize, inner: &FlowStats) -> FlowStats {
        let parts = self.outer_parts.iter().filter(|part| part.effects.contains(&at));
        OuterPart::lengthen(parts, inner)
    }

    /// Clears everything, and keeps the memory.
    pub fn clear(&mut self) {
        let Links { rules, effects, outer_parts, recircs, dependencies, lookups } = self;
        rules.clear();
        effects.clear();
        outer_parts.clear();
        recircs.clear();
        dependencies.clear();
        lookups.clear();
    }

    /// All dependencies, lookups included, each once.
    pub fn depends_on(&self) -> impl Iterator<Item = Dependency> {
        let tables = self.places(|_| true);
        let tables = tables.map(|(bridge, table)| Dependency::Table { bridge, table });
        let rewritten = self.places(|lookup| !lookup.has_headers());
        let rewritten =
            rewritten.map(|(bridge, table)| Dependency::RewrittenTable { bridge, table });
        let rules = self.rules.iter().enumerate().filter_map(|(at, rule)| {
            (!self.rules[..at].contains(rule)).then_some(Dependency::Rule(*rule))
        });
        self.dependencies.iter().copied().chain(tables).chain(rewritten).chain(rules)
    }

    /// Whether some lookup could find an added flow, as far as registers and other pipeline fields tell.
    pub fn may_find(&self, added: &Added) -> bool {
        self.lookups.iter().any(|lookup| lookup.may_find(added))
    }

    /// The same for lookups after a header may have been rewritten.
    pub fn may_find_rewritten(&self, added: &Added) -> bool {
        let mut lookups = self.lookups.iter().filter(|lookup| !lookup.has_headers());
        lookups.any(|lookup| lookup.may_find(added))
    }

    /// The tables of some lookups, each once.
    fn places(&self, is_in: fn(&Lookup) -> bool) -> impl Iterator<Item = (BridgeId, TableId)> {
        let lookups = self.lookups.iter().enumerate().filter(move |(_, it)| is_in(it));
        let is_first = move |at: usize, it: &Lookup| {
            let mut before = self.lookups[..at].iter().filter(|before| is_in(before));
            before.all(|before| before.place() != it.place())
        };
        lookups.filter(move |(at, it)| is_first(*at, it)).map(|(_, it)| it.place())
    }
}
