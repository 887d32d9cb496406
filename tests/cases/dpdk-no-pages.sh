# Where there are no huge pages, or fewer than are asked for, DPDK does not start: each of its ports says
# that and what to do, and the rest of the switch goes on.
ours || skip "Open vSwitch's DPDK is another program"
client_and_server
start_database
# More than any machine has, so that it is all the same how many pages there are here.
vsctl --no-wait set open_vswitch . other_config:dpdk-init=true other_config:dpdk-socket-mem=90000000 \
    other_config:dpdk-extra=--no-pci other_config:dpdk-lcore-mask=0x1 \
    other_config:dpdk-socket-limit=90000001 other_config:dpdk-hugepage-dir=$work
start_switch
has_dpdk || skip "this build has no DPDK"
same "initialized" false "$(vsctl get open_vswitch . dpdk_initialized)"
# The other options reach it, too.
contains "what DPDK was told" "$(cat $work/ovs-vswitchd.log)" \
    "--no-pci -c 0x1 --huge-dir $work --socket-limit 90000001 --socket-mem 90000000 --in-memory"
bridge br0 client server
pings client 10.0.0.2
says "a port" "it needs huge pages (sysctl vm.nr_hugepages" vsctl add-port br0 port0 \
    -- set interface port0 type=dpdk options:dpdk-devargs=net_null0
error=$(vsctl get interface port0 error)
for piece in "could not open network device port0" "DPDK could not be started" EAL: \
    "it needs huge pages (sysctl vm.nr_hugepages" "restart the switch"; do
    contains "error" "$error" "$piece"
done
same "its number" "-1" "$(ofport port0)"
vsctl del-port port0
# Guests need none.
vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuser
same "a guest's error" "[]" "$(vsctl get interface vhost0 error)"
pings client 10.0.0.2
