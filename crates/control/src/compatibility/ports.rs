//! Settings of ports and interfaces.

use super::State::{Done, Ignored, IgnoredWithError, NotWritten, Others, Refused, Unread, Written};
use super::{Settings, settings};

const NO_BONDS: &str = "there are no bonds: the interfaces of a port with several have an error";
const NO_LACP: &str = "there is no LACP";
const NO_CFM: &str = "there is no CFM";
const NO_STP: &str = "there is no spanning tree";
const NO_QOS: &str = "there is no quality of service";
const NO_POLICING: &str = "there is no ingress policing";

#[rustfmt::skip]
pub(super) static PORT: &[Settings] = &[
    settings(Done, "name interfaces vlan_mode tag trunks cvlans protected other_config other_config:qinq-ethtype other_config:priority-tags", ""),
    settings(Ignored, "qos", NO_QOS),
    settings(Refused, "bond_mode bond_updelay bond_downdelay bond_fake_iface other_config:bond-hash-basis other_config:bond-primary other_config:bond-detect-mode other_config:bond-miimon-interval other_config:bond-rebalance-interval other_config:lb-output-action other_config:all-members-active", NO_BONDS),
    settings(NotWritten, "bond_active_slave", NO_BONDS),
    settings(IgnoredWithError, "lacp", NO_LACP),
    settings(Unread, "other_config:lacp-system-id other_config:lacp-system-priority other_config:lacp-time other_config:lacp-fallback-ab", NO_LACP),
    settings(Unread, "other_config:stp-enable other_config:stp-port-num other_config:stp-port-priority other_config:stp-path-cost", NO_STP),
    settings(Unread, "other_config:rstp-enable other_config:rstp-port-priority other_config:rstp-port-num other_config:rstp-path-cost other_config:rstp-port-admin-edge other_config:rstp-port-auto-edge other_config:rstp-port-mcheck", NO_STP),
    settings(Unread, "other_config:mcast-snooping-flood other_config:mcast-snooping-flood-reports", "there is no multicast snooping"),
    settings(NotWritten, "status status:stp_port_id status:stp_role status:stp_sec_in_state status:stp_state statistics statistics:stp_error_count statistics:stp_rx_count statistics:stp_tx_count", NO_STP),
    settings(NotWritten, "rstp_status rstp_status:rstp_designated_bridge_id rstp_status:rstp_designated_path_cost rstp_status:rstp_designated_port_id rstp_status:rstp_port_id rstp_status:rstp_port_role rstp_status:rstp_port_state rstp_statistics rstp_statistics:rstp_error_count rstp_statistics:rstp_rx_count rstp_statistics:rstp_tx_count rstp_statistics:rstp_uptime", NO_STP),
    settings(Others, "fake_bridge external_ids external_ids:fake-bridge-*", "ovs-vsctl makes fake bridges of access ports"),
    settings(Ignored, "mac", "`Interface.mac` is used"),
    settings(Others, "other_config:transient", "read by ovs-ctl"),
];

#[rustfmt::skip]
pub(super) static INTERFACE: &[Settings] = &[
    settings(Done, "name type options options:peer ofport_request other_config other_config:pmd-rxq-affinity", ""),
    settings(Done, "mac", "of interfaces of type internal"),
    settings(Done, "mtu_request", ""),
    settings(Written, "ofport mac_in_use mtu error admin_state link_state link_resets link_speed duplex ifindex", ""),
    settings(Written, "statistics statistics:rx_packets statistics:rx_bytes statistics:rx_dropped statistics:rx_errors statistics:rx_crc_err statistics:rx_frame_err statistics:rx_over_err statistics:tx_packets statistics:tx_bytes statistics:tx_dropped statistics:tx_errors statistics:collisions", ""),
    settings(Written, "status status:driver_name status:driver_version status:firmware_version status:if_descr status:if_type status:max_mac_addrs status:max_rx_pktlen status:max_rx_queues status:max_tx_queues status:min_rx_bufsize status:numa_id status:peer_ifindex status:port_no", "those of DPDK in builds with it"),
    settings(NotWritten, "status:max_hash_mac_addrs status:max_vfs status:max_vmdq_pools status:pci-device_id status:pci-vendor_id", "newer versions of DPDK do not report them"),
    settings(Written, "status:tunnel_egress_iface status:tunnel_egress_iface_carrier", "of tunnels"),
    settings(NotWritten, "status:source_ip", "Open vSwitch does not write it either"),
    settings(Done, "options:n_rxq options:n_rxq_desc options:n_txq_desc options:dpdk-devargs", "of DPDK ports; `n_rxq` of AF_XDP and guests, too"),
    settings(Done, "options:vhost-server-path options:tx-retries-max", "of guests behind vhost-user"),
    settings(Done, "options:xdp-mode options:use-need-wakeup", "of AF_XDP ports"),
    settings(Done, "options:xdp-offload", "this switch's own: `true` lets packets of a system device be offloaded; see docs/offload.md"),
    settings(Ignored, "options:dpdk-vf-mac options:dpdk-lsc-interrupt options:rx-flow-ctrl options:tx-flow-ctrl options:flow-ctrl-autoneg", "DPDK ports have the driver's defaults"),
    settings(Ignored, "other_config:emc-enable", "the exact-match cache is for all ports (`emc-insert-inv-prob`)"),
    settings(Ignored, "other_config:tx-steering", "each worker has a transmit queue of its own"),
    settings(Ignored, "ingress_policing_rate ingress_policing_kpkts_rate", NO_POLICING),
    settings(Unread, "ingress_policing_burst ingress_policing_kpkts_burst", NO_POLICING),
    settings(Done, "bfd bfd:enable bfd:bfd_dst_ip bfd:bfd_local_dst_mac bfd:bfd_local_src_mac bfd:bfd_remote_dst_mac bfd:bfd_src_ip bfd:check_tnl_key bfd:cpath_down bfd:decay_min_rx bfd:forwarding_if_rx bfd:min_rx bfd:min_tx bfd:mult bfd:oam", "of any interface, tunnels and patches too; a `mult` out of range is 3"),
    settings(Written, "bfd_status bfd_status:diagnostic bfd_status:flap_count bfd_status:forwarding bfd_status:remote_diagnostic bfd_status:remote_state bfd_status:state", ""),
    settings(IgnoredWithError, "cfm_mpid", NO_CFM),
    settings(Unread, "other_config:cfm_ccm_pcp other_config:cfm_ccm_vlan other_config:cfm_demand other_config:cfm_extended other_config:cfm_interval other_config:cfm_opstate", NO_CFM),
    settings(NotWritten, "cfm_fault cfm_fault_status cfm_fault_status:interval cfm_fault_status:loopback cfm_fault_status:maid cfm_fault_status:overflow cfm_fault_status:override cfm_fault_status:rdi cfm_fault_status:recv cfm_flap_count cfm_health cfm_remote_mpids cfm_remote_opstate", NO_CFM),
    settings(Ignored, "lldp:enable", "there is no LLDP"),
    settings(Unread, "lldp", "there is no LLDP"),
    settings(Unread, "other_config:lacp-port-id other_config:lacp-port-priority other_config:lacp-aggregation-key", NO_LACP),
    settings(NotWritten, "lacp_current", NO_LACP),
    settings(Done, "options:remote_ip options:local_ip options:in_key options:out_key options:key options:dst_port options:exts options:tos options:ttl options:df_default options:egress_pkt_mark options:csum options:seq options:packet_type options:payload_type options:erspan_idx options:erspan_ver options:erspan_dir options:erspan_hwid", "of tunnels"),
    settings(Others, "options:psk options:remote_cert options:remote_name", "read by ovs-monitor-ipsec"),
    settings(Others, "external_ids external_ids:attached-mac external_ids:iface-id external_ids:iface-status external_ids:vm-id", ""),
];

#[rustfmt::skip]
pub(super) static QOS: &[Settings] = &[
    settings(Unread, "type queues other_config other_config:max-rate other_config:latency other_config:limit other_config:loss other_config:perturb other_config:quantum other_config:cir other_config:cbs other_config:eir other_config:ebs", "`Port.qos` is ignored"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static QUEUE: &[Settings] = &[
    settings(Unread, "dscp other_config other_config:min-rate other_config:max-rate other_config:burst other_config:priority", "`Port.qos` is ignored"),
    settings(Others, "external_ids", ""),
];
