# A guest of DPDK's own, dpdk-testpmd, behind vhost-user behind a VXLAN tunnel, as in the measurements of SmartNICs:
# it answers each packet of the far end, whose frames have 114 bytes, 64 of them the inner frame. It is killed and
# comes back.
# limit: 90
ours || skip "Open vSwitch's DPDK is another program"
command -v dpdk-testpmd >/dev/null || skip "dpdk-testpmd is not installed (package dpdk-dev)"
host far 172.31.1.2/24 02:00:00:00:00:fe
start_dpdk
underlay far
bridge br-int
vsctl set bridge br-phy other-config:hwaddr=02:00:00:00:00:aa
vsctl add-port br-int vxlan0 -- set interface vxlan0 type=vxlan options:remote_ip=172.31.1.2 options:key=101 \
    -- add-port br-int vhost0 -- set interface vhost0 type=dpdkvhostuserclient \
    options:vhost-server-path=$work/vhost.sock
load br-int <<'R'
table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1)
table=1,priority=5,ip,ct_state=+trk+new,in_port=vxlan0,actions=ct(commit),vhost0
table=1,priority=5,ip,ct_state=+trk+est,in_port=vxlan0,actions=vhost0
table=1,priority=5,ip,ct_state=+trk+est,in_port=vhost0,actions=vxlan0
R
# The kernel's device has outer UDP checksums by default, Open vSwitch's has none.
ip -n far link add vx0 type vxlan id 101 local 172.31.1.2 remote 172.31.1.1 dstport 4789 noudpcsum
ip -n far link set vx0 address 02:00:00:00:00:02 up
ip -n far addr add 10.0.0.2/24 dev vx0
ip -n far neigh replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev vx0 nud permanent

# It ends when its input does.
mkfifo input
exec 9<>input
start_guest() {
    rm -f $work/vhost.sock
    dpdk-testpmd --no-huge -m 256 --no-pci --no-telemetry --lcores 0@0,1@0 \
        --vdev "net_virtio_user0,path=$work/vhost.sock,server=1" -- \
        --forward-mode=5tswap --total-num-mbufs=4096 --no-mlockall --auto-start <&9 >guest.log 2>&1 &
    GUEST_PID=$!
    eventually 20 reads up vsctl get interface vhost0 link_state
}
# With 22 bytes in a datagram, the inner frame has 64.
asked() { udp_ask far 10.0.0.1 5000 "$1" "$2" 22; }
answers() { [ "$(asked 5 "$1")" = 5 ]; }
sent() { ip -n far -s -j link show eth0 | $python -c "import json, sys
print(json.load(sys.stdin)[0]['stats64']['$1']['$2'])"; }

capture far
start_guest
eventually 10 answers 4000
before=($(sent tx packets) $(sent tx bytes) $(sent rx packets) $(sent rx bytes))
same "answers" 200 "$(asked 200 4000)"
after=($(sent tx packets) $(sent tx bytes) $(sent rx packets) $(sent rx bytes))
for at in 0 2; do
    packets=$((after[at] - before[at])) bytes=$((after[at + 1] - before[at + 1]))
    same "packets" true "$([ $packets -ge 200 ] && [ $packets -lt 210 ] && echo true)"
    same "bytes of a frame" 114 $(((bytes + packets / 2) / packets))
done
contains "tracked" "$(ovs-appctl dpctl/dump-conntrack)" \
    "udp,orig=(src=10.0.0.2,dst=10.0.0.1,sport=4000,dport=5000),reply=(src=10.0.0.1,dst=10.0.0.2,sport=5000,dport=4000)"

kill -9 "$GUEST_PID"
wait "$GUEST_PID" || true
eventually 8 reads down vsctl get interface vhost0 link_state
never answers 4001
on far ping -n -q -W 2 -c 1 172.31.1.1 >/dev/null
start_guest
eventually 10 answers 4002
well_formed far "ip.src == 172.31.1.1 && vxlan"
