# limit: 240
# alone
# What one party asks delays no other: while large requests are carried out, another connection's echo requests and
# other commands are answered. The longest wait of each is printed. What is judged is how long the main thread ran
# meanwhile, which other work of the machine does not change. ECHO_FLOWS is the number of flows, ECHO_LIMIT_MS the limit,
# ECHO_ONLY a regular expression of operations, ECHO_RESULTS a file for the figures; with ECHO_ANY no time is too long.
client_and_server
start_switch
flows=${ECHO_FLOWS:-20000} limit_ms=${ECHO_LIMIT_MS:-250} only=${ECHO_ONLY:-.}
bridge br0 client server
ovs-ofctl del-flows br0
# Addresses that differ, in four tables, with a cookie of their own.
make_flows() {
    awk -v n="$1" -v actions="$2" -v extra="${3-}" 'BEGIN {
        for (i = 0; i < n; i++)
            printf "table=%d,cookie=0x%x,priority=%d,%sip,nw_dst=%d.%d.%d.%d,actions=%s\n",
                i % 4, i, 100 + i % 8, extra, 10 + int(i / 16777216), int(i / 65536) % 256, int(i / 256) % 256,
                i % 256, actions
    }'
}
make_flows "$flows" output:1 >flows.one
make_flows "$flows" output:2 >flows.two
make_flows "$flows" group:7 >flows.group
make_flows "$flows" meter:7,output:1 >flows.meter
make_flows "$flows" output:1 "" | sed 's/priority/hard_timeout=3000,priority/' >flows.timeouts
control=$(echo $OVS_RUNDIR/ovs-vswitchd.*.ctl)
late=''
# during NAME COMMAND...: runs it while others ask, and notes who waited too long.
during() {
    local line
    [[ $1 =~ $only ]] || return 0
    line=$($python "$tests/hosts/echo_delays.py" $OVS_RUNDIR/br0.mgmt "$control" "$@" 2>>errors)
    printf '%s\n' "$line" | tee -a results "${ECHO_RESULTS:-/dev/null}"
    [[ $line =~ worked=([0-9]+).*status=0$ ]] || fail "no answer: $line $(tail -n 3 errors)"
    [ "${BASH_REMATCH[1]}" -le "$limit_ms" ] || late+=" $1"
}
# fill FILE: these flows and no others, if one of the given operations is wanted.
fill() {
    ovs-ofctl del-flows br0
    ovs-ofctl -O OpenFlow13 add-flows br0 "$1"
}
bundle() { ovs-ofctl -O OpenFlow14 --bundle "$@"; }
export -f bundle

during idle sleep 1
during add-flows ovs-ofctl add-flows br0 flows.one
during modify-all ovs-ofctl mod-flows br0 "ip,actions=output:2"
during dump-flows ovs-ofctl dump-flows br0
during dump-aggregate ovs-ofctl dump-aggregate br0
during bridge-dump-flows ovs-appctl bridge/dump-flows br0
during monitor bash -c 'timeout 60 ovs-ofctl monitor br0 watch: --detach --no-chdir --pidfile=$PWD/watch.pid >watch.out 2>&1
    sleep 3; kill $(cat watch.pid)'
during delete-by-cookie ovs-ofctl del-flows br0 "cookie=0/1"
during delete-table ovs-ofctl del-flows br0 "table=1"
during delete-all ovs-ofctl del-flows br0
during bundle-add bash -c 'bundle add-flows br0 flows.one'
during bundle-replace bash -c 'bundle replace-flows br0 flows.two'
during watched-delete bash -c 'timeout 60 ovs-ofctl monitor br0 watch:!initial --detach --no-chdir --pidfile=$PWD/watch.pid >watch.out 2>&1
    ovs-ofctl del-flows br0; sleep 1; kill $(cat watch.pid)'
ovs-ofctl -O OpenFlow13 add-group br0 group_id=7,type=all,bucket=output:1
ovs-ofctl -O OpenFlow13 add-meter br0 meter=7,kbps,band=type=drop,rate=1000000
if [[ delete-groups =~ $only ]]; then fill flows.group; fi
during delete-groups ovs-ofctl -O OpenFlow13 del-groups br0
if [[ delete-meters =~ $only ]]; then fill flows.meter; fi
during delete-meters ovs-ofctl -O OpenFlow13 del-meters br0
if [[ evict-settings =~ $only ]]; then fill flows.timeouts; fi
during table-evicts bash -c 'for t in 0 1 2 3; do ovs-ofctl -O OpenFlow14 mod-table br0 $t evict; done'
during evict-settings ovs-vsctl --no-wait -- --id=@t create flow_table flow_limit=100 overflow_policy=evict \
    -- set bridge br0 flow_tables:0=@t
during prefixes-setting bash -c 'ovs-vsctl -- --id=@t create flow_table prefixes=ip_src -- set bridge br0 flow_tables:2=@t'
# Ports, addresses and connections.
ports=$((flows / 40 < 1000 ? flows / 40 : 1000))
many_ports() {
    for n in $(seq "$ports"); do
        printf -- '-- add-port br0 p%s -- set interface p%s type=vxlan options:remote_ip=10.9.%s.%s options:key=%s ' \
            "$n" "$n" $((n / 250)) $((n % 250 + 1)) "$n"
    done
}
many_ports >ports
during add-ports bash -c 'xargs -a ports ovs-vsctl --timeout=60'
during list-tunnels ovs-appctl ofproto/list-tunnels
during show-tunnel-ports ovs-appctl tnl/ports/show -v
during fdb-show ovs-appctl fdb/show br0
during dump-datapath ovs-appctl dpctl/dump-flows
during dump-conntrack ovs-appctl dpctl/dump-conntrack
during flush-conntrack ovs-appctl dpctl/flush-conntrack
during delete-ports bash -c 'sed "s/-- set interface [^ ]* type=[^ ]* options:[^ ]* options:[^ ]*//g; s/add-port/--if-exists del-port/g" ports |
    xargs ovs-vsctl --timeout=60'
vsctl add-br br1 -- set bridge br1 datapath_type=netdev
if [[ delete-bridge =~ $only ]]; then
    ovs-ofctl del-flows br1
    ovs-ofctl -O OpenFlow13 add-flows br1 flows.one
fi
during delete-bridge ovs-vsctl del-br br1
[ -z "$late" ] || [ -n "${ECHO_ANY-}" ] || fail "others waited for over $limit_ms ms:$late; $(cat results)"
