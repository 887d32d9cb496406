//! A megaflow for readers outside, and its links.

use crate::links::Links;
use ::flow::{Action, FlowId, FlowKey, FlowStats, Mask, Match};
use base::{Instant, WorkerId};
use std::sync::Arc;

/// A megaflow of one worker.
#[derive(Clone, Debug)]
pub struct DatapathFlow {
    /// Its number.
    pub id: FlowId,
    /// Its worker.
    pub worker: WorkerId,
    /// Its match.
    pub matching: Match,
    /// The key of the packet that it was translated for, with the datapath's port numbers.
    pub key: FlowKey,
    /// Its actions.
    pub actions: Arc<[Action]>,
    /// Its statistics at the last dump.
    pub stats: FlowStats,
    /// When it was installed.
    pub created: Instant,
    pub(crate) links: Arc<Links>,
}

impl DatapathFlow {
    /// A flow put by a command, without OpenFlow flows and with zero statistics.
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

    /// Whether a command put it, so that its match is the command's.
    pub fn is_by_hand(&self) -> bool {
        *self.links == Links::default()
    }
}

/// Counts of megaflows, for `upcall/show`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InstalledCounters {
    /// Installed now.
    pub current: usize,
    /// The highest number so far.
    pub max: usize,
    /// Misses answered without a megaflow because of the flow limit.
    pub over_limit: u64,
    /// Megaflows deleted for idleness.
    pub idle: u64,
    /// Megaflows deleted because their translation changed.
    pub outdated: u64,
    /// Megaflows whose actions were changed.
    pub changed: u64,
    /// Megaflows revalidated because a dependency changed.
    pub revalidated: u64,
}
