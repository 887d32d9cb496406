//! The counters of a worker. Readers sum those of all workers.

use flow::DropCounters;

/// A worker's counters since its start or their last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Packets received from ports.
    pub received: u64,
    /// Passes over the flow table after the first.
    pub recirculated: u64,
    /// Passes answered by a cache: the exact-match cache, or the unified cache, which answers for all passes
    /// of a packet at once.
    pub exact_hits: u64,
    /// The part of [`Self::exact_hits`] that the unified cache answered.
    pub unified_hits: u64,
    /// Passes that the megaflow table answered.
    pub megaflow_hits: u64,
    /// Subtables probed for [`Self::megaflow_hits`].
    pub subtables: u64,
    /// Passes without a flow whose packet was queued as an upcall.
    pub misses: u64,
    /// Passes without a flow whose packet was dropped because the queue was full.
    pub lost: u64,
    /// Packets handed to transmit queues.
    pub sent: u64,
    /// Batches handed to transmit queues.
    pub sent_batches: u64,
    /// Time spent on packets, in nanoseconds.
    pub busy_ns: u64,
    /// Time spent polling or asleep, in nanoseconds.
    pub idle_ns: u64,
    /// Packets dropped, by reason.
    pub drops: DropCounters,
}

impl WorkerStats {
    /// Adds another worker's counters.
    pub fn add(&mut self, other: &WorkerStats) {
        self.received += other.received;
        self.recirculated += other.recirculated;
        self.exact_hits += other.exact_hits;
        self.unified_hits += other.unified_hits;
        self.megaflow_hits += other.megaflow_hits;
        self.subtables += other.subtables;
        self.misses += other.misses;
        self.lost += other.lost;
        self.sent += other.sent;
        self.sent_batches += other.sent_batches;
        self.busy_ns += other.busy_ns;
        self.idle_ns += other.idle_ns;
        self.drops.add(&other.drops);
    }
}
