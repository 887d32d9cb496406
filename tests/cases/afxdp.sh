# A device through AF_XDP: traffic in every mode, connections tracked, refusals in Interface.error,
# and a device that is free again after the switch was killed.
# limit: 60
client_and_server
start_switch
vsctl add-br br0 -- set bridge br0 datapath_type=netdev
attached() { ip link show "$1" | grep -q prog/xdp; }
xdp_port() {
    vsctl --if-exists del-port "$1" -- add-port br0 "$1" -- set interface "$1" type=afxdp "${@:2}"
}
xdp_port client
if reads "AF_XDP needs" vsctl get interface client error; then
    skip "AF_XDP needs more privileges than there are here"
fi
if reads "no AF_XDP" vsctl get interface client error; then skip "the kernel has no AF_XDP"; fi
same "its error" "[]" "$(vsctl get interface client error)"
xdp_port server options:xdp-mode=native options:use-need-wakeup=false
serve server
head -c 300000 /dev/urandom >$work/www.file
mkdir -p $work/www && mv $work/www.file $work/www/file

# The hosts leave checksums to their devices, and a veth passes the frames on without completing
# them.
works() {
    pings client 10.0.0.2
    same "page" hello "$(fetch client http://10.0.0.2/)"
    fetch client -o $work/got http://10.0.0.2/file
    cmp $work/www/file $work/got
}
works
contains "mode" "$(vsctl get interface client status)" 'xdp-mode-in-use=native'
contains "type" "$(ovs-appctl dpctl/show)" "client (afxdp)"
attached client
counted() { [ "$(vsctl get interface client statistics:rx_packets)" -ge 20 ]; }
eventually 12 counted
contains "statistics" "$(vsctl get interface client statistics)" "xsk_queue_0_rx_dropped=0"

# With connection tracking, which verifies checksums.
seed1_rules | load br0
static_neighbours
works
contains "connections" "$(ovs-appctl dpctl/dump-conntrack)" "tcp,orig=(src=10.0.0.1,dst=10.0.0.2"

# Other modes. In generic mode, large frames of the other host must be segmented first.
on client ethtool -K eth0 tso off gso off >/dev/null
on server ethtool -K eth0 tso off gso off >/dev/null
xdp_port client options:xdp-mode=skb
xdp_port server options:xdp-mode=best-effort
load br0 <<<"actions=normal"
works
contains "mode" "$(vsctl get interface client status)" 'xdp-mode-in-use=generic'

# Impossible settings are reported; the other port continues to work.
refused() {
    eventually 3 reads "$1" vsctl get interface client error
    same "its number" "-1" "$(ofport client)"
}
xdp_port client options:xdp-mode=fast
refused 'options:xdp-mode is'
xdp_port client options:xdp-mode=native-with-zerocopy
refused "no zero-copy AF_XDP"
xdp_port client options:n_rxq=2
refused "options:n_rxq is 2, and it has 1"
ip link set client mtu 9000
xdp_port client
refused "its MTU is 9000, and AF_XDP takes at most"
ip link set client mtu 1500
vsctl add-port br0 nosuch0 -- set interface nosuch0 type=afxdp
eventually 3 reads "No such device" vsctl get interface nosuch0 error
ip link add nosuch0 type veth peer name nosuch1
numbered() { [ "$(ofport nosuch0)" -gt 0 ]; }
eventually 8 numbered
vsctl del-port nosuch0
xdp_port client
works

# An MTU that needs larger frame buffers, and jumbo frames.
ip link set client mtu 3000
ip -n client link set eth0 mtu 3000
ip link set server mtu 3000
ip -n server link set eth0 mtu 3000
jumbo() { on client ping -n -q -W 1 -c 1 -M do -s 2900 10.0.0.2; }
eventually 5 jumbo
works

# A new switch finds the devices free although the old one could not tidy up.
attached client
attached server
kill -9 "$SWITCH_PID"
wait "$SWITCH_PID" || true
free() { ! attached client && ! attached server; }
eventually 3 free
start_switch
eventually 5 ovs-ofctl show br0
load br0 <<<"actions=normal"
works
vsctl del-port client
detached() { ! attached client; }
eventually 3 detached
