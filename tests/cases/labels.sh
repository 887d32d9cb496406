# MPLS labels and NSH headers: what goes out, byte by byte, what comes back, and what controllers get.
start_switch --enable-dummy
ours || skip "ports of Open vSwitch's own daemon are numbered otherwise"
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure -- \
    add-port br0 p1 -- set interface p1 type=dummy ofport_request=1 -- \
    add-port br0 p2 -- set interface p2 type=dummy ofport_request=2 options:tx_pcap=$work/p2.pcap -- \
    add-port br0 out -- set interface out type=patch options:peer=back -- \
    add-br br1 -- set bridge br1 datapath_type=dummy fail_mode=secure -- \
    add-port br1 back -- set interface back type=patch options:peer=out -- \
    add-port br1 p3 -- set interface p3 type=dummy ofport_request=3 options:tx_pcap=$work/p3.pcap
eth=020000000002020000000001
ip=0800451400280000000040060000c0a8000ac0a8000b03e8005000000000000000005000ffff00000000
flow() { ovs-ofctl -O OpenFlow13 add-flow "$@"; }
receive() { ovs-appctl netdev-dummy/receive p1 "$1"; }
last() { ovs-pcap "$work/$1.pcap" | tail -1; }
sent() { [ "$(last "$1")" = "$2" ]; }

# Two labels: of the first, traffic class and TTL are the packet's.
flow br0 'in_port=1,ip,actions=push_mpls:0x8847,set_field:10->mpls_label,push_mpls:0x8847,set_field:20->mpls_label,set_mpls_tc(1),dec_mpls_ttl,output:2'
for _ in 1 2 3; do receive $eth$ip; done
eventually 5 sent p2 "${eth}88470001423f0000ab40${ip#0800}"
contains "the flow" "$(ovs-appctl dpctl/dump-flows)" \
    'actions:push_mpls(label=10,tc=5,ttl=64,bos=1,eth_type=0x8847),push_mpls(label=20,tc=1,ttl=63,bos=0,eth_type=0x8847),2'

# They come off again, and the packet behind them is routed.
flow br0 'in_port=1,mpls,mpls_label=20,actions=pop_mpls:0x8847,resubmit(,1)'
flow br0 'table=1,mpls,mpls_label=10,mpls_bos=1,actions=pop_mpls:0x0800,dec_ttl,set_field:192.168.0.99->ip_dst,output:2'
for _ in 1 2 3; do receive "${eth}88470001423f0000ab40${ip#0800}"; done
routed() { last p2 | grep -q "^${eth}080045140028000000003f06....c0a8000ac0a8006303e80050"; }
eventually 5 routed

# A whole frame behind a label, and behind NSH, goes to another bridge and comes out as it was.
flow br0 'in_port=1,arp,actions=encap(mpls),set_field:5->mpls_label,encap(ethernet),output:out'
flow br1 'mpls,actions=decap(),decap(packet_type(ns=0,type=0)),output:3'
arp=080600010800060400010200000000010a0000010000000000000a000002
for _ in 1 2 3; do receive $eth$arp; done
eventually 5 sent p3 $eth$arp
contains "around it" "$(ovs-appctl dpctl/dump-flows)" 'add_mpls(label=5,tc=0,ttl=64,bos=1,eth_type=0x8847)'
flow br0 'in_port=1,ipv6,actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),set_field:0x1234->nsh_spi,encap(ethernet),output:2,output:out'
flow br1 'dl_type=0x894f,nsh_spi=0x1234,nsh_np=3,actions=decap(),decap(),output:3'
udp6=86dd60000000000811fffd000000000000000000000000000001fd000000000000000000000000000002000100020008dc4d
for _ in 1 2 3; do receive $eth$udp6; done
eventually 5 sent p2 "000000000000000000000000894f0fc40203001234ff10000a0412345678$eth$udp6"
eventually 5 sent p3 $eth$udp6

# The time of a label runs out: a controller gets the packet.
flow br0 'in_port=1,mpls,mpls_label=21,actions=dec_mpls_ttl,output:2'
ovs-ofctl monitor br0 65534 invalid_ttl --detach --no-chdir --pidfile="$work/monitor.pid" 2>"$work/monitor.log"
receive "${eth}884700015101${ip#0800}"
got() { grep -q 'reason=invalid_ttl\|via invalid_ttl' "$work/monitor.log" && grep -q 'mpls_label=21,mpls_tc=0,mpls_ttl=1,mpls_bos=1' "$work/monitor.log"; }
eventually 5 got

# More labels than a flow can tell of.
flow br0 'in_port=1,mpls,mpls_label=22,actions=push_mpls:0x8847,output:2'
before=$(last p2)
receive "${eth}8847000160400001604000016040${ip#0800}"
dropped() { ovs-appctl coverage/read-counter drop_action_too_many_mpls_labels | grep -qx 1; }
eventually 5 dropped
same "nothing went out" "$before" "$(last p2)"
