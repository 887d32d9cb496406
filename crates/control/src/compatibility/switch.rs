//! Settings of the whole switch and of connection tracking.

use super::State::{Done, Ignored, IgnoredUnless, NotWritten, Others, Written};
use super::{Settings, settings};

const NO_OFFLOAD: &str = "offload is to XDP and DPDK, by the control thread";
const NO_NOTIFIER: &str = "neighbours are learned from all packets";

#[rustfmt::skip]
pub(super) static OPEN_VSWITCH: &[Settings] = &[
    settings(Done, "bridges datapaths ssl next_cfg other_config", ""),
    settings(Written, "cur_cfg ovs_version dpdk_initialized dpdk_version datapath_types iface_types", ""),
    settings(Done, "other_config:enable-statistics", ""),
    settings(Written, "statistics statistics:cpu statistics:load_average statistics:memory statistics:file_systems", "with `enable-statistics`"),
    settings(Written, "statistics:process_NAME", "restarts by the monitor are not counted"),
    settings(Others, "db_version system_type system_version external_ids external_ids:system-id external_ids:hostname external_ids:rundir", "written by ovs-ctl"),
    settings(Others, "manager_options", "read by ovsdb-server"),
    settings(Others, "other_config:private_key other_config:certificate other_config:ca_cert other_config:ipsec_skb_mark", "read by ovs-monitor-ipsec"),
    settings(Done, "other_config:stats-update-interval other_config:flow-limit other_config:max-idle other_config:bundle-idle-timeout", ""),
    settings(Done, "other_config:flow-restore-wait", ""),
    settings(Done, "other_config:max-revalidator", "the default is 1000, since changes are revalidated at once"),
    settings(Done, "other_config:min-revalidate-pps", "the default is 0, since only flows that a change can affect are revalidated"),
    settings(Done, "other_config:n-handler-threads other_config:n-revalidator-threads", "by default as many as in Open vSwitch, but at most 4 of each; with one or two processors, or 0 handler threads, each worker answers its own misses and the control thread revalidates; where `--enable-dummy` is given, the control thread does both; with `hw-offload` it revalidates"),
    settings(Done, "other_config:tidegate-stats-interval", "this switch's own: how often flows' statistics are collected, in milliseconds; 0 is never; `max-revalidator` where it is not set"),
    settings(Done, "other_config:tidegate-flow-expiry", "this switch's own: `false` keeps flows without packets in the datapath, regardless of `max-idle`"),
    settings(Done, "other_config:tidegate-upcall-rates", "this switch's own: the most upcalls per second of a class, of each port (`neighbor=1000`) or of one (`eth1/multicast=100`), with commas between; the classes are `control`, `neighbor`, `tcp-syn`, `ip`, `multicast`, `other` and `controller`; the burst is a tenth of a second; a limit of a tunnel, a patch port or an unknown name has no effect and is logged"),
    settings(Done, "other_config:vlan-limit", "at most 2 tags"),
    settings(Done, "other_config:hw-offload", "to XDP, of ports with `options:xdp-offload`, and to the network cards of DPDK ports; in force at once; see docs/offload.md"),
    settings(Ignored, "other_config:n-offload-threads other_config:tc-policy other_config:offload-rebalance", NO_OFFLOAD),
    settings(Done, "other_config:pmd-cpu-mask other_config:pmd-perf-metrics other_config:pmd-rxq-assign other_config:pmd-rxq-isolate other_config:pmd-maxsleep", ""),
    settings(Done, "other_config:pmd-sleep-max", "newer name of `pmd-maxsleep`"),
    settings(Done, "other_config:pmd-auto-lb other_config:pmd-auto-lb-rebal-interval other_config:pmd-auto-lb-load-threshold other_config:pmd-auto-lb-improvement-threshold", ""),
    settings(Done, "other_config:emc-insert-inv-prob", ""),
    settings(Done, "other_config:unified-cache-entries", "this switch's own: entries of each worker's unified cache; 0 turns it off"),
    settings(Ignored, "other_config:smc-enable", "there is no signature match cache; the unified cache is always asked"),
    settings(Ignored, "other_config:tx-flush-interval", "packets are sent at the end of each batch"),
    settings(IgnoredUnless("true"), "other_config:userspace-tso-enable", "segmentation is always offloaded where the port can"),
    settings(Ignored, "other_config:neigh-notifier-enable", NO_NOTIFIER),
    settings(Done, "other_config:dpdk-init other_config:dpdk-lcore-mask other_config:dpdk-alloc-mem other_config:dpdk-socket-mem other_config:dpdk-socket-limit other_config:dpdk-hugepage-dir other_config:dpdk-extra", "in builds with DPDK"),
    settings(Done, "other_config:vhost-sock-dir", "of guests behind vhost-user"),
    settings(Ignored, "other_config:vhost-iommu-support other_config:vhost-postcopy-support", "vhost-user ports have neither"),
    settings(Ignored, "other_config:per-port-memory other_config:shared-mempool-config", "each port has its own memory"),
];

#[rustfmt::skip]
pub(super) static DATAPATH: &[Settings] = &[
    settings(Done, "ct_zones", ""),
    settings(Done, "ct_zone_default_limit", "newer than 3.1"),
    settings(Written, "capabilities capabilities:check_pkt_len capabilities:clone capabilities:ct_clear capabilities:ct_eventmask capabilities:ct_label capabilities:ct_mark capabilities:ct_orig_tuple capabilities:ct_orig_tuple6 capabilities:ct_state capabilities:ct_state_nat capabilities:ct_timeout capabilities:ct_zero_snat capabilities:ct_zone capabilities:explicit_drop_action capabilities:lb_output_action capabilities:masked_set_action capabilities:max_hash_alg capabilities:max_vlan_headers capabilities:nd_ext capabilities:recirc capabilities:sample_nesting capabilities:tnl_push_pop capabilities:trunc capabilities:ufid", ""),
    settings(NotWritten, "datapath_version", "`Bridge.datapath_version` is"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static CT_ZONE: &[Settings] = &[
    settings(Done, "timeout_policy", ""),
    settings(Done, "limit", "newer than 3.1"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static CT_TIMEOUT_POLICY: &[Settings] = &[
    settings(Done, "timeouts timeouts:tcp_syn_sent timeouts:tcp_syn_recv timeouts:tcp_established timeouts:tcp_fin_wait timeouts:tcp_close_wait timeouts:tcp_last_ack timeouts:tcp_time_wait timeouts:tcp_close timeouts:tcp_syn_sent2 timeouts:tcp_retransmit timeouts:tcp_unack timeouts:udp_first timeouts:udp_single timeouts:udp_multiple timeouts:icmp_first timeouts:icmp_reply", ""),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static SSL: &[Settings] = &[
    settings(Done, "private_key certificate ca_cert", "the files are read for every connection"),
    settings(Done, "bootstrap_ca_cert", "from the first peer that the switch connects to, never from one that connects to it"),
    settings(Others, "external_ids", ""),
];

#[rustfmt::skip]
pub(super) static MANAGER: &[Settings] = &[
    settings(Others, "target connection_mode inactivity_probe max_backoff is_connected other_config other_config:dscp status status:bound_port status:last_error status:locks_held status:locks_lost status:locks_waiting status:n_connections status:sec_since_connect status:sec_since_disconnect status:state external_ids", "read and written by ovsdb-server"),
];
