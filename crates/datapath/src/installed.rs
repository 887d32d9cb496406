//! A flow in a worker's table, and what the pipeline needs of it.

use crate::flow_kind::FlowKind;
use base::Instant;
use classifier::Handle;
use flow::{Action, FlowId, FlowStats};
use std::sync::Arc;

/// A flow in a worker's table.
#[derive(Debug)]
pub struct InstalledFlow {
    /// Its number.
    pub id: FlowId,
    /// What is done with its packets; lent out while it is done.
    pub(crate) actions: Option<Arc<[Action]>>,
    /// What it has carried.
    pub stats: FlowStats,
    /// Whether and how its packets are cached.
    pub(crate) kind: FlowKind,
    /// Changes with the actions; no two flows, and no two lists of one flow, have the same.
    pub(crate) version: u64,
    /// Whether the packets are tracked.
    pub(crate) tracks: bool,
    /// Whether the actions have a `ct_clear`, which comes before any `ct`.
    pub(crate) clears: bool,
    /// Whether packets are encapsulated after a `ct`, or decapsulated: what their path trace needs is then
    /// not what they are after the last action.
    pub(crate) tunnels: bool,
    /// Bytes of each packet that do not count ([`FlowKey::unseen_bytes`](flow::FlowKey::unseen_bytes)).
    pub(crate) unseen_bytes: u8,
    /// Whether it is in the list of flows that the next dump tells of.
    pub(crate) reported: bool,
}

impl InstalledFlow {
    /// Counts packets. Returns whether they are the first since the last dump.
    #[inline]
    pub(crate) fn count(&mut self, now: Instant, packets: u64, bytes: u64, tcp_flags: u16) -> bool {
        self.stats.packets += packets;
        self.stats.bytes += bytes;
        self.stats.used = Some(now);
        self.stats.tcp_flags |= tcp_flags;
        !std::mem::replace(&mut self.reported, true)
    }

    /// What it has carried, as dumps tell it.
    pub(crate) fn told(&self) -> FlowStats {
        let unseen = self.stats.packets * u64::from(self.unseen_bytes);
        FlowStats { bytes: self.stats.bytes.saturating_sub(unseen), ..self.stats }
    }

    /// Whether the flow ends a path without connection tracking, by actions that can be cached.
    pub(crate) fn ends_untracked(&self) -> bool {
        !self.tracks && matches!(self.kind, FlowKind::Terminal(_))
    }
}

/// A flow that a run of packets hit, as the pipeline needs it.
pub(crate) struct HitFlow {
    pub handle: Handle,
    pub version: u64,
    pub tracks: bool,
    pub clears: bool,
    pub tunnels: bool,
    pub actions: Arc<[Action]>,
}
