# limit: 60
# A standalone bridge takes over three probe intervals after it lost its controller, or after a second without probes. The
# log tells it, and bridge/dump-flows shows the flow in force.
client_and_server
static_neighbours
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow13 fail_mode=standalone
in_force() { ovs-appctl bridge/dump-flows br0 | grep "priority=15790320,actions=NORMAL"; }
is_gone() { [ -z "$(in_force)" ]; }
log() { grep "|fail_open|" $work/ovs-vswitchd.log; }
# loses PROBE_MS SECONDS: how long it takes at least. A busy machine may take longer.
loses() {
    vsctl set-controller br0 tcp:127.0.0.1:6653 -- set controller br0 inactivity_probe=$1
    ovs-ofctl -O OpenFlow13 del-flows br0
    for _ in {1..100}; do
        [ -z "$(in_force)" ] || break
        ! pings client 10.0.0.2 || [ -n "$(in_force)" ] || fail "packets pass too early"
    done
    eventually 3 in_force
    pings client 10.0.0.2
    local seconds
    seconds=$(log | sed -n 's/.*|WARN|.*policy) for \([0-9]*\) seconds, failing open/\1/p' | tail -1)
    [ "$seconds" -ge "$2" ] && [ "$seconds" -lt 15 ] || fail "it took $seconds seconds"
}
loses 2000 6
packets() { in_force | grep -o "n_packets=[1-9][0-9]*"; }
eventually 5 packets
same "what controllers see" "" "$(flows br0 -O OpenFlow13)"
$python "$tests/hosts/controller.py" listen tcp 6653 4 >controller.printed &
controller=$!
connected() { [ "$(vsctl get controller br0 is_connected)" = true ]; }
eventually 12 connected
eventually 5 reads "No longer in fail-open mode" log
eventually 5 is_gone
kill $controller
vsctl del-controller br0
ovs-ofctl -O OpenFlow13 del-flows br0
loses 0 1
# A secure bridge does not.
vsctl set-fail-mode br0 secure
eventually 5 is_gone
never pings client 10.0.0.2
