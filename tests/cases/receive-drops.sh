# Frames that arrive at a full receive queue count as received and dropped: here because the switch stands still.
ours || skip "Open vSwitch does not count these drops"
client_and_server
start_switch
bridge br0 client server
echo "in_port=client,dl_type=0x88b5 actions=drop" | load br0
hits() { ovs-ofctl dump-flows br0 dl_type=0x88b5 | sed -n 's/.*n_packets=\([0-9]*\).*/\1/p'; }
drops() { ovs-ofctl dump-ports br0 client | sed -n 's/.* rx .*drop=\([0-9]*\),.*/\1/p'; }

# The flow is there before the flood, so that no frame is dropped while it waits for a translation.
vsctl set open_vswitch . other_config:max-idle=60000
on client $python "$tests/hosts/frames.py" flood 1 1400
hit_once() { [ "$(hits)" = 1 ]; }
eventually 5 hit_once

kill -STOP "$SWITCH_PID"
# The queue has room for some 14,000 of these.
on client $python "$tests/hosts/frames.py" flood 30000 1400
kill -CONT "$SWITCH_PID"

all_are_counted() { [ $(($(hits) + $(drops))) -ge 30001 ]; }
eventually 10 all_are_counted
[ "$(hits)" -gt 1 ] || fail "all frames were dropped"
[ "$(hits)" -lt 30001 ] || fail "no frame was dropped"
statistic_is() { [ "$(vsctl get interface client statistics:rx_dropped)" = "$1" ]; }
eventually 15 statistic_is "$(drops)"
contains "dpctl/show" "$(ovs-appctl dpctl/show -s)" "dropped:$(drops)"
