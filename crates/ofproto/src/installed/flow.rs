//! A megaflow as others see it, and what it stands for.

use crate::lookup::Lookup;
use crate::revalidate::Dependency;
use crate::rule::RuleId;
use crate::translate::Effect;
use ::flow::{Action, FlowId, FlowKey, FlowStats, Mask, Match};
use base::{Instant, RecircId, WorkerId};
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

/// What a megaflow stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Links {
    pub rules: Vec<RuleId>,
    pub effects: Vec<Effect>,
    /// Frozen states that it names, its own among them.
    pub recircs: Vec<RecircId>,
    /// What it must be translated again for when it changes, each once.
    pub dependencies: Vec<Dependency>,
    /// How it was looked up in flow tables.
    pub lookups: Vec<Lookup>,
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
