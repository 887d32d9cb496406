# Truncated outputs, check_pkt_larger, meters, and ports connected by sockets.
start_switch --enable-dummy
ours || skip "ports of Open vSwitch's own daemon are numbered otherwise"
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure -- \
    add-port br0 p1 -- set interface p1 type=dummy ofport_request=1 -- \
    add-port br0 p2 -- set interface p2 type=dummy ofport_request=2 options:tx_pcap=$work/p2.pcap -- \
    add-port br0 p3 -- set interface p3 type=dummy ofport_request=3 options:tx_pcap=$work/p3.pcap
receive() { # BYTES [TIMES]
    local frame='in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)'
    for _ in $(seq "${2:-1}"); do ovs-appctl netdev-dummy/receive p1 "$frame" --len "$1"; done
}
# Prints the lengths of the packets that a port sent, in order.
lengths() { ovs-pcap "$work/$1.pcap" | awk '{ printf "%d ", length($0) / 2 }'; }
sent() { [ "$(lengths "$1")" = "$2 " ]; }

ovs-ofctl add-flow br0 'in_port=1,actions=output(port=2,max_len=100),output:3'
contains "as written" "$(ovs-ofctl dump-flows br0)" "actions=output(port=2,max_len=100),output:3"
receive 200
receive 80
eventually 5 sent p2 "100 80"
eventually 5 sent p3 "200 80"
contains "in the datapath" "$(ovs-appctl dpctl/dump-flows)" "actions:trunc(100),2,3"

# If the datapath does not support truncation, every packet causes an upcall, and the output is the
# same.
ovs-appctl dpif/set-dp-features br0 trunc false
receive 200 2
eventually 5 sent p2 "100 80 100 100"
same "no megaflow" "" "$(ovs-appctl dpctl/dump-flows)"
contains "why" "$(ovs-appctl ofproto/trace br0 in_port=1)" "Uses action(s) not supported by datapath."
ovs-appctl dpif/set-dp-features br0 trunc true

ovs-ofctl del-flows br0
ovs-ofctl add-flow br0 'in_port=1,actions=check_pkt_larger(150)->NXM_NX_REG0[0],resubmit(,1)'
ovs-ofctl add-flow br0 'table=1,reg0=1/1,actions=output:2'
ovs-ofctl add-flow br0 'table=1,reg0=0/1,actions=output:3'
receive 151
receive 150
eventually 5 sent p2 "100 80 100 100 151"
eventually 5 sent p3 "200 80 200 200 150"
contains "both" "$(ovs-appctl dpctl/dump-flows)" "check_pkt_len(size=150,gt(2),le(3))"

# While the clock stands still, no tokens are added: three of five packets pass.
ovs-appctl time/stop
ovs-ofctl -O OpenFlow13 add-meter br0 'meter=1,pktps,burst,bands=type=drop,rate=3,burst_size=3'
contains "twice" "$(must_fail ovs-ofctl -O OpenFlow13 add-meter br0 'meter=1,pktps,bands=type=drop,rate=3')" METER_EXISTS
contains "no such meter" "$(must_fail ovs-ofctl -O OpenFlow13 add-flow br0 'actions=meter:2,output:2')" INVALID_METER
ovs-ofctl del-flows br0
ovs-ofctl -O OpenFlow13 add-flow br0 'in_port=1,actions=meter:1,output:3'
receive 60 5
eventually 5 sent p3 "200 80 200 200 150 60 60 60"
metered() {
    ovs-ofctl -O OpenFlow13 meter-stats br0 | tr '\n' ' ' |
        grep -q "flow_count:1 packet_in_count:5 byte_in_count:300 .*0: packet_count:2 byte_count:120"
}
eventually 5 metered
ovs-ofctl -O OpenFlow13 del-meters br0
same "its flow went with it" "" "$(ovs-ofctl --no-stats dump-flows br0 | grep actions || true)"

# Packets of the slow path pass the meter for them.
ovs-ofctl -O OpenFlow13 add-meter br0 'meter=slowpath,pktps,burst,bands=type=drop,rate=3,burst_size=3'
ovs-ofctl add-flow br0 'in_port=1,actions=debug_slow,output:3'
receive 61 5
eventually 5 sent p3 "200 80 200 200 150 60 60 60 61 61 61"
ovs-ofctl -O OpenFlow13 del-meters br0
receive 62 5
eventually 5 sent p3 "200 80 200 200 150 60 60 60 61 61 61 62 62 62 62 62"

# What p2 sends, p4 receives.
vsctl set interface p2 "options:pstream=punix:$work/p2.sock" -- \
    add-port br0 p4 -- set interface p4 type=dummy ofport_request=4 "options:stream=unix:$work/p2.sock"
connected() { [ "$(ovs-appctl netdev-dummy/conn-state p4)" = "p4: connected" ]; }
eventually 5 connected
ovs-ofctl add-flow br0 'in_port=1,actions=output:2'
ovs-ofctl add-flow br0 'in_port=4,actions=output:3'
receive 77
eventually 5 sent p3 "200 80 200 200 150 60 60 60 61 61 61 62 62 62 62 62 77"
same "of one that waits nothing is known" "p2: unknown" "$(ovs-appctl netdev-dummy/conn-state p2)"
