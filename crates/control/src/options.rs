//! Settings of the whole switch (`Open_vSwitch.other_config`).

use crate::{DpdkOptions, QueueOptions, UpcallRateList};
use base::limits;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// Settings of the whole switch. The defaults are Open vSwitch's
/// (ovs: `vswitchd/vswitch.xml`, table Open_vSwitch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchOptions {
    /// The cores of workers (`pmd-cpu-mask`); `None` lets the switch choose.
    pub worker_cores: Option<CoreSet>,
    /// The assignment of receive queues to workers (`pmd-rxq-assign` and related keys).
    pub queues: QueueOptions,
    /// Maximum number of megaflows (`flow-limit`).
    pub flow_limit: u32,
    /// Idle time after which a megaflow is removed (`max-idle`), in milliseconds.
    pub max_idle_ms: u32,
    /// Maximum number of VLAN headers that are parsed; 0 for as many as are supported (`vlan-limit`).
    pub vlan_limit: u32,
    /// Longest interval between revalidations of flows (`max-revalidator`), in milliseconds.
    pub max_revalidator_ms: u32,
    /// Minimum packets per second of flows that are revalidated where that lasts longer than half of
    /// [`SwitchOptions::max_revalidator_ms`]; slower ones are removed. 0 revalidates all
    /// (`min-revalidate-pps`).
    pub min_revalidate_pps: u32,
    /// Interval at which workers report their flows' statistics (`tidegate-stats-interval`), in milliseconds;
    /// 0 disables reports. `None` uses [`SwitchOptions::max_revalidator_ms`].
    pub flow_stats_interval_ms: Option<u32>,
    /// Threads that answer misses (`n-handler-threads`); 0 lets each worker answer its own. `None` depends on
    /// the number of processors; with fewer than three each worker answers its own.
    pub handler_threads: Option<u16>,
    /// Threads that revalidate flows (`n-revalidator-threads`); 0 leaves it to the control thread. `None` is
    /// as for [`SwitchOptions::handler_threads`].
    pub revalidator_threads: Option<u16>,
    /// Whether idle flows are removed from the datapath (`tidegate-flow-expiry`).
    pub flow_expiry: bool,
    /// Maximum number of upcalls per second of each port and class (`tidegate-upcall-rates`).
    pub upcall_rates: UpcallRateList,
    /// One in this many packets that miss the exact-match cache is inserted; 0 disables it
    /// (`emc-insert-inv-prob`).
    pub emc_insert_inv_prob: u32,
    /// Maximum number of entries of each worker's unified cache; 0 disables it. Open vSwitch has no such
    /// cache (`unified-cache-entries`).
    pub unified_cache_entries: u32,
    /// Whether connections are offloaded to a device that forwards packets itself (`hw-offload`).
    pub hw_offload: bool,
    /// Whether polling workers keep histograms and a history of their iterations (`pmd-perf-metrics`).
    pub perf_metrics: bool,
    /// Interval at which `Interface.statistics` is written (`stats-update-interval`), in milliseconds.
    pub stats_update_interval_ms: u32,
    /// Idle time after which an OpenFlow bundle is discarded (`bundle-idle-timeout`), in seconds.
    pub bundle_idle_timeout_s: u32,
    /// Whether `Open_vSwitch.statistics` is written (`enable-statistics`).
    pub enable_statistics: bool,
    /// Whether flows are being restored; controllers and misses wait meanwhile (`flow-restore-wait`).
    pub flow_restore_wait: bool,
    /// Whether DPDK is started, and its options (`dpdk-init` and related keys).
    pub dpdk: DpdkOptions,
    /// Maximum number of tracked connections. Only a file can set it here; Open vSwitch has the command
    /// `dpctl/ct-set-maxconns` for it.
    pub max_connections: Option<u32>,
    /// Directory of the bridges' sockets `NAME.mgmt`; only a file can set it.
    pub run_dir: Option<PathBuf>,
    /// Path of the control socket of `ovs-appctl`; only a file can set it.
    pub unixctl: Option<PathBuf>,
}

/// Processor cores, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoreSet(BTreeSet<u16>);

impl SwitchOptions {
    /// Default and minimum of [`SwitchOptions::stats_update_interval_ms`].
    pub const MIN_STATS_UPDATE_INTERVAL_MS: u32 = 5000;
    /// Maximum of [`SwitchOptions::unified_cache_entries`]: 8 GiB per worker.
    pub const MAX_UNIFIED_CACHE_ENTRIES: u32 = 1 << 26;
    /// Maximum of [`SwitchOptions::handler_threads`] and [`SwitchOptions::revalidator_threads`].
    pub const MAX_SLOW_THREADS: u32 = 64;
    /// Minimum of [`SwitchOptions::max_revalidator_ms`] (ovs: `vswitchd/vswitch.xml`).
    pub const MIN_MAX_REVALIDATOR_MS: u32 = 100;
}

impl Default for SwitchOptions {
    fn default() -> Self {
        SwitchOptions {
            worker_cores: None,
            queues: QueueOptions::default(),
            flow_limit: limits::FLOW_LIMIT as u32,
            max_idle_ms: limits::MAX_IDLE_MS as u32,
            max_revalidator_ms: limits::MAX_REVALIDATOR_MS as u32,
            min_revalidate_pps: 0,
            flow_stats_interval_ms: None,
            handler_threads: None,
            revalidator_threads: None,
            flow_expiry: true,
            upcall_rates: UpcallRateList::default(),
            vlan_limit: limits::VLAN_LIMIT,
            emc_insert_inv_prob: 100,
            unified_cache_entries: limits::UNIFIED_CACHE_ENTRIES as u32,
            hw_offload: false,
            perf_metrics: false,
            stats_update_interval_ms: Self::MIN_STATS_UPDATE_INTERVAL_MS,
            bundle_idle_timeout_s: limits::BUNDLE_IDLE_TIMEOUT_S,
            enable_statistics: false,
            flow_restore_wait: false,
            dpdk: DpdkOptions::default(),
            max_connections: None,
            run_dir: None,
            unixctl: None,
        }
    }
}

impl CoreSet {
    /// Parses a hexadecimal bit mask, with or without "0x": "6" and "0x6" are cores 1 and 2. Returns `None`
    /// if it is empty, contains another character, or names a core above 65,535.
    pub fn from_hex_mask(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let mut cores = BTreeSet::new();
        if digits.is_empty() {
            return None;
        }
        for (place, digit) in digits.chars().rev().enumerate() {
            let digit = digit.to_digit(16)?;
            for bit in (0..4).filter(|bit| digit >> bit & 1 == 1) {
                cores.insert(u16::try_from(place * 4 + bit).ok()?);
            }
        }
        Some(CoreSet(cores))
    }

    /// Returns the cores in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Returns the number of cores.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<u16> for CoreSet {
    fn from_iter<I: IntoIterator<Item = u16>>(cores: I) -> Self {
        CoreSet(cores.into_iter().collect())
    }
}

impl fmt::Display for CoreSet {
    /// Writes the numbers, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, core) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{core}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_as_cores() {
        let cases: &[(&str, Option<&str>)] = &[
            ("1", Some("0")),
            ("0x6", Some("1,2")),
            ("0XF0", Some("4,5,6,7")),
            ("0", Some("")),
            ("10000000000000000000000000000001", Some("0,124")),
            ("", None),
            ("0x", None),
            ("g", None),
            ("-1", None),
            ("1,2", None),
        ];
        for (text, expect) in cases {
            let cores = CoreSet::from_hex_mask(text).map(|cores| cores.to_string());
            assert_eq!(cores.as_deref(), *expect, "{text:?}");
        }
        let beyond = format!("1{}", "0".repeat(16_384));
        assert_eq!(CoreSet::from_hex_mask(&beyond), None);
    }
}
