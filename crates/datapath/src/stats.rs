//! What a worker counts. Each worker has its own; readers sum.

use flow::DropCounters;

/// One worker's counters since it started or was last told to forget them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Packets received from ports.
    pub received: u64,
    /// Passes through the tables after the first.
    pub recirculated: u64,
    /// Passes that a cache answered: the exact-match cache, or the unified cache, which
    /// answers for all passes of a packet at once.
    pub exact_hits: u64,
    /// Of [`Self::exact_hits`], those that the unified cache answered.
    pub unified_hits: u64,
    /// Passes that the megaflow table answered.
    pub megaflow_hits: u64,
    /// Subtables looked at for [`Self::megaflow_hits`].
    pub subtables: u64,
    /// Passes that no flow matched and whose packet went up.
    pub misses: u64,
    /// Passes that no flow matched and whose packet found the queue full.
    pub lost: u64,
    /// Packets handed to transmit queues.
    pub sent: u64,
    /// Batches handed to transmit queues.
    pub sent_batches: u64,
    /// Time spent with packets, in nanoseconds.
    pub busy_ns: u64,
    /// Time spent looking for packets or asleep, in nanoseconds.
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
