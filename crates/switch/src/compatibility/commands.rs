//! Commands of `ovs-appctl`, and options, as the program implements them.

use super::{Row, note_of};
use crate::command_line::OPTIONS;
use crate::{commands as switch_commands, run};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use vlog::Vlog;

/// The commands of Open vSwitch 3.1 (`list-commands` of its daemon with `--enable-dummy`).
const COMMANDS: &str = "
autoattach/show-isid autoattach/statistics autoattach/status bfd/set-forwarding bfd/show
bond/disable-member bond/disable-slave bond/enable-member bond/enable-slave bond/hash bond/list bond/migrate
bond/set-active-member bond/set-active-slave bond/show bridge/dump-flows bridge/reconnect cfm/set-fault
cfm/show coverage/read-counter coverage/show dpctl/add-dp dpctl/add-flow dpctl/add-flows dpctl/add-if
dpctl/cache-get-size dpctl/cache-set-size dpctl/ct-bkts dpctl/ct-del-limits dpctl/ct-disable-tcp-seq-chk
dpctl/ct-enable-tcp-seq-chk dpctl/ct-get-limits dpctl/ct-get-maxconns dpctl/ct-get-nconns
dpctl/ct-get-tcp-seq-chk dpctl/ct-set-limits dpctl/ct-set-maxconns dpctl/ct-stats-show dpctl/del-dp
dpctl/del-flow dpctl/del-flows dpctl/del-if dpctl/dump-conntrack dpctl/dump-dps dpctl/dump-flows
dpctl/flush-conntrack dpctl/get-flow dpctl/help dpctl/ipf-get-status dpctl/ipf-set-disabled
dpctl/ipf-set-enabled dpctl/ipf-set-max-nfrags dpctl/ipf-set-min-frag dpctl/list-commands dpctl/mod-flow
dpctl/mod-flows dpctl/normalize-actions dpctl/offload-stats-show dpctl/parse-actions dpctl/set-if dpctl/show
dpdk/get-malloc-stats dpdk/lcore-list dpdk/log-list dpdk/log-set dpif-dummy/change-port-number
dpif-netdev/bond-show dpif-netdev/dpif-impl-get dpif-netdev/dpif-impl-set dpif-netdev/miniflow-parser-get
dpif-netdev/miniflow-parser-set dpif-netdev/pmd-perf-log-set dpif-netdev/pmd-perf-show
dpif-netdev/pmd-rxq-rebalance dpif-netdev/pmd-rxq-show dpif-netdev/pmd-stats-clear dpif-netdev/pmd-stats-show
dpif-netdev/subtable-lookup-info-get dpif-netdev/subtable-lookup-prio-get
dpif-netdev/subtable-lookup-prio-set dpif-netlink/dispatch-mode dpif/dump-dps dpif/dump-flows
dpif/set-dp-features dpif/show dpif/show-dp-features exit fdb/add fdb/del fdb/flush fdb/show fdb/stats-clear
fdb/stats-show lacp/show lacp/show-stats list-commands mdb/flush mdb/show memory/show netdev-dpdk/detach
netdev-dpdk/get-mempool-info netdev-dpdk/set-admin-state netdev-dummy/conn-state netdev-dummy/ip4addr
netdev-dummy/ip6addr netdev-dummy/receive netdev-dummy/set-admin-state odp-execute/action-impl-set
odp-execute/action-impl-show ofproto/list ofproto/list-tunnels 
ofproto/trace ofproto/trace-packet-out ovs/route/add ovs/route/del ovs/route/lookup ovs/route/show qos/show
qos/show-types revalidator/pause revalidator/purge revalidator/resume revalidator/wait rstp/show rstp/tcn
stopwatch/reset stopwatch/show stp/show stp/tcn time/stop time/warp tnl/arp/aging tnl/arp/flush tnl/arp/set
tnl/arp/show tnl/egress_port_range tnl/neigh/aging tnl/neigh/flush tnl/neigh/set tnl/neigh/show
tnl/ports/show upcall/disable-megaflows upcall/disable-ufid upcall/enable-megaflows upcall/enable-ufid
upcall/set-flow-limit upcall/show version vlog/close vlog/disable-rate-limit vlog/enable-rate-limit vlog/list
vlog/list-pattern vlog/reopen vlog/set";

/// Why commands are missing.
const COMMAND_NOTES: &[(&str, &str)] = &[
    ("bond/*", "there are no bonds"),
    ("dpdk/* netdev-dpdk/*", "DPDK's own state is not shown"),
    ("dpif-netlink/*", "the kernel's datapath is never used"),
    (
        "dpif-netdev/dpif-impl-set dpif-netdev/miniflow-parser-set dpif-netdev/subtable-lookup-prio-set odp-execute/action-impl-set",
        "there is one implementation, which needs no choice",
    ),
    (
        "coverage/* stopwatch/* memory/show",
        "counters are those of `coverage/show`, `dpif/show` and `upcall/show`",
    ),
    ("dpctl/cache-*", "the kernel's mask cache, which is not used"),
    ("time/*", "the switch does not stop its clock"),
    (
        "dpctl/parse-actions dpctl/normalize-actions dpctl/help dpctl/list-commands",
        "of the program ovs-dpctl alone",
    ),
    ("netdev-dummy/* dpif-dummy/*", "for Open vSwitch's own tests"),
    ("ofproto/list-tunnels tnl/egress_port_range", "tunnels are shown by `tnl/ports/show`"),
    ("ovs/route/lookup", "routes are shown by `ovs/route/show`"),
];

/// The options of Open vSwitch 3.1's daemon.
const OPTION_NAMES: &str = "
bootstrap-ca-cert ca-cert certificate detach disable-system disable-system-route dpdk dummy-numa enable-dummy
help log-file mlockall monitor no-chdir no-self-confinement overwrite-pidfile peer-ca-cert pidfile private-key
ssl-ciphers ssl-protocols syslog-method syslog-target unixctl user verbose version";

const OPTION_NOTES: &[(&str, &str)] = &[
    (
        "dpdk",
        "answered with an error, as in Open vSwitch since 2.6: `other_config:dpdk-init` takes its place",
    ),
    ("disable-system", "accepted: the kernel's datapath is never used"),
    ("ssl-ciphersuites", "of later versions of Open vSwitch"),
];

fn state(theirs: bool, ours: bool) -> &'static str {
    match (theirs, ours) {
        (true, true) => "supported",
        (true, false) => "error",
        (false, _) => "own",
    }
}

fn rows(
    theirs: &'static str,
    ours: BTreeSet<&'static str>,
    prefix: &str,
    notes: &[(&str, &'static str)],
) -> Vec<Row> {
    let theirs: BTreeSet<&str> = theirs.split_whitespace().collect();
    let row = |name: &&str| {
        let state = state(theirs.contains(name), ours.contains(name));
        let note = if state == "error" || prefix == "--" { note_of(notes, name) } else { "" };
        Row { names: format!("{prefix}{name}"), state, note }
    };
    theirs.union(&ours).map(row).collect()
}

pub fn commands() -> Vec<Row> {
    let vlog: &'static Vlog = Box::leak(Box::new(Vlog::new("test", PathBuf::new(), |_| 0)));
    let (mut commands, _) = run::switch_commands(vlog, &Rc::new(RefCell::new(None)));
    switch_commands::add_dummy(&mut commands);
    rows(COMMANDS, commands.names().collect(), "", COMMAND_NOTES)
}

pub fn options() -> Vec<Row> {
    let ours = OPTIONS.iter().map(|option| option.long).collect();
    rows(OPTION_NAMES, ours, "--", OPTION_NOTES)
}
