//! A megaflow as others see it, and what it stands for.

use crate::bridge::BridgeId;
use crate::lookup::{Added, Lookup};
use crate::revalidate::Dependency;
use crate::rule::RuleId;
use crate::translate::Effect;
use ::flow::{Action, FlowId, FlowKey, FlowStats, Mask, Match};
use base::{Instant, RecircId, TableId, WorkerId};
use std::ops::Range;
use std::sync::Arc;

/// A megaflow of one worker.
#[derive(Clone, Debug)]
pub struct DatapathFlow {
    /// Its number.
    pub id: FlowId,
    /// Its worker.
    pub worker: WorkerId,
    /// Which packets.
    pub matching: Match,
    /// The key of the packet that it was made for, with the datapath's port numbers.
    pub key: FlowKey,
    /// What is done with them.
    pub actions: Arc<[Action]>,
    /// What it had carried at the last dump.
    pub stats: FlowStats,
    /// When it was put there.
    pub created: Instant,
    pub(crate) links: Arc<Links>,
}

impl DatapathFlow {
    /// A flow that stands for no OpenFlow flow and has carried nothing.
    pub fn by_hand(
        id: FlowId,
        worker: WorkerId,
        (key, mask): (&FlowKey, &Mask),
        actions: Arc<[Action]>,
        created: Instant,
    ) -> DatapathFlow {
        DatapathFlow {
            id,
            worker,
            matching: Match::new(key, mask),
            key: key.clone(),
            actions,
            stats: FlowStats::default(),
            created,
            links: Arc::default(),
        }
    }

    /// Whether it stands for no OpenFlow flow, so that its match is a command's.
    pub fn is_by_hand(&self) -> bool {
        *self.links == Links::default()
    }
}

/// Flows and effects of packets that have outer headers in front by then.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OuterPart {
    pub rules: Range<usize>,
    pub effects: Range<usize>,
    /// Bytes of the outer headers. Within a part there may be another, whose packets have both headers.
    pub header_len: usize,
}

impl OuterPart {
    /// What packets count where these parts lie around them: each packet is longer by their headers
    /// (ovs: `ofproto/ofproto-dpif-xlate-cache.c`, `XC_TUNNEL_HEADER`).
    fn lengthen<'a>(parts: impl Iterator<Item = &'a OuterPart>, inner: &FlowStats) -> FlowStats {
        let header_len: usize = parts.map(|part| part.header_len).sum();
        FlowStats { bytes: inner.bytes + inner.packets * header_len as u64, ..*inner }
    }
}

/// What a megaflow stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Links {
    pub rules: Vec<RuleId>,
    pub effects: Vec<Effect>,
    /// The parts of both that count outer packets.
    pub outer_parts: Vec<OuterPart>,
    /// Frozen states that it names, its own among them.
    pub recircs: Vec<RecircId>,
    /// What it must be translated again for when it changes, each once.
    pub dependencies: Vec<Dependency>,
    /// How it was looked up in flow tables.
    pub lookups: Vec<Lookup>,
}

impl Links {
    /// What packets of a megaflow that counts `inner` count for its flow at this place of `rules`.
    pub fn stats_of_rule(&self, at: usize, inner: &FlowStats) -> FlowStats {
        let parts = self.outer_parts.iter().filter(|part| part.rules.contains(&at));
        OuterPart::lengthen(parts, inner)
    }

    /// What they count for the effect at this place of `effects`.
    pub fn stats_of_effect(&self, at: usize, inner: &FlowStats) -> FlowStats {
        let parts = self.outer_parts.iter().filter(|part| part.effects.contains(&at));
        OuterPart::lengthen(parts, inner)
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        let Links { rules, effects, outer_parts, recircs, dependencies, lookups } = self;
        rules.clear();
        effects.clear();
        outer_parts.clear();
        recircs.clear();
        dependencies.clear();
        lookups.clear();
    }

    /// Everything that flows which stand for this depend on, each once.
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

    /// Whether some lookup could find a flow that is added, as far as registers and the like say.
    pub fn may_find(&self, added: &Added) -> bool {
        self.lookups.iter().any(|lookup| lookup.may_find(added))
    }

    /// The same of lookups of packets of which some header may have been rewritten.
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

/// Counts of megaflows, for `upcall/show`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InstalledCounters {
    /// In the datapath now.
    pub current: usize,
    /// The most there have been.
    pub max: usize,
    /// Misses that were answered without a megaflow because there were too many.
    pub over_limit: u64,
    /// Megaflows that went because they had nothing to do.
    pub idle: u64,
    /// Megaflows that went because the tables say something else now.
    pub outdated: u64,
    /// Megaflows that were given other actions.
    pub changed: u64,
    /// Megaflows that were translated again because something they depend on had changed.
    pub revalidated: u64,
}
