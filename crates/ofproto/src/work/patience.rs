//! How long revalidation keeps megaflows with few packets (`other_config:min-revalidate-pps`).

use crate::Config;
use base::Instant;
use flow::FlowStats;
use std::time::Duration;

/// Selects the megaflows to delete when revalidation takes long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For this long, all megaflows are revalidated.
    at_most: Duration,
    /// The longest packet interval of those that are still revalidated after that.
    interval: Option<Duration>,
    /// The number of workers that report statistics.
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

    /// Whether to delete a megaflow instead of revalidating it, after revalidation has lasted this long and
    /// with statistics complete up to `collected`. One without any packets yet is revalidated (ovs:
    /// `ofproto/ofproto-dpif-upcall.c`, `should_revalidate`).
    pub fn ends(&self, stats: &FlowStats, lasted: Duration, collected: Instant) -> bool {
        let Some((interval, used)) = self.interval.zip(stats.used) else { return false };
        lasted > self.at_most && collected - used >= interval
    }
}
