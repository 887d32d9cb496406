//! Modules: parts of the program with log levels of their own.

use super::level::{Level, PerDestination};

/// The log settings of one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    /// The most verbose level that goes to each destination.
    pub levels: PerDestination<Level>,
    /// Whether rate limits apply.
    pub honor_rate_limits: bool,
}

impl Default for Module {
    fn default() -> Self {
        Module {
            levels: PerDestination { syslog: Level::Info, console: Level::Info, file: Level::Info },
            honor_rate_limits: true,
        }
    }
}

/// The modules that `ovs-vswitchd` 3.1 knows from its start. Scripts set levels by these names before any
/// message is logged, and an unknown name is an error, so all are known here even if this program never logs
/// under them.
#[rustfmt::skip]
pub const KNOWN: &[&str] = &[
    "backtrace", "bfd", "bond", "bridge", "bundle", "bundles", "cfm", "collectors",
    "command_line", "connmgr", "conntrack", "conntrack_tp", "coverage", "ct_dpif", "daemon",
    "daemon_unix", "dns_resolve", "dpdk", "dpif", "dpif_lookup_autovalidator",
    "dpif_lookup_generic", "dpif_mfex_extract_study", "dpif_netdev", "dpif_netdev_extract",
    "dpif_netdev_impl", "dpif_netdev_lookup", "dpif_netlink", "dpif_netlink_rtnl", "entropy",
    "fail_open", "fatal_signal", "flow", "hmap", "in_band", "ipf", "ipfix", "jsonrpc", "lacp",
    "lldp", "lldpd", "lldpd_structs", "lockfile", "memory", "meta_flow", "native_tnl", "netdev",
    "netdev_afxdp", "netdev_dummy", "netdev_linux", "netdev_offload", "netdev_offload_tc",
    "netdev_vport", "netflow", "netlink", "netlink_conntrack", "netlink_notifier",
    "netlink_socket", "nx_match", "odp_execute", "odp_execute_impl", "odp_util", "ofp_actions",
    "ofp_bundle", "ofp_connection", "ofp_errors", "ofp_flow", "ofp_group", "ofp_match",
    "ofp_meter", "ofp_monitor", "ofp_msgs", "ofp_packet", "ofp_port", "ofp_protocol",
    "ofp_queue", "ofp_table", "ofp_util", "ofproto", "ofproto_dpif", "ofproto_dpif_mirror",
    "ofproto_dpif_monitor", "ofproto_dpif_rid", "ofproto_dpif_upcall", "ofproto_dpif_xlate",
    "ofproto_xlate_cache", "ovs_lldp", "ovs_numa", "ovs_rcu", "ovs_replay", "ovs_router",
    "ovs_thread", "ovsdb_cs", "ovsdb_error", "ovsdb_idl", "ox_stat", "pcap", "pmd_perf",
    "poll_loop", "process", "rconn", "reconnect", "route_table", "rstp", "rstp_sm", "sflow",
    "sha1", "signals", "socket_util", "socket_util_unix", "stp", "stream", "stream_fd",
    "stream_replay", "stream_ssl", "stream_tcp", "stream_unix", "svec", "system_stats", "tc",
    "timeval", "tunnel", "unixctl", "userspace_tso", "util", "uuid", "vconn", "vconn_stream",
    "vlog", "vswitchd",
];

/// Returns the module of a `log` target.
///
/// A target without `::` is a module's name. For a path of Rust modules it is the last component that is a
/// known name (`control::reconnect` is `reconnect`), or otherwise the crate.
pub fn of_target(target: &str) -> &str {
    if !target.contains("::") {
        return target;
    }
    let known = |part: &&str| KNOWN.binary_search(part).is_ok();
    let first = target.split("::").next().unwrap_or(target);
    target.rsplit("::").find(known).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_modules() {
        assert!(KNOWN.is_sorted());
        for (target, expect) in [
            ("bridge", "bridge"),
            ("rustls::client::hs", "rustls"),
            ("control::bridge", "bridge"),
            ("tidegate::unixctl::server", "unixctl"),
            ("", ""),
        ] {
            assert_eq!(of_target(target), expect);
        }
    }
}
