# DPDK ports carry packets between hosts, through virtual devices and without huge pages; what
# cannot be opened is told, and the rest goes on.
# limit: 60
ours || skip "Open vSwitch's DPDK is another program"
client_and_server
# These devices do not transfer checksum offloads.
for name in client server; do
    on $name ethtool -K eth0 tx off tso off gso off >/dev/null
done
start_dpdk
contains "version" "$(vsctl get open_vswitch . dpdk_version)" "DPDK "
contains "types" "$(vsctl get open_vswitch . iface_types)" dpdkvhostuserclient

dpdk_port() {
    local name=$1
    shift
    vsctl add-port br0 "$name" -- set interface "$name" type=dpdk "$@"
}
error_of() { vsctl get interface "$1" error; }
bridge br0
dpdk_port dpdk0 options:dpdk-devargs=net_af_packet0,iface=client
dpdk_port dpdk1 options:dpdk-devargs=net_af_packet1,iface=server
same "errors" "[] []" "$(error_of dpdk0) $(error_of dpdk1)"
contains "its own words" "$(vsctl get interface dpdk0 status)" 'driver_name=net_af_packet'
same "mac" "\"$(cat /sys/class/net/client/address)\"" "$(vsctl get interface dpdk0 mac_in_use)"
contains "dpctl" "$(ovs-appctl dpctl/show)" "dpdk0 (dpdk"
eventually 5 pings client 10.0.0.2
serve server
same "a page" hello "$(fetch client http://10.0.0.2/)"
head -c 3000000 /dev/urandom >$work/big
mkdir -p $work/www && cp $work/big $work/www/big
fetch client http://10.0.0.2/big -o $work/got
cmp $work/big $work/got

# Beside kernel devices, and under connection tracking.
host third 10.0.0.3/24 02:00:00:00:00:03
vsctl add-port br0 third
eventually 5 pings client 10.0.0.3
load br0 <<R
priority=1 arp actions=normal
priority=1 ip ct_state=-trk actions=ct(table=0)
priority=1 ip ct_state=+trk+new in_port=dpdk0 actions=ct(commit),normal
priority=1 ip ct_state=+trk+est actions=normal
R
pings client 10.0.0.2
never pings server 10.0.0.1
contains "connections" "$(ovs-appctl dpctl/dump-conntrack)" "icmp,orig=(src=10.0.0.1,dst=10.0.0.2"

# Errors are shown where ovs-vsctl shows them.
refused() {
    local name=$1 piece=$2
    shift 2
    says "add-port" "$piece" dpdk_port "$name" "$@"
    contains "error of $name" "$(error_of "$name")" "$piece"
    same "its number" "-1" "$(ofport "$name")"
    vsctl del-port "$name"
}
refused bad "Error attaching device 'net_nosuch0' to DPDK" options:dpdk-devargs=net_nosuch0
refused bad "Error attaching device '0000:ff:1f.7' to DPDK" options:dpdk-devargs=0000:ff:1f.7
refused bad "Error attaching device" options:dpdk-devargs=net_af_packet9,iface=nosuch0
refused bad "is missing 'options:dpdk-devargs'" options:n_rxq=2
refused bad "already in use by 'dpdk1'" options:dpdk-devargs=net_af_packet1,iface=server
refused bad "an MTU of 60000 bytes" options:dpdk-devargs=net_null7 mtu_request=60000
pings client 10.0.0.2

# A port that could not be opened is tried again when something changes.
vsctl add-port br0 again -- set interface again type=dpdk \
    options:dpdk-devargs=net_af_packet9,iface=late 2>/dev/null
contains "not yet" "$(error_of again)" "Error attaching device"
ip link add late type veth peer name late-end
vsctl set interface again external_ids:x=y -- set bridge br0 other_config:mac-aging-time=299
eventually 5 same "its error" "[]" "$(error_of again)"
vsctl del-port again
ip link del late

# Workers come and go, with queues of their own.
if [ "$(nproc)" -ge 2 ]; then
    vsctl set open_vswitch . other_config:pmd-cpu-mask=3
    pings client 10.0.0.2
    # A queue that no worker may poll.
    vsctl set interface dpdk0 other_config:pmd-rxq-affinity=0:0 \
        -- set interface dpdk1 other_config:pmd-rxq-affinity=0:1
    dpdk_port idle options:dpdk-devargs=net_ring9
    eventually 3 reads "idle: no worker may poll receive queue 0" error_of idle
    pings client 10.0.0.2
    vsctl remove interface dpdk0 other_config pmd-rxq-affinity
    eventually 3 reads "[]" error_of idle
    vsctl remove interface dpdk1 other_config pmd-rxq-affinity -- del-port idle
    vsctl remove open_vswitch . other_config pmd-cpu-mask
fi
pings client 10.0.0.2
counted() { [ "$(vsctl get interface dpdk0 statistics:rx_packets)" -ge 10 ]; }
eventually 12 counted

# Another device under the same name; the port keeps its number.
number=$(ofport dpdk1)
vsctl set interface dpdk1 options:dpdk-devargs=net_null1,size=60
eventually 5 reads net_null vsctl get interface dpdk1 status
same "number" "$number" "$(ofport dpdk1)"
never pings client 10.0.0.2
vsctl set interface dpdk1 options:dpdk-devargs=net_af_packet1,iface=server
eventually 5 pings client 10.0.0.2
vsctl del-port dpdk1
dpdk_port dpdk1 options:dpdk-devargs=net_af_packet1,iface=server
eventually 5 pings client 10.0.0.2

# A device down in OpenFlow carries nothing.
ovs-ofctl mod-port br0 dpdk1 down
never pings client 10.0.0.2
ovs-ofctl mod-port br0 dpdk1 up
eventually 5 pings client 10.0.0.2
