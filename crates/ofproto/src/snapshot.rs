//! Snapshots: the state that translation reads, published by the thread that owns it.
//!
//! A snapshot shares everything that has not changed since; a change copies only the short pieces that it
//! touches. The results of translations are beside it, under one lock: the installed megaflows and the queue
//! of those to revalidate ([`Megaflows`]). A megaflow translated from an outdated snapshot is revalidated as
//! soon as it is installed.

use crate::Ofproto;
use crate::bridges::Bridges;
use crate::credits::Credits;
use crate::features::Features;
use crate::ids::BridgeId;
use crate::installed::Installed;
use crate::recirc::RecircTable;
use crate::rule::Rules;
use crate::selection::Selection;
use crate::translate::World;
use crate::work::{Patience, Work};
use base::{Instant, Zone};
use openflow::message::FlowStatsRequest;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use table::{Published, Remains};
use tunnel::Underlay;

/// The state that translation reads, and the limits of installation.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub bridges: Bridges,
    pub rules: Rules,
    pub recirc: Arc<RecircTable>,
    pub timeout_policies: Arc<BTreeMap<Zone, u32>>,
    pub underlay: Arc<Underlay>,
    pub features: Features,
    /// Maximum number of megaflows, and their maximum idle time.
    pub flow_limit: usize,
    pub max_idle: Duration,
    pub patience: Patience,
}

/// The results of translations.
#[derive(Debug, Default)]
pub(crate) struct Megaflows {
    pub installed: Installed,
    /// Megaflows still to be revalidated.
    pub work: Work,
    /// Effects of answered packets, until the owner of the state applies them.
    pub credits: Credits,
}

/// The snapshot and the megaflows, shared by all threads.
pub(crate) type Shared = Published<Snapshot, Megaflows>;

/// The megaflows, locked.
pub(crate) type Locked<'a> = table::Locked<'a, Snapshot, Megaflows>;

/// Returns the [`World`] of a value that has the tables in fields of these names.
macro_rules! world {
    ($tables:expr, $now:expr) => {
        World {
            bridges: &$tables.bridges,
            rules: &$tables.rules,
            recirc: &$tables.recirc,
            timeout_policies: &$tables.timeout_policies,
            underlay: &$tables.underlay,
            features: $tables.features,
            packet_len: None,
            now: $now,
        }
    };
}

impl Snapshot {
    pub fn world(&self, now: Instant) -> World<'_> {
        world!(self, now)
    }

    /// Frees what no other snapshot has, a part at a time.
    fn hand_over(self, remains: &mut Remains) {
        self.bridges.hand_over(remains);
        self.rules.hand_over(remains);
    }
}

/// Parts of replaced snapshots that are freed in a step: a flow takes some 0.4 µs.
const PARTS_AT_ONCE: usize = 2048;

impl Ofproto {
    /// The current state as translation reads it, without a snapshot.
    pub(crate) fn world(&self, now: Instant) -> World<'_> {
        world!(self, now)
    }

    /// A snapshot of the current state.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            bridges: self.bridges.clone(),
            rules: self.rules.clone(),
            recirc: Arc::clone(&self.recirc),
            timeout_policies: Arc::clone(&self.timeout_policies),
            underlay: Arc::clone(&self.underlay),
            features: self.features,
            flow_limit: self.flow_limit,
            max_idle: Duration::from_millis(self.config.max_idle_ms),
            patience: Patience::new(&self.config),
        }
    }

    /// Publishes the changes since the last call, and queues the megaflows that depend on them.
    pub fn publish(&mut self) {
        if self.is_held {
            return;
        }
        let is_changed = self.bridges.take_changed() | self.rules.take_changed();
        let is_changed = is_changed | std::mem::take(&mut self.is_changed);
        if !is_changed && self.changes.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut self.changes);
        let snapshot = self.snapshot();
        self.shared.publish(snapshot, |Megaflows { installed, work, .. }| {
            work.add(changes, installed);
        });
        self.own_handler.refresh();
        self.own_revalidator.refresh();
    }

    /// Begins or ends a change of several steps: before its end nothing is published, so that no packet sees a part of it.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Frees some parts of the snapshots that were replaced and that no thread reads any more. Returns whether there are
    /// more.
    pub(crate) fn free_snapshots(&mut self) -> bool {
        while let Some(snapshot) = self.shared.reclaim() {
            snapshot.hand_over(&mut self.remains);
        }
        self.remains.free_some(PARTS_AT_ONCE)
    }

    /// The flows that a request selects, as packets see them: of a change that is not complete, none.
    pub(crate) fn visible(&self, id: BridgeId, request: &FlowStatsRequest) -> Option<Selection> {
        let placed = self.placed_request(id, request).ok()?.into_owned();
        if !self.is_held {
            return self.selection(id, placed);
        }
        let snapshot = self.shared.read();
        Some(Selection::new(&snapshot.bridges.get(id)?.tables, &snapshot.rules, placed))
    }

    /// Frees a snapshot of flows a part at a time.
    pub(crate) fn free(&mut self, selection: Selection) {
        selection.hand_over(&mut self.remains);
    }

    /// Frees a list a part at a time.
    pub(crate) fn free_list<T: Send + 'static>(&mut self, list: Vec<T>) {
        self.remains.add(list);
    }

    /// The megaflows, locked.
    pub(crate) fn megaflows_mut(&self) -> Locked<'_> {
        self.shared.lock()
    }
}
