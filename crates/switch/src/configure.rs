//! Applies the configuration to the switch.

use super::Switch;
use super::capabilities;
use super::fail_open::FailOpenLog;
use super::flow_file;
use super::interfaces::RunningInterface;
use super::mac_address::random_mac;
use super::openflow_tasks::{self, Service};
use super::slow_path::Useless;
use crate::stream::Target;
use base::{DatapathId, Instant, MacAddr, OfPort};
use control::{BridgeSettings, Change, ControllerKind, Desired};
use ofproto::connection::{CloseReason, ConnId, Settings};
use ofproto::{BridgeConfig, BridgeId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tokio::task::JoinHandle;

/// Manufacturer, hardware and serial number in OpenFlow's description; the software is the program's.
const MANUFACTURER: &str = "Nicira, Inc.";
const HARDWARE: &str = "Open vSwitch";

/// The applied configuration.
#[derive(Default)]
pub struct Configured {
    /// Sessions with configured controllers, with bridge and target.
    pub sessions: BTreeMap<ConnId, (BridgeId, String)>,
    /// The connection history of configured controllers.
    pub history: BTreeMap<(BridgeId, String), History>,
    /// The controllers that were connected at the last check.
    pub connected: Vec<bool>,
    /// Bridges by name.
    pub bridges: BTreeMap<String, RunningBridge>,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, RunningInterface>,
    /// Interfaces whose ports a command removed from the datapath.
    pub taken_out: BTreeSet<String>,
    /// Limits of upcalls without effect that were logged, by the name of their port.
    pub useless_limits: BTreeMap<String, Useless>,
    /// The smallest MTU of each bridge's ports at the last check.
    pub mtus: BTreeMap<String, u32>,
}

/// The connection history of a controller.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// When the last connection was established.
    pub connected: Option<Instant>,
    /// When the last one ended.
    pub disconnected: Option<Instant>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
}

/// A bridge in operation.
pub struct RunningBridge {
    pub(super) id: BridgeId,
    pub(super) settings: BridgeSettings,
    /// Files of flows that must still be loaded.
    flow_files: Vec<PathBuf>,
    /// Since when no primary controller is connected.
    pub(super) alone_since: Option<Instant>,
    pub(super) fail_open: FailOpenLog,
    /// The datapath id that was logged last.
    announced: Option<DatapathId>,
    tasks: Vec<JoinHandle<()>>,
    pub(super) controllers: BTreeMap<String, JoinHandle<()>>,
}

impl RunningBridge {
    /// Returns whether it has a primary controller configured.
    pub fn has_primary_controller(&self) -> bool {
        self.settings.controllers.iter().any(|c| c.kind == ControllerKind::Primary)
    }
}

impl Drop for RunningBridge {
    fn drop(&mut self) {
        self.tasks.iter().chain(self.controllers.values()).for_each(JoinHandle::abort);
    }
}

impl Switch {
    /// Applies `desired`, change by change.
    pub fn configure(&mut self, mut desired: Desired) {
        coverage::count(coverage::Event::BridgeReconfigure);
        self.note_numbers(&mut desired);
        let changes = control::difference(&self.desired, &desired);
        let changed = !changes.is_empty();
        let was_restoring = self.is_restoring;
        // A completed restore is not repeated (ovs: `vswitchd/bridge.c`, `bridge_run`).
        self.is_restoring &= desired.options.flow_restore_wait;
        self.tell_handlers_of_restoring();
        let added: Vec<String> = changes.iter().filter_map(Change::added_port).collect();
        self.poll_dummies(&desired);
        for change in changes {
            self.apply(change);
        }
        self.desired = desired;
        self.announce_queue_options();
        if was_restoring && !self.is_restoring {
            self.start_controllers();
        }
        if changed {
            self.devices.remove_doomed();
            self.retry_dpdk_ports(&added);
            self.put_back();
            self.devices.record_again();
            self.choose_addresses();
            self.announce_datapath_ids();
            self.follow_mtus();
            self.refresh_routing();
            self.load_flow_files();
            self.limit_upcalls();
            self.warn_of_useless_limits();
            self.settle();
        }
    }

    /// Logs new datapath ids. Controllers of a bridge with another one connect again, since no message tells them
    /// (ovs: `ofproto/ofproto.c`, `ofproto_set_datapath_id`).
    fn announce_datapath_ids(&mut self) {
        for (name, running) in &mut self.configured.bridges {
            let Some(bridge) = self.ofproto.bridge(running.id) else { continue };
            let id = bridge.config.datapath_id;
            let before = running.announced.replace(id);
            if before != Some(id) {
                log::info!(target: "bridge", "bridge {name}: using datapath ID {:016x}", id.0);
            }
            if before.is_some_and(|before| before != id) {
                self.connections.hang_up(running.id, CloseReason::DatapathId);
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::AddBridge { bridge, settings } => self.add_bridge(&bridge, settings),
            Change::ConfigureBridge { bridge, settings } => self.set_bridge(&bridge, settings),
            Change::RemoveBridge(bridge) => self.remove_bridge(&bridge),
            Change::AddPort { bridge, port } => self.add_port(&bridge, &port),
            Change::ConfigurePort { bridge, port } => self.set_port(&bridge, &port),
            Change::RemovePort { bridge, port } => self.remove_port(&bridge, &port),
            Change::SetZone { zone, policy } => self.set_zone(zone, &policy),
            Change::RemoveZone(zone) => self.remove_zone(zone),
            Change::SetDefaultZoneLimit(limit) => {
                self.conntrack.set_zone_limit(None, limit.unwrap_or(0));
            }
            Change::SetOptions(options) => self.set_options(&options),
            Change::SetTls(tls) => self.set_tls(tls),
        }
    }

    fn add_bridge(&mut self, name: &str, settings: BridgeSettings) {
        let mac = settings.hwaddr.unwrap_or_else(random_mac);
        if self.configured.bridges.is_empty() {
            for line in capabilities::probes(self.settings.dummy.datapath_name()) {
                log::info!(target: "ofproto_dpif", "{line}");
            }
        }
        let id = self.ofproto.add_bridge(bridge_config(name, mac, &settings), clock::now());
        let tls = self.tls().clone();
        let sockets = [("mgmt", Settings::service()), ("snoop", Settings::snoop())];
        let tasks = sockets.map(|(kind, sessions)| {
            let socket = Target::ListenUnix(self.settings.run_dir.join(format!("{name}.{kind}")));
            let sessions = Settings { versions: versions(&settings), ..sessions };
            let service =
                Service { bridge: id, name: name.to_owned(), settings: sessions, target: None };
            self.spawn(|shared| openflow_tasks::listen(shared, socket, &tls, service))
        });
        let bridge = RunningBridge {
            id,
            tasks: tasks.into_iter().flatten().collect(),
            controllers: BTreeMap::new(),
            flow_files: settings.flow_files.clone(),
            alone_since: None,
            fail_open: FailOpenLog::default(),
            announced: None,
            settings: settings.clone(),
        };
        self.configured.bridges.insert(name.to_owned(), bridge);
        self.set_controllers(name, &settings);
    }

    fn set_bridge(&mut self, name: &str, settings: BridgeSettings) {
        let Some(id) = self.bridge_id(name) else { return };
        let Some(bridge) = self.ofproto.bridge(id) else { return };
        let mac = settings.hwaddr.unwrap_or(bridge.config.mac);
        self.ofproto.set_bridge(id, bridge_config(name, mac, &settings), clock::now());
        if let Some(running) = self.configured.bridges.get_mut(name) {
            running.settings = settings.clone();
        }
        self.set_controllers(name, &settings);
    }

    fn remove_bridge(&mut self, name: &str) {
        let ports: Vec<String> = self.interfaces_of(name).collect();
        for port in ports {
            self.remove_port(name, &port);
        }
        self.configured.mtus.remove(name);
        if let Some(bridge) = self.configured.bridges.remove(name) {
            self.connections.remove_bridge(bridge.id);
            self.configured.history.retain(|(id, _), _| *id != bridge.id);
            self.ofproto.remove_bridge(bridge.id);
        }
    }

    /// Sets the address of bridges without a configured one to the lowest universal address of their ports
    /// (ovs: `vswitchd/bridge.c`, `find_local_hw_addr`), and derives their datapath ids.
    fn choose_addresses(&mut self) {
        let names: Vec<String> = self.configured.bridges.keys().cloned().collect();
        for name in names {
            let Some(bridge) = self.bridge_id(&name).and_then(|id| self.ofproto.bridge(id)) else {
                continue;
            };
            let Some(running) = self.configured.bridges.get(&name) else { continue };
            let is_candidate =
                |mac: &MacAddr| !mac.is_multicast() && mac.0[0] & 2 == 0 && *mac != MacAddr::ZERO;
            let ports = bridge.ports().filter(|port| !port.spec.is_local);
            let lowest = ports.map(|port| port.spec.mac).filter(is_candidate).min();
            let local = bridge.port(OfPort::LOCAL).map(|port| port.spec.mac);
            let (id, settings, was) = (bridge.id, running.settings.clone(), bridge.config.mac);
            // Dummy ports have the same addresses in every process; the bridge's own is random.
            let own = if self.devices.dummy(&name).is_some() { Some(was) } else { local };
            let chosen = running.settings.hwaddr.or(lowest).or(own);
            if let Some(mac) = chosen
                && (mac != was || local != Some(mac))
            {
                if local.is_some()
                    && local != Some(mac)
                    && let Err(error) = self.devices.set_mac(&name, mac)
                {
                    log::warn!(target: "bridge", "{error}");
                }
                self.ofproto.set_bridge(id, bridge_config(&name, mac, &settings), clock::now());
                self.refresh_port(&name);
            }
        }
    }

    /// Reads a device's state again and updates the bridge.
    fn refresh_port(&mut self, name: &str) {
        if let Ok(link) = self.devices.link(name) {
            self.device_changed(&link);
        }
    }

    /// Adds the flows that a configuration file names, once their bridge has its ports.
    fn load_flow_files(&mut self) {
        for (name, running) in &mut self.configured.bridges {
            for file in std::mem::take(&mut running.flow_files) {
                let loaded = flow_file::load(&mut self.ofproto, running.id, &file, clock::now());
                match loaded {
                    Ok(count) => {
                        log::info!(target: "bridge", "{name}: {count} flows of {}", file.display());
                    }
                    Err(error) => log::error!(target: "bridge", "{name}: {error}"),
                }
            }
        }
    }

    /// Closes everything; with `cleanup` also removes the switch's own devices. Returns the tasks that were
    /// aborted, whose ends remove their sockets' files.
    #[must_use]
    pub fn shut_down(&mut self, cleanup: bool) -> Vec<JoinHandle<()>> {
        let names: Vec<String> = self.configured.interfaces.keys().cloned().collect();
        for name in names {
            if let Some(mut running) = self.configured.interfaces.remove(&name) {
                self.close_interface(&mut running, cleanup);
            }
        }
        self.devices.remove_doomed();
        let mut tasks = Vec::new();
        for mut bridge in std::mem::take(&mut self.configured.bridges).into_values() {
            tasks.append(&mut bridge.tasks);
            tasks.extend(std::mem::take(&mut bridge.controllers).into_values());
        }
        tasks.iter().for_each(JoinHandle::abort);
        self.threads = None;
        self.workers.clear();
        tasks
    }
}

fn bridge_config(name: &str, mac: MacAddr, settings: &BridgeSettings) -> BridgeConfig {
    let mut config = BridgeConfig::new(name, mac);
    config.datapath_id = settings.datapath_id.unwrap_or(DatapathId(mac.to_u64()));
    config.fail_mode = settings.fail_mode;
    config.mac_aging_s = settings.mac_aging_s.into();
    config.mac_table_size = settings.mac_table_size as usize;
    config.tables = settings.tables.clone();
    config.flood_vlans = settings.flood_vlans.clone();
    config.mirrors = settings.mirrors.clone();
    config.forward_bpdu = settings.forward_bpdu;
    config.description = [
        MANUFACTURER.to_owned(),
        HARDWARE.to_owned(),
        daemon::OVS_VERSION.to_owned(),
        settings.serial_number.clone().unwrap_or_else(|| "None".to_owned()),
        settings.description.clone().unwrap_or_else(|| "None".to_owned()),
    ];
    config
}

pub(super) fn versions(settings: &BridgeSettings) -> u32 {
    settings.versions.iter().fold(0, |bits, version| bits | 1 << (*version as u8))
}
