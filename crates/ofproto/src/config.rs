//! Settings of all bridges.

use base::limits;

/// Settings that concern all bridges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How many workers the datapath has, numbered from 0.
    pub workers: u16,
    /// The most megaflows in the datapath (`other_config:flow-limit`).
    pub flow_limit: usize,
    /// A megaflow without packets for this long goes (`other_config:max-idle`), in milliseconds.
    pub max_idle_ms: u64,
    /// Workers are asked what their flows have carried, and idle megaflows go, at least this often
    /// (`other_config:max-revalidator`), in milliseconds.
    pub max_revalidator_ms: u64,
    /// The same, of `other_config:tidegate-stats-interval` if that is set, in milliseconds; 0: never.
    pub stats_interval_ms: Option<u64>,
    /// Whether megaflows without packets go (`other_config:tidegate-flow-expiry`).
    pub expires: bool,
    /// An OpenFlow bundle without messages for this long is discarded
    /// (`other_config:bundle-idle-timeout`), in seconds.
    pub bundle_idle_timeout_s: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            workers: 1,
            flow_limit: limits::FLOW_LIMIT,
            max_idle_ms: limits::MAX_IDLE_MS,
            max_revalidator_ms: limits::MAX_REVALIDATOR_MS,
            stats_interval_ms: None,
            expires: true,
            bundle_idle_timeout_s: limits::BUNDLE_IDLE_TIMEOUT_S,
        }
    }
}
