# limit: 120
# A VXLAN tunnel whose other end is the kernel's VXLAN device: a guest of ours and a service behind the
# device reach each other, over an internal port of the physical bridge as underlay.
guest_and_underlay
vsctl add-port br-int vxlan0 -- set interface vxlan0 type=vxlan \
    options:remote_ip=172.31.1.2 options:local_ip=172.31.1.1 options:key=101
ip -n far link add vx0 type vxlan id 101 local 172.31.1.2 remote 172.31.1.1 dstport 4789
ip -n far link set vx0 address 02:00:00:00:00:02 up
ip -n far addr add 10.0.0.2/24 dev vx0
ip -n guest link set eth0 mtu 1450
capture far

has_route() { ovs-appctl ovs/route/show | grep -q 172.31.1.0/24; }
eventually 5 has_route
same "the route" "Cached: 172.31.1.0/24 dev br-phy SRC 172.31.1.1" \
    "$(ovs-appctl ovs/route/show | grep 172.31.1.0/24)"
contains "list-tunnels" "$(ovs-appctl ofproto/list-tunnels)" \
    "vxlan0 (vxlan: 172.31.1.1->172.31.1.2, key=0x65, legacy_l2, dp port="

# The first packet asks for the far end, and is lost.
eventually 5 pings guest 10.0.0.2
pings guest 10.0.0.2
on far ping -n -q -i 0.2 -W 1 -c 2 10.0.0.1 >/dev/null
contains "neighbours" "$(ovs-appctl tnl/neigh/show)" "02:00:00:00:00:fe   br-phy"

# What would become of packets, through both bridges, into the tunnel and out of it; and what becomes of one.
trace() { ovs-appctl ofproto/trace "$1" "$2"; }
into=$(trace br-int in_port=guest,icmp,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_ttl=64)
contains "into the tunnel" "$into" "-> output to native tunnel"
contains "from bridge to bridge" "$into" 'bridge("br-phy")'
contains "its actions" "$into" "Datapath actions: tnl_push(tnl_port("
phy=$(ip -o link show br-phy | sed 's/.*ether \([^ ]*\).*/\1/')
out=udp,dl_src=02:00:00:00:00:fe,dl_dst=$phy,nw_src=172.31.1.2,nw_dst=172.31.1.1,udp_dst=4789
contains "outer packets" "$(trace br-phy "in_port=far,$out")" "Datapath actions: tnl_pop("
inner=tun_id=101,tun_src=172.31.1.2,tun_dst=172.31.1.1,icmp,dl_src=02:00:00:00:00:02,dl_dst=02:00:00:00:00:01
contains "inner packets" "$(trace br-int "in_port=vxlan0,$inner")" "-> forwarding to learned port"
if ours; then
    "$TIDEGATE" trace udp,in_port=far --count 1 --timeout 20 >traced &
    pid=$!
    seen() { pings guest 10.0.0.2 && ! kill -0 $pid 2>/dev/null; }
    eventually 10 seen
    grep -q 'actions:tnl_pop(vxlan_sys_4789)' traced || fail "no decapsulation: $(cat traced)"
    grep -qE 'tunnel\(tun_id=0x65,.*actions:guest' traced || fail "no inner flow: $(cat traced)"
fi

# Both ways, with everything left to devices that veth leaves to them: large frames, checksums.
serve far
same "from the guest" hello "$(fetch guest http://10.0.0.2/)"
serve guest
same "to the guest" hello "$(fetch far http://10.0.0.1/)"
mkdir -p "$work/www"
head -c 30000000 /dev/urandom >"$work/www/large"
sum=$(md5sum <"$work/www/large")
received() { on guest cat /sys/class/net/eth0/statistics/rx_packets; }
before=$(received)
for way in "guest 10.0.0.2" "far 10.0.0.1"; do
    read -r from to <<<"$way"
    same "30 MB to $from" "$sum" "$(fetch "$from" "http://$to/large" | md5sum)"
    # 21,459 segments of 1,398 bytes come out of the tunnel, and leave as large frames.
    [ "$from" = far ] || frames=$(($(received) - before))
done
printf '30 MB to guest: %s frames\n' "$frames"
! ours || [ "$frames" -lt 15000 ] || fail "$frames frames: segments were not merged"
# What the datapath shows of both directions.
flows=$(ovs-appctl dpctl/dump-flows)
contains "push" "$flows" "ipv4(src=172.31.1.1,dst=172.31.1.2,proto=17,tos=0,ttl=64,frag=0x4000),udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x65)),out_port("
contains "pop" "$flows" "actions:tnl_pop("
contains "behind" "$flows" "tunnel(tun_id=0x65,src=172.31.1.2,dst=172.31.1.1,flags(+key)),recirc_id(0)"
contains "egress" "$(vsctl get interface vxlan0 status)" 'tunnel_egress_iface=br-phy'

# Flows say where packets go, and which came; connection tracking keeps what they came through.
vsctl del-port vxlan0 -- add-port br-int vxlan0 -- set interface vxlan0 type=vxlan ofport_request=9 \
    options:remote_ip=flow options:key=flow
load br-int <<'R'
table=0,priority=9,arp,in_port=guest,actions=set_field:101->tun_id,set_field:172.31.1.2->tun_dst,output:9
table=0,priority=9,arp,in_port=9,tun_id=101,tun_src=172.31.1.2,actions=output:guest
table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=5,ip,in_port=guest,actions=ct(commit),set_tunnel:101,set_field:172.31.1.2->tun_dst,output:9
table=1,priority=5,ip,in_port=9,ct_state=+trk+est,tun_id=101,tun_src=172.31.1.0/24,tun_dst=172.31.1.1,tun_flags=-oam,actions=output:guest
R
pings guest 10.0.0.2
same "tracked, by flows" "$sum" "$(fetch guest http://10.0.0.2/large | md5sum)"
contains "the flows" "$(ovs-ofctl dump-flows br-int)" \
    "ip,tun_id=0x65,tun_src=172.31.1.0/24,tun_dst=172.31.1.1,tun_flags=-oam,in_port=9 actions=output:1"

# Packets of another network are dropped.
vsctl set interface vxlan0 options:remote_ip=172.31.1.2 options:key=101
ip -n far link set vx0 down
ip -n far link add vx1 type vxlan id 102 local 172.31.1.2 remote 172.31.1.1 dstport 4789
ip -n far link set vx1 address 02:00:00:00:00:02 mtu 1450 up
ip -n far addr del 10.0.0.2/24 dev vx0
ip -n far addr add 10.0.0.2/24 dev vx1
never pings far 10.0.0.1
contains "dropped" "$(ovs-appctl coverage/show)" drop_action_tunnel_not_found
# What this switch sent is well-formed for tshark, outside and inside.
well_formed far "ip.src == 172.31.1.1 && vxlan"
