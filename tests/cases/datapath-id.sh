# limit: 40
# Another datapath id ends the sessions of controllers, which learn it when they connect again.
client_and_server
start_switch
bridge br0
vsctl set bridge br0 protocols=OpenFlow13
$python "$tests/hosts/controller.py" listen tcp 6653 4 >controller.printed &
eventually 5 grep -q ready controller.printed
vsctl set-controller br0 tcp:127.0.0.1:6653
connections=1
# connects DPID: the controller has another connection, and the switch has logged this id.
again() { [ "$(grep -c "^type=6 length=32" controller.printed)" = $connections ]; }
connects() {
    eventually 10 again
    connections=$((connections + 1))
    contains "the log" "$(cat $work/ovs-vswitchd.log)" "bridge br0: using datapath ID $1"
    contains "features" "$(ovs-ofctl -O OpenFlow13 show br0)" "dpid:$1"
}
eventually 10 again
connections=2
# The first physical port's address is lower than that of any other.
ip link set client address 00:00:5e:00:53:01
vsctl add-port br0 client
connects 000000005e005301
vsctl set bridge br0 other_config:hwaddr=00:00:5e:00:53:77
connects 000000005e005377
vsctl set bridge br0 other_config:datapath-id=0000000000abcdef
connects 0000000000abcdef
# What leaves it as it is leaves the sessions, which would end at the latest with the answer to ovs-vsctl.
vsctl set bridge br0 other_config:hwaddr=00:00:5e:00:53:78 -- add-port br0 server
ids=$(grep -c "bridge br0: using datapath ID" $work/ovs-vswitchd.log)
ended=$(grep -c "the datapath ID changed" $work/ovs-vswitchd.log)
same "ids, sessions that ended" "4 3" "$ids $ended"
