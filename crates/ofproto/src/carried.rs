//! What something has carried. It is counted apart from what it is: snapshots share the counts, so that
//! counting changes none of them.

use base::Instant;
use flow::FlowStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes, and when the last packet came. One thread counts; others may read.
#[derive(Debug, Default)]
pub struct Carried {
    packets: AtomicU64,
    bytes: AtomicU64,
    used_ns: AtomicU64,
}

impl Carried {
    /// Nothing yet; the last packet counts as having come then.
    pub fn since(used: Instant) -> Self {
        Carried { used_ns: AtomicU64::new(used.as_nanos()), ..Carried::default() }
    }

    /// Packets.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Packets and bytes.
    pub fn pair(&self) -> (u64, u64) {
        (self.packets(), self.bytes())
    }

    /// When the last packet came.
    pub fn used(&self) -> Instant {
        Instant::from_nanos(self.used_ns.load(Ordering::Relaxed))
    }

    /// More packets came, the last one now where they do not say.
    pub fn add(&self, more: &FlowStats, now: Instant) {
        self.packets.fetch_add(more.packets, Ordering::Relaxed);
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
        self.saw(more.used.unwrap_or(now));
    }

    /// A packet came at this time.
    pub fn saw(&self, used: Instant) {
        self.used_ns.fetch_max(used.as_nanos(), Ordering::Relaxed);
    }
}

/// Counts are compared as they are now.
impl PartialEq for Carried {
    fn eq(&self, other: &Self) -> bool {
        self.pair() == other.pair() && self.used() == other.used()
    }
}
