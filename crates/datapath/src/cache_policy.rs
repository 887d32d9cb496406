//! Decides whether the caches are probed and filled, by what they save.
//!
//! When most connections are short, few packets resemble an earlier one: new entries are evicted unused, and
//! they evict entries that would have been used. A worker therefore counts the hits of its caches, and about
//! once per second decides how to use them.

use classifier::LookupCounts;

/// Inserting an entry costs about as much as one hit saves. Insertion does not pay with fewer hits per walk
/// than this.
const PACKETS_PER_WALK: u64 = 2;
/// Number of periods in a row that must not pay before insertion is reduced: slow senders take a while
/// to send again.
const PATIENCE: u8 = 5;
/// Once insertion is reduced, at most this many walks per hit mean that flows are long-lived again, so
/// that caching every walk pays off.
const WALKS_PER_PACKET: u64 = 4;
/// Number of periods to skip after insertion is reduced, while old entries still produce hits.
const ECHO: u8 = 5;
/// A probe of the unified cache costs about a quarter of what a hit saves. Below that hit rate, only one
/// batch in this many is probed, to detect when that changes.
pub(crate) const BATCHES_PER_TRACE: u32 = 16;
/// A probe of the exact-match cache costs about as much as a lookup in this many subtables.
const SUBTABLES_PER_PROBE: u64 = 3;

/// Counts of the current period, and the last decision.
#[derive(Debug)]
pub(crate) struct CachePolicy {
    /// Packets that the unified cache forwarded.
    pub cached: u64,
    /// Walks that could have been cached, in batches that were probed.
    pub cacheable: u64,
    /// The classifier's counts at the last decision.
    lookups: LookupCounts,
    probes_exact: bool,
    probes_seldom: bool,
    /// Number of periods in a row in which insertion did not pay.
    poor: u8,
    /// Number of periods left in which hits may come from old entries.
    echo: u8,
}

impl CachePolicy {
    /// Uses all caches.
    pub fn new() -> CachePolicy {
        let lookups = LookupCounts::default();
        CachePolicy {
            cached: 0,
            cacheable: 0,
            lookups,
            probes_exact: true,
            probes_seldom: false,
            poor: 0,
            echo: 0,
        }
    }

    /// Whether the exact-match cache is probed before the classifier.
    #[inline]
    pub fn probes_exact(&self) -> bool {
        self.probes_exact
    }

    /// Whether only some cacheable walks are inserted.
    #[inline]
    pub fn inserts_seldom(&self) -> bool {
        self.poor == PATIENCE
    }

    /// Whether only some batches are probed in the unified cache.
    #[inline]
    pub fn probes_seldom(&self) -> bool {
        self.probes_seldom
    }

    /// Ends a period and decides anew. A cache without any counts keeps its state. Cacheable walks count
    /// whether or not they were inserted.
    pub fn decide(&mut self, lookups: LookupCounts) {
        let hits = lookups.hits - self.lookups.hits;
        let visited = lookups.subtables_visited - self.lookups.subtables_visited;
        if hits > 0 {
            self.probes_exact = visited > hits * SUBTABLES_PER_PROBE;
        }
        if self.cached + self.cacheable > 0 {
            self.decide_of_unified();
        }
        (self.cached, self.cacheable, self.lookups) = (0, 0, lookups);
    }

    fn decide_of_unified(&mut self) {
        if !self.inserts_seldom() {
            let pays = self.cached >= self.cacheable * PACKETS_PER_WALK;
            self.poor = if pays { 0 } else { self.poor + 1 };
            self.echo = ECHO;
            return;
        }
        let pays = self.cached * WALKS_PER_PACKET >= self.cacheable;
        self.probes_seldom = !pays;
        if self.echo > 0 {
            self.echo -= 1;
        } else if pays {
            self.poor = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_does_not_pay_is_used_seldom_until_it_does() {
        let mut cache_policy = CachePolicy::new();
        let mut total = LookupCounts::default();
        // Cached packets, cacheable walks, lookups, subtables visited; then whether the exact-match
        // cache is probed, whether walks are inserted seldom, and whether the unified cache is probed
        // seldom.
        for (cached, cacheable, hits, visited, expect) in [
            (0, 0, 0, 0, (true, false, false)),
            (100, 10, 10, 10, (false, false, false)),
            (19, 10, 10, 40, (true, false, false)),
            (20, 10, 10, 30, (false, false, false)),
            (19, 10, 10, 40, (true, false, false)),
            (0, 0, 0, 0, (true, false, false)),
            (0, 1, 0, 0, (true, false, false)),
            (0, 1, 0, 0, (true, false, false)),
            (19, 10, 0, 0, (true, false, false)),
            (19, 10, 0, 0, (true, true, false)),
            // Old entries still produce hits for a while.
            (3, 10, 0, 0, (true, true, false)),
            (2, 10, 0, 0, (true, true, true)),
            (0, 0, 0, 0, (true, true, true)),
            (0, 10, 0, 0, (true, true, true)),
            (5, 0, 0, 0, (true, true, false)),
            (2, 10, 0, 0, (true, true, true)),
            (2, 10, 0, 0, (true, true, true)),
            (0, 0, 0, 0, (true, true, true)),
            (1, 0, 0, 0, (true, false, false)),
        ] {
            (cache_policy.cached, cache_policy.cacheable) = (cached, cacheable);
            (total.hits, total.subtables_visited) =
                (total.hits + hits, total.subtables_visited + visited);
            cache_policy.decide(total);
            let decided = (
                cache_policy.probes_exact(),
                cache_policy.inserts_seldom(),
                cache_policy.probes_seldom(),
            );
            assert_eq!(decided, expect, "{cached} {cacheable}");
        }
    }
}
