# Ports without a device: frames received by command, a stopped clock, recorded output.
start_switch --enable-dummy
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure -- \
    add-port br0 p1 -- set interface p1 type=dummy ofport_request=1 -- \
    add-port br0 p2 -- set interface p2 type=dummy ofport_request=2 options:tx_pcap=$work/p2.pcap
ovs-ofctl add-flow br0 "idle_timeout=60,in_port=1,udp,actions=dec_ttl,output:2"
contains "the ports" "$(ovs-appctl dpif/show)" "dummy@ovs-dummy: hit:0 missed:0
  br0:
    br0 65534/100: (dummy-internal)
    p1 1/1: (dummy)
    p2 2/2: (dummy)"
ovs-appctl time/stop
for _ in 1 2 3; do
    ovs-appctl netdev-dummy/receive p1 'in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)'
done
# The same frame in hexadecimal digits.
ovs-appctl netdev-dummy/receive p1 \
    "020000000002 020000000001 0800 4500001c0000000040110000 0a000001 0a000002 0001000200080000"
recorded() { [ "$(ovs-pcap p2.pcap | wc -l)" = 4 ]; }
eventually 5 recorded
contains "what left" "$(ovs-pcap p2.pcap)" "3f11"
contains "its length" "$(ovs-appctl dpctl/dump-flows)" "packets:3, bytes:254"
same "counted" 4 "$(ovs-ofctl dump-ports br0 p2 | sed -n 's/.*tx pkts=\([0-9]*\).*/\1/p')"
contains "no such port" "$(must_fail ovs-appctl netdev-dummy/receive p9 00)" "no such dummy netdev"
contains "no such flow" "$(must_fail ovs-appctl netdev-dummy/receive p1 'nonsense')" "nonsense"

# The flow stays until the clock is advanced.
contains "the flow" "$(ovs-ofctl dump-flows br0)" "idle_timeout=60"
same "warped" warped "$(ovs-appctl time/warp 70000 1000)"
gone() { ! ovs-ofctl dump-flows br0 | grep -q idle_timeout=60; }
eventually 5 gone

shown=$(ovs-ofctl show br0)
contains "no speed" "$shown" "speed: 0 Mbps now"
lacks "no speed" "$shown" "current:"

# A flow that matches related connections may use the tuple of the original direction.
ovs-ofctl add-flow br0 "table=1,ip,ct_state=+rel-inv+trk,actions=resubmit(,2,ct)"
contains "resubmit" "$(ovs-ofctl dump-flows br0 table=1)" "ct_state=+rel-inv+trk,ip actions=resubmit(,2,ct)"

ovs-appctl netdev-dummy/set-admin-state p1 down
contains "down" "$(ovs-ofctl show br0)" "PORT_DOWN"
ovs-appctl netdev-dummy/set-admin-state p1 up

# A limit of upcalls goes with its port to another number in the datapath.
if ours; then
    vsctl set open_vswitch . other_config:tidegate-upcall-rates=p1/other=1,p3/other=1
    contains "a limit of no port" "$(cat "$work/ovs-vswitchd.log")" "the limit of p3 has no effect"
    ovs-appctl dpif-dummy/change-port-number ovs-dummy p1 77
    for n in 1 2 3; do
        ovs-appctl netdev-dummy/receive p1 "020000000002 02000000000$n 123$n 4242"
    done
    limited() { ovs-appctl upcall/show | grep -q "lost of p1: 2"; }
    eventually 5 limited
    vsctl remove open_vswitch . other_config tidegate-upcall-rates
fi

# Without the option there are no such ports.
if ours; then
    stop_switch
    start_switch
    eventually 5 test "$(vsctl get interface p1 error)" != "[]"
    contains "why" "$(vsctl get interface p1 error)" "start the switch with --enable-dummy"
fi

# If dummy ports replace system devices, their options and changes of these take effect; and bridges
# have unique addresses.
if ours; then
    stop_switch
    start_switch --enable-dummy=system
    vsctl add-br br1 -- set bridge br1 datapath_type=dummy -- add-port br1 q1 -- add-port br1 q2
    for file in first second; do
        vsctl set interface q2 options:tx_pcap=$work/$file.pcap -- set interface br1 options:tx_pcap=$work/l$file.pcap
        ovs-appctl netdev-dummy/receive q1 "020000000002 020000000001 1234 4242"
        captured() { [ "$(ovs-pcap "$1.pcap" | wc -l)" = 1 ]; }
        eventually 5 captured $file
        eventually 5 captured l$file
    done
    same "their numbers" "1 2" "$(ofport q1) $(ofport q2)"
    # A port whose request cannot be met keeps its number when an option changes.
    vsctl add-port br1 q3 -- set interface q3 type=dummy ofport_request=2
    same "its number" 3 "$(ofport q3)"
    vsctl set interface q3 options:tx_pcap=$work/q3.pcap
    eventually 5 test -e "$work/q3.pcap"
    same "its number still" 3 "$(ofport q3)"
    mac=$(vsctl get interface br1 mac_in_use)
    [[ $mac != '"aa:55:'* ]] || fail "the bridge has a port's address: $mac"
fi
