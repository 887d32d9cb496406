//! The status that the switch reports to the database.

use base::{DatapathId, MacAddr, OfPort};
use ovsdb::{Datum, Replica, Row, Transaction, Values};
use std::collections::BTreeMap;

/// The types of interfaces that can be opened, for `Open_vSwitch.iface_types`.
pub const INTERFACE_TYPES: [&str; 9] = [
    "afxdp",
    "afxdp-nonpmd",
    "dpdkvhostuser",
    "dpdkvhostuserclient",
    "internal",
    "patch",
    "pcap",
    "system",
    "tap",
];

/// The further type while DPDK runs.
pub const DPDK_INTERFACE_TYPE: &str = "dpdk";

/// The state of the running switch for its database.
///
/// The database keeps the rows of bridges and interfaces that are not listed, and the columns of values that
/// are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The number of the applied configuration ([`crate::next_cfg`] of its rows). `ovs-vsctl` waits for it
    /// and then reads port numbers and errors, so they must be reported together.
    pub cur_cfg: Option<i64>,
    /// The version to report; `None` leaves it to `ovs-ctl`, which usually writes it.
    pub ovs_version: Option<String>,
    /// Datapath types, such as "netdev" and "system"; `None` before they are known.
    pub datapath_types: Option<Vec<String>>,
    /// Interface types, such as [`INTERFACE_TYPES`]; `None` before they are known.
    pub iface_types: Option<Vec<String>>,
    /// Capabilities of the datapath, such as [`userspace_capabilities`], for all rows of `Datapath`, which
    /// other programs create. `None` before they are known.
    pub capabilities: Option<BTreeMap<String, String>>,
    /// System statistics; `None` keeps those written last.
    pub statistics: Option<BTreeMap<String, String>>,
    /// Whether DPDK runs.
    pub dpdk_runs: bool,
    /// The version of DPDK in this build; `None` without DPDK.
    pub dpdk_version: Option<String>,
    /// Bridges by name.
    pub bridges: BTreeMap<String, BridgeStatus>,
    /// Interfaces by name.
    pub interfaces: BTreeMap<String, InterfaceStatus>,
    /// Packets and bytes that mirrors copied, by the numbers of their rows; the others keep those written last.
    pub mirrors: BTreeMap<u128, (u64, u64)>,
    /// Controllers by bridge and target.
    pub controllers: BTreeMap<(String, String), ControllerStatus>,
}

/// The state of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgeStatus {
    /// Its OpenFlow datapath id.
    pub datapath_id: DatapathId,
    /// Settings that have no effect, and without which traffic may stop, with the reasons.
    pub error: Option<String>,
}

/// The state of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterfaceStatus {
    /// It was not opened.
    Failed {
        /// The reason.
        error: String,
    },
    /// It is open.
    Running(Box<LinkStatus>),
}

/// The state of an open interface. `None` is reported as an empty set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// Its OpenFlow port number.
    pub ofport: OfPort,
    /// A problem of the open interface, such as a queue that no worker polls.
    pub error: Option<String>,
    /// Its Ethernet address.
    pub mac: Option<MacAddr>,
    /// Its interface index; 0 without one.
    pub ifindex: u32,
    /// Whether it is administratively up.
    pub admin_up: Option<bool>,
    /// Whether its link is up.
    pub link_up: bool,
    /// Number of link state changes.
    pub link_resets: i64,
    /// Its speed, in bits per second.
    pub link_speed_bps: Option<i64>,
    /// Whether it is full duplex.
    pub full_duplex: Option<bool>,
    /// Its MTU, in bytes.
    pub mtu: Option<i64>,
    /// Information from the driver: "driver_name", "driver_version", "firmware_version", "peer_ifindex".
    pub status: BTreeMap<String, String>,
    /// The state of its BFD session; empty without one.
    pub bfd_status: BTreeMap<String, String>,
    /// Counters by name, such as "rx_packets"; `None` keeps those in the database, which are updated less
    /// often ([`crate::SwitchOptions::stats_update_interval_ms`]).
    pub statistics: Option<BTreeMap<String, i64>>,
}

impl LinkStatus {
    /// Returns the status of a port whose device was removed, or moved to another network namespace (ovs:
    /// `lib/netdev-linux.c`, `netdev_linux_update__`).
    #[must_use]
    pub fn without_device(ofport: OfPort, link_resets: i64, with_statistics: bool) -> LinkStatus {
        LinkStatus {
            ofport,
            link_resets,
            admin_up: Some(false),
            statistics: with_statistics.then(BTreeMap::new),
            ..LinkStatus::default()
        }
    }
}

/// The state of a connection to a controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerStatus {
    /// Whether it is connected.
    pub is_connected: bool,
    /// Its role; `None` if it never connected, or is a passive connection.
    pub role: Option<ControllerRole>,
    /// "state", "last_error", "sec_since_connect" and "sec_since_disconnect".
    pub status: BTreeMap<String, String>,
}

/// The role of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerRole {
    /// Neither primary nor secondary.
    Other,
    /// Only it may change flows.
    Primary,
    /// It may only read.
    Secondary,
}

/// Returns the capabilities of Open vSwitch's userspace datapath, value for value as version 3.1 writes them.
/// A switch without one of these changes that value.
pub fn userspace_capabilities() -> BTreeMap<String, String> {
    const YES: [&str; 24] = [
        "add_mpls",
        "check_pkt_len",
        "clone",
        "ct_clear",
        "ct_eventmask",
        "ct_flush",
        "ct_label",
        "ct_mark",
        "ct_orig_tuple",
        "ct_orig_tuple6",
        "ct_state",
        "ct_state_nat",
        "ct_timeout",
        "ct_zero_snat",
        "ct_zone",
        "explicit_drop_action",
        "lb_output_action",
        "masked_set_action",
        "nd_ext",
        "recirc",
        "sample_nesting",
        "tnl_push_pop",
        "trunc",
        "ufid",
    ];
    let numbers = [("max_hash_alg", "1"), ("max_mpls_depth", "3"), ("max_vlan_headers", "1")];
    let yes = YES.into_iter().map(|name| (name, "true"));
    let pairs = yes.chain(numbers);
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the transactions that update all columns that differ from `status`, to be sent one after the other.
///
/// The replica changes only when they are done, so the caller waits for that before the next report. Clients may drop
/// an update with a column that their model lacks (libovsdb does), so `datapath_version` comes by itself, after what
/// they wait for (ovs: `vswitchd/bridge.c`, `br_refresh_datapath_info`).
#[must_use]
pub fn report(replica: &Replica, status: &Status) -> Vec<Transaction> {
    let mut writer = Writer { replica, transaction: Transaction::new() };
    writer.root(status);
    writer.bridges(status);
    writer.interfaces(status);
    let first = std::mem::replace(&mut writer.transaction, Transaction::new());
    writer.versions(status);
    [first, writer.transaction].into_iter().filter(|transaction| !transaction.is_empty()).collect()
}

impl InterfaceStatus {
    /// Returns its values for the columns of `Interface`.
    fn columns(&self) -> Vec<(&'static str, Datum)> {
        match self {
            InterfaceStatus::Failed { error } => vec![
                ("ofport", Datum::from(NO_OFPORT)),
                ("bfd_status", Datum::empty_map()),
                ("error", Datum::from(error.as_str())),
                ("status", Datum::empty_map()),
                ("statistics", Datum::empty_map()),
                ("admin_state", Datum::empty_set()),
                ("duplex", Datum::empty_set()),
                ("ifindex", Datum::empty_set()),
                ("link_resets", Datum::empty_set()),
                ("link_speed", Datum::empty_set()),
                ("link_state", Datum::empty_set()),
                ("mac_in_use", Datum::empty_set()),
                ("mtu", Datum::empty_set()),
            ],
            InterfaceStatus::Running(link) => link.columns(),
        }
    }
}

impl LinkStatus {
    fn columns(&self) -> Vec<(&'static str, Datum)> {
        let up = |up: bool| if up { "up" } else { "down" };
        let duplex = |full: bool| if full { "full" } else { "half" };
        let statistics = self.statistics.as_ref();
        let statistics = statistics.map(|pairs| {
            let pairs = pairs.iter().map(|(name, count)| (name.as_str(), *count));
            ("statistics", Datum::map(pairs))
        });
        let columns = [
            ("ofport", Datum::from(self.ofport.0)),
            ("error", Datum::from(self.error.clone())),
            ("status", Datum::from(self.status.clone())),
            ("bfd_status", Datum::from(self.bfd_status.clone())),
            ("admin_state", Datum::from(self.admin_up.map(up))),
            ("duplex", Datum::from(self.full_duplex.map(duplex))),
            ("ifindex", Datum::from(self.ifindex)),
            ("link_resets", Datum::from(self.link_resets)),
            ("link_speed", Datum::from(self.link_speed_bps)),
            ("link_state", Datum::from(up(self.link_up))),
            ("mac_in_use", Datum::from(self.mac.map(|mac| mac.to_string()))),
            ("mtu", Datum::from(self.mtu)),
        ];
        columns.into_iter().chain(statistics).collect()
    }
}

impl ControllerRole {
    /// Returns the schema's word, which still uses the older terms.
    const fn name(self) -> &'static str {
        match self {
            ControllerRole::Other => "other",
            ControllerRole::Primary => "master",
            ControllerRole::Secondary => "slave",
        }
    }
}

/// `Interface.ofport` of an interface that is not open.
const NO_OFPORT: i32 = -1;
/// `Bridge.datapath_version` of a userspace datapath.
const DATAPATH_VERSION: &str = "<built-in>";
/// `Open_vSwitch.dpdk_version` of a build without DPDK.
const NO_DPDK: &str = "none";

struct Writer<'a> {
    replica: &'a Replica,
    transaction: Transaction,
}

impl Writer<'_> {
    /// Writes the columns that differ. Columns that the server does not have are omitted.
    fn update(
        &mut self,
        table: &str,
        uuid: uuid::Uuid,
        row: &Row,
        columns: impl IntoIterator<Item = (&'static str, Datum)>,
    ) {
        let differs =
            |(column, datum): &(&str, Datum)| row.get(column).is_some_and(|has| has != datum);
        let columns = columns.into_iter().filter(differs);
        let values: Values = columns.map(|(column, datum)| (column.to_owned(), datum)).collect();
        if !values.is_empty() {
            self.transaction.update(table, uuid, values);
        }
    }

    fn root(&mut self, status: &Status) {
        let Some((uuid, root)) = self.replica.only_row("Open_vSwitch") else { return };
        let strings = |list: &Vec<String>| Datum::set(list.iter().map(String::as_str));
        let columns = [
            ("cur_cfg", status.cur_cfg.map(Datum::from)),
            ("ovs_version", status.ovs_version.as_deref().map(Datum::from)),
            ("datapath_types", status.datapath_types.as_ref().map(strings)),
            ("iface_types", status.iface_types.as_ref().map(strings)),
            ("statistics", status.statistics.clone().map(Datum::from)),
            ("dpdk_initialized", Some(Datum::from(status.dpdk_runs))),
            ("dpdk_version", Some(Datum::from(status.dpdk_version.as_deref().unwrap_or(NO_DPDK)))),
        ];
        let columns = columns.into_iter().filter_map(|(name, datum)| Some((name, datum?)));
        self.update("Open_vSwitch", uuid, root, columns);
        if let Some(capabilities) = &status.capabilities {
            let datapaths = root.get("datapaths").into_iter().flat_map(Datum::pairs);
            for uuid in datapaths.filter_map(|(_, uuid)| uuid.as_uuid()) {
                let Some(row) = self.replica.row("Datapath", uuid) else { continue };
                let columns = [("capabilities", Datum::from(capabilities.clone()))];
                self.update("Datapath", uuid, row, columns);
            }
        }
    }

    /// Writes bridges and their controllers.
    fn bridges(&mut self, status: &Status) {
        for (uuid, row) in self.replica.rows("Bridge") {
            let Some(name) = row.str("name") else { continue };
            if let Some(bridge) = status.bridges.get(name) {
                let error = bridge.error.iter().map(|text| ("error", text.as_str()));
                let columns = [
                    ("datapath_id", Datum::from(format!("{:016x}", bridge.datapath_id.0))),
                    ("status", Datum::map(error)),
                ];
                self.update("Bridge", uuid, row, columns);
            }
            for uuid in row.uuids("mirrors") {
                self.mirror(status, uuid);
            }
            for uuid in row.uuids("controller") {
                self.controller(status, name, uuid);
            }
        }
    }

    fn mirror(&mut self, status: &Status, uuid: uuid::Uuid) {
        let Some(row) = self.replica.row("Mirror", uuid) else { return };
        let Some(&(packets, bytes)) = status.mirrors.get(&uuid.as_u128()) else { return };
        let counts = [("tx_packets", packets as i64), ("tx_bytes", bytes as i64)];
        let columns = [("statistics", Datum::map(counts))];
        self.update("Mirror", uuid, row, columns);
    }

    fn versions(&mut self, status: &Status) {
        for (uuid, row) in self.replica.rows("Bridge") {
            if row.str("name").is_some_and(|name| status.bridges.contains_key(name)) {
                let columns = [("datapath_version", Datum::from(DATAPATH_VERSION))];
                self.update("Bridge", uuid, row, columns);
            }
        }
    }

    fn controller(&mut self, status: &Status, bridge: &str, uuid: uuid::Uuid) {
        let Some(row) = self.replica.row("Controller", uuid) else { return };
        let key = row.str("target").map(|target| (bridge.to_owned(), target.to_owned()));
        let Some(controller) = key.and_then(|key| status.controllers.get(&key)) else { return };
        let columns = [
            ("is_connected", Datum::from(controller.is_connected)),
            ("role", Datum::from(controller.role.map(ControllerRole::name))),
            ("status", Datum::from(controller.status.clone())),
        ];
        self.update("Controller", uuid, row, columns);
    }

    fn interfaces(&mut self, status: &Status) {
        for (uuid, row) in self.replica.rows("Interface") {
            let name = row.str("name").unwrap_or_default();
            if let Some(interface) = status.interfaces.get(name) {
                self.update("Interface", uuid, row, interface.columns());
            }
        }
    }
}

#[cfg(test)]
mod tests;
