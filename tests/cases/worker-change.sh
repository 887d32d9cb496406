# Workers, handlers and revalidators change while packets are forwarded: none is lost or not counted.
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
priority=7,icmp,icmp_type=8,in_port=client,actions=server
priority=7,icmp,icmp_type=0,in_port=server,actions=client
priority=1,actions=normal
R
counted() { ovs-ofctl dump-flows br0 "$1" | sed -n 's/.*n_packets=\([0-9]*\).*/\1/p'; }
on client ping -q -i 0.005 -c 1200 10.0.0.2 >"$work/ping.out" 2>&1 &
pinging=$!
set_and_wait() { vsctl set open_vswitch . "$@"; sleep 0.5; }
set_and_wait other_config:n-handler-threads=2 other_config:n-revalidator-threads=2
set_and_wait other_config:n-handler-threads=0 other_config:n-revalidator-threads=1
set_and_wait other_config:n-handler-threads=1
set_and_wait other_config:pmd-cpu-mask=1
set_and_wait other_config:pmd-cpu-mask=3 other_config:n-revalidator-threads=2
vsctl remove open_vswitch . other_config pmd-cpu-mask
sleep 0.5
wait $pinging || fail "packets are lost: $(cat "$work/ping.out")"
contains "all packets are forwarded" "$(cat "$work/ping.out")" "1200 received"
requests() { [ "$(counted icmp,icmp_type=8)" = 1200 ]; }
replies() { [ "$(counted icmp,icmp_type=0)" = 1200 ]; }
eventually 4 requests || fail "requests: $(ovs-ofctl dump-flows br0)"
eventually 4 replies || fail "replies: $(ovs-ofctl dump-flows br0)"
