//! Converts a TOML file to [`Desired`], for a switch without a database.
//!
//! All errors of a file are reported at once, with their positions and advice. Units are part of the names;
//! names that Open vSwitch has are Open vSwitch's. Everything is optional except the names of bridges and
//! ports, and a patch's peer.
//!
//! ```toml
//! [switch]
//! pmd_cpu_mask = "0x6"              # run workers on cores 1 and 2
//! pmd_rxq_assign = "cycles"         # or "group", "roundrobin"
//! pmd_rxq_isolate = true            # may be false only with "group"
//! pmd_auto_lb = false
//! pmd_auto_lb_rebal_interval_min = 1
//! pmd_auto_lb_load_threshold = 95   # percent
//! pmd_auto_lb_improvement_threshold = 25
//! pmd_sleep_max = "0"               # microseconds; "50,8:100" sets another value for core 8
//! max_connections = 3000000
//! flow_limit = 200000               # megaflows
//! max_idle_ms = 10000               # how long a megaflow stays without packets
//! vlan_limit = 1                    # VLAN headers that are parsed; 0 for as many as are supported
//! emc_insert_inv_prob = 100
//! unified_cache_entries = 524288    # per worker; 0 disables the cache
//! hw_offload = false                # offload established connections to XDP and network cards
//! pmd_perf_metrics = false          # histograms and a history of workers' iterations
//! max_revalidator_ms = 1000
//! min_revalidate_pps = 0            # slower flows are removed when revalidation takes long; 0 keeps all
//! flow_stats_interval_ms = 1000     # interval of collecting flow statistics; 0 disables it
//! handler_threads = 1               # threads that answer misses; 0: each worker answers its own
//! revalidator_threads = 1           # threads that revalidate flows; 0: the control thread does
//! flow_expiry = true                # whether idle flows are removed from the datapath
//! upcall_rates = "neighbor=1000,p1/ip=500"  # maximum upcalls per second of each port, or of one port
//! stats_update_interval_ms = 5000
//! bundle_idle_timeout_s = 10        # an OpenFlow bundle without messages is discarded after this time
//! run_dir = "/run/openvswitch"      # directory of br0.mgmt
//! unixctl = "/run/openvswitch/tidegate.ctl"
//! dpdk_init = "true"                # also dpdk_socket_mem, dpdk_extra and so on, all strings
//!
//! [tls]                             # for controllers at "ssl:..."
//! private_key = "/etc/tidegate/key.pem"
//! certificate = "/etc/tidegate/cert.pem"
//! ca_cert = "/etc/tidegate/ca.pem"
//! bootstrap_ca_cert = false
//!
//! [zone.default]                    # zones without a limit of their own
//! limit = 100000                    # connections
//!
//! [zone.5]
//! limit = 1000
//! timeouts = { tcp_established = 3600, udp_multiple = 60 }  # seconds
//!
//! [[bridge]]
//! name = "br0"
//! datapath_type = "netdev"          # or "system", which means the same
//! fail_mode = "secure"              # or "standalone"
//! datapath_id = "0000000000000001"
//! hwaddr = "02:00:00:00:00:01"
//! protocols = ["OpenFlow10", "OpenFlow13"]
//! controllers = ["tcp:127.0.0.1:6653"]
//! mac_aging_s = 300
//! mac_table_size = 8192
//! forward_bpdu = false
//! flood_vlans = []
//! flows = ["br0.flows"]             # files in the syntax of ovs-ofctl
//!
//! [[bridge.port]]
//! name = "veth0"                    # type "system": an existing device
//! ofport = 1
//! tag = 10                          # an access port of VLAN 10
//!
//! [[bridge.port]]
//! name = "int0"
//! type = "internal"                 # a device that the switch creates; "tap" is another type
//! mac = "02:00:00:00:00:02"
//! mtu = 1500
//! vlan_mode = "trunk"               # "access", "native-tagged", "native-untagged", "dot1q-tunnel"
//! trunks = [10, 20]
//! protected = false
//! priority_tags = "never"           # or "if-nonzero", "always"
//!
//! [[bridge.port]]
//! name = "dpdk0"
//! type = "dpdk"                     # or "dpdkvhostuserclient", "dpdkvhostuser"
//! options = { dpdk-devargs = "0000:01:00.0", n_rxq = "2" }
//!
//! [[bridge.port]]
//! name = "to-br1"
//! type = "patch"
//! peer = "to-br0"
//!
//! [[bridge.port]]
//! name = "veth1"
//! type = "afxdp"                    # an existing device, through AF_XDP
//! options = { xdp-mode = "best-effort", n_rxq = "1", use-need-wakeup = "true" }
//! pmd_rxq_affinity = "0:1"          # queue 0 belongs to core 1
//!
//! [[bridge.port]]
//! name = "play0"
//! type = "pcap"                     # no device: plays one file and records another
//! options = { rx_pcap = "in.pcap", infinite_rx = "true", tx_pcap = "out.pcap" }
//!
//! [[bridge]]
//! name = "br1"
//! port = [{ name = "to-br0", type = "patch", peer = "to-br1" }]
//! ```

mod port;
mod queues;
mod section;

use crate::desired::{TIMEOUT_NAMES, datapath_id_from_text, version_from_name};
use crate::rows::mac_of_an_interface;
use crate::{
    Bridge, BridgeSettings, Controller, CoreSet, Desired, DpdkOptions, Interface, InterfaceKind,
    Port, SwitchOptions, TlsFiles, ZonePolicy,
};
use base::{Zone, limits};
use ofproto::FailMode;
use port::check_device_name;
use section::{Errors, Section, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use toml_edit::Document;

/// An error in a file, with advice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub struct FileError {
    /// The file's name, as the caller gave it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error and the advice.
    pub message: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileError { file, line, column, message } = self;
        write!(f, "{file}:{line}:{column}: {message}")
    }
}

impl Desired {
    /// Parses a file. `file_name` is for error messages; paths in the file are returned unchanged.
    ///
    /// # Errors
    /// All errors in the order of the file, or only the first if the text is not TOML.
    pub fn from_toml(text: &str, file_name: &str) -> Result<Desired, Vec<FileError>> {
        let mut errors = Errors::new(text, file_name);
        let mut desired = Desired::default();
        match Document::parse(text) {
            Ok(document) => {
                let mut file = File::default();
                file.read(&document, &mut errors, &mut desired);
                file.check_patches(&desired, &mut errors);
            }
            Err(error) => errors.add(error.span(), error.message().trim().to_owned()),
        }
        errors.into_result().map(|()| desired)
    }
}

/// Positions of names in the file, to find duplicates.
#[derive(Default)]
struct File {
    bridges: BTreeMap<String, Span>,
    /// Bridge and position of each port.
    ports: BTreeMap<String, (String, Span)>,
}

impl File {
    fn read(&mut self, document: &Document<&str>, errors: &mut Errors<'_>, desired: &mut Desired) {
        let mut root = Section::new(document.as_table(), "the file", None);
        if let Some(mut section) = root.section("switch", errors) {
            desired.options = options(&mut section, errors);
            section.finish(errors);
        }
        if let Some(mut section) = root.section("tls", errors) {
            desired.tls = tls(&mut section, errors);
            section.finish(errors);
        }
        if let Some(zones) = root.section("zone", errors) {
            read_zones(&zones, errors, desired);
        }
        for mut section in root.sections("bridge", errors) {
            self.bridge(&mut section, errors, desired);
            section.finish(errors);
        }
        root.finish(errors);
    }

    fn bridge(&mut self, section: &mut Section<'_>, errors: &mut Errors<'_>, all: &mut Desired) {
        let named = section.required_string("name", errors);
        let settings = bridge_settings(section, errors);
        let sections = section.sections("port", errors);
        // A bridge without a name was reported already; its ports are still checked.
        let (name, span) = named.unwrap_or_default();
        check_device_name(&name, &span, errors);
        let mut bridge = Bridge { settings, ports: BTreeMap::new() };
        let mut numbers = BTreeMap::new();
        for mut port_section in sections {
            let port = self.port(&mut port_section, errors, &name, &mut numbers);
            port_section.finish(errors);
            if let Some(port) = port {
                bridge.ports.insert(port.name.clone(), port);
            }
        }
        let local = || Port::new(Interface::new(&name, InterfaceKind::Internal));
        bridge.ports.entry(name.clone()).or_insert_with(local);
        if self.bridges.insert(name.clone(), span.clone()).is_some() && !name.is_empty() {
            errors.add(span, format!("another bridge is called \"{name}\"; give one another name"));
        }
        all.bridges.insert(name, bridge);
    }

    /// Checks that both ends of a patch name each other.
    fn check_patches(&self, desired: &Desired, errors: &mut Errors<'_>) {
        let peer_of = |port: &str| {
            let (bridge, _) = self.ports.get(port)?;
            match &desired.bridges.get(bridge)?.ports.get(port)?.interface()?.kind {
                InterfaceKind::Patch { peer } => Some(peer),
                _ => None,
            }
        };
        for (name, (_, span)) in &self.ports {
            let Some(peer) = peer_of(name) else { continue };
            // An empty name was reported where it was read.
            if !peer.is_empty() && peer_of(peer) != Some(name) {
                let words = format!(
                    "patch \"{name}\" has no other end; add a port \"{peer}\" with \
                     type = \"patch\" and peer = \"{name}\""
                );
                errors.add(span.clone(), words);
            }
        }
    }
}

fn options(section: &mut Section<'_>, errors: &mut Errors<'_>) -> SwitchOptions {
    let default = SwitchOptions::default();
    let mut number =
        |key, default: u32| section.integer(key, 0..=u32::MAX, errors).unwrap_or(default);
    let numbers = SwitchOptions {
        flow_limit: number("flow_limit", default.flow_limit),
        max_idle_ms: number("max_idle_ms", default.max_idle_ms),
        vlan_limit: number("vlan_limit", default.vlan_limit),
        min_revalidate_pps: number("min_revalidate_pps", default.min_revalidate_pps),
        emc_insert_inv_prob: number("emc_insert_inv_prob", default.emc_insert_inv_prob),
        ..default
    };
    let revalidator = SwitchOptions::MIN_MAX_REVALIDATOR_MS;
    let stats = SwitchOptions::MIN_STATS_UPDATE_INTERVAL_MS;
    let cache = SwitchOptions::MAX_UNIFIED_CACHE_ENTRIES;
    let slow_threads = SwitchOptions::MAX_SLOW_THREADS as u16;
    SwitchOptions {
        unified_cache_entries: section
            .integer("unified_cache_entries", 0..=cache, errors)
            .unwrap_or(numbers.unified_cache_entries),
        flow_stats_interval_ms: section.integer("flow_stats_interval_ms", 0..=u32::MAX, errors),
        handler_threads: section.integer("handler_threads", 0..=slow_threads, errors),
        revalidator_threads: section.integer("revalidator_threads", 0..=slow_threads, errors),
        flow_expiry: section.boolean("flow_expiry", errors).unwrap_or(true),
        upcall_rates: queues::upcall_rates(section, errors),
        hw_offload: section.boolean("hw_offload", errors).unwrap_or_default(),
        perf_metrics: section.boolean("pmd_perf_metrics", errors).unwrap_or_default(),
        max_revalidator_ms: section
            .integer("max_revalidator_ms", revalidator..=u32::MAX, errors)
            .unwrap_or(numbers.max_revalidator_ms),
        stats_update_interval_ms: section
            .integer("stats_update_interval_ms", stats..=u32::MAX, errors)
            .unwrap_or(stats),
        bundle_idle_timeout_s: section
            .integer("bundle_idle_timeout_s", 1..=u32::MAX, errors)
            .unwrap_or(limits::BUNDLE_IDLE_TIMEOUT_S),
        worker_cores: section.parsed(
            "pmd_cpu_mask",
            "a hexadecimal mask of cores, such as \"0x6\" for cores 1 and 2",
            errors,
            CoreSet::from_hex_mask,
        ),
        queues: queues::options(section, errors),
        dpdk: DpdkOptions::read(|_, key| section.string(key, errors)),
        max_connections: section.integer("max_connections", 1..=u32::MAX, errors),
        run_dir: section.string("run_dir", errors).map(PathBuf::from),
        unixctl: section.string("unixctl", errors).map(PathBuf::from),
        ..numbers
    }
}

fn tls(section: &mut Section<'_>, errors: &mut Errors<'_>) -> Option<TlsFiles> {
    let bootstrap_ca_cert = section.boolean("bootstrap_ca_cert", errors).unwrap_or_default();
    let mut path = |key| section.required_string(key, errors).map(|(path, _)| PathBuf::from(path));
    let (private_key, certificate, ca_cert) =
        (path("private_key"), path("certificate"), path("ca_cert"));
    Some(TlsFiles {
        private_key: private_key?,
        certificate: certificate?,
        ca_cert: ca_cert?,
        bootstrap_ca_cert,
    })
}

fn read_zones(zones: &Section<'_>, errors: &mut Errors<'_>, desired: &mut Desired) {
    for (name, span, item) in zones.entries() {
        let Some(mut section) = Section::of_item(item, "a zone", span.clone(), errors) else {
            continue;
        };
        let limit = section.integer("limit", 0..=u32::MAX, errors);
        if name == "default" {
            desired.default_zone_limit = limit;
        } else if let Ok(zone) = name.parse::<u16>() {
            let timeouts_s = timeouts(&mut section, errors);
            desired.zones.insert(Zone(zone), ZonePolicy { timeouts_s, limit });
        } else {
            let words =
                format!("\"{name}\" is no zone; write a number up to 65535, or \"default\"");
            errors.add(span, words);
            continue;
        }
        section.finish(errors);
    }
}

fn timeouts(section: &mut Section<'_>, errors: &mut Errors<'_>) -> BTreeMap<String, u32> {
    let mut timeouts_s = BTreeMap::new();
    if let Some(mut names) = section.section("timeouts", errors) {
        for name in TIMEOUT_NAMES {
            if let Some(seconds) = names.integer(name, 0..=u32::MAX, errors) {
                timeouts_s.insert(name.to_owned(), seconds);
            }
        }
        names.finish(errors);
    }
    timeouts_s
}

fn bridge_settings(section: &mut Section<'_>, errors: &mut Errors<'_>) -> BridgeSettings {
    let default = BridgeSettings::default();
    let modes = [("standalone", FailMode::Standalone), ("secure", FailMode::Secure)];
    let types = [("netdev", "netdev"), ("system", "system")];
    let mut targets: Vec<String> =
        section.strings("controllers", errors).into_iter().map(|(target, _)| target).collect();
    targets.sort();
    targets.dedup();
    section.one_of("datapath_type", &types, errors);
    let flood_vlans = section.integers("flood_vlans", 0..=4095, errors);
    let flows = section.strings("flows", errors);
    BridgeSettings {
        fail_mode: section.one_of("fail_mode", &modes, errors).unwrap_or_default(),
        datapath_id: section.parsed(
            "datapath_id",
            "16 hexadecimal digits that are not all zero",
            errors,
            datapath_id_from_text,
        ),
        hwaddr: section.parsed(
            "hwaddr",
            "an Ethernet address of one interface",
            errors,
            mac_of_an_interface,
        ),
        controllers: targets.iter().map(|target| Controller::new(target)).collect(),
        versions: versions(section, errors).unwrap_or(default.versions),
        mac_aging_s: section
            .integer("mac_aging_s", 1..=u32::MAX, errors)
            .unwrap_or(default.mac_aging_s),
        mac_table_size: section
            .integer("mac_table_size", 1..=u32::MAX, errors)
            .unwrap_or(default.mac_table_size),
        flood_vlans: flood_vlans.into_iter().collect(),
        forward_bpdu: section.boolean("forward_bpdu", errors).unwrap_or_default(),
        flow_files: flows.into_iter().map(|(path, _)| PathBuf::from(path)).collect(),
        ..default
    }
}

fn versions(
    section: &mut Section<'_>,
    errors: &mut Errors<'_>,
) -> Option<BTreeSet<openflow::Version>> {
    let names = section.strings("protocols", errors);
    let mut versions = BTreeSet::new();
    for (name, span) in names {
        match version_from_name(&name) {
            Some(version) => {
                versions.insert(version);
            }
            None => {
                let words = format!(
                    "\"{name}\" is not spoken; choose from \"OpenFlow10\" to \"OpenFlow15\""
                );
                errors.add(span, words);
            }
        }
    }
    (!versions.is_empty()).then_some(versions)
}

#[cfg(test)]
mod tests;
