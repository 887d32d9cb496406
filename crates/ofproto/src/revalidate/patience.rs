//! How long megaflows with few packets are revalidated (`other_config:min-revalidate-pps`).

use crate::Config;
use base::Instant;
use flow::FlowStats;
use std::time::Duration;

/// Which megaflows are deleted where revalidation lasts long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long all are translated again.
    at_most: Duration,
    /// The longest time between two packets of those that are translated after that.
    interval: Option<Duration>,
    /// How many workers tell of packets.
    pub workers: u16,
}

impl Patience {
    pub fn new(config: &Config) -> Patience {
        let pps = u64::from(config.min_revalidate_pps);
        Patience {
            at_most: Duration::from_millis(config.max_revalidator_ms / 2),
            interval: (pps > 0).then(|| Duration::from_millis(1000 / pps)),
            workers: config.workers,
        }
    }

    /// Whether a megaflow is to be deleted rather than translated, where revalidation has lasted for so long
    /// and all packets until `collected` are known. One that had no packets yet is translated
    /// (ovs: `ofproto/ofproto-dpif-upcall.c`, `should_revalidate`).
    pub fn ends(&self, stats: &FlowStats, lasted: Duration, collected: Instant) -> bool {
        let Some((interval, used)) = self.interval.zip(stats.used) else { return false };
        lasted > self.at_most && collected - used >= interval
    }
}
