# limit: 90
# Packets that are too large for a tunnel's underlay: their senders are told the MTU within the tunnel, or
# outer packets are fragmented where that is allowed; whatever is dropped is counted.
guest_and_underlay
vsctl add-port br-int vxlan0 -- set interface vxlan0 type=vxlan options:remote_ip=172.31.1.2 options:key=101
ip -n far link add vx0 type vxlan id 101 local 172.31.1.2 remote 172.31.1.1 dstport 4789
ip -n far link set vx0 address 02:00:00:00:00:02 mtu 1500 up
ip -n far addr add 10.0.0.2/24 dev vx0
for place in "guest eth0 1" "far vx0 2"; do
    read -r name device number <<<"$place"
    on "$name" sysctl -qw "net.ipv6.conf.$device.disable_ipv6=0"
    ip -n "$name" addr add "fd00:1::$number/64" dev "$device" nodad
done
capture far
eventually 5 pings guest 10.0.0.2
eventually 5 pings guest fd00:1::2

counted() { ovs-appctl coverage/read-counter "$1"; }
is_more() { [ "$(counted "$1")" -gt "$2" ]; }
too_big=datapath_drop_tunnel_too_big
same "nothing was too large yet" 0 "$(counted $too_big)"

# VXLAN over IPv4 takes 50 bytes of 1500.
contains "IPv4" "$(on guest ping -M "do" -s 1472 -c 1 -W 1 10.0.0.2 2>&1 || true)" "mtu = 1450"
is_more $too_big 0 || fail "what was too large is not counted"
contains "and the sender keeps it" "$(ip -n guest route get 10.0.0.2)" "mtu 1450"
on guest ping -q -M "do" -s 1422 -c 1 -W 2 10.0.0.2 >/dev/null
says "IPv6" "mtu=1450" on guest ping -6 -M "do" -s 1452 -c 1 -W 1 fd00:1::2
# What its sender would have fragmented by others is dropped: a tunnel fragments no inner packets.
ip -n guest route flush cache
before=$(counted $too_big)
listen guest
on guest ping -q -M dont -s 1472 -c 1 -W 1 10.0.0.2 >/dev/null || true
lacks "no answer" "$(heard guest)" "from=02:00:00:00:00:02.*type=0800"
is_more $too_big "$before" || fail "a packet without DF is not counted"

# TCP finds its way, with large frames and connection tracking, over known flows too.
load br-int <<'R'
table=0,priority=9,arp,actions=normal
table=0,priority=9,icmp6,actions=normal
table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=5,ip,ct_state=+trk+new,actions=ct(commit),normal
table=1,priority=5,ip,ct_state=+trk+est,actions=normal
table=1,priority=5,ip,ct_state=+trk+rel,actions=normal
R
mkdir -p "$work/www"
head -c 3000000 /dev/urandom >"$work/www/big"
serve guest
ip -n guest route flush cache
fetch far http://10.0.0.1/big | cmp - "$work/www/big" || fail "TCP does not get through"
ip -n guest route flush cache
fetch far http://10.0.0.1/big | cmp - "$work/www/big" || fail "TCP does not get through again"
contains "the MTU within the tunnel" "$(ip -n guest route get 10.0.0.2)" "mtu 1450"

# A route with an MTU of its own.
ip route add 172.31.1.2/32 dev br-phy mtu 1400
ip -n guest route flush cache
mtu_is() {
    ip -n guest route flush cache
    { on guest ping -M "do" -s 1472 -c 1 -W 1 10.0.0.2 2>&1 || true; } | grep "mtu = $1"
}
eventually 5 mtu_is 1350
ip route del 172.31.1.2/32 dev br-phy
eventually 5 mtu_is 1450

# The outer packet may be fragmented; the far kernel puts it together.
vsctl set interface vxlan0 options:df_default=false
ip -n guest route flush cache
ip -n far route change 10.0.0.0/24 dev vx0 mtu 1400
eventually 5 on guest ping -q -M "do" -s 1472 -c 2 -W 1 10.0.0.2
before=$(counted $too_big)
on guest ping -q -M "do" -s 1472 -c 2 -i 0.2 -W 1 10.0.0.2 >/dev/null
same "nothing is dropped" "$before" "$(counted $too_big)"
vsctl remove interface vxlan0 options df_default

# An underlay whose MTU is smaller than the headers.
ip link set dev br-phy mtu 100
before=$(counted drop_action_tunnel_mtu_too_small)
is_dropped() {
    on guest ping -q -c 1 -W 1 10.0.0.2 >/dev/null || true
    is_more drop_action_tunnel_mtu_too_small "$before"
}
eventually 5 is_dropped
ip link set dev br-phy mtu 1500
eventually 5 pings guest 10.0.0.2
# Fragments of outer packets, too, are well-formed.
well_formed far "ip.src == 172.31.1.1 && vxlan"
