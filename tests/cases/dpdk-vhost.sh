# Guests behind vhost-user: another switch plays the guest, with DPDK's own virtio device. It dies
# and comes back, and the rest of the switch does not notice.
# limit: 90
ours || skip "Open vSwitch's DPDK is another program"
# Without huge pages the memory that guests share is an ordinary file's.
memory="--no-huge -m 256" socket_mem= guest_socket_mem=
if [ "$(awk '/HugePages_Free/ {print $2}' /proc/meminfo)" -ge 400 ]; then
    memory=--single-file-segments socket_mem=64
    guest_socket_mem='dpdk_socket_limit = "300"
dpdk_socket_mem = "64"'
fi
host client 10.0.0.1/24 02:00:00:00:00:01
host other 10.0.0.3/24 02:00:00:00:00:03
host server 10.0.0.2/24 02:00:00:00:00:02
for name in client other server; do
    on $name ethtool -K eth0 tx off tso off gso off >/dev/null
done
start_database
vsctl --no-wait set open_vswitch . other_config:dpdk-init=true \
    other_config:dpdk-extra="--no-pci $memory" \
    ${socket_mem:+other_config:dpdk-socket-limit=300 other_config:dpdk-socket-mem=$socket_mem}
start_switch
has_dpdk || skip "this build has no DPDK"
[ "$(vsctl get open_vswitch . dpdk_initialized)" = true ] ||
    skip "DPDK does not start here: $(grep -o 'Unable to initialize.*' $work/ovs-vswitchd.log)"

# start_guest DEVARGS: the other side of the socket, joined to the server.
start_guest() {
    cat >guest.toml <<T
[switch]
dpdk_init = "true"
dpdk_extra = "--no-pci $memory"
$guest_socket_mem
run_dir = "$work/guest"
unixctl = "$work/guest/ctl"

[[bridge]]
name = "br-guest"
port = [
    { name = "server" },
    { name = "virtio0", type = "dpdk", options = { dpdk-devargs = "$1" } },
]
T
    mkdir -p guest
    "$TIDEGATE_SWITCH" switch --config guest.toml -vconsole:off --log-file=$work/guest.log \
        >guest.printed 2>&1 &
    GUEST_PID=$!
}
stop_guest() {
    kill -9 "$GUEST_PID"
    wait "$GUEST_PID" || true
    rm -rf guest $work/vhost.sock
}
link() { vsctl get interface "$1" link_state; }

# The guest's side makes the socket, before or after the switch wants it.
bridge br0 client other
vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuserclient \
    options:vhost-server-path=$work/vhost.sock
same "its error" "[]" "$(vsctl get interface vhost0 error)"
same "link without a guest" down "$(link vhost0)"
for round in first again; do
    start_guest "net_virtio_user0,path=$work/vhost.sock,server=1"
    eventually 20 reads up link vhost0
    eventually 8 pings client 10.0.0.2
    same "datagrams of the $round guest" "0% packet loss" \
        "$(on client ping -n -q -i 0.01 -c 100 -s 1400 10.0.0.2 | grep -o '0% packet loss')"
    stop_guest
    eventually 8 reads down link vhost0
    never pings client 10.0.0.2
    pings client 10.0.0.3
done
counted() { [ "$(vsctl get interface vhost0 statistics:rx_packets)" -ge 200 ]; }
eventually 12 counted
vsctl del-port vhost0

# The switch makes the socket; what a killed switch has left is no hindrance.
$python -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' $OVS_RUNDIR/vhost1
vsctl add-port br0 vhost1 -- set interface vhost1 type=dpdkvhostuser
same "its error" "[]" "$(vsctl get interface vhost1 error)"
start_guest "net_virtio_user0,path=$OVS_RUNDIR/vhost1"
eventually 20 reads up link vhost1
eventually 8 pings client 10.0.0.2
stop_guest
pings client 10.0.0.3
vsctl del-port vhost1
eventually 3 test ! -e $OVS_RUNDIR/vhost1

# A guest that has fewer queues than the port gets what every worker sends, also those of a queue that
# it has not.
vsctl set open_vswitch . other_config:pmd-cpu-mask=3 \
    other_config:pmd-rxq-assign=group other_config:pmd-rxq-isolate=false \
    -- set interface client other_config:pmd-rxq-affinity=0:0 \
    -- set interface other other_config:pmd-rxq-affinity=0:1
workers=$(ovs-appctl dpif-netdev/pmd-rxq-show |
    awk '/core_id/ { core = $NF } /port: (client|other) / { print core }')
same "workers of the two hosts" "0: 1:" "$(sort <<<"$workers" | xargs)"
vsctl add-port br0 vhost4 -- set interface vhost4 type=dpdkvhostuser options:n_rxq=2
start_guest "net_virtio_user0,path=$OVS_RUNDIR/vhost4,queues=1"
eventually 20 reads up link vhost4
eventually 8 pings client 10.0.0.2
eventually 8 pings other 10.0.0.2
stop_guest
vsctl del-port vhost4

says "a path that is too long" "is longer than 107 bytes" \
    vsctl add-port br0 vhost2 -- set interface vhost2 type=dpdkvhostuserclient \
    options:vhost-server-path=/tmp/$(printf '%0108d' 0)
says "no path" "is missing 'options:vhost-server-path'" \
    vsctl add-port br0 vhost3 -- set interface vhost3 type=dpdkvhostuserclient
pings client 10.0.0.3
