# The columns of a guest's port have Open vSwitch's keys, and its link is told at once: an honest guest, without QEMU and
# DPDK, comes up and goes down.
# limit: 90
ours || skip "Open vSwitch's DPDK is another program"
client_and_server
start_switch
bridge br0 client server
status() { vsctl get interface vhost0 status | tr -d '{}" ' | tr , ' '; }
statistic() { vsctl get interface vhost0 "statistics:$1"; }
counted() { [ "$(statistic "$1")" = "$2" ]; }

# start_guest SOCKET PAIRS SIZE
start_guest() {
    mkfifo orders
    $python "$tests/hosts/vhost_guest.py" "$@" <orders >told 2>guest.printed &
    GUEST_PID=$!
    exec 5>orders
    rm orders
    eventually 5 grep -q ^up told
}
stop_guest() {
    exec 5>&-
    wait "$GUEST_PID"
    eventually 5 reads down vsctl get interface vhost0 link_state
}

# Each kind of port, with one pair of rings and with two.
vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuser
same "without a guest" "mode=server status=disconnected" "$(status)"
start_guest $OVS_RUNDIR/vhost0 1 128
eventually 5 reads up vsctl get interface vhost0 link_state
# A kernel without NUMA, or that forbids to ask, tells no node.
features=0x0000000140000008
same "status" "features=$features mode=server mtu=1450 n_rxq=1 n_txq=1 num_of_vrings=2 socket=$OVS_RUNDIR/vhost0 \
status=connected vring_0_size=128 vring_1_size=128" "$(status | sed 's/ numa=0//')"

# What the guest sends is rx, what it gets is tx. The frames are broadcasts.
echo send 60 64 64 65 512 1518 1519 >&5
eventually 8 counted rx_packets 7
for counter in rx_broadcast_packets=7 rx_multicast_packets=0 rx_bytes=3802 rx_1_to_64_packets=3 \
    rx_65_to_127_packets=1 rx_512_to_1023_packets=1 rx_1024_to_1522_packets=1 rx_1523_to_max_packets=1 \
    rx_q0_undersize_packets=1 rx_q0_size_64_packets=2 rx_q0_size_1519_max_packets=1 rx_q0_iotlb_hits=0 \
    ovs_rx_qos_drops=0 ovs_tx_qos_drops=0 rx_q0_guest_notifications_suppressed=0; do
    same "$counter" "${counter#*=}" "$(statistic "${counter%=*}")"
done
[ "$(statistic rx_q0_guest_notifications)" -ge 1 ] || fail "the guest was not notified"
# A guest that polls is not.
before=$(statistic rx_q0_guest_notifications)
echo mute >&5
sleep 0.2
echo send 60 >&5
eventually 8 counted rx_packets 8
same "suppressed" 1 "$(statistic rx_q0_guest_notifications_suppressed)"
same "notifications" "$before" "$(statistic rx_q0_guest_notifications)"
# 128 frames are all that it has room for.
on client ping -q -b -c 150 -i 0.002 10.0.0.255 >/dev/null 2>&1 || true
eventually 8 counted tx_packets 128
[ "$(statistic ovs_tx_failure_drops)" -ge 20 ] || fail "lost frames: $(statistic ovs_tx_failure_drops)"
same "dropped" "$(statistic ovs_tx_failure_drops)" "$(statistic tx_dropped)"

# The driver stops while its program remains: that is no guest.
echo off 0 >&5
eventually 5 reads down vsctl get interface vhost0 link_state
same "without a driver" "mode=server status=disconnected" "$(status)"
# How long it takes until the database has the link, in milliseconds: the least of six, as the machine may be busy.
late() {
    local verb=$1 state=$2 count
    count=$(grep -c "^$verb" told || true)
    { vsctl wait-until interface vhost0 link_state="$state" && date +%s%N >seen; } &
    local waiting=$!
    sleep 0.3
    echo "${verb/up/on} 0" >&5
    wait $waiting
    eventually 5 eval '[ "$(grep -c "^'"$verb"'" told)" -gt '"$count"' ]'
    echo $((($(cat seen) - $(tail -1 told | cut -d' ' -f2)) / 1000000))
}
for _ in 1 2 3; do
    late up up
    late off down
done >times
[ "$(sed -n '1~2p' times | sort -n | head -1)" -le 50 ] || fail "ms until up: $(xargs <times)"
[ "$(sed -n '2~2p' times | sort -n | head -1)" -le 50 ] || fail "ms until down: $(xargs <times)"
stop_guest
# Counters outlive a guest.
same "rx_packets" 8 "$(statistic rx_packets)"
vsctl del-port vhost0

vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuserclient options:vhost-server-path=$work/vm
same "without a guest" "mode=client status=disconnected" "$(status)"
start_guest listen:$work/vm 2 64
eventually 5 reads up vsctl get interface vhost0 link_state
# Its rings start one after the other.
eventually 5 reads 2 eval 'status | grep -o "n_txq=[0-9]*" | cut -d= -f2'
same "status" "features=$features mode=client mtu=1450 n_rxq=1 n_txq=2 num_of_vrings=4 socket=$work/vm status=connected \
vring_0_size=64 vring_1_size=64 vring_2_size=64 vring_3_size=64" "$(status | sed 's/ numa=0//')"
echo send 60 >&5
eventually 8 counted rx_packets 1
same "a second queue" 0 "$(statistic tx_q1_good_packets)"
stop_guest
