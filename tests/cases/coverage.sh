# limit: 60
# Counters that exporters of metrics know by Open vSwitch's names: each counts what it says.
client_and_server
start_switch
bridge br0 client server
read_counter() { ovs-appctl coverage/read-counter "$1"; }
# grows NAME LEAST COMMAND...: the counter grows by at least so much.
grows() {
    local name=$1 least=$2 before
    shift 2
    before=$(read_counter "$name")
    "$@" >/dev/null
    reached() { [ $(($(read_counter "$name") - before)) -ge "$least" ]; }
    eventually 5 reached || fail "$name: $before before, $(read_counter "$name") after \`$*\`"
}
pings client 10.0.0.2
add_port() { vsctl add-port br0 "$1" -- set interface "$1" type=internal; }
grows bridge_reconfigure 1 add_port p1
grows dpif_port_add 1 add_port p2
grows dpif_port_del 1 vsctl del-port p2
grows txn_success 1 add_port p3
grows txn_incomplete 1 add_port p4
grows netlink_sent 1 add_port p5
grows netlink_received 1 add_port p6
grows nln_changed 1 add_port p7
grows route_table_dump 1 ip addr add 10.9.9.9/24 dev br0
grows netdev_get_stats 1 sleep 6
grows unixctl_received 3 ovs-appctl version
grows unixctl_replied 1 ovs-appctl version
grows dpif_flow_put 1 eval 'ovs-appctl dpctl/del-flows; pings client 10.0.0.2'
grows xlate_actions 1 eval 'ovs-appctl dpctl/del-flows; pings client 10.0.0.2'
grows upcalls 1 eval 'ovs-appctl dpctl/del-flows; pings client 10.0.0.2'
grows dpif_flow_del 1 ovs-appctl dpctl/del-flows
frame=$(printf '%s' ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002)
for counter in ofproto_packet_out dpif_execute; do
    grows $counter 1 ovs-ofctl packet-out br0 "in_port=none,packet=$frame,actions=output:2"
done
for counter in ofproto_recv_openflow vconn_received vconn_sent rconn_queued rconn_sent; do
    grows $counter 2 ovs-ofctl dump-flows br0
done
grows ofproto_update_port 1 ovs-ofctl mod-port br0 p1 no-flood
grows ofproto_dpif_expired 1 eval 'ovs-ofctl add-flow br0 hard_timeout=1,tcp,actions=drop; sleep 1.5'
for counter in vconn_open stream_open; do
    grows $counter 1 vsctl set-controller br0 tcp:127.0.0.1:9
    vsctl del-controller br0
done
grows pstream_open 1 vsctl set-controller br0 ptcp:6653:127.0.0.1
same "one that is never hit" 0 "$(read_counter dpif_port_nonsense)"
contains "in the list" "$(ovs-appctl coverage/show)" "bridge_reconfigure "
