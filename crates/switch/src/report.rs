//! The database: its rows become the configuration, and the switch's status is written to its rows.

mod device_status;

use super::Switch;
use super::capabilities::capabilities;
use super::configuration_log;
use super::statistics::named;
use super::system_statistics;
use base::{Instant, OfPort};
use control::{BridgeStatus, Desired, InterfaceStatus, LinkStatus, Status};
use coverage::Event as Counted;
use ofproto::PortDevice;
use ovsdb::{Event, Session, SessionConfig, TransactionId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The lock that one `ovs-vswitchd` per database holds.
const LOCK: &str = "ovs_vswitchd";
/// The pause before a refused report is repeated.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// The database session and its pending work.
pub struct Database {
    session: Session,
    /// The transactions of the last report that were sent and not answered yet.
    sent: BTreeSet<TransactionId>,
    /// Whether something changed since the last report.
    stale: bool,
    /// When a report that was refused is repeated.
    again_at: Option<Instant>,
    /// The number of the applied configuration.
    cur_cfg: Option<i64>,
    /// Time of the last report of statistics.
    reported_statistics: Option<Instant>,
    /// Interfaces whose statistics were reported: a new one is reported at once (ovs: `iface_create`).
    counted: BTreeSet<String>,
    /// Whether the first configuration was reported.
    ready: bool,
    /// Why the connection must be closed.
    failure: Option<String>,
    /// The last warnings, so that each is logged once.
    warned: Vec<String>,
}

impl Switch {
    /// Starts to take the configuration from the database.
    pub fn use_database(&mut self) {
        let config = SessionConfig::new("Open_vSwitch", control::monitored()).with_lock(LOCK);
        self.database = Some(Database {
            session: Session::new(config),
            sent: BTreeSet::new(),
            stale: false,
            again_at: None,
            cur_cfg: None,
            reported_statistics: None,
            counted: BTreeSet::new(),
            ready: false,
            failure: None,
            warned: Vec::new(),
        });
    }

    /// Returns when to connect to the database; `None` while connected.
    pub fn database_connect_at(&self) -> Option<Instant> {
        self.database.as_ref()?.session.connect_at()
    }

    /// Returns when the session's timer is due.
    pub fn database_timeout(&self) -> Option<Instant> {
        self.database.as_ref()?.session.next_timeout()
    }

    /// Returns the bytes to send to the database.
    pub fn database_output(&mut self) -> Vec<u8> {
        self.database.as_mut().map(|db| db.session.take_output()).unwrap_or_default()
    }

    /// Returns why the connection must be closed, if it must.
    pub fn take_database_failure(&mut self) -> Option<String> {
        self.database.as_mut()?.failure.take()
    }

    /// Passes an event to the session, and processes the resulting events.
    pub fn database_event(&mut self, tell: impl FnOnce(&mut Session)) {
        let Some(database) = &mut self.database else { return };
        tell(&mut database.session);
        while let Some(event) = self.database.as_mut().and_then(|db| db.session.next_event()) {
            self.heed(event);
        }
        self.report();
    }

    fn heed(&mut self, event: Event) {
        let Some(database) = &mut self.database else { return };
        match event {
            Event::Connected { .. } | Event::LockAcquired | Event::Updated(_) => {
                self.configure_from_rows();
            }
            Event::Disconnected => database.sent.clear(),
            Event::LockBusy => {
                let pid = std::process::id();
                vlog::limited!(
                    (1, 1), clock::now(), target: "bridge", log::Level::Error,
                    "another ovs-vswitchd process is running, disabling this process \
                     (pid {pid}) until it goes away"
                );
            }
            Event::LockLost => {
                vlog::limited!(
                    (5, 5), clock::now(), target: "bridge", log::Level::Info,
                    "lost the lock of the database; changing nothing"
                );
            }
            Event::LockStolen => {
                vlog::limited!(
                    (5, 5), clock::now(), target: "bridge", log::Level::Warn,
                    "another program took the lock of the database; changing nothing"
                );
            }
            Event::TransactionDone { id, result } => {
                database.sent.remove(&id);
                coverage::count(match &result {
                    Ok(_) => Counted::TransactionSuccess,
                    Err(_) => Counted::TransactionError,
                });
                match result {
                    Ok(_) if database.sent.is_empty() && database.again_at.is_none() => {
                        self.report_ready();
                    }
                    Ok(_) => {}
                    Err(error) => {
                        database.stale = true;
                        database.again_at = Some(clock::now() + REFUSED_PAUSE);
                        vlog::limited!(
                            (5, 5), clock::now(), target: "bridge", log::Level::Warn,
                            "the database refused a report: {error}"
                        );
                    }
                }
            }
            Event::ProtocolError(error) => database.failure = Some(error.to_string()),
            Event::ProbeTimeout => {
                database.failure = Some("no response to inactivity probe".to_owned());
            }
        }
    }

    fn configure_from_rows(&mut self) {
        let Some(database) = &mut self.database else { return };
        if !database.session.has_lock() || !database.session.is_monitoring() {
            return;
        }
        let (desired, warnings) = Desired::from_rows(database.session.replica());
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        for warning in warnings.iter().filter(|text| !database.warned.contains(text)) {
            configuration_log::warning(warning);
        }
        database.warned = warnings;
        database.cur_cfg = control::next_cfg(database.session.replica());
        database.stale = true;
        self.configure(desired);
    }

    /// Records that something changed that the database shows.
    pub fn mark_stale(&mut self) {
        if let Some(database) = &mut self.database {
            database.stale = true;
        }
    }

    /// Writes changes to the database, unless a report is pending.
    pub fn report(&mut self) {
        let now = clock::now();
        let interval = Duration::from_millis(self.desired.options.stats_update_interval_ms.into());
        let Some(database) = &mut self.database else { return };
        let due = database.reported_statistics.is_none_or(|at| now - at >= interval);
        let can = database.session.has_lock() && database.session.is_monitoring();
        let waits = database.again_at.is_some_and(|at| now < at);
        if !database.sent.is_empty() || !can || waits || !(database.stale || due) {
            return;
        }
        database.again_at = None;
        database.stale = false;
        if due {
            database.reported_statistics = Some(now);
        }
        let cur_cfg = database.cur_cfg;
        let status = self.status(cur_cfg, due);
        let Some(database) = &mut self.database else { return };
        let transactions = control::report(database.session.replica(), &status);
        if transactions.is_empty() {
            coverage::count(Counted::TransactionUnchanged);
        }
        for transaction in transactions {
            coverage::count(Counted::TransactionIncomplete);
            match database.session.transact(transaction) {
                Ok(id) => {
                    database.sent.insert(id);
                }
                Err(_) => database.stale = true,
            }
        }
        if database.sent.is_empty() && !database.stale {
            self.report_ready();
        }
        self.database_wake.notify_one();
    }

    /// Signals readiness after the first configuration was applied and reported.
    fn report_ready(&mut self) {
        let Some(database) = &mut self.database else { return };
        if !std::mem::replace(&mut database.ready, true) {
            self.ready.notify_one();
        }
    }

    fn status(&mut self, cur_cfg: Option<i64>, with_statistics: bool) -> Status {
        let names = |list: &[&str]| Some(list.iter().map(|&name| name.to_owned()).collect());
        Status {
            cur_cfg,
            ovs_version: None,
            datapath_types: names(&["netdev", "system"]),
            iface_types: names(&interface_types()),
            dpdk_runs: port_dpdk::is_running(),
            dpdk_version: port_dpdk::version(),
            capabilities: Some(capabilities()),
            statistics: match self.desired.options.enable_statistics {
                true if with_statistics => Some(system_statistics::collect(&self.settings.run_dir)),
                true => None,
                false => Some(BTreeMap::new()),
            },
            bridges: self.bridge_statuses(),
            interfaces: self.interface_statuses(with_statistics),
            mirrors: match with_statistics {
                true => self.ofproto.mirrored().map(|(id, counts)| (id.0, counts)).collect(),
                false => BTreeMap::new(),
            },
            controllers: self.controller_statuses(),
        }
    }

    fn bridge_statuses(&self) -> BTreeMap<String, BridgeStatus> {
        let bridges = self.ofproto.bridges().iter();
        let status = |bridge: &ofproto::Bridge| {
            let running = self.configured.bridges.get(&bridge.config.name);
            let error = running.and_then(|running| running.settings.missing.clone());
            BridgeStatus { datapath_id: bridge.config.datapath_id, error }
        };
        bridges.map(|bridge| (bridge.config.name.clone(), status(bridge))).collect()
    }

    fn interface_statuses(&mut self, all: bool) -> BTreeMap<String, InterfaceStatus> {
        let names: Vec<String> = self.configured.interfaces.keys().cloned().collect();
        let counted = self.database.as_mut().map(|db| std::mem::take(&mut db.counted));
        let mut statuses = BTreeMap::new();
        for name in names {
            let with_statistics = all || counted.as_ref().is_none_or(|it| !it.contains(&name));
            let Some(run) = self.configured.interfaces.get(&name) else { continue };
            let (has_device, link_resets, fault) =
                (run.has_device(), run.link_resets, run.fault.clone());
            let status = match run.state.clone() {
                Err(error) => InterfaceStatus::Failed { error },
                Ok(ofport) => {
                    let number = self.devices.number_of(&name);
                    let unpolled = number.and_then(|number| self.devices.unpolled(number));
                    let link = self.devices.user_space_status(&name, ofport, with_statistics);
                    if let Some(link) = link {
                        let error = unpolled.or(link.error);
                        let link = Box::new(LinkStatus { link_resets, error, ..link });
                        statuses.insert(name, InterfaceStatus::Running(link));
                        continue;
                    }
                    let link = has_device.then(|| self.devices.link(&name).ok()).flatten();
                    InterfaceStatus::Running(Box::new(match link {
                        Some(link) => {
                            let mut status =
                                device_status::device_status(ofport, &link, with_statistics);
                            let (details, counters) = self.devices.details(&name);
                            status.status.extend(details);
                            if let Some(statistics) = &mut status.statistics {
                                statistics.extend(counters);
                            }
                            LinkStatus { link_resets, error: unpolled.or(fault), ..status }
                        }
                        None if has_device => {
                            LinkStatus::without_device(ofport, link_resets, with_statistics)
                        }
                        None => {
                            let own = self.configured.interfaces.remove(&name);
                            let details = own.as_ref().map(|run| self.tunnel_status(run));
                            self.configured.interfaces.extend(own.map(|run| (name.clone(), run)));
                            let status = self.patch_status(&name, ofport, with_statistics);
                            LinkStatus { status: details.unwrap_or_default(), ..status }
                        }
                    }))
                }
            };
            statuses.insert(name, status);
        }
        for (name, status) in &mut statuses {
            let InterfaceStatus::Running(link) = status else { continue };
            let run = self.configured.interfaces.get(name);
            link.error = link.error.take().or(run.and_then(|run| run.interface.missing.clone()));
            link.bfd_status = run.map(|run| run.monitor.bfd_status.clone()).unwrap_or_default();
        }
        if let Some(database) = &mut self.database {
            let running = statuses.iter().filter(|of| matches!(of.1, InterfaceStatus::Running(_)));
            database.counted = running.map(|(name, _)| name.clone()).collect();
        }
        statuses
    }

    /// Returns the status of a patch port: it has no device, is up, and counts the packets that cross it. Without a peer
    /// that names it, it leads nowhere (ovs: `ofproto/ofproto-dpif.c`, `vport_get_status`).
    fn patch_status(&self, name: &str, ofport: OfPort, with_statistics: bool) -> LinkStatus {
        let up =
            LinkStatus { ofport, admin_up: Some(true), link_up: true, ..LinkStatus::default() };
        let mut bridges = self.ofproto.bridges().iter();
        let Some(port) = bridges.find_map(|bridge| bridge.port_named(name)) else { return up };
        let error = match &port.spec.device {
            PortDevice::Patch { peer } if self.ofproto.bridges().patch_peer(port).is_none() => {
                Some(format!("No usable peer '{peer}' exists in 'netdev' datapath."))
            }
            _ => None,
        };
        let (rx, tx) = (port.patch_rx.pair(), port.patch_tx.pair());
        let counters =
            [("rx_packets", rx.0), ("rx_bytes", rx.1), ("tx_packets", tx.0), ("tx_bytes", tx.1)];
        LinkStatus {
            mac: Some(port.spec.mac),
            error,
            statistics: with_statistics.then(|| named(counters)),
            ..up
        }
    }
}

/// Returns the interface types that can be opened.
fn interface_types() -> Vec<&'static str> {
    let dpdk = port_dpdk::is_running().then_some(control::DPDK_INTERFACE_TYPE);
    control::INTERFACE_TYPES.into_iter().chain(dpdk).collect()
}
