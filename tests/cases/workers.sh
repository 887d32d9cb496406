# Without a PMD mask the switch sleeps when nothing arrives; with one, traffic continues to flow.
client_and_server
static_neighbours
start_switch
bridge br0 client server
serve server
pings client 10.0.0.2
# idle_percent: idle time of one core in the next two seconds, in percent.
idle_percent() {
    local before
    before=$(awk '{ print $14 + $15 }' "/proc/$SWITCH_PID/stat")
    sleep 2
    awk -v before="$before" '{ printf "%d\n", ($14 + $15 - before) / 2 }' "/proc/$SWITCH_PID/stat"
}
used=$(idle_percent)
[ "$used" -le 10 ] || fail "uses $used % of a core when nothing arrives"
vsctl set open_vswitch . other_config:pmd-cpu-mask=0x1
eventually 5 pings client 10.0.0.2
same "page" hello "$(fetch client http://10.0.0.2/)"
ovs-appctl dpif-netdev/pmd-rxq-show >/dev/null
contains "statistics" "$(ovs-appctl dpif-netdev/pmd-stats-show)" "packets received:"
# Only DPDK's and AF_XDP's ports are polled by Open vSwitch's workers.
if ours; then
    contains "flows" "$(ovs-appctl dpctl/dump-flows)" "flow-dump from pmd on cpu core: 0"
    contains "flows of its core" "$(ovs-appctl dpctl/dump-flows pmd=0)" "recirc_id(0)"
    same "flows of another core" "" "$(ovs-appctl dpctl/dump-flows pmd=1)"
    same "flows of the main thread" "" "$(ovs-appctl dpctl/dump-flows pmd=-1)"
fi
vsctl remove open_vswitch . other_config pmd-cpu-mask
eventually 5 pings client 10.0.0.2
same "page" hello "$(fetch client http://10.0.0.2/)"
used=$(idle_percent)
[ "$used" -le 10 ] || fail "uses $used % of a core after the mask has gone"
