# Flows expire by idle and hard timeouts; controllers that asked for it get the reason and correct
# counters.
# limit: 40
client_and_server
static_neighbours
start_switch
bridge br0 client server
ovs-ofctl add-flow br0 "priority=5,icmp,in_port=client,actions=server"
ovs-ofctl add-flow br0 "priority=5,icmp,in_port=server,actions=client"
on client ping -q -n -c 5 -i 0.2 10.0.0.2 >/dev/null
counted() { ovs-ofctl dump-flows br0 "icmp,in_port=client" | grep -q "n_packets=5, n_bytes=490,"; }
eventually 4 counted
ovs-ofctl del-flows br0

monitor br0 65534 -O OpenFlow13
add() { ovs-ofctl -O OpenFlow13 add-flow br0 "send_flow_rem,cookie=$1,$2"; }
add 0x1 "priority=10,icmp,in_port=client,idle_timeout=2,actions=server"
add 0x2 "priority=10,icmp,in_port=server,hard_timeout=3,actions=client"
add 0x3 "priority=11,udp,hard_timeout=100,actions=drop"
on client ping -q -n -c 14 -i 0.2 10.0.0.2 >/dev/null || true
contains "idle flow in use" "$(flows br0)" "idle_timeout=2"
ovs-ofctl del-flows br0 udp
eventually 8 grep -q "reason=hard" monitor.printed
eventually 8 grep -q "reason=idle" monitor.printed
eventually 3 grep -q "reason=delete" monitor.printed
removed=$(grep FLOW_REMOVED monitor.printed)
contains "hard" "$removed" "priority=10,icmp,in_port=2 reason=hard table_id=0 cookie:0x2"
contains "idle" "$removed" "priority=10,icmp,in_port=1 reason=idle table_id=0 cookie:0x1"
contains "deleted" "$removed" "priority=11,udp reason=delete table_id=0 cookie:0x3"
grep -q "reason=idle .* pkts14 bytes1372" <<<"$removed" || fail "counted: $removed"
same "left" "" "$(flows br0)"
