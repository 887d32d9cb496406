# Misses are answered by handlers or by each worker itself. In each mode
# packets are forwarded, addresses and flows learned, flows revalidated, and counters exact.
client_and_server
static_neighbours
start_switch
bridge br0 client server
counted() { ovs-ofctl dump-flows br0 "$1" | sed -n 's/.*n_packets=\([0-9]*\).*/\1/p'; }
count_is() { [ "$(counted "$1")" = "$2" ]; }

# check HANDLERS REVALIDATORS SAID: with this many threads, and this text in the log.
check() {
    vsctl set open_vswitch . other_config:n-handler-threads="$1" other_config:n-revalidator-threads="$2"
    ! ours || contains "who answers" "$(ovs-appctl upcall/show)" "$3"
    load br0 <<R
priority=1,actions=normal
priority=5,icmp,actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),resubmit(,1)
table=1,priority=0,actions=normal
R
    pings client 10.0.0.2 || fail "$1: no answer"
    pings client 10.0.0.2
    contains "$1: learned flows" "$(ovs-ofctl dump-flows br0 table=1)" "dl_dst=02:00:00:00:00:01"
    # NORMAL has learned the address of the first packet.
    contains "$1: addresses" "$(ovs-appctl fdb/show br0)" "02:00:00:00:00:01"
    # Installed flows are revalidated after a change.
    ovs-ofctl add-flow br0 priority=9,icmp,actions=drop
    ovs-appctl revalidator/wait
    never pings client 10.0.0.2
    ovs-ofctl --strict del-flows br0 priority=9,icmp
    ovs-appctl revalidator/wait
    pings client 10.0.0.2 || fail "$1: no answer after the change"
    # Each packet counts once, both misses and hits.
    load br0 <<R
priority=7,icmp,icmp_type=8,in_port=client,actions=server
priority=1,actions=normal
R
    on client ping -q -c 20 -i 0.01 10.0.0.2 >/dev/null || fail "$1: packets are lost"
    eventually 4 count_is icmp 20
}
check 2 2 "misses answered by 2 handlers, flows revalidated by 2 revalidators"
check 0 1 "misses answered by each worker, flows revalidated by 1 revalidator"
check 1 0 "misses answered by 1 handler, flows revalidated by the control thread"
if ours; then
    contains "by handler" "$(ovs-appctl tidegate/latency-show)" "0 All packets"
    vsctl remove open_vswitch . other_config n-handler-threads
    vsctl remove open_vswitch . other_config n-revalidator-threads
    # By default there are such threads if there are enough processors.
    by_default="by each worker, flows revalidated by the control thread"
    [ "$(nproc)" -lt 3 ] || by_default="handlers, flows revalidated by"
    contains "unset" "$(ovs-appctl upcall/show)" "$by_default"
    pings client 10.0.0.2
fi
