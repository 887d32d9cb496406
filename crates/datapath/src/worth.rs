//! Whether the caches earn what they cost.
//!
//! Where most connections are short, hardly any packet is like one before it: what is then
//! remembered is pushed out unused, and pushes out what others would have used. A worker therefore
//! counts what its caches answered, and once a second or so decides how it goes on.

use classifier::LookupCounts;

/// Remembering a walk costs about as much as one packet saves that need not walk; where fewer
/// packets than so many come of each, it does not pay.
const PACKETS_PER_WALK: u64 = 2;
/// It is so for so many decisions in a row before less is remembered: those who send seldom are not
/// heard of again at once.
const PATIENCE: u8 = 5;
/// Where walks are remembered seldom and yet one known packet comes of so many, their senders go on
/// and on, and all are worth remembering again.
const WALKS_PER_PACKET: u64 = 4;
/// After what was remembered no longer pays, packets of those who were known before come for so many
/// decisions, which say nothing of what would be remembered now.
const ECHO: u8 = 5;
/// Asking the unified cache about a packet costs about a quarter of what a known one saves. Where fewer
/// are known than that, no more than one batch in so many is asked about, to see when that changes.
pub(crate) const BATCHES_PER_NOTE: u32 = 16;
/// Asking the exact-match cache costs about as much as looking into so many subtables.
const SUBTABLES_PER_QUESTION: u64 = 3;

/// What was counted since the last decision, and what was decided.
#[derive(Debug)]
pub(crate) struct Worth {
    /// Packets that the unified cache knew all of.
    pub known: u64,
    /// Walks that could be remembered, of packets about which it was asked.
    pub walks: u64,
    /// What lookups in the table had cost when it was last decided.
    lookups: LookupCounts,
    asks_exact: bool,
    asks_seldom: bool,
    /// For how many decisions remembering has not paid.
    poor: u8,
    /// For how many more decisions known packets may be due to what was remembered when all was.
    echo: u8,
}

impl Worth {
    /// Everything is worth a try at first.
    pub fn new() -> Worth {
        let lookups = LookupCounts::default();
        Worth {
            known: 0,
            walks: 0,
            lookups,
            asks_exact: true,
            asks_seldom: false,
            poor: 0,
            echo: 0,
        }
    }

    /// Whether the exact-match cache is asked before the table.
    #[inline]
    pub fn asks_exact(&self) -> bool {
        self.asks_exact
    }

    /// Whether only some of the walks that could be remembered are.
    #[inline]
    pub fn learns_seldom(&self) -> bool {
        self.poor == PATIENCE
    }

    /// Whether the unified cache is asked only now and then.
    #[inline]
    pub fn asks_seldom(&self) -> bool {
        self.asks_seldom
    }

    /// Decides anew. What nothing was counted of goes on as it is. Walks count whether they were
    /// remembered or not.
    pub fn decide(&mut self, lookups: LookupCounts) {
        let hits = lookups.hits - self.lookups.hits;
        let visited = lookups.subtables_visited - self.lookups.subtables_visited;
        if hits > 0 {
            self.asks_exact = visited > hits * SUBTABLES_PER_QUESTION;
        }
        if self.known + self.walks > 0 {
            self.decide_of_unified();
        }
        (self.known, self.walks, self.lookups) = (0, 0, lookups);
    }

    fn decide_of_unified(&mut self) {
        if !self.learns_seldom() {
            let pays = self.known >= self.walks * PACKETS_PER_WALK;
            self.poor = if pays { 0 } else { self.poor + 1 };
            self.echo = ECHO;
            return;
        }
        let pays = self.known * WALKS_PER_PACKET >= self.walks;
        self.asks_seldom = !pays;
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
    fn what_does_not_pay_is_done_seldom_until_it_does() {
        let mut worth = Worth::new();
        let mut total = LookupCounts::default();
        // Known packets, walks, lookups, subtables visited; then whether the exact-match cache is
        // asked, whether walks are remembered seldom, and whether the unified cache is asked seldom.
        for (known, walks, hits, visited, expect) in [
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
            // What was remembered before is still known for a while.
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
            (worth.known, worth.walks) = (known, walks);
            (total.hits, total.subtables_visited) =
                (total.hits + hits, total.subtables_visited + visited);
            worth.decide(total);
            let decided = (worth.asks_exact(), worth.learns_seldom(), worth.asks_seldom());
            assert_eq!(decided, expect, "{known} {walks}");
        }
    }
}
