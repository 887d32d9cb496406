# Packets without Ethernet headers between two bridges: what matches them, and what leaves.
start_switch --enable-dummy
ours || skip "ports of Open vSwitch's own daemon are numbered otherwise"
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure -- \
    add-port br0 p1 -- set interface p1 type=dummy ofport_request=1 -- \
    add-port br0 a -- set interface a type=patch options:peer=b ofport_request=9 -- \
    add-br br1 -- set bridge br1 datapath_type=dummy fail_mode=secure -- \
    add-port br1 b -- set interface b type=patch options:peer=a ofport_request=9 -- \
    add-port br1 p2 -- set interface p2 type=dummy ofport_request=2 options:tx_pcap=$work/p2.pcap
receive() {
    ovs-appctl netdev-dummy/receive p1 'in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)' --len 60
}
headers() { ovs-pcap "$work/p2.pcap" | cut -c1-28 | tr '\n' ' '; }
sent() { [ "$(headers)" = "$1" ]; }
of13() { ovs-ofctl -O OpenFlow13 "$@"; }

of13 add-flow br0 'in_port=1,actions=decap(),output:9'
of13 add-flow br1 'priority=2,ip,actions=output:2'
of13 add-flow br1 'priority=1,packet_type=(1,0x800),nw_dst=10.0.0.2,actions=encap(ethernet),mod_dl_dst:02:00:00:00:00:09,output:2'
contains "as written" "$(of13 dump-flows br1)" "packet_type=(1,0x800),nw_dst=10.0.0.2 actions=encap(ethernet)"
receive
eventually 5 sent "0200000000090000000000000800 "
contains "in the datapath" "$(ovs-appctl dpctl/dump-flows)" "actions:pop_eth,push_eth(src=00:00:00:00:00:00,dst=02:00:00:00:00:09),2"

# Its length is that of the packet alone, 46 bytes here.
of13 add-flow br1 'priority=1,packet_type=(1,0x800),nw_dst=10.0.0.2,actions=check_pkt_larger(46)->NXM_NX_REG0[0],encap(ethernet),move:NXM_NX_REG0[0]->NXM_OF_ETH_DST[0],output:2'
receive
eventually 5 sent "0200000000090000000000000800 0000000000000000000000000800 "
# Traces know the Ethernet type by the packet type.
traced=$(ovs-appctl ofproto/trace br1 'in_port=9,packet_type=(1,0x800),nw_dst=10.0.0.2,nw_ttl=64')
contains "traced" "$traced" "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00)"
of13 add-flow br1 'priority=3,packet_type=(1,0x800),nw_dst=10.0.0.3,actions=encap(ethernet),resubmit(,1)'
of13 add-flow br1 'table=1,ip,actions=output:2'
traced=$(ovs-appctl ofproto/trace br1 'in_port=9,packet_type=(1,0x800),nw_dst=10.0.0.3,nw_ttl=64')
contains "an IP packet" "$traced" "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),2"
of13 del-flows br1 'packet_type=(1,0x800),nw_dst=10.0.0.3'
of13 del-flows br1 'table=1'
# No flow of a frame's type 0 takes it.
of13 add-flow br1 'priority=9,dl_type=0,actions=drop'
contains "no frame" "$(ovs-appctl ofproto/trace br0 in_port=1,ip,nw_dst=10.0.0.2)" "push_eth"
of13 --strict del-flows br1 'priority=9,dl_type=0'

# Without a header the packet leaves by no port that carries frames.
of13 add-flow br1 'priority=1,packet_type=(1,0x800),nw_dst=10.0.0.2,actions=output:2'
receive
contains "without a header" "$(ovs-appctl ofproto/trace br0 in_port=1,ip,nw_dst=10.0.0.2)" "Datapath actions: drop"
# A frame has one already.
of13 add-flow br0 'in_port=1,actions=encap(ethernet),output:9'
receive
refused() { [ "$(ovs-appctl coverage/read-counter drop_action_unsupported_packet_type)" = 1 ]; }
eventually 5 refused
same "what was sent" "0200000000090000000000000800 0000000000000000000000000800 " "$(headers)"
# A frame's flow is none of other packets.
of13 del-flows br1 eth
same "what is left" 1 "$(of13 dump-flows br1 | grep -c actions)"
