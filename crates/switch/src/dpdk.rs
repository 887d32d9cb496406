//! DPDK: its start, the configuration of its ports, and their status.

use super::Switch;
use super::device_handle::DeviceConfig;
use super::statistics::named;
use base::{Instant, OfPort};
use control::{DpdkInit, DpdkInterface, DpdkOptions, Interface, LinkStatus, VhostInterface};
use port::PortError;
use port_dpdk::{DpdkConfig, DpdkError, DpdkPort, Facts};
use port_linux::{LinkInfo, LinkStatistics, affinity};
use std::collections::BTreeMap;
use std::time::Duration;

/// Interval of link checks of DPDK ports, because DPDK does not report changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The interface type of an Ethernet device (RFC 2863, ethernetCsmacd).
const IF_TYPE: u8 = 6;

/// The state of DPDK.
#[derive(Debug, Default)]
pub struct Dpdk {
    /// The options with which it was started, or with which the start failed.
    started_with: Option<DpdkOptions>,
    /// Time of the last link check.
    looked_at: Option<Instant>,
    /// Why the start failed.
    failure: Option<String>,
    /// Directory of the sockets of `dpdkvhostuser` ports, which the first configuration determines.
    pub(super) vhost_socket_dir: Option<Option<String>>,
}

impl Switch {
    /// Starts DPDK if it is enabled and was not started before. The switch continues without it if that
    /// fails.
    pub(super) fn start_dpdk(&mut self, options: &DpdkOptions) {
        self.dpdk.vhost_socket_dir.get_or_insert_with(|| options.vhost_socket_dir.clone());
        match &self.dpdk.started_with {
            None if options.init == DpdkInit::No => return,
            None => {}
            Some(before) => {
                if before != options && options.init != DpdkInit::No {
                    let words = "its options changed, which takes effect when the switch is \
                                 restarted";
                    log::warn!(target: "dpdk", "{words}");
                }
                return;
            }
        }
        self.dpdk.started_with = Some(options.clone());
        let cpu = affinity::allowed_cpus().ok().and_then(|cpus| cpus.first().copied());
        log::info!(target: "dpdk", "DPDK Enabled - initializing...");
        match port_dpdk::start(&options.eal, cpu.unwrap_or(0)) {
            Ok(version) => log::info!(target: "dpdk", "DPDK Enabled - initialized ({version})"),
            Err(error) => {
                let is_try = options.init == DpdkInit::Try;
                let level = if is_try { log::Level::Warn } else { log::Level::Error };
                log::log!(target: "dpdk", level, "{error}");
                self.dpdk.failure = Some(error.to_string());
            }
        }
        self.mark_stale();
    }

    /// Returns the configuration of a DPDK port or a guest's port; `None` for other interfaces.
    pub(super) fn device_config(
        &self,
        interface: &Interface,
    ) -> Result<Option<DeviceConfig>, String> {
        let name = &interface.name;
        let failed = |why: String| format!("could not open network device {name} ({why})");
        if let Some(vhost) = self.vhost_config(interface) {
            return vhost.map(Some).map_err(failed);
        }
        let Some(wanted) = DpdkInterface::of(interface) else { return Ok(None) };
        let wanted = wanted.map_err(failed)?;
        if !port_dpdk::is_running() {
            let error = match (&self.dpdk.failure, port_dpdk::version()) {
                (_, None) => DpdkError::Absent,
                (None, _) => DpdkError::NotStarted,
                (Some(why), _) => DpdkError::FailedBefore { why: why.clone() },
            };
            return Err(failed(error.to_string()));
        }
        let mut config = DpdkConfig::new(wanted.devargs);
        config.rx_queues = wanted.rx_queues;
        config.rx_descriptors = wanted.rx_descriptors;
        config.tx_descriptors = wanted.tx_descriptors;
        config.mtu = interface.mtu_request;
        Ok(Some(DeviceConfig::Dpdk(config)))
    }

    /// Returns whether an interface is, or is configured as, a port of DPDK or of a guest.
    pub fn is_dpdk(&self, name: &str) -> bool {
        let found = self.configured.interfaces.get(name).map(|running| &running.interface);
        found.is_some_and(|it| DpdkInterface::of(it).is_some() || VhostInterface::of(it).is_some())
    }

    /// Retries ports of DPDK and of guests that could not be opened, after a change of the configuration, because
    /// nothing reports when their device becomes available. Those `added` by the change were tried a moment ago.
    pub(super) fn retry_dpdk_ports(&mut self, added: &[String]) {
        let interfaces = self.configured.interfaces.iter();
        let failed = interfaces.filter(|(name, run)| run.state.is_err() && !added.contains(name));
        let names: Vec<String> = failed.map(|(name, _)| name.clone()).collect();
        for name in names.into_iter().filter(|name| self.is_dpdk(name)).collect::<Vec<_>>() {
            let Some(mut running) = self.configured.interfaces.remove(&name) else { continue };
            running.state = self.open_interface(&mut running);
            self.configured.interfaces.insert(name, running);
        }
    }

    /// Checks the links of DPDK ports periodically.
    pub(super) fn watch_dpdk_links(&mut self, now: Instant) {
        if self.dpdk.looked_at.is_some_and(|at| now - at < LOOK_EVERY) {
            return;
        }
        self.dpdk.looked_at = Some(now);
        self.look_at_awaited();
        let mut changed = Vec::new();
        for (name, running) in &self.configured.interfaces {
            let Some(dpdk) = self.devices.dpdk(name) else { continue };
            // A device that does not answer is gone, which its worker reports.
            let is_up = dpdk.facts().map_or(running.link_up, |facts| facts.link_up);
            if running.link_up != is_up {
                changed.extend(link_info(name, dpdk));
            }
        }
        for link in changed {
            self.device_changed(&link);
            self.mark_stale();
        }
    }
}

impl Switch {
    /// Opens ports whose devices waited for another program, once that is there.
    fn look_at_awaited(&mut self) {
        let waiting = self.configured.interfaces.values().filter(|running| running.state.is_err());
        let devargs = |interface: &Interface| Some(DpdkInterface::of(interface)?.ok()?.devargs);
        let wanted: Vec<String> =
            waiting.filter_map(|running| devargs(&running.interface)).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        if port_dpdk::look_at_awaited(&wanted) {
            self.retry_dpdk_ports(&[]);
            self.limit_upcalls();
            self.mark_stale();
        }
    }
}

/// Returns the state of a DPDK port, in the form of a system device's.
pub fn link_info(name: &str, port: &DpdkPort) -> Result<LinkInfo, PortError> {
    let (facts, counted) = (port.facts()?, port.statistics()?);
    Ok(LinkInfo {
        name: name.to_owned(),
        is_ethernet: true,
        mac: facts.mac,
        mtu: facts.mtu.into(),
        admin_up: facts.admin_up,
        carrier: facts.link_up,
        statistics: LinkStatistics {
            rx_packets: counted.rx_packets,
            tx_packets: counted.tx_packets,
            rx_bytes: counted.rx_bytes,
            tx_bytes: counted.tx_bytes,
            rx_dropped: counted.rx_dropped,
            tx_dropped: counted.tx_dropped,
            rx_errors: counted.rx_errors,
            tx_errors: counted.tx_errors,
            ..LinkStatistics::default()
        },
        ..LinkInfo::default()
    })
}

/// Returns the status of a DPDK port for the database.
pub fn link_status(ofport: OfPort, port: &DpdkPort, with_statistics: bool) -> LinkStatus {
    let Ok(facts) = port.facts() else { return LinkStatus { ofport, ..LinkStatus::default() } };
    LinkStatus {
        ofport,
        mac: Some(facts.mac),
        admin_up: Some(facts.admin_up),
        link_up: facts.link_up,
        link_speed_bps: (facts.link_mbps > 0).then_some(i64::from(facts.link_mbps) * 1_000_000),
        full_duplex: Some(facts.full_duplex),
        mtu: Some(facts.mtu.into()),
        status: describe(&facts),
        statistics: with_statistics.then(|| statistics(port)),
        ..LinkStatus::default()
    }
}

/// `Interface.status` (ovs: `lib/netdev-dpdk.c`, `netdev_dpdk_get_status`).
fn describe(facts: &Facts) -> BTreeMap<String, String> {
    let version = port_dpdk::version().unwrap_or_default();
    let info = if facts.bus_info.is_empty() { "" } else { ", " };
    let told = [
        ("port_no", facts.port.to_string()),
        ("numa_id", facts.numa.to_string()),
        ("driver_name", facts.driver.clone()),
        ("min_rx_bufsize", facts.min_rx_buffer.to_string()),
        ("max_rx_pktlen", facts.max_rx_bytes.to_string()),
        ("max_rx_queues", facts.max_rx_queues.to_string()),
        ("max_tx_queues", facts.max_tx_queues.to_string()),
        ("max_mac_addrs", facts.max_mac_addresses.to_string()),
        ("n_rxq", facts.rx_queues.to_string()),
        ("n_txq", facts.tx_queues.to_string()),
        ("rx_csum_offload", facts.receives_checksums.to_string()),
        ("tx_csum_offload", facts.sends_checksums.to_string()),
        ("tx_tso_offload", facts.cuts_tcp.to_string()),
        ("if_type", IF_TYPE.to_string()),
        ("if_descr", format!("{version} {}", facts.driver)),
        ("bus_info", format!("bus_name={}{info}{}", facts.bus, facts.bus_info)),
    ];
    told.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// `Interface.statistics`: the common names, and the device's own.
fn statistics(port: &DpdkPort) -> BTreeMap<String, i64> {
    let Ok(counted) = port.statistics() else { return BTreeMap::new() };
    let own = port.own_counters();
    let own =
        own.iter().map(|(name, value)| (name.clone(), i64::try_from(*value).unwrap_or(i64::MAX)));
    let mut all: BTreeMap<String, i64> = own.collect();
    all.extend(named([
        ("rx_packets", counted.rx_packets),
        ("tx_packets", counted.tx_packets),
        ("rx_bytes", counted.rx_bytes),
        ("tx_bytes", counted.tx_bytes),
        ("rx_dropped", counted.rx_dropped),
        ("tx_dropped", counted.tx_dropped),
        ("rx_errors", counted.rx_errors),
        ("tx_errors", counted.tx_errors),
        ("ovs_tx_failure_drops", counted.tx_dropped),
    ]));
    all
}
