# limit: 90
# Packets of tunnels that are known, by one lookup: broken ones among them are dropped and counted as before,
# a changed tunnel, neighbour or route shows at once, and a flapping underlay comes back.
guest_and_underlay
vsctl set bridge br-phy other-config:hwaddr=02:00:00:00:00:aa
vsctl add-port br-int vxlan0 -- set interface vxlan0 type=vxlan ofport_request=9 \
    options:remote_ip=172.31.1.2 options:key=101 \
    -- add-port br-int gnv0 -- set interface gnv0 type=geneve options:remote_ip=172.31.1.2 options:key=7
ip -n far link add vx0 type vxlan id 101 local 172.31.1.2 remote 172.31.1.1 dstport 4789
ip -n far link set vx0 address 02:00:00:00:00:02 up
ip -n far addr add 10.0.0.2/24 dev vx0
load br-int <<'R'
table=0,priority=9,arp,actions=normal
table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=5,ip,ct_state=+trk+new,actions=ct(commit),normal
table=1,priority=5,ip,ct_state=+trk+est,actions=normal
R
capture far
eventually 5 pings guest 10.0.0.2

counted() { ovs-appctl coverage/read-counter "$1"; }
is_more() { [ "$(counted "$1")" -gt "$2" ]; }
send() { on far $python "$tests/hosts/frames.py" send "$@"; }
outer="Ether(src='02:00:00:00:00:fe',dst='02:00:00:00:00:aa')/IP(src='172.31.1.2',dst='172.31.1.1')"
inner="Ether(src='02:00:00:00:00:02',dst='02:00:00:00:00:01')/IP(src='10.0.0.2',dst='10.0.0.1')/UDP(sport=5,dport=6)"
good="$outer/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006500')/$inner/b'good'"

# The guest answers, so that the connection is established and both ways are known.
udp_echo guest 10.0.0.1 6
send "$good" "$good" "$good" "$good"
for broken in \
    "datapath_drop_tunnel_pop_error $outer/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0000000000006500')/$inner" \
    "datapath_drop_tunnel_pop_error $outer/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006501')/$inner" \
    "datapath_drop_tunnel_pop_error $outer/UDP(sport=1,dport=4789,chksum=0,len=900)/bytes.fromhex('0800000000006500')/$inner" \
    "drop_action_invalid_tunnel_metadata $outer/UDP(sport=1,dport=6081,chksum=0)/bytes.fromhex('01406558000007000102810000000000')/$inner" \
    "datapath_drop_tunnel_csum_error $outer/UDP(sport=1,dport=4789,chksum=0x1234)/bytes.fromhex('0800000000006500')/$inner" \
    "drop_action_tunnel_not_found $outer/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('080000000000ff00')/$inner" \
    "drop_action_tunnel_not_found ${outer/172.31.1.2/172.31.1.3}/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006500')/$inner"
do
    read -r counter frame <<<"$broken"
    before=$(counted "$counter")
    send "$good" "$frame" "$good"
    eventually 3 is_more "$counter" "$before" || fail "$counter does not count $frame"
done

# What is in a tunnel inside a tunnel is the guest's own.
listen guest
send "$outer/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006500')/Ether(src='02:00:00:00:00:02',dst='02:00:00:00:00:01')/IP(src='10.0.0.2',dst='10.0.0.1')/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006500')/$inner"
contains "nested" "$(heard guest)" "from=02:00:00:00:00:02"

# A key that the protocol cannot carry.
ovs-ofctl add-flow br-int "table=0,priority=20,in_port=guest,udp,tp_dst=99,actions=set_field:0x1000000->tun_id,output:8"
vsctl add-port br-int wide -- set interface wide type=vxlan ofport_request=8 \
    options:remote_ip=172.31.1.2 options:key=flow options:dst_port=4790
on guest bash -c 'echo x >/dev/udp/10.0.0.2/99'
eventually 3 is_more drop_action_tunnel_header_build_failed 0

# The tunnel's key changes: what was known of it holds no more, either way.
pings guest 10.0.0.2
vsctl set interface vxlan0 options:key=102
never pings guest 10.0.0.2
vsctl set interface vxlan0 options:key=101
eventually 5 pings guest 10.0.0.2
# A neighbour that was set wrong is learned again from the far host's ARP, and packets follow it.
ovs-appctl tnl/neigh/set br-phy 172.31.1.2 02:00:00:00:00:77
is_cut() { ! pings guest 10.0.0.2; }
eventually 5 is_cut
send "Ether(src='02:00:00:00:00:fe',dst='ff:ff:ff:ff:ff:ff')/ARP(op=2,hwsrc='02:00:00:00:00:fe',psrc='172.31.1.2',hwdst='02:00:00:00:00:fe',pdst='172.31.1.2')"
eventually 5 pings guest 10.0.0.2
# And the route.
ip addr del 172.31.1.1/24 dev br-phy
eventually 5 is_cut
ip addr add 172.31.1.1/24 dev br-phy
eventually 5 pings guest 10.0.0.2

# A flapping underlay.
for _ in {1..10}; do
    ip link set br-phy down
    ip link set br-phy up
done
eventually 5 pings guest 10.0.0.2
# A neighbour behind a link that went down is asked anew: another one may be there.
knows() { ovs-appctl tnl/neigh/show | grep -F "172.31.1.2 " >/dev/null; }
# The flaps above may be heard of only now.
meets() { pings guest 10.0.0.2 && knows; }
eventually 5 meets
ip link set br-phy down
forgot() { ! knows; }
eventually 3 forgot
ip -n far link set eth0 address 02:00:00:00:00:fd
ip link set br-phy up
eventually 5 pings guest 10.0.0.2
contains "the new one" "$(ovs-appctl tnl/neigh/show)" "02:00:00:00:00:fd"
ip link set br-phy down
ip -n far link set eth0 address 02:00:00:00:00:fe
ip link set br-phy up
eventually 5 pings guest 10.0.0.2

# The trace of a packet out of the tunnel begins at its port; the neighbours go with the bridge's own port.
contains "trace" "$(ovs-appctl ofproto/trace "tunnel(tun_id=0x65,src=172.31.1.2,dst=172.31.1.1,ttl=64,flags(key)),in_port($(ovs-appctl ofproto/list-tunnels | sed -n 's/.*vxlan0.*dp port=\([0-9]*\).*/\1/p')),eth(src=02:00:00:00:00:02,dst=02:00:00:00:00:01),eth_type(0x0806),arp()" 2>&1)" \
    'bridge("br-int")'
contains "neighbours" "$(ovs-appctl tnl/neigh/show)" "br-phy"
vsctl del-br br-phy
lacks "neighbours" "$(ovs-appctl tnl/neigh/show)" "br-phy"
well_formed far "ip.src == 172.31.1.1 && vxlan"
