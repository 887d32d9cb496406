# Settings of bridges and controllers that can be seen: how long controllers are waited for, flows that
# are restored before anything is forwarded, VLANs that are flooded; those without an effect are named.
ours || skip "Open vSwitch drops the restored flows when it comes to its controllers"
client_and_server
static_neighbours
start_database
vsctl --no-wait set open_vswitch . other_config:flow-restore-wait=true other_config:hw-offload=true
start_switch
bridge br0 client server
vsctl set-controller br0 tcp:127.0.0.1:6653 -- set controller br0 max_backoff=1000
$python "$tests/hosts/controller.py" listen tcp 6653 1 >controller.printed &
eventually 5 grep -q ready controller.printed
connected() { [ "$(vsctl get controller br0 is_connected)" = true ]; }

# Until the flows are restored, nothing is forwarded and no controller connected.
load br0 <<<'actions=normal'
never pings client 10.0.0.2
sleep 2
never connected
vsctl remove open_vswitch . other_config flow-restore-wait
eventually 5 connected
eventually 5 pings client 10.0.0.2

# A disconnected controller is retried, at intervals of at most a second.
kill $!
vsctl set-controller br0 tcp:127.0.0.1:6659 -- set controller br0 max_backoff=1000
# As with Open vSwitch, the log has no attempts at the longest interval, so that the other end counts them.
attempts=$($python - <<'P'
import socket, time
listener = socket.create_server(("127.0.0.1", 6659))
end, attempts = time.monotonic() + 6, 0
while (left := end - time.monotonic()) > 0:
    listener.settimeout(left)
    try:
        listener.accept()[0].close()
        attempts += 1
    except TimeoutError:
        pass
print(attempts)
P
)
[ "$attempts" -ge 4 ] || fail "$attempts attempts in 6 s"
vsctl del-controller br0

# In a VLAN that is flooded nothing is learned.
ip link add third type veth peer name third0
ip link set third up
ip link set third0 up
vsctl add-port br0 third
load br0 <<<'actions=normal'
pings client 10.0.0.2
contains "learned" "$(ovs-appctl fdb/show br0)" 02:00:00:00:00:01
vsctl set bridge br0 flood_vlans=0
ovs-appctl fdb/flush br0
pings client 10.0.0.2
lacks "learned in a flooded VLAN" "$(ovs-appctl fdb/show br0)" 02:00:00:00:00:01
contains "its flow" "$(ovs-appctl ofproto/trace br0 in_port=client,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02)" flooding
vsctl clear bridge br0 flood_vlans

# A table that tracks no prefixes looks at whole addresses.
load br0 <<R
priority=20,ip,nw_dst=10.0.0.9,actions=drop
priority=10,ip,nw_dst=192.168.0.0/16,actions=normal
R
megaflow() { ovs-appctl ofproto/trace br0 in_port=client,ip,nw_dst=192.168.1.1 | grep ^Megaflow; }
contains "with prefixes" "$(megaflow)" nw_dst=192.168.0.0/16
vsctl set bridge br0 flow_tables:0=@t -- --id=@t create flow_table prefixes=none
contains "without prefixes" "$(megaflow)" nw_dst=192.168.1.1
vsctl clear bridge br0 flow_tables
contains "with prefixes again" "$(megaflow)" nw_dst=192.168.0.0/16

# A full table refuses flows, or evicts the flow that expires first. The table has a name.
vsctl set bridge br0 flow_tables:5=@t -- --id=@t create flow_table name=small flow_limit=2
ovs-ofctl add-flow br0 table=5,in_port=1,idle_timeout=60,actions=drop
ovs-ofctl add-flow br0 table=5,in_port=2,actions=drop
third() { ovs-ofctl add-flow br0 table=5,in_port=3,actions=drop 2>&1; }
contains "a full table" "$(third || true)" OFPFMFC_TABLE_FULL
vsctl set flow_table small overflow_policy=evict
third
names=$(ovs-ofctl --names --no-stats dump-flows br0 table=5)
contains "the new flow" "$names" 'table=small, in_port=third'
contains "the flow without a timeout" "$names" in_port=server
lacks "the flow with one" "$names" in_port=client
vsctl clear bridge br0 flow_tables

# Statistics of the system are written where they are wanted.
same "statistics" "{}" "$(vsctl get open_vswitch . statistics)"
vsctl set open_vswitch . other_config:enable-statistics=true
told() { vsctl get open_vswitch . statistics | grep -q 'cpu=.*load_average=.*memory=.*process_ovs-vswitchd='; }
eventually 10 told
vsctl remove open_vswitch . other_config enable-statistics
gone() { [ "$(vsctl get open_vswitch . statistics)" = "{}" ]; }
eventually 10 gone

# What has no effect is named, once.
if ours; then
    vsctl set interface client lldp:enable=true
    vsctl set interface client lldp:enable=true -- set port client lacp=active
    named() { [ "$(grep -c "$1" ovs-vswitchd.log)" -eq 1 ]; }
    eventually 5 named 'Port client: lacp: there is no LACP; ignored'
    named 'Interface client: lldp:enable: there is no LLDP; ignored'
fi
