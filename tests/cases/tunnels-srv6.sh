# limit: 60
# An SRv6 tunnel to a host whose kernel does the same: packets with a segment routing header, both ways.
host guest 10.0.0.1/24 02:00:00:00:00:01
host far 172.31.1.2/24 02:00:00:00:00:fe
for name in guest far; do
    on $name sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0
done
on far sysctl -qw net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.eth0.seg6_enabled=1 ||
    skip "the kernel has no segment routing"
start_switch
bridge br-phy far
bridge br-int guest
sysctl -qw net.ipv6.conf.br-phy.disable_ipv6=0
ip addr add fc00:1::1/64 dev br-phy nodad
ip link set br-phy up
ip -n far addr add fc00:1::2/64 dev eth0 nodad
vsctl add-port br-int s0 -- set interface s0 type=srv6 ofport_request=9 options:remote_ip=fc00:1::2 \
    options:srv6_segs=fc00:1::2
ip -n far addr add 10.0.0.2/32 dev lo
ip -n far route add 10.0.0.1/32 encap seg6 mode encap segs fc00:1::1 dev eth0 src 10.0.0.2 ||
    skip "the kernel has no segment routing"
ip -n guest neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0
load br-int <<'R'
priority=9,in_port=guest,ip,actions=output:9
priority=9,in_port=9,ip,actions=mod_dl_src:02:00:00:00:00:02,mod_dl_dst:02:00:00:00:00:01,output:guest
priority=1,actions=drop
R
contains "the port" "$(ovs-appctl tnl/ports/show)" "srv6_sys"
contains "its options" "$(ovs-appctl dpif/show)" "(srv6: remote_ip=fc00:1::2, srv6_segs=fc00:1::2)"
capture far
eventually 5 pings guest 10.0.0.2
contains "the header" "$(ovs-appctl dpctl/dump-flows)" \
    "ipv6(src=fc00:1::1,dst=fc00:1::2,label=0,proto=43,tclass=0x0,hlimit=64),srv6(segments_left=0,segs(fc00:1::2))"
mkdir -p "$work/www"
head -c 3000000 /dev/urandom >"$work/www/large"
serve guest
serve far
for way in "guest 10.0.0.2" "far 10.0.0.1"; do
    read -r from to <<<"$way"
    fetch "$from" "http://$to/large" | cmp - "$work/www/large" || fail "$from cannot fetch from $to"
done
# A first segment that is not the other end cannot be sent to.
vsctl set interface s0 options:srv6_segs=fc00:1::9,fc00:1::2
before=$(ovs-appctl coverage/read-counter drop_action_tunnel_header_build_failed)
is_dropped() {
    on guest ping -q -c 1 -W 1 10.0.0.2 >/dev/null || true
    [ "$(ovs-appctl coverage/read-counter drop_action_tunnel_header_build_failed)" -gt "$before" ]
}
eventually 5 is_dropped
well_formed far "ipv6.src == fc00:1::1"
