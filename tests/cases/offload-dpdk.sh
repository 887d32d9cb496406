# Ports of DPDK with offload: a device whose driver has no rules leaves everything to the switch, which goes on,
# counts what was refused and says why in the driver's words.
# limit: 60
ours || skip "Open vSwitch's DPDK is another program"
host client 10.0.0.1/24 02:00:00:00:00:01
host server 10.0.0.2/24 02:00:00:00:00:02
static_neighbours
for name in client server; do
    on $name ethtool -K eth0 tx off tso off gso off >/dev/null
done
start_dpdk
bridge br0
for name in client server; do
    vsctl add-port br0 "dpdk-$name" -- set interface "dpdk-$name" type=dpdk \
        "options:dpdk-devargs=net_af_packet_$name,iface=$name"
    same "error of $name" "[]" "$(vsctl get interface "dpdk-$name" error)"
done
seed1_rules | sed s/in_port=client/in_port=dpdk-client/ | load br0
vsctl set open_vswitch . other_config:hw-offload=true
flow() { ovs-appctl dpctl/dump-flows -m "filter=ct_state=+trk+est,in_port=$1" type=ovs | grep -o -m1 '^ufid:[0-9a-f-]*'; }
eventually 5 pings client 10.0.0.2
udp_echo server 10.0.0.2 5000
same "answers" 50 "$(udp_ask client 10.0.0.2 5000 50 4000)"
eventually 3 offload_is "Refused: device" -ge 2
same "rules" 0 "$(offload_stat "Inserted offloads")"
why=$(ovs-appctl tidegate/why-not-offloaded "$(flow dpdk-client)")
contains "why" "$why" "device: the device refused it: Function not implemented"
lacks "offloaded" "$(ovs-appctl dpctl/dump-flows -m type=offloaded)" "ufid"
# Nothing hangs on a port that goes, and all is as it was without offload.
vsctl del-port dpdk-server
vsctl add-port br0 dpdk-server -- set interface dpdk-server type=dpdk \
    options:dpdk-devargs=net_af_packet_again,iface=server
eventually 5 pings client 10.0.0.2
same "answers" 20 "$(udp_ask client 10.0.0.2 5000 20 4001)"
vsctl set open_vswitch . other_config:hw-offload=false
same "answers" 20 "$(udp_ask client 10.0.0.2 5000 20 4002)"
