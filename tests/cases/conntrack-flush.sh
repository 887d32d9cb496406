# Connections are flushed all, by zone, and one by one.
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
udp,in_port=client,actions=ct(commit,zone=7),server
ip,in_port=client,actions=ct(commit),server
ip,in_port=server,actions=client
R
udp_echo server 10.0.0.2 53
fill() {
    pings client 10.0.0.2
    udp_ask client 10.0.0.2 53 1 6001 >/dev/null
    udp_ask client 10.0.0.2 53 1 6002 >/dev/null
}
left() { ovs-appctl dpctl/dump-conntrack | cut -d, -f1,4 | sed 's/id=[0-9]*/id/' | sort | tr '\n' ' '; }
fill
same "before" "icmp,id udp,sport=6001 udp,sport=6002 " "$(left)"
contains "zone shown" "$(ovs-appctl dpctl/dump-conntrack zone=7)" ",zone=7"
tuple="ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=6001,ct_tp_dst=53"
ovs-appctl dpctl/flush-conntrack zone=7 "$tuple"
same "after the tuple" "icmp,id udp,sport=6002 " "$(left)"
ovs-appctl dpctl/flush-conntrack zone=7
same "after the zone" "icmp,id " "$(left)"
fill
ovs-appctl dpctl/flush-conntrack
same "after all" "" "$(left)"
contains "bad tuple" "$(must_fail ovs-appctl dpctl/flush-conntrack nosuch=1)" "nosuch"
must_fail ovs-appctl dpctl/flush-conntrack zone=x >/dev/null
