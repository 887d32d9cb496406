# Packets go to controllers and come from them.
client_and_server
static_neighbours
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow10,OpenFlow13,OpenFlow15
# frames with a tracked packet: what of its connection a controller is told.
told() {
    ovs-ofctl del-flows br0
    ovs-ofctl add-flow br0 "table=0,ip,actions=ct(table=1,zone=3)"
    ovs-ofctl add-flow br0 "table=1,actions=controller"
    monitor br0 65534 -P nxt_packet_in2
    local ip='Ether(src=A,dst=B)/IP(src="10.0.0.1",dst="10.0.0.2")'
    on client $python "$tests/hosts/frames.py" send "$ip/UDP(sport=5,dport=6)" "$ip/TCP(sport=5,dport=6,flags='SR')"
    both() { [ "$(grep -c PACKET_IN monitor.printed)" = 2 ]; }
    eventually 3 both
    unmonitor
    # Packets of two connections may change places: the queue of TCP SYNs has its own turn.
    sed -n 's/.*\(ct_state=.*\) (via.*/\1/p' monitor.printed | sort -r
}
# A packet without a valid connection has no original direction.
same "connections" "ct_state=new|trk,ct_zone=3,ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=5,ct_tp_dst=6,ip,in_port=1
ct_state=inv|trk,ct_zone=3,ip,in_port=1" "$(told)"
frame=02000000000202000000000188b500000000000000000000000000000000000000000000000000000000
for version in 10 13 15; do
    ovs-ofctl del-flows br0
    ovs-ofctl -O OpenFlow$version add-flow br0 "cookie=0xabc,icmp,in_port=client,actions=CONTROLLER:65535,server"
    ovs-ofctl -O OpenFlow$version add-flow br0 "in_port=server,actions=client"
    monitor br0 65534 -O OpenFlow$version -P standard
    pings client 10.0.0.2
    eventually 3 grep -q "total_len=98 in_port=1 (via action) data_len=98 (unbuffered)" monitor.printed
    contains "the packet" "$(cat monitor.printed)" "icmp,vlan_tci=0x0000,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,icmp_type=8,icmp_code=0"
    same "packet-ins" 2 "$(grep -c PACKET_IN monitor.printed)"

    listen server
    ovs-ofctl -O OpenFlow$version packet-out br0 "in_port=LOCAL,packet=$frame,actions=output:server"
    same "packet-out" "vlan=none from=02:00:00:00:00:01 type=88b5" "$(heard server)"
    listen client
    ovs-ofctl -O OpenFlow$version packet-out br0 "in_port=server,packet=$frame,actions=TABLE"
    same "packet-out through the tables" "vlan=none from=02:00:00:00:00:01 type=88b5" "$(heard client)"

    ovs-ofctl -O OpenFlow$version mod-port br0 server no-forward
    eventually 3 grep -q "PORT_STATUS.* MOD: 2(server)" monitor.printed
    ovs-ofctl -O OpenFlow$version mod-port br0 server forward
    unmonitor
done

# A traced packet goes to controllers, as it is at that place, and nowhere else.
ovs-ofctl del-flows br0
ovs-ofctl add-flow br0 "udp,actions=mod_nw_tos:32,controller,server"
# traced OPTION...: what a controller is told of a traced packet.
traced() {
    monitor br0 65534 -P nxt_packet_in2
    contains "trace" "$(ovs-appctl ofproto/trace br0 \
        "in_port=client,udp,dl_src=02:00:00:00:00:01,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=7,tp_src=5,tp_dst=6" "$@")" \
        "dont_send=0"
    eventually 3 grep -q "nw_tos=32,nw_ecn=0,nw_ttl=7,nw_frag=no,tp_src=5,tp_dst=6" monitor.printed
    sed -n 's/.*total_len=\([0-9]*\) in_port=\([0-9]*\).*/\1 \2/p' monitor.printed
    unmonitor
}
listen server
same "64 bytes of payload" "106 1" "$(traced --generate)"
same "the last option counts" "42 1" "$(traced -generate --l7 0001 --l7-len 0)"
same "bytes" "45 1" "$(traced --l7 "00 01 02" --generate)"
same "nothing went out" "" "$(heard server)"
for wrong in "--l7 0|Trailing garbage in packet data" "--l7-len 64001|64001: too much L7 data" "--l7|Missing argument for option --l7"; do
    contains "$wrong" "$(must_fail ovs-appctl ofproto/trace br0 in_port=1 --generate ${wrong%|*})" "${wrong#*|}"
done
