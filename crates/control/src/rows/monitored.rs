//! The tables and columns that the switch monitors.

use crate::compatibility::ignored_columns;
use ovsdb::Monitor;
use std::collections::BTreeSet;

/// Tables with their columns.
const COLUMNS: &[(&str, &str)] = &[
    (
        "Open_vSwitch",
        "bridges cur_cfg datapath_types datapaths dpdk_initialized dpdk_version iface_types \
         next_cfg other_config ovs_version ssl statistics",
    ),
    (
        "Bridge",
        "controller datapath_id datapath_type datapath_version fail_mode flood_vlans flow_tables mirrors name \
         other_config ports protocols status",
    ),
    ("Flow_Table", "flow_limit groups name overflow_policy prefixes"),
    (
        "Mirror",
        "filter name output_port output_vlan select_all select_dst_port select_src_port select_vlan \
         snaplen statistics",
    ),
    ("Port", "cvlans interfaces name other_config protected tag trunks vlan_mode"),
    (
        "Interface",
        "admin_state bfd bfd_status duplex error ifindex link_resets link_speed link_state mac mac_in_use mtu mtu_request name ofport \
         ofport_request options other_config statistics status type",
    ),
    (
        "Controller",
        "controller_burst_limit controller_queue_size controller_rate_limit \
         enable_async_messages inactivity_probe is_connected max_backoff role status target type",
    ),
    // The limits are newer than Open vSwitch 3.1; they are not requested from a server without them.
    ("Datapath", "capabilities ct_zone_default_limit ct_zones"),
    ("CT_Zone", "limit timeout_policy"),
    ("CT_Timeout_Policy", "timeouts"),
    ("SSL", "bootstrap_ca_cert ca_cert certificate private_key"),
];

/// Returns the tables and columns that [`crate::Desired::from_rows`] reads and [`crate::report`] writes.
/// Settings without an effect are included, so that they can be reported.
pub fn monitored() -> Monitor {
    let add = |monitor: Monitor, (table, columns): &(&str, &'static str)| {
        let columns: BTreeSet<_> =
            columns.split_whitespace().chain(ignored_columns(table)).collect();
        monitor.table(table, columns)
    };
    COLUMNS.iter().fold(Monitor::default(), add)
}
