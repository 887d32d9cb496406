//! The settings of a worker.

/// The settings of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerConfig {
    /// One in this many megaflow hits enters the exact-match cache; 1 is every one, 0 none
    /// (`other_config:emc-insert-inv-prob`).
    pub exact_insert_inverse: u32,
    /// How many entries the unified cache may grow to; 0 turns it off.
    pub unified_entries: usize,
    /// When hardly any packet hits, one in this many paths is inserted into the unified cache; a long-lived
    /// flow gets its entry a little later. 1 is every one.
    pub unified_insert_inverse: u32,
    /// Whether connections are offered to a device that forwards by itself.
    pub offers: bool,
    /// Number of free packet buffers to keep.
    pub pool_packets: usize,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig {
            exact_insert_inverse: 100,
            unified_entries: base::limits::UNIFIED_CACHE_ENTRIES,
            unified_insert_inverse: 32,
            offers: false,
            pool_packets: 512,
        }
    }
}
