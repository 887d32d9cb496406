//! Packet and byte counters. They are separate from what they count: snapshots share them, so counting does
//! not change a snapshot.

use base::Instant;
use flow::FlowStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets, bytes, and the time of the last packet. One thread writes; others may read.
#[derive(Debug, Default)]
pub struct Carried {
    packets: AtomicU64,
    bytes: AtomicU64,
    used_ns: AtomicU64,
}

impl Carried {
    /// Zero packets, with this time as that of the last packet.
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

    /// The time of the last packet.
    pub fn used(&self) -> Instant {
        Instant::from_nanos(self.used_ns.load(Ordering::Relaxed))
    }

    /// Adds packets. The last one counts as received now unless `more` has a time.
    pub fn add(&self, more: &FlowStats, now: Instant) {
        self.packets.fetch_add(more.packets, Ordering::Relaxed);
        self.bytes.fetch_add(more.bytes, Ordering::Relaxed);
        self.saw(more.used.unwrap_or(now));
    }

    /// Updates the time of the last packet.
    pub fn saw(&self, used: Instant) {
        self.used_ns.fetch_max(used.as_nanos(), Ordering::Relaxed);
    }
}

/// Compares the current counts.
impl PartialEq for Carried {
    fn eq(&self, other: &Self) -> bool {
        self.pair() == other.pair() && self.used() == other.used()
    }
}
