//! What translation reads, published by the thread that owns it for those that translate.
//!
//! A snapshot shares all that no change has touched since; a change copies short pieces of what it
//! touches. Beside it, under one lock, is what was made of snapshots: the installed megaflows, and which
//! of them are to be translated again ([`Megaflows`]). A megaflow that a handler made of an older
//! snapshot than the newest is translated again as soon as it is installed.

use crate::Ofproto;
use crate::bridges::Bridges;
use crate::credits::Credits;
use crate::features::Features;
use crate::installed::Installed;
use crate::recirc::RecircTable;
use crate::revalidate::{Patience, Work};
use crate::rule::Rules;
use crate::translate::World;
use base::{Instant, Zone};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use table::Published;
use tunnel::Underlay;

/// What translation reads, and how its answers are installed.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub bridges: Bridges,
    pub rules: Rules,
    pub recirc: Arc<RecircTable>,
    pub timeout_policies: Arc<BTreeMap<Zone, u32>>,
    pub underlay: Arc<Underlay>,
    pub features: Features,
    /// How many megaflows there may be, and how long they may be idle.
    pub flow_limit: usize,
    pub max_idle: Duration,
    pub patience: Patience,
}

/// What was made of snapshots.
#[derive(Debug, Default)]
pub(crate) struct Megaflows {
    pub installed: Installed,
    /// Which megaflows are still to be looked through.
    pub work: Work,
    /// What packets did that were answered, until the owner of the state applies it.
    pub credits: Credits,
}

/// Snapshots and megaflows, as all threads share them.
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
}

impl Ofproto {
    /// Returns what translation reads, without a snapshot.
    pub(crate) fn world(&self, now: Instant) -> World<'_> {
        world!(self, now)
    }

    /// What translation reads now.
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

    /// Has other threads see what changed since the last call, and megaflows that depend on it be looked
    /// through.
    pub fn publish(&mut self) {
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

    /// The megaflows, as long as no other thread is to see or change them.
    pub(crate) fn megaflows_mut(&self) -> Locked<'_> {
        self.shared.lock()
    }
}
