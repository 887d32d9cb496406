# DPDK that does not start, or is not there, is told; the switch goes on without it.
# limit: 60
ours || skip "Open vSwitch's DPDK is another program"
client_and_server
start_database
vsctl --no-wait set open_vswitch . other_config:dpdk-init=true other_config:dpdk-extra=--nonsense
start_switch
bridge br0 client server
same "initialized" false "$(vsctl get open_vswitch . dpdk_initialized)"
lacks "types" "$(vsctl get open_vswitch . iface_types)" "dpdk,"
if ! has_dpdk; then
    why="this build of the switch has no DPDK"
else
    why="DPDK could not be started"
    contains "log" "$(cat $work/ovs-vswitchd.log)" "Unable to initialize DPDK: Invalid argument"
fi
# The device receives nothing: what it would give are old frames of other ports, whose addresses would move to it.
says "a port" "$why" vsctl add-port br0 dpdk0 -- set interface dpdk0 type=dpdk \
    options:dpdk-devargs=net_null0,no-rx=1
contains "its error" "$(vsctl get interface dpdk0 error)" "$why"
same "its number" "-1" "$(ofport dpdk0)"
# Guests do not need it.
vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuserclient options:vhost-server-path=$work/x
same "a guest's error" "[]" "$(vsctl get interface vhost0 error)"
pings client 10.0.0.2
# Another try takes another process.
vsctl set open_vswitch . other_config:dpdk-extra="--no-huge -m 64 --no-pci"
pings client 10.0.0.2
stop_switch
start_switch
if [ "$why" = "DPDK could not be started" ]; then
    eventually 10 reads true vsctl get open_vswitch . dpdk_initialized
    eventually 5 reads "[]" vsctl get interface dpdk0 error
fi
eventually 5 pings client 10.0.0.2
