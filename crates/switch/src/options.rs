//! Settings of the whole switch: zones, limits, workers, TLS.

use super::Switch;
use super::processors::{announce_workers, first_of_each_node};
use super::slow_path_threads::SlowPath;
use super::worker_messages::{WorkerCommand, WorkerMode};
use crate::stream::TlsSettings;
use base::Zone;
use conntrack::{Timeout, TimeoutPolicy};
use control::{SwitchOptions, ZonePolicy};
use datapath::WorkerConfig;
use flow::VlanLimit;
use std::collections::BTreeMap;

impl Switch {
    /// Returns the settings in force.
    pub fn desired_options(&self) -> &control::SwitchOptions {
        &self.desired.options
    }

    pub(super) fn set_zone(&mut self, zone: Zone, policy: &ZonePolicy) {
        let mut timeouts: TimeoutPolicy = self.conntrack.default_timeouts();
        for (name, seconds) in &policy.timeouts_s {
            match Timeout::from_name(name) {
                Ok(timeout) => timeouts.set(timeout, *seconds),
                Err(error) => log::warn!(target: "bridge", "zone {zone}: {error}"),
            }
        }
        self.conntrack.set_zone_timeouts(zone, timeouts);
        let number = (!policy.timeouts_s.is_empty()).then(|| self.policy_number(policy));
        self.ofproto.set_timeout_policy(zone, number);
        match policy.limit {
            Some(limit) => self.conntrack.set_zone_limit(Some(zone), limit),
            None => drop(self.conntrack.clear_zone_limit(zone)),
        }
    }

    /// Returns the number of a timeout policy: equal policies have the same.
    fn policy_number(&mut self, policy: &ZonePolicy) -> u32 {
        let known = self.timeout_policies.iter().position(|known| *known == policy.timeouts_s);
        let index = known.unwrap_or_else(|| {
            self.timeout_policies.push(policy.timeouts_s.clone());
            self.timeout_policies.len() - 1
        });
        index as u32 + 1
    }

    /// Resets a zone to the defaults.
    pub(super) fn remove_zone(&mut self, zone: Zone) {
        self.conntrack.clear_zone_timeouts(zone);
        self.conntrack.clear_zone_limit(zone);
        self.ofproto.set_timeout_policy(zone, None);
    }

    /// Returns an error for limits that the database sets: they must be changed there.
    pub fn refuse_database_limits(&self, limits: &[(Option<Zone>, u32)]) -> Result<(), String> {
        let is_set = |zone: &Option<Zone>| match zone {
            None => self.desired.default_zone_limit.is_some(),
            Some(zone) => self.desired.zones.get(zone).is_some_and(|p| p.limit.is_some()),
        };
        match limits.iter().any(|(zone, _)| is_set(zone)) {
            true => Err("the zone limits are set via database, use 'ovs-vsctl set-zone-limit \
                         <...>' instead. (Operation not permitted)"
                .to_owned()),
            false => Ok(()),
        }
    }

    pub(super) fn set_options(&mut self, options: &SwitchOptions) {
        self.start_dpdk(&options.dpdk);
        let config = ofproto::Config {
            flow_limit: options.flow_limit as usize,
            max_idle_ms: options.max_idle_ms.into(),
            max_revalidator_ms: options.max_revalidator_ms.into(),
            min_revalidate_pps: options.min_revalidate_pps,
            stats_interval_ms: options.flow_stats_interval_ms.map(u64::from),
            expires: options.flow_expiry,
            bundle_idle_timeout_s: options.bundle_idle_timeout_s,
            ..self.ofproto.config().clone()
        };
        self.ofproto.set_config(config);
        if VlanLimit::new(options.vlan_limit).enforce() {
            // Keys of packets change with this setting.
            self.delete_flows(None);
        }
        if let Some(connections) = options.max_connections {
            self.conntrack.set_connections_max(connections);
        }
        self.set_offload(options.hw_offload);
        self.set_workers(options);
        for thread in &self.workers {
            thread.metrics().set_on(options.perf_metrics);
        }
        self.set_queue_options(&options.queues);
    }

    /// Starts the configured workers, unless they run already.
    pub(super) fn set_workers(&mut self, options: &SwitchOptions) {
        let config = WorkerConfig {
            exact_insert_inverse: options.emc_insert_inv_prob,
            unified_entries: options.unified_cache_entries as usize,
            offers: self.offload.is_on(),
            ..WorkerConfig::default()
        };
        let modes = self.worker_modes(options);
        let running: Vec<WorkerMode> = self.workers.iter().map(|worker| worker.mode).collect();
        let wanted = SlowPath::wanted(options, modes.len(), self.settings.thread_processors());
        let slow = if self.unstartable == Some(wanted) { SlowPath::default() } else { wanted };
        if modes == running && slow == self.slow {
            for thread in &self.workers {
                thread.send(WorkerCommand::Configure(config));
            }
            return;
        }
        self.slow = slow;
        announce_workers(&running, &modes);
        if let Err(error) = self.start_workers(&modes, config) {
            log::error!(target: "dpif_netdev", "{error}");
        }
    }

    /// Returns one polling worker for each configured processor, or one sleeping worker. Dummy ports are
    /// treated as in Open vSwitch: only those of type `dummy-pmd` are polled, by default on the first
    /// processor of each node, and a sleeping worker has the others.
    fn worker_modes(&self, options: &SwitchOptions) -> Vec<WorkerMode> {
        let is_test = self.settings.dummy.is_enabled();
        if is_test && !self.polls_dummies {
            return vec![WorkerMode::Sleeping];
        }
        // A core that does not exist, or that this process may not use, gets no worker.
        let usable = self.settings.processors.all();
        let mut cores = BTreeMap::new();
        for cpu in options.worker_cores.iter().flat_map(|cores| cores.iter()) {
            match usable.get(&cpu) {
                Some(node) => drop(cores.insert(cpu, *node)),
                None => log::warn!(
                    target: "dpif_netdev",
                    "pmd-cpu-mask: there is no CPU {cpu} to be used"
                ),
            }
        }
        if is_test && options.worker_cores.is_none() {
            cores = first_of_each_node(&usable);
        }
        let mode =
            |(cpu, numa)| WorkerMode::Polling { cpu: usize::from(cpu), numa, pretends: is_test };
        let mut modes: Vec<WorkerMode> = cores.into_iter().map(mode).collect();
        if is_test || modes.is_empty() {
            modes.push(WorkerMode::Sleeping);
        }
        modes
    }

    /// Uses the keys and certificates of the configuration, or those of the command line if it has none.
    pub(super) fn set_tls(&mut self, tls: Option<control::TlsFiles>) {
        let given = self.settings.tls.clone();
        self.tls = match tls {
            None => given,
            Some(tls) => TlsSettings {
                private_key: Some(tls.private_key),
                certificate: Some(tls.certificate),
                ca_cert: Some(tls.ca_cert),
                bootstrap_ca_cert: tls.bootstrap_ca_cert,
                ..given
            },
        };
        self.tls.warn();
    }
}
