# limit: 61
# A packet-in has the whole packet, whatever an action's max_len or the connection's miss_send_len says, since nothing
# is buffered. A controller that sends the data back, such as ovs-testcontroller, would cut packets otherwise.
client_and_server
static_neighbours
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow10,OpenFlow13,OpenFlow15
ip='Ether(src=A,dst=B)/IP(src="10.0.0.1",dst="10.0.0.2")'
# packet_in FLOW PIECE OFCTL_OPTION...: what is sent to a connection that asks for 64 bytes of a frame of 200 bytes.
packet_in() {
    monitor br0 64 "${@:3}"
    ovs-ofctl del-flows br0
    [ -z "$1" ] || ovs-ofctl -O OpenFlow13 add-flow br0 "$1"
    on client $python "$tests/hosts/frames.py" send "$ip/UDP(sport=5,dport=6)/(b'x'*158)"
    eventually 3 grep -q PACKET_IN monitor.printed
    unmonitor
    contains "packet-in $*" "$(grep PACKET_IN monitor.printed)" "$2"
}
whole="total_len=200 in_port=1 (via action) data_len=200 (unbuffered)"
for version in 10 13 15; do
    packet_in udp,actions=CONTROLLER:64 "$whole" -O OpenFlow$version -P standard
done
packet_in udp,actions=CONTROLLER:64 "$whole" -O OpenFlow10 -P nxt_packet_in
packet_in udp,actions=CONTROLLER:64 "$whole" -O OpenFlow13 -P nxt_packet_in2
# Table misses, which a controller gets without a flow in 1.0 only.
packet_in priority=0,actions=CONTROLLER:128 "data_len=200 (unbuffered)" -O OpenFlow13 -P standard
packet_in '' "${whole/action/no_match}" -O OpenFlow10 -P nxt_packet_in

command -v ovs-testcontroller >/dev/null || skip "all passed, but there is no ovs-testcontroller"
# This is about lengths; unfinished checksums are another matter.
for host in client server; do on $host ethtool -K eth0 tx off >/dev/null; done
ovs-ofctl del-flows br0
udp_echo server 10.0.0.2 5000
connected() { [ "$(vsctl get controller br0 is_connected)" = true ]; }
is_gone() { ! kill -0 "$1"; }
# It installs CONTROLLER:128. Without --noflow it also installs a flow for the packet as it came.
for options in --noflow ''; do
    ovs-testcontroller -vconsole:off $options ptcp:6653:127.0.0.1 &
    controller=$!
    vsctl set-fail-mode br0 secure -- set-controller br0 tcp:127.0.0.1:6653
    eventually 10 connected
    eventually 10 pings client 10.0.0.2
    for bytes in 158 1400; do
        same "datagrams of $bytes bytes through ovs-testcontroller $options" 3 \
            "$(udp_ask client 10.0.0.2 5000 3 0 $bytes)"
    done
    [ -z "$options" ] || same "no flow but that of misses" 1 "$(flows br0 -O OpenFlow10 | wc -l)"
    vsctl del-controller br0
    kill $controller
    eventually 5 is_gone $controller
    ovs-ofctl del-flows br0
done
