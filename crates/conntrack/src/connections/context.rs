//! A thread's own data for connection tracking.

use crate::connections::large_zones::LargeZones;
use crate::counters::Counters;
use base::Instant;
use std::sync::Arc;
use table::{Id, Quota, Share, Spare};

/// A thread's own data for connection tracking.
pub(crate) struct ThreadContext {
    pub(super) spares: [Spare; 2],
    pub(super) share: Share,
    pub quota: Arc<Quota>,
    /// New connections until this thread computes the room again; then what was left, if no more
    /// than the reserve.
    pub until_look: u32,
    pub left_in_reserve: Option<u32>,
    pub large_zones: LargeZones,
    /// The entries of an early-drop sample; kept for its memory.
    pub sampled: Vec<Id>,
    /// The thread's place among the shards.
    pub(super) shard: u16,
    pub random: fastrand::Rng,
    /// Counts since the last [`Connections::publish`].
    pub counters: Counters,
    /// Counts of an update that may not take place; zero otherwise.
    pub trial: Counters,
    /// The time of the present batch, and whether a watcher is registered.
    pub now: Instant,
    pub is_watched: bool,
    /// Expired connections that this thread ended and has to take out.
    pub(super) expired: Vec<Id>,
}

impl ThreadContext {
    /// The shard whose wheel has this thread's connections.
    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// Ends a trial. Its counts are added if the update took place.
    #[cold]
    pub fn settle_trial(&mut self, came_to_pass: bool) {
        let trial = std::mem::take(&mut self.trial);
        if came_to_pass {
            self.counters.add(&trial);
        }
    }
}
