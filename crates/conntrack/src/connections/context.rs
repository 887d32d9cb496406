//! What a thread works with.

use crate::counters::Counters;
use crate::early_drop::LargeZones;
use base::Instant;
use std::sync::Arc;
use table::{Id, Quota, Share, Spare};

/// What a thread works with.
pub(crate) struct ThreadContext {
    pub(super) spares: [Spare; 2],
    pub(super) share: Share,
    pub quota: Arc<Quota>,
    /// New connections until this thread looks again how much room is left, and what it saw if no more
    /// than the reserve is.
    pub until_look: u32,
    pub left_in_reserve: Option<u32>,
    pub large_zones: LargeZones,
    /// Entries of a zone that are looked at, empty at other times but for its memory.
    pub sampled: Vec<Id>,
    /// Its place among the shards.
    pub(super) shard: u16,
    pub random: fastrand::Rng,
    /// What happened since the last [`Connections::publish`].
    pub counters: Counters,
    /// What happened while something was tried that may not come to pass; zero at other times.
    pub trial: Counters,
    /// The time of what is done, and whether it is noted.
    pub now: Instant,
    pub is_watched: bool,
    /// Connections that this thread ended because their time ran out, still to be taken out.
    pub(super) expired: Vec<Id>,
}

impl ThreadContext {
    /// Where this thread's connections are on a wheel.
    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// Ends a trial; what happened counts if it came to pass.
    #[cold]
    pub fn settle_trial(&mut self, came_to_pass: bool) {
        let trial = std::mem::take(&mut self.trial);
        if came_to_pass {
            self.counters.add(&trial);
        }
    }
}
