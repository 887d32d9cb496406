# limit: 60
# The stock controller with each version, as a learning switch with flows, as a hub, and as a switch without flows. With
# 1.5 it aborts at its first packet-in, beside Open vSwitch, too.
command -v ovs-testcontroller >/dev/null || skip "there is no ovs-testcontroller (package openvswitch-testcontroller)"
client_and_server
# Their checksums are complete when they reach the switch.
for name in client server; do on $name ethtool -K eth0 tx off >/dev/null; done
udp_echo server 10.0.0.2 7
socket=$OVS_RUNDIR/controller
is_connected() { [ "$(vsctl get controller br0 is_connected)" = true ]; }
for version in OpenFlow10 OpenFlow11 OpenFlow12 OpenFlow13 OpenFlow14; do
    start_switch
    bridge br0 client server
    vsctl set bridge br0 fail_mode=secure protocols=$version
    for how in '' --hub --noflow; do
        echo "$version $how"
        # shellcheck disable=SC2086 # no option is none
        ovs-testcontroller $how --protocols=$version punix:$socket -vconsole:off -vsyslog:off &
        controller=$!
        eventually 5 test -S $socket
        vsctl set-controller br0 unix:$socket
        eventually 5 is_connected
        eventually 5 pings client 10.0.0.2
        same "datagrams" 3 "$(udp_ask client 10.0.0.2 7)"
        vsctl del-controller br0
        kill $controller
        wait $controller || true
        rm -f $socket
        ovs-ofctl -O $version del-flows br0
    done
    vsctl del-br br0
    stop_switch
done
