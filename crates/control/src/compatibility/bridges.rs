//! Settings of bridges, their controllers, and monitoring of bridges.

use super::State::{
    Done, Ignored, IgnoredUnless, IgnoredWithError, NotWritten, Others, Unread, Written,
};
use super::{Settings, settings};

const NO_SNOOPING: &str = "there is no multicast snooping: multicast is flooded";
const NO_STP: &str = "there is no spanning tree";
const NO_SAMPLING: &str = "there is no sampling of flows";
const IN_BAND: &str = "there is no in-band control: controllers are reached by the system's routes";

#[rustfmt::skip]
pub(super) static BRIDGE: &[Settings] = &[
    settings(Done, "name ports controller fail_mode flood_vlans flow_tables mirrors protocols other_config", ""),
    settings(Done, "datapath_type", "\"netdev\" and \"system\" are this switch's one datapath"),
    settings(Written, "datapath_id datapath_version", ""),
    settings(Done, "other_config:datapath-id other_config:hwaddr other_config:dp-desc other_config:dp-sn other_config:forward-bpdu other_config:mac-aging-time other_config:mac-table-size other_config:controller-queue-size", ""),
    settings(Ignored, "other_config:in-band-queue", IN_BAND),
    settings(Done, "other_config:disable-in-band", "there is no in-band control"),
    settings(Ignored, "netflow sflow ipfix", NO_SAMPLING),
    settings(Ignored, "auto_attach", "there is no LLDP"),
    settings(Ignored, "mcast_snooping_enable", NO_SNOOPING),
    settings(Unread, "other_config:mcast-snooping-aging-time other_config:mcast-snooping-table-size other_config:mcast-snooping-disable-flood-unregistered", NO_SNOOPING),
    settings(IgnoredWithError, "stp_enable rstp_enable", NO_STP),
    settings(Unread, "other_config:stp-system-id other_config:stp-priority other_config:stp-hello-time other_config:stp-max-age other_config:stp-forward-delay", NO_STP),
    settings(Unread, "other_config:rstp-address other_config:rstp-priority other_config:rstp-ageing-time other_config:rstp-force-protocol-version other_config:rstp-max-age other_config:rstp-forward-delay other_config:rstp-transmit-hold-count", NO_STP),
    settings(Written, "status", "`error`, if the spanning tree is asked for"),
    settings(NotWritten, "status:stp_bridge_id status:stp_designated_root status:stp_root_path_cost rstp_status rstp_status:rstp_bridge_id rstp_status:rstp_bridge_port_id rstp_status:rstp_designated_id rstp_status:rstp_designated_port_id rstp_status:rstp_root_id rstp_status:rstp_root_path_cost", NO_STP),
    settings(Others, "external_ids external_ids:bridge-id", ""),
];

#[rustfmt::skip]
pub(super) static CONTROLLER: &[Settings] = &[
    settings(Done, "target type", ""),
    settings(Done, "max_backoff inactivity_probe", ""),
    settings(Done, "controller_rate_limit controller_burst_limit controller_queue_size", ""),
    settings(Done, "enable_async_messages", "a change takes effect at the next connection"),
    settings(IgnoredUnless("out-of-band"), "connection_mode", IN_BAND),
    settings(Ignored, "local_ip local_netmask local_gateway", IN_BAND),
    settings(Ignored, "other_config:dscp", "the system's default is used"),
    settings(Done, "other_config", ""),
    settings(Written, "is_connected role status status:state status:last_error status:sec_since_connect status:sec_since_disconnect", ""),
    settings(NotWritten, "status:packet-in-TYPE-backlog status:packet-in-TYPE-bypassed status:packet-in-TYPE-dropped status:packet-in-TYPE-queued", ""),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static FLOW_TABLE: &[Settings] = &[
    settings(Done, "name overflow_policy groups", ""),
    settings(Done, "flow_limit", "at most 1,000,000, which is the default too"),
    settings(Done, "prefixes", "of packets; tunnels' addresses are compared whole"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static MIRROR: &[Settings] = &[
    settings(Done, "name select_all select_dst_port select_src_port select_vlan output_port output_vlan", ""),
    settings(Done, "snaplen", "copies into tunnels are not truncated, and patch ports get none"),
    settings(Done, "filter", "newer than 3.1; options of tunnels are not matched"),
    settings(Written, "statistics statistics:tx_bytes statistics:tx_packets", ""),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static NETFLOW: &[Settings] = &[
    settings(Unread, "targets engine_id engine_type active_timeout add_id_to_interface", "`Bridge.netflow` is ignored"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static SFLOW: &[Settings] = &[
    settings(Unread, "agent header polling sampling targets", "`Bridge.sflow` is ignored"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static IPFIX: &[Settings] = &[
    settings(Unread, "targets cache_active_timeout cache_max_flows sampling obs_domain_id obs_point_id other_config other_config:enable-input-sampling other_config:enable-output-sampling other_config:enable-tunnel-sampling other_config:virtual_obs_id", "`Bridge.ipfix` is ignored"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static FLOW_SAMPLE_COLLECTOR_SET: &[Settings] = &[
    settings(Unread, "id bridge ipfix", NO_SAMPLING),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static AUTO_ATTACH: &[Settings] = &[
    settings(Unread, "system_name system_description mappings", "`Bridge.auto_attach` is ignored"),
];
