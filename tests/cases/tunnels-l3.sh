# limit: 90
# A VXLAN-GPE tunnel that carries IP packets without Ethernet headers, to the kernel's device.
host guest 10.0.0.1/24 02:00:00:00:00:01
host far 172.31.1.2/24 02:00:00:00:00:fe
ip -n far link add gpe0 type vxlan dstport 4789 external gpe || skip "the kernel has no VXLAN-GPE"
start_switch
underlay far
bridge br-int guest
vsctl add-port br-int l3 -- set interface l3 type=vxlan ofport_request=9 \
    options:remote_ip=172.31.1.2 options:exts=gpe options:packet_type=legacy_l3
ip -n far addr add 10.0.0.2/24 dev gpe0
ip -n far link set gpe0 mtu 1450 up
ip -n far route add 10.0.0.1/32 encap ip id 0 dst 172.31.1.1 dev gpe0
on guest sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0
on far sysctl -qw net.ipv6.conf.gpe0.disable_ipv6=0
ip -n guest addr add fd00:1::1/64 dev eth0 nodad
ip -n far addr add fd00:1::2/64 dev gpe0 nodad
ip -n far -6 route add fd00:1::1/128 encap ip id 0 dst 172.31.1.1 dev gpe0
for address in 10.0.0.2 fd00:1::2; do
    ip -n guest neigh replace $address lladdr 02:00:00:00:00:02 dev eth0
done
# What comes out of the tunnel has no addresses until flows give it some.
plain() {
    load br-int <<'R'
priority=9,in_port=guest,ip,actions=output:9
priority=9,in_port=guest,ipv6,actions=output:9
priority=9,in_port=9,dl_dst=00:00:00:00:00:00,actions=mod_dl_src:02:00:00:00:00:02,mod_dl_dst:02:00:00:00:00:01,output:guest
priority=1,actions=drop
R
}
tracked() {
    local ip out="mod_dl_src:02:00:00:00:00:02,mod_dl_dst:02:00:00:00:00:01,output:guest"
    for ip in ip ipv6; do
        cat <<R
table=0,priority=9,$ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=9,$ip,in_port=guest,ct_state=+trk+new,actions=ct(commit),output:9
table=1,priority=9,$ip,in_port=9,ct_state=+trk+new,actions=ct(commit),$out
table=1,priority=8,$ip,in_port=guest,ct_state=+trk,actions=output:9
table=1,priority=8,$ip,in_port=9,ct_state=+trk,actions=$out
R
    done | load br-int
}
capture far
mkdir -p "$work/www"
head -c 3000000 /dev/urandom >"$work/www/large"
serve guest
serve far
for rules in plain tracked; do
    $rules
    eventually 5 pings guest 10.0.0.2
    eventually 5 pings guest fd00:1::2
    on far ping -n -q -i 0.2 -W 1 -c 2 10.0.0.1 >/dev/null
    for way in "guest 10.0.0.2" "far 10.0.0.1" "guest [fd00:1::2]" "far [fd00:1::1]"; do
        read -r from to <<<"$way"
        fetch "$from" "http://$to/large" | cmp - "$work/www/large" || fail "$rules: $from cannot fetch from $to"
    done
    flows=$(ovs-appctl dpctl/dump-flows)
    contains "out of the tunnel" "$flows" "packet_type(ns=1,id=0x800)"
    contains "into the tunnel" "$flows" "pop_eth,tnl_push("
done
plain
pings guest 10.0.0.2
contains "with an Ethernet header" "$(ovs-appctl dpctl/dump-flows)" \
    "push_eth(src=02:00:00:00:00:02,dst=02:00:00:00:00:01)"
# The MTU within: VXLAN over IPv4 without an inner Ethernet header takes 36 bytes.
ip -n guest route flush cache
contains "MTU" "$(on guest ping -M "do" -s 1472 -c 1 -W 1 10.0.0.2 2>&1 || true)" "mtu = 1464"
well_formed far "ip.src == 172.31.1.1 && vxlan"
