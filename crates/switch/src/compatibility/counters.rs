//! The counters of `coverage/show`.

use super::{Row, note_of};
use crate::counters::counter_names;

/// The counters of Open vSwitch 3.7.1, each defined by a `COVERAGE_DEFINE` of its sources.
const NAMES: &str = "
    afxdp_cq_empty afxdp_cq_skip afxdp_fq_full afxdp_tx_full bridge_reconfigure ccmap_expand \
    ccmap_shrink cmap_expand cmap_shrink connmgr_async_unsent conntrack_full \
    conntrack_invalid_tcp_flags conntrack_l3csum_checked conntrack_l3csum_err \
    conntrack_l4csum_checked conntrack_l4csum_err conntrack_lookup_natted_miss \
    conntrack_tcp_seq_chk_bypass conntrack_tcp_seq_chk_failed conntrack_zone_full \
    datapath_drop_hw_post_process datapath_drop_hw_post_process_consumed datapath_drop_invalid_bond \
    datapath_drop_invalid_port datapath_drop_invalid_tnl_port datapath_drop_lock_error \
    datapath_drop_meter datapath_drop_nsh_decap_error datapath_drop_recirc_error \
    datapath_drop_rx_invalid_packet datapath_drop_sample_error datapath_drop_tunnel_pop_error \
    datapath_drop_tunnel_push_error datapath_drop_upcall_error datapath_drop_userspace_action_error \
    dpif_destroy dpif_execute dpif_execute_error dpif_execute_with_help dpif_flow_del \
    dpif_flow_del_error dpif_flow_flush dpif_flow_get dpif_flow_get_error dpif_flow_put \
    dpif_flow_put_error dpif_meter_del dpif_meter_get dpif_meter_set dpif_port_add dpif_port_del \
    dpif_purge drop_action_bridge_not_found drop_action_congestion drop_action_forwarding_disabled \
    drop_action_invalid_tunnel_metadata drop_action_no_recirculation_context drop_action_of_pipeline \
    drop_action_recirculation_conflict drop_action_recursion_too_deep drop_action_stack_too_deep \
    drop_action_too_many_mpls_labels drop_action_too_many_resubmit \
    drop_action_tunnel_header_build_failed drop_action_tunnel_neigh_cache_miss \
    drop_action_tunnel_output_no_ethernet drop_action_tunnel_routing_failed \
    drop_action_unsupported_packet_type dumped_duplicate_flow dumped_inconsistent_flow \
    dumped_new_flow flow_extract handler_duplicate_upcall hindex_expand hindex_pathological \
    hindex_reserve hindex_shrink hmap_expand hmap_pathological hmap_reserve hmap_shrink \
    ipf_l3csum_checked ipf_l3csum_err ipf_stuck_frag_list_expired ipf_stuck_frag_list_purged \
    jsonrpc_recv_incomplete lockfile_error lockfile_lock lockfile_unlock long_poll_interval \
    mac_learning_evicted mac_learning_expired mac_learning_learned mac_learning_moved \
    mac_learning_static_none_move mcast_snooping_expired mcast_snooping_learned \
    miniflow_extract_ipv4_pkt_len_error miniflow_extract_ipv4_pkt_too_short \
    miniflow_extract_ipv6_pkt_len_error miniflow_extract_ipv6_pkt_too_short miniflow_malloc \
    native_tnl_l3csum_checked native_tnl_l3csum_err native_tnl_l4csum_checked native_tnl_l4csum_err \
    netdev_add_router netdev_arp_lookup netdev_get_ethtool netdev_get_hwaddr netdev_get_ifindex \
    netdev_get_stats netdev_linux_invalid_l4_csum netdev_linux_unknown_l4_csum \
    netdev_partial_seg_good netdev_push_header_drops netdev_received netdev_sent netdev_set_ethtool \
    netdev_set_hwaddr netdev_set_policing netdev_soft_seg_good netlink_overflow netlink_received \
    netlink_recv_jumbo netlink_sent nln_changed ofmonitor_pause ofmonitor_resume \
    ofproto_dpif_expired ofproto_flush ofproto_packet_out ofproto_queue_req ofproto_recv_openflow \
    ofproto_reinit_ports ofproto_update_port packet_in_overflow poll_create_node poll_zero_timeout \
    process_start pstream_open rconn_discarded rconn_overflow rconn_queued rconn_sent rev_bond \
    rev_flow_table rev_mac_learning rev_mcast_snooping rev_port_toggled rev_reconfigure rev_rstp \
    rev_stp revalidate_missed_dp_flow revalidate_missing_dp_flow route_table_dump rtbsd_changed \
    seq_change stream_open tc_netlink_malformed_reply txn_aborted txn_error txn_incomplete \
    txn_not_locked txn_success txn_try_again txn_unchanged txn_uncommitted ukey_dp_change \
    ukey_invalid_stat_reset ukey_replace_contention unixctl_received unixctl_replied \
    upcall_flow_limit_grew upcall_flow_limit_hit upcall_flow_limit_kill upcall_flow_limit_reduced \
    upcall_flow_limit_scaled upcall_ukey_contention upcall_ukey_replace util_xalloc vconn_open \
    vconn_received vconn_sent vhost_tx_contention xlate_actions xlate_actions_oversize \
    xlate_actions_too_many_output";

/// Why a counter of Open vSwitch is not here.
const NOTES: &[(&str, &str)] = &[
    (
        "ccmap_* cmap_* hindex_* hmap_* util_xalloc miniflow_malloc seq_change poll_* long_poll_interval lockfile_* \
         process_start netdev_arp_lookup netdev_add_router netdev_get_hwaddr netdev_get_ifindex flow_extract",
        "of Open vSwitch's own hash tables, memory, polls, locks and caches of devices",
    ),
    (
        "afxdp_* vhost_tx_contention netlink_recv_jumbo tc_netlink_* netdev_set_* datapath_drop_hw_*",
        "of drivers and offload of Open vSwitch that are built differently here; ports count in \
         `Interface.statistics`",
    ),
    (
        "datapath_drop_lock_error upcall_ukey_* ukey_* handler_duplicate_upcall",
        "no such race exists here",
    ),
    (
        "rev_* dumped_* revalidate_* upcall_flow_limit_*",
        "flows are revalidated by their dependencies, not by a dump of all; `flows_revalidated` counts them, and \
         `upcall/show` has the limit",
    ),
    ("jsonrpc_* txn_*", "a transaction is sent once, and has succeeded or failed with its answer"),
    (
        "dpif_execute_error dpif_flow_del_error dpif_flow_get_error dpif_flow_put_error dpif_destroy dpif_purge dpif_execute_with_help dpif_flow_flush dpif_flow_get dpif_meter_*",
        "there is no interface to a datapath in which such a call could be made or fail",
    ),
    (
        "connmgr_async_unsent rconn_discarded rconn_overflow ofmonitor_* ofproto_flush ofproto_queue_req \
         ofproto_reinit_ports",
        "not counted; `packet_in_overflow` counts packets that a controller did not get",
    ),
    (
        "miniflow_extract_* ipf_* netdev_linux_* native_tnl_* conntrack_l3csum_checked conntrack_l4csum_checked \
         netdev_push_header_drops",
        "lengths and checksums that are wrong are drops with a reason, or `conntrack_*`; those that are right are not \
         counted",
    ),
    ("netdev_partial_seg_good netdev_soft_seg_good", "segments of large frames are not counted"),
    ("datapath_drop_invalid_bond rev_bond", "there are no bonds"),
    ("mcast_snooping_*", "there is no multicast snooping"),
    ("rtbsd_changed", "counted by `nln_changed`"),
    (
        "datapath_drop_* drop_action_* xlate_actions_*",
        "such a packet is dropped for another reason, or is not dropped",
    ),
];

/// A row for each counter of Open vSwitch.
pub fn counters() -> Vec<Row> {
    let own = counter_names();
    let row = |name: &str| match own.contains(&name) {
        true => Row { names: name.to_owned(), state: "supported", note: "" },
        false => Row { names: name.to_owned(), state: "none", note: note_of(NOTES, name) },
    };
    NAMES.split_whitespace().map(row).collect()
}
