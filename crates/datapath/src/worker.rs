//! A worker: its flows, caches and commands.

mod config;
mod credit;
mod dump;

pub use self::config::WorkerConfig;
use self::dump::Dump;
pub use self::dump::LastFlows;
use crate::burst::Burst;
use crate::cache_policy::{self, CachePolicy};
use crate::error_limit::ErrorLimit;
use crate::flow_kind::{FinalActions, FlowKind};
use crate::flow_paths::FlowPaths;
pub use crate::installed::InstalledFlow;
use crate::observer::Observer;
use crate::outer::Outers;
use crate::outside::PortSet;
use crate::path_id::{PathId, PathKind};
use crate::pending::Pending;
use crate::stats::WorkerStats;
use crate::step::{FoundBy, Step};
use crate::unified::{CacheMemory, CacheMemoryRequest, UnifiedCache};
use crate::upcall_queue::UpcallQueue;
use base::{Instant, WorkerId};
use classifier::{ExactCache, Handle, Index, MegaflowTable};
use conntrack::Tracker;
use flow::{DropReason, FlowId, FlowKey, Frame, Match, OffloadOffer, Upcall};
use packet::Pool;
use std::sync::Arc;

/// Forwards packets. Owned by one thread.
pub struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) tracker: Tracker,
    pub(crate) upcalls: Arc<UpcallQueue>,
    pub(crate) flows: MegaflowTable<InstalledFlow>,
    exact: ExactCache,
    pub(crate) unified: UnifiedCache,
    pub(crate) flow_paths: FlowPaths,
    pub(crate) cache_policy: CachePolicy,
    /// The classes of tunnels' outer packets.
    pub(crate) outers: Outers,
    /// The ports whose packets some flow has ever decapsulated.
    pub(crate) opens_from: PortSet,
    /// Changes with every change of a flow.
    pub(crate) epoch: u64,
    pub(crate) pool: Pool,
    pub(crate) stats: WorkerStats,
    pub(crate) config: WorkerConfig,
    /// The clock for the time at which an upcall is queued.
    pub(crate) clock: Option<fn() -> Instant>,
    /// Told of every upcall before it is queued.
    pub(crate) on_queued: Option<fn(&Upcall)>,
    /// When the first upcall of the current batch was queued.
    pub(crate) queued: Option<Instant>,
    pub(crate) random: u32,
    /// The identification of the last outer packet that was fragmented.
    pub(crate) fragment_id: u16,
    /// Limits the rate of ICMP errors about packets too large for a tunnel.
    pub(crate) error_limit: ErrorLimit,
    pub(crate) seed: u32,
    /// The batch being processed; `None` meanwhile.
    pub(crate) burst: Option<Box<Burst>>,
    /// Copies to recirculate, with the number of their passes.
    pub(crate) again: Vec<(usize, Frame)>,
    /// Handles in `flows` by flow id.
    pub(crate) ids: Index,
    /// Memory for the keys of upcalls.
    #[expect(clippy::vec_box, reason = "upcalls have boxed keys")]
    pub(crate) spare_keys: Vec<Box<FlowKey>>,
    /// Unanswered misses.
    pub(crate) pending: Pending,
    /// The state of dumps.
    pub(crate) dump: Dump,
    /// Connections offered to a device.
    pub(crate) offers: Vec<OffloadOffer>,
}

impl Worker {
    /// A worker without flows. `tracker` is its own; `seed` makes its hashes unpredictable.
    pub fn new(
        id: WorkerId,
        tracker: Tracker,
        upcalls: Arc<UpcallQueue>,
        config: WorkerConfig,
        seed: u64,
    ) -> Self {
        Worker {
            id,
            tracker,
            upcalls,
            flows: MegaflowTable::new(seed),
            exact: ExactCache::new(),
            unified: UnifiedCache::new(config.unified_entries, seed),
            flow_paths: FlowPaths::new(seed),
            cache_policy: CachePolicy::new(),
            outers: Outers::new(seed),
            opens_from: PortSet::default(),
            epoch: 0,
            pool: Pool::new(config.pool_packets),
            stats: WorkerStats::default(),
            config,
            clock: None,
            on_queued: None,
            queued: None,
            random: (seed as u32) | 1,
            fragment_id: seed as u16,
            error_limit: ErrorLimit::default(),
            seed: (seed >> 32) as u32,
            burst: Some(Box::new(Burst::new())),
            again: Vec::with_capacity(base::limits::BATCH_SIZE),
            ids: Index::default(),
            spare_keys: Vec::new(),
            pending: Pending::new(seed),
            dump: Dump::default(),
            offers: Vec::new(),
        }
    }

    /// Sets the clock read for the first upcall of a batch. Without one, an upcall has the time of its
    /// reception.
    pub fn set_clock(&mut self, clock: fn() -> Instant) {
        self.clock = Some(clock);
    }

    /// Tells this function of every upcall before it is queued.
    pub fn set_on_queued(&mut self, on_queued: fn(&Upcall)) {
        self.on_queued = Some(on_queued);
    }

    /// To be called about once per second: sorts the subtables by use, and adapts the caches to the traffic.
    /// Returns a request for memory for the unified cache.
    pub fn tick(&mut self) -> Option<CacheMemoryRequest> {
        self.end_late_misses();
        self.cache_policy.decide(self.flows.counts());
        self.flows.resort();
        self.outers.tick();
        self.unified.tick(self.cache_policy.inserts_seldom())
    }

    /// The same if no other thread prepares memory.
    pub fn tick_alone(&mut self) {
        if let Some(wanted) = self.tick() {
            drop(self.take(wanted.prepare(|| ())));
        }
    }

    /// Switches to the requested memory. Returns the memory to free.
    #[must_use = "freeing much memory takes long"]
    pub fn take(&mut self, room: CacheMemory) -> CacheMemory {
        self.unified.take(room)
    }

    /// Removes expired connections of this worker, examining at most `budget`: for workers that poll all the
    /// time ([`Tracker::expire`]).
    pub fn expire(&mut self, now: Instant, budget: usize) {
        self.tracker.expire(now, budget);
    }

    /// Its id.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Counters.
    pub fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// Counters, mutable, for the loop around the worker.
    pub fn stats_mut(&mut self) -> &mut WorkerStats {
        &mut self.stats
    }

    /// Free buffers, for receiving into.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// How many flows are installed.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// How many masks they have, each of which a lookup may have to visit.
    pub fn mask_count(&self) -> usize {
        self.flows.masks().count()
    }

    /// Changes the settings.
    pub fn configure(&mut self, config: WorkerConfig) {
        if config.offers && !self.config.offers {
            self.offer_again();
        }
        self.config = config;
        self.unified.set_entries_max(config.unified_entries);
    }

    /// Counts a packet as dropped and recycles its buffer.
    pub fn drop_packet(&mut self, packet: packet::Packet, reason: DropReason) {
        self.stats.drops.count(reason, 1);
        self.pool.give(packet);
    }

    /// Finds the flow of the first of some frames in one pass, in the exact-match cache, if that pays, or
    /// else in the megaflow table; and how many frames in a row it applies to. The first frame has a packet.
    pub(crate) fn flow_of(
        &mut self,
        frames: &[Frame],
        observer: &mut impl Observer,
    ) -> (Option<Handle>, usize) {
        if self.config.exact_insert_inverse == 0 || !self.cache_policy.probes_exact() {
            return self.flow_in_table(frames, observer);
        }
        let frame = &frames[0];
        let hash = classifier::hash(&frame.key, self.seed);
        if let Some(hit) = self.exact.lookup(&frame.key, hash, &self.flows) {
            self.stats.exact_hits += 1;
            observer.note(|| self.hit_step(hit, FoundBy::Exact));
            return (Some(hit), 1);
        }
        let (hit, _) = self.flow_in_table(&frames[..1], observer);
        if let Some(hit) = hit {
            let (random, inverse) = (self.next_random(), self.config.exact_insert_inverse);
            self.exact.insert(&frame.key, hash, hit, &self.flows, random, inverse);
        }
        (hit, 1)
    }

    fn flow_in_table(
        &mut self,
        frames: &[Frame],
        observer: &mut impl Observer,
    ) -> (Option<Handle>, usize) {
        let visited = self.flows.counts().subtables_visited;
        let there = frames.iter().take_while(|frame| !frame.packet.is_empty());
        let Some((hit, count)) = self.flows.lookup_run(there.map(|frame| &frame.key)) else {
            return (None, 1);
        };
        self.stats.megaflow_hits += count as u64;
        observer.note(|| {
            let subtables = self.flows.counts().subtables_visited - visited;
            self.hit_step(hit, FoundBy::Table { subtables })
        });
        (Some(hit), count)
    }

    /// Whether to probe the unified cache for a batch and trace its walks for insertion. If not all batches
    /// are traced, the choice is random.
    #[inline]
    pub(crate) fn traces_batch(&mut self) -> bool {
        let is_all = !self.cache_policy.probes_seldom();
        self.unified.is_on()
            && (is_all || self.next_random().is_multiple_of(self.batches_per_trace()))
    }

    /// One in this many batches is traced.
    #[inline]
    pub(crate) fn batches_per_trace(&self) -> u32 {
        let inverse =
            if self.cache_policy.probes_seldom() { cache_policy::BATCHES_PER_TRACE } else { 1 };
        inverse.min(self.config.unified_insert_inverse).max(1)
    }

    /// The flow that packets of this path hit in pass number `passed`.
    #[inline]
    pub(crate) fn flow_on(&self, path_id: PathId, passed: usize) -> Option<Handle> {
        match path_id.kind()? {
            PathKind::Flow(handle) => (passed == 0).then_some(handle),
            PathKind::Path(id) => self.flow_paths.get(id)?.passes.get(passed).map(|hit| hit.flow),
        }
    }

    /// The final actions of a path.
    #[inline]
    pub(crate) fn final_actions(&self, path_id: PathId) -> Option<FinalActions> {
        match path_id.kind()? {
            PathKind::Flow(handle) => match &self.flows.get(handle)?.kind {
                FlowKind::Terminal(steps) => Some(steps.clone()),
                FlowKind::Recirculates | FlowKind::Decapsulates | FlowKind::Uncacheable => None,
            },
            PathKind::Path(id) => Some(self.flow_paths.get(id)?.final_actions.clone()),
        }
    }

    /// The step for a flow that was hit.
    pub(crate) fn hit_step(&self, hit: Handle, by: FoundBy) -> Step {
        let flow = self.flows.get(hit);
        Step::Hit {
            flow: flow.map_or(FlowId(0), |flow| flow.id),
            matching: Box::new(self.flows.matching(hit).unwrap_or_else(Match::any)),
            actions: flow.and_then(|flow| flow.actions.clone()).unwrap_or_default(),
            by,
        }
    }

    /// A cheap random number (xorshift, Marsaglia 2003), to sample cache insertions.
    pub(crate) fn next_random(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }
}

#[cfg(test)]
mod tests;
