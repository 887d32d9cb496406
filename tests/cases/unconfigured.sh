# Commands for what is not configured answer like Open vSwitch: tools that collect reports call them all.
client_and_server
start_switch
bridge br0 client server
vsctl add-port br0 int0 -- set interface int0 type=internal

# asked COMMAND...: the answer, or the error's first line.
asked() { ovs-appctl "$@" 2>&1 | sed '/server returned an error$/d'; }
while IFS='|' read -r command expect; do
    # shellcheck disable=SC2086
    same "$command" "$(printf '%b' "$expect")" "$(asked $command)"
done <<'L'
autoattach/show-isid|
autoattach/statistics|
autoattach/status|
bond/disable-member x y|no such bond
bond/enable-member x y|no such bond
bond/list|bond\ttype\trecircID\tmembers
bond/migrate x 1 y|no such bond
bond/set-active-member x y|no such bond
bond/show|
bond/show x|no such bond
cfm/set-fault x|unknown fault string
cfm/set-fault x normal|no such CFM object
cfm/set-fault normal|OK
cfm/show|
cfm/show client|no such CFM object
dpif-netdev/bond-show|
lacp/show|
lacp/show x|no such lacp object
lacp/show-stats|
lacp/show-stats x|no such lacp object
mdb/flush|table successfully flushed
mdb/flush br0|multicast snooping is disabled
mdb/show br0|multicast snooping is disabled
mdb/show x|no such bridge
qos/show br0|QoS not configured on br0
qos/show client|QoS not configured on client
qos/show int0|QoS not configured on int0
qos/show x|no such interface
qos/show-types x|no such interface
rstp/show|
rstp/show br0|No such RSTP object
rstp/tcn|OK
stp/show|
stp/show br0|no such stp object
stp/tcn|OK
stp/tcn br0|no such stp object
L
for command in dpif-netdev/dpif-impl-get dpif-netdev/miniflow-parser-get dpif-netdev/subtable-lookup-info-get \
    dpif-netdev/subtable-lookup-prio-get odp-execute/action-impl-show; do
    ours || [ "$command" != dpif-netdev/subtable-lookup-info-get ] || continue
    contains "$command" "$(asked "$command")" "implementations:"
done

# The port that the datapath has of itself, and what a tunnel does not count.
vsctl add-port br0 v0 -- set interface v0 type=vxlan options:remote_ip=10.9.9.9
shown=$(ovs-appctl dpctl/show -s)
contains "own port" "$(sed -n 4,9p <<<"$shown")" "port 0: ovs-netdev (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:0 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
    UPCALL packets:? errors:?"
contains "tunnel" "$(grep -A 4 vxlan_sys_4789 <<<"$shown" | tail -n +2)" "    RX packets:0 errors:? dropped:? overruns:? frame:?
    TX packets:0 errors:? dropped:? aborted:? carrier:?
    collisions:?"
same "offload" "Globally enabled: false
Datapaths:
netdev@ovs-netdev:" "$(ovs-appctl dpif/offload/show)"
