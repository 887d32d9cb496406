//! Settings of all bridges.

use crate::Ofproto;
use base::limits;

/// Settings that concern all bridges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How many workers the datapath has, numbered from 0.
    pub workers: u16,
    /// Maximum number of megaflows in the datapath (`other_config:flow-limit`).
    pub flow_limit: usize,
    /// A megaflow without packets for this long is deleted (`other_config:max-idle`), in milliseconds.
    pub max_idle_ms: u64,
    /// Longest time between two collections of statistics, after which idle megaflows are deleted
    /// (`other_config:max-revalidator`), in milliseconds.
    pub max_revalidator_ms: u64,
    /// When revalidation has lasted longer than half of [`Self::max_revalidator_ms`], megaflows with fewer
    /// packets per second are deleted instead of revalidated (`other_config:min-revalidate-pps`); 0 deletes
    /// none.
    pub min_revalidate_pps: u32,
    /// Replaces [`Self::max_revalidator_ms`] for statistics if `other_config:tidegate-stats-interval` is set,
    /// in milliseconds; 0: never collected.
    pub stats_interval_ms: Option<u64>,
    /// Whether idle megaflows are deleted (`other_config:tidegate-flow-expiry`).
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
            min_revalidate_pps: 0,
            stats_interval_ms: None,
            expires: true,
            bundle_idle_timeout_s: limits::BUNDLE_IDLE_TIMEOUT_S,
        }
    }
}

impl Ofproto {
    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the settings. Megaflows of removed workers are forgotten, and so are their unanswered
    /// statistics requests. To replace all workers, set 0 workers and then the new number; the last statistics
    /// of the old ones go to [`Self::last_dump`] then. With 0 workers, megaflows are forgotten a part at a time.
    pub fn set_config(&mut self, config: Config) {
        if config.workers < self.config.workers {
            self.workers_lost += 1;
            self.forget_workers_from(config.workers);
        }
        if config.flow_limit != self.config.flow_limit {
            self.flow_limit = config.flow_limit;
        }
        if config.max_idle_ms < self.config.max_idle_ms || config.expires && !self.config.expires {
            self.upkeep.look_through();
        }
        self.is_changed = true;
        self.config = config;
    }
}
