# The database disappears and returns; traffic continues, and changes made meanwhile are applied.
client_and_server
start_switch
bridge br0 client server
pings client 10.0.0.2
stop_database
contains "bridge while it is away" "$(ovs-appctl dpif/show)" "  br0:"
# Open vSwitch 3.1 does not serve ports of its main thread while it has no database.
if ours; then
    pings client 10.0.0.2
    timeout 5 ovs-ofctl add-flow br0 "priority=9,udp,actions=drop"
fi
start_database
vsctl --no-wait add-br br1 -- set bridge br1 datapath_type=netdev
eventually 15 reads "br1:" ovs-appctl dpif/show
! ours || contains "flows kept" "$(flows br0)" "priority=9,udp actions=drop"
contains "flows kept" "$(flows br0)" "priority=0 actions=NORMAL"
pings client 10.0.0.2
vsctl del-br br1
same "ours again" "$(vsctl get open_vswitch . next_cfg)" "$(vsctl get open_vswitch . cur_cfg)"
