# Connections in a VXLAN tunnel forwarded by XDP in the kernel, both ways, with the kernel's own VXLAN device at
# the far end: counted, kept alive, and nothing of them left when the tunnel, the far end's address or a rule
# changes.
# limit: 90
guest_and_underlay
vsctl set bridge br-phy other-config:hwaddr=02:00:00:00:00:aa
vsctl add-port br-int vxlan0 -- set interface vxlan0 type=vxlan options:remote_ip=172.31.1.2 options:key=101
far_vxlan() {
    ip -n far link add vx0 type vxlan id 101 local "$1" remote "$2" dstport 4789 "$3"
    ip -n far link set vx0 address 02:00:00:00:00:02 up
    ip -n far addr add 10.0.0.2/24 dev vx0
}
far_vxlan 172.31.1.2 172.31.1.1 noudpcsum
ip -n guest link set eth0 mtu 1400
load br-int <<'R'
table=0,priority=9,arp,actions=normal
table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=5,ip,ct_state=+trk+new,actions=ct(commit),normal
table=1,priority=5,ip,ct_state=+trk+est,actions=normal
R
offload_to_xdp guest far
attached() { ip link show "$1" | grep -q prog/xdp; }
eventually 3 attached guest
eventually 3 attached far
asked() { udp_ask guest 10.0.0.2 5000 "$1" "$2"; }
eventually 5 pings guest 10.0.0.2

# UDP: both directions, from the kernel's counters into flows and connections.
udp_echo far 10.0.0.2 5000
same "answers" 20 "$(asked 20 4001)"
eventually 3 offload_is "CT bi-dir Connections" -ge 1
before=$(offload_stat "Forwarded packets")
same "answers" 300 "$(asked 300 4001)"
eventually 3 offload_is "Forwarded packets" -ge $((before + 590))
flow() { ovs-appctl dpctl/dump-flows -m | grep "$1" | grep -o -m1 '^ufid:[0-9a-f-]*'; }
why=$(ovs-appctl tidegate/why-not-offloaded "$(flow 'tunnel(tun_id=0x65.*ct_state(0/0)\|tunnel(tun_id=0x65.*recirc_id(0),')")
lacks "out of the tunnel" "$why" "in-port:"
contains "pop" "$(ovs-appctl dpctl/dump-flows -m type=partially-offloaded)" "tnl_pop("
packets() { ovs-ofctl dump-flows "$1" "$2" | sed -n 's/.*n_packets=\([0-9]*\),.*/\1/p'; }
est() { [ "$(packets br-int table=1,ct_state=+trk+est)" -ge 600 ]; }
eventually 3 est
phy() { [ "$(packets br-phy table=0)" -ge 600 ]; }
eventually 3 phy

# TCP: requests on kept connections, and a transfer whose large frames stay the switch's.
serve far
head -c 3000000 /dev/urandom >$work/file
mkdir -p $work/www && mv $work/file $work/www/file
# On a busy machine connections are offloaded late, so that a run may have to be repeated.
requested() {
    local before requests
    before=$(offload_stat "Forwarded packets")
    on guest wrk -t1 -c4 -d2s http://10.0.0.2/ >wrk.txt
    lacks "errors" "$(cat wrk.txt)" "Socket errors"
    requests=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' wrk.txt)
    [ "$requests" -gt 100 ] && offload_is "Forwarded packets" -gt $((before + requests))
}
eventually 20 requested
fetch guest -o $work/got http://10.0.0.2/file
cmp $work/www/file $work/got
# Small segments, several of which the kernel leaves in one frame that fits the MTU, both ways.
ip -n guest route change 10.0.0.0/24 dev eth0 advmss 400
ip -n far route change 10.0.0.0/24 dev vx0 advmss 400
serve guest
for way in "guest 10.0.0.2" "far 10.0.0.1"; do
    read -r from to <<<"$way"
    fetch "$from" -o $work/got "http://$to/file"
    cmp $work/www/file $work/got
done
closed() { ! ovs-appctl dpctl/dump-conntrack | grep -q 'tcp.*state=ESTABLISHED'; }
eventually 5 closed

# The far end has another address on the wire: what went to the old one goes to the new one.
# Flows may change a moment after packets came, so that these are offered again with the next ones.
is_established() { [ "$(asked 20 "$1")" = 20 ] && sleep 0.2 && offload_is "CT bi-dir Connections" -ge 1; }
establish() { eventually 9 is_established "$1"; }
establish 4002
ip -n far link set eth0 address 02:00:00:00:00:fd
ovs-appctl tnl/neigh/set br-phy 172.31.1.2 02:00:00:00:00:fd >/dev/null
reached() { [ "$(asked 5 4002)" = 5 ]; }
eventually 5 reached

# Another VNI: no packet of the old one goes into the tunnel or comes out of it.
establish 4003
vsctl set interface vxlan0 options:key=102
same "of another VNI" 0 "$(asked 5 4003)"
eventually 3 offload_is "CT bi-dir Connections" -eq 0
vsctl set interface vxlan0 options:key=101
eventually 5 pings guest 10.0.0.2
establish 4003

# Another far end.
vsctl set interface vxlan0 options:remote_ip=172.31.1.3
same "to another far end" 0 "$(asked 5 4003)"
vsctl set interface vxlan0 options:remote_ip=172.31.1.2
eventually 5 pings guest 10.0.0.2
establish 4003

# The route goes, and with it the way.
ip addr del 172.31.1.1/24 dev br-phy
cut_off() { [ "$(asked 3 4003)" = 0 ]; }
eventually 9 cut_off
ip addr add 172.31.1.1/24 dev br-phy
ip link set br-phy up
again() { [ "$(asked 5 4003)" = 5 ]; }
eventually 10 again
establish 4003

# With outer UDP checksums, which the kernel's device has by default, both ways.
ip -n far link del vx0
far_vxlan 172.31.1.2 172.31.1.1 udpcsum
vsctl set interface vxlan0 options:csum=true
counted() {
    eventually 5 pings guest 10.0.0.2
    establish "$1"
    before=$(offload_stat "Forwarded packets")
    same "answers" 100 "$(asked 100 "$1")"
    eventually 3 offload_is "Forwarded packets" -ge $((before + 190))
    contains "push" "$(ovs-appctl dpctl/dump-flows type=partially-offloaded)" "$2"
}
counted 4004 "frag=0x4000),udp(src=0,dst=4789,csum=0xffff)"

# Over IPv6, where there are checksums.
for name in "" "ip netns exec far"; do
    $name bash -c 'for it in br-phy eth0; do
        [ ! -e /proc/sys/net/ipv6/conf/$it ] || echo 0 >/proc/sys/net/ipv6/conf/$it/disable_ipv6; done'
done
ip addr add fd00:31::1/64 dev br-phy nodad
ip -n far addr add fd00:31::2/64 dev eth0 nodad
ip -n far link del vx0
far_vxlan fd00:31::2 fd00:31::1 udpcsum
vsctl remove interface vxlan0 options csum -- set interface vxlan0 'options:remote_ip="fd00:31::2"'
counted 4006 "ipv6(src=fd00:31::1,dst=fd00:31::2,"

# What XDP and the switch send is well-formed for tshark, outside and inside. In generic mode a partial checksum of a
# veth's peer stays partial, also in a capture, so the guest makes whole ones.
on guest ethtool -K eth0 tx off >/dev/null
capture far
counted 4007 "ipv6(src=fd00:31::1,dst=fd00:31::2,"
well_formed far "ipv6.src == fd00:31::1 && vxlan"
for checksums in "true udpcsum 4008 0xffff" "false noudpcsum 4009 0x0"; do
    read -r csum udpcsum port field <<<"$checksums"
    ip -n far link del vx0
    far_vxlan 172.31.1.2 172.31.1.1 "$udpcsum"
    vsctl set interface vxlan0 options:remote_ip=172.31.1.2 options:csum="$csum"
    capture far
    counted "$port" "frag=0x4000),udp(src=0,dst=4789,csum=$field)"
    well_formed far "ip.src == 172.31.1.1 && vxlan"
done

# Without the tunnel, nothing of it is left.
establish 4005
vsctl del-port vxlan0
eventually 3 offload_is "Inserted offloads" -eq 0
same "without a tunnel" 0 "$(asked 2 4005)"
