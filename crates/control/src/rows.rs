//! Converts OVSDB rows to [`Desired`].
//!
//! Invalid parts of a database do not stop the rest: unknown keys of `other_config` belong to other programs,
//! wrong values are replaced by the default with a [`Warning`], and an interface that cannot be opened is
//! [`InterfaceKind::Refused`], whose reason is written to its column `error`.

mod mirrors;
mod monitored;
mod port;
mod queues;
mod tables;
mod zones;

pub use monitored::monitored;

use crate::compatibility::{self, State};
use crate::desired::{
    DEFAULT_CONTROLLER_QUEUE, all_versions, datapath_id_from_text, version_from_name,
};
use crate::{
    Bridge, BridgeSettings, Controller, ControllerKind, CoreSet, Desired, DpdkOptions, Interface,
    InterfaceKind, Port, SwitchOptions, TlsFiles, UpcallRateList,
};
use base::limits;
use ofproto::FailMode;
use ovsdb::{Replica, Row};
use port::vlans;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use uuid::Uuid;

/// A value in the database that is not used as it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// The table.
    pub table: &'static str,
    /// The row's name, target or zone.
    pub row: String,
    /// The column, with the key if it is a map.
    pub column: String,
    /// The error, and what is used instead.
    pub message: String,
}

/// Returns the number of the configuration in the rows (`Open_vSwitch.next_cfg`), which is reported as
/// [`crate::Status::cur_cfg`] once it is applied.
pub fn next_cfg(replica: &Replica) -> Option<i64> {
    replica.only_row("Open_vSwitch")?.1.opt_i64("next_cfg")
}

impl Desired {
    /// Returns the desired configuration and warnings. A database without its row of `Open_vSwitch` yields an
    /// empty configuration.
    pub fn from_rows(replica: &Replica) -> (Desired, Vec<Warning>) {
        let mut reader = Reader { replica, warnings: Vec::new(), devices: BTreeSet::new() };
        let mut desired = Desired::default();
        if let Some((_, root)) = replica.only_row("Open_vSwitch") {
            desired.options = reader.options(root);
            desired.tls = reader.tls(root);
            reader.zones(root, &mut desired);
            let rows = root.uuids("bridges");
            let mut rows: Vec<_> =
                rows.iter().filter_map(|row| reader.row("Bridge", *row)).collect();
            // Sorted by name, so that a port named in two bridges always belongs to the same one.
            rows.sort_by_key(|row| row.str("name"));
            for row in rows {
                if let Some(name) = row.str("name") {
                    if !crate::desired::is_bridge_name(name) {
                        let place = &Place { table: "Bridge", name, row };
                        reader.warn(place, "name", "ignoring bridge with invalid name");
                        continue;
                    }
                    desired.bridges.insert(name.to_owned(), reader.bridge(name, row));
                }
            }
        }
        (desired, reader.warnings)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { table, row, column, message } = self;
        let space = if row.is_empty() { "" } else { " " };
        write!(f, "{table}{space}{row}: {column}: {message}")
    }
}

struct Reader<'a> {
    replica: &'a Replica,
    warnings: Vec<Warning>,
    /// Interface rows that belong to a port already.
    devices: BTreeSet<Uuid>,
}

/// A row and its context for warnings.
struct Place<'a> {
    table: &'static str,
    name: &'a str,
    row: &'a Row,
}

impl<'a> Reader<'a> {
    fn row(&self, table: &str, uuid: Uuid) -> Option<&'a Row> {
        self.replica.row(table, uuid).map(|row| &**row)
    }

    fn warn(&mut self, place: &Place<'_>, column: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Warning {
            table: place.table,
            row: place.name.to_owned(),
            column: column.into(),
            message: message.into(),
        });
    }

    /// Warns of each setting of a row that is set but has no effect. Returns what the database is to tell of those
    /// without which traffic may stop.
    fn warn_of_ignored(&mut self, place: &Place<'_>) -> Option<String> {
        let mut errors = Vec::new();
        for (setting, state, reason) in compatibility::ignored_in(place.table, place.row) {
            self.warn(place, setting, format!("{reason}; ignored"));
            if state == State::IgnoredWithError {
                errors.push(format!("{setting}: {reason}; ignored"));
            }
        }
        (!errors.is_empty()).then(|| errors.join("; "))
    }

    /// Returns a number of `other_config`; `None` if it is unset, or out of range, which is a warning.
    fn config<T>(&mut self, place: &Place<'_>, key: &str, range: RangeInclusive<T>) -> Option<T>
    where
        T: FromStr + PartialOrd + fmt::Display,
    {
        let text = place.row.map_str("other_config", key)?;
        let value = text.trim().parse().ok().filter(|value| range.contains(value));
        if value.is_none() {
            let (least, most) = range.into_inner();
            let words = format!("\"{text}\" is not a number from {least} to {most}; ignored");
            self.warn(place, format!("other_config:{key}"), words);
        }
        value
    }

    /// Returns a boolean of `other_config`: as in Open vSwitch, only "true" is true.
    fn flag(&mut self, place: &Place<'_>, key: &str) -> bool {
        match place.row.map_str("other_config", key) {
            None => false,
            Some(text) if text.eq_ignore_ascii_case("true") => true,
            Some(text) if text.eq_ignore_ascii_case("false") => false,
            Some(text) => {
                let words = format!("\"{text}\" is neither \"true\" nor \"false\"; taken as false");
                self.warn(place, format!("other_config:{key}"), words);
                false
            }
        }
    }

    /// Returns a value of `other_config` as parsed by `read`; `expected` describes the valid ones.
    fn parsed<T>(
        &mut self,
        place: &Place<'_>,
        key: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = place.row.map_str("other_config", key).filter(|text| !text.is_empty())?;
        let value = read(text);
        if value.is_none() {
            let words = format!("\"{text}\" is not {expected}; ignored");
            self.warn(place, format!("other_config:{key}"), words);
        }
        value
    }

    fn options(&mut self, root: &Row) -> SwitchOptions {
        let place = &Place { table: "Open_vSwitch", name: "", row: root };
        self.warn_of_ignored(place);
        let (default, cache) = (SwitchOptions::default(), SwitchOptions::MAX_UNIFIED_CACHE_ENTRIES);
        let any = 0..=u32::MAX;
        let slow_threads = 0..=SwitchOptions::MAX_SLOW_THREADS;
        let mut threads =
            |key: &str| self.config(place, key, slow_threads.clone()).map(|count| count as u16);
        let (handler_threads, revalidator_threads) =
            (threads("n-handler-threads"), threads("n-revalidator-threads"));
        let mut number =
            |key: &str, default: u32| self.config(place, key, any.clone()).unwrap_or(default);
        SwitchOptions {
            handler_threads,
            revalidator_threads,
            flow_limit: number("flow-limit", default.flow_limit),
            max_idle_ms: number("max-idle", default.max_idle_ms),
            max_revalidator_ms: number("max-revalidator", default.max_revalidator_ms)
                .max(SwitchOptions::MIN_MAX_REVALIDATOR_MS),
            min_revalidate_pps: number("min-revalidate-pps", default.min_revalidate_pps),
            emc_insert_inv_prob: number("emc-insert-inv-prob", default.emc_insert_inv_prob),
            vlan_limit: number("vlan-limit", default.vlan_limit),
            stats_update_interval_ms: number("stats-update-interval", 0)
                .max(SwitchOptions::MIN_STATS_UPDATE_INTERVAL_MS),
            // 0 is the default (ovs: `ofproto/connmgr.c`, `connmgr_set_bundle_idle_timeout`).
            bundle_idle_timeout_s: match number("bundle-idle-timeout", 0) {
                0 => default.bundle_idle_timeout_s,
                seconds => seconds,
            },
            worker_cores: self.parsed(
                place,
                "pmd-cpu-mask",
                "a hexadecimal mask of cores",
                CoreSet::from_hex_mask,
            ),
            queues: self.queue_options(place),
            dpdk: DpdkOptions::read(|key, _| root.map_str("other_config", key).map(str::to_owned)),
            unified_cache_entries: self
                .config(place, "unified-cache-entries", 0..=cache)
                .unwrap_or(default.unified_cache_entries),
            flow_stats_interval_ms: self.config(place, "tidegate-stats-interval", any),
            flow_expiry: root.map_str("other_config", "tidegate-flow-expiry") != Some("false"),
            upcall_rates: self
                .parsed(
                    place,
                    "tidegate-upcall-rates",
                    UpcallRateList::EXPECTED,
                    UpcallRateList::parse,
                )
                .unwrap_or_default(),
            hw_offload: self.flag(place, "hw-offload"),
            perf_metrics: self.flag(place, "pmd-perf-metrics"),
            enable_statistics: self.flag(place, "enable-statistics"),
            flow_restore_wait: self.flag(place, "flow-restore-wait"),
            ..default
        }
    }

    fn tls(&self, root: &Row) -> Option<TlsFiles> {
        let row = self.row("SSL", root.opt_uuid("ssl")?)?;
        let path = |column| PathBuf::from(row.str(column).unwrap_or_default());
        Some(TlsFiles {
            private_key: path("private_key"),
            certificate: path("certificate"),
            ca_cert: path("ca_cert"),
            bootstrap_ca_cert: row.opt_bool("bootstrap_ca_cert").unwrap_or_default(),
        })
    }

    fn bridge(&mut self, name: &str, row: &Row) -> Bridge {
        let place = &Place { table: "Bridge", name, row };
        let missing = self.warn_of_ignored(place);
        let settings = BridgeSettings { missing, ..self.bridge_settings(place) };
        let mut bridge = Bridge { settings, ports: BTreeMap::new() };
        let ports = row.uuids("ports");
        let mut ports: Vec<_> = ports.iter().filter_map(|port| self.row("Port", *port)).collect();
        ports.sort_by_key(|port| port.str("name"));
        for port_row in ports {
            let Some(port_name) = port_row.str("name") else { continue };
            if let Some(port) = self.port(port_name, port_row, name) {
                bridge.ports.insert(port.name.clone(), port);
            }
        }
        let local = || Port::new(Interface::new(name, InterfaceKind::Internal));
        bridge.ports.entry(name.to_owned()).or_insert_with(local);
        bridge
    }

    fn bridge_settings(&mut self, place: &Place<'_>) -> BridgeSettings {
        let row = place.row;
        let default = BridgeSettings::default();
        let nonzero = |value: &u32| *value != 0;
        let strings = |key: &str| row.map_str("other_config", key).map(str::to_owned);
        self.check_datapath_type(place);
        BridgeSettings {
            fail_mode: match row.str("fail_mode") {
                Some("secure") => FailMode::Secure,
                _ => FailMode::Standalone,
            },
            datapath_id: self.parsed(
                place,
                "datapath-id",
                "16 hexadecimal digits that are not all zero",
                datapath_id_from_text,
            ),
            hwaddr: self.parsed(place, "hwaddr", "an Ethernet address", mac_of_an_interface),
            controllers: self.controllers(row),
            versions: self.versions(place),
            mac_aging_s: self
                .config(place, "mac-aging-time", 0..=u32::MAX)
                .filter(nonzero)
                .unwrap_or(limits::MAC_AGING_S as u32),
            mac_table_size: self
                .config(place, "mac-table-size", 0..=u32::MAX)
                .filter(nonzero)
                .unwrap_or(limits::MAC_TABLE_SIZE as u32),
            flood_vlans: vlans(row, "flood_vlans").into_iter().collect(),
            mirrors: self.mirrors(place),
            tables: self.flow_tables(place),
            forward_bpdu: self.flag(place, "forward-bpdu"),
            controller_queue_size: self
                .config(place, "controller-queue-size", 1..=512)
                .unwrap_or(DEFAULT_CONTROLLER_QUEUE),
            description: strings("dp-desc"),
            serial_number: strings("dp-sn"),
            ..default
        }
    }

    /// Both types select this switch's only datapath, because OVN requests "system" by default.
    fn check_datapath_type(&mut self, place: &Place<'_>) {
        let name = place.row.str("datapath_type").unwrap_or_default();
        if !matches!(name, "" | "netdev" | "system" | "dummy") {
            let words = format!("\"{name}\" is neither \"netdev\" nor \"system\"; taken as netdev");
            self.warn(place, "datapath_type", words);
        }
    }

    fn versions(&mut self, place: &Place<'_>) -> BTreeSet<openflow::Version> {
        let names = place.row.get("protocols").map(|set| set.as_str_set()).unwrap_or_default();
        if names.is_empty() {
            return all_versions();
        }
        let versions: BTreeSet<_> =
            names.iter().filter_map(|name| version_from_name(name)).collect();
        if versions.is_empty() {
            let words =
                format!("none of {} is spoken; no controller can connect", names.join(", "));
            self.warn(place, "protocols", words);
        }
        versions
    }

    /// Returns the controllers sorted by target; of two with the same target, the first.
    fn controllers(&mut self, bridge: &Row) -> Vec<Controller> {
        let mut controllers = BTreeMap::new();
        for uuid in bridge.uuids("controller") {
            let Some(row) = self.row("Controller", uuid) else { continue };
            let Some(target) = row.str("target") else { continue };
            let place = &Place { table: "Controller", name: target, row };
            if controllers.contains_key(target) {
                self.warn(place, "target", "the bridge has this controller twice; ignored");
                continue;
            }
            self.warn_of_ignored(place);
            controllers.insert(target, controller(target, row));
        }
        controllers.into_values().collect()
    }
}

fn controller(target: &str, row: &Row) -> Controller {
    let number = |column| row.opt_i64(column).map(to_u32);
    let default = Controller::new(target);
    Controller {
        kind: match row.str("type") {
            Some("primary") => ControllerKind::Primary,
            Some("service") => ControllerKind::Service,
            _ => default.kind,
        },
        // At least one second (ovs: vswitchd/bridge.c, bridge_configure_remotes).
        probe_ms: match number("inactivity_probe") {
            None => default.probe_ms,
            Some(0) => 0,
            Some(probe_ms) => probe_ms.max(1000),
        },
        max_backoff_ms: number("max_backoff").unwrap_or(default.max_backoff_ms),
        rate_limit_pps: number("controller_rate_limit"),
        burst_limit: number("controller_burst_limit"),
        queue_size: number("controller_queue_size"),
        async_messages: row.opt_bool("enable_async_messages").unwrap_or(true),
        ..default
    }
}

/// Parses an Ethernet address that is valid for an interface.
pub(crate) fn mac_of_an_interface(text: &str) -> Option<base::MacAddr> {
    text.parse().ok().filter(|mac: &base::MacAddr| !mac.is_multicast() && mac.to_u64() != 0)
}

/// Returns the nearest number in range.
fn to_u32(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
