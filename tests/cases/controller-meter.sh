# Meters of packets to controllers: controller(meter_id=N), and the bridge's for all of them.
client_and_server
static_neighbours
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15
ofctl() { ovs-ofctl -O OpenFlow13 "$@"; }
meter="pktps,burst,stats,band=type=drop,rate=1,burst_size=3"
ofctl add-meter br0 "meter=5,$meter"
monitor br0 65534 -O OpenFlow13 -P nxt_packet_in2
# told LEAST ACTIONS: how many of 40 packets the controller gets, at least LEAST.
told() {
    local least=$1
    shift
    ofctl del-flows br0
    ofctl add-flow br0 "in_port=client,udp,actions=$1,server"
    local before ip frames=()
    before=$(grep -c PACKET_IN monitor.printed || true)
    ip='Ether(src="02:00:00:00:00:01",dst="02:00:00:00:00:02")/IP(src="10.0.0.1",dst="10.0.0.2")/UDP(sport=5,dport=6)'
    for _ in {1..40}; do frames+=("$ip"); done
    on client $python "$tests/hosts/frames.py" send "${frames[@]}"
    sent() { [ "$(ofctl dump-flows br0 | sed -n 's/.*n_packets=\([0-9]*\),.*/\1/p')" = 40 ]; }
    eventually 3 sent
    came() { [ $(($(grep -c PACKET_IN monitor.printed || true) - before)) -ge "$least" ]; }
    eventually 3 came
    # Those beyond.
    sleep 0.3
    echo $(($(grep -c PACKET_IN monitor.printed || true) - before))
}
# few WHAT NUMBER: the burst, and what comes within a second or two.
few() { [ "$2" -ge 1 ] && [ "$2" -le 8 ] || fail "$1: $2 packets"; }
same "no meter" 40 "$(told 40 controller)"
few "a meter" "$(told 1 "controller(meter_id=5)")"
same "a meter that does not exist" 40 "$(told 40 "controller(meter_id=6)")"
contains "statistics" "$(ofctl meter-stats br0 meter=5)" "flow_count:0 packet_in_count:40"
ofctl del-meter br0 meter=5
contains "the flow stays" "$(ofctl dump-flows br0)" "controller(meter_id=6)"
ofctl add-meter br0 "meter=controller,$meter"
few "the meter of all packets to controllers" "$(told 1 controller)"
# Its bucket is empty now.
ofctl mod-meter br0 "meter=controller,$meter"
few "it stands in for one that does not exist" "$(told 1 "controller(meter_id=5)")"
# The own meter is in its place.
ofctl add-meter br0 "meter=5,pktps,burst,band=type=drop,rate=1000,burst_size=1000"
same "an own meter" 40 "$(told 40 "controller(meter_id=5)")"
for version in 10 11 12 13 14 15; do
    ovs-ofctl -O OpenFlow$version del-flows br0
    ovs-ofctl -O OpenFlow$version add-flow br0 "actions=controller(reason=no_match,max_len=9,id=7,userdata=01.02,pause,meter_id=5),2"
    for other in 10 11 12 13 14 15; do
        contains "OpenFlow$version in OpenFlow$other" "$(ovs-ofctl -O OpenFlow$other dump-flows br0)" \
            "controller(reason=no_match,max_len=9,id=7,userdata=01.02,pause,meter_id=5),output:2"
    done
done
# In a bundle, with ovs-ofctl's own atomicity.
echo "add priority=7,actions=controller(meter_id=5),controller(meter_id=99)" >bundle
ofctl --bundle add-flows br0 bundle
contains "bundle" "$(ofctl dump-flows br0)" "controller(meter_id=5),controller(meter_id=99)"
contains "trace" "$(ovs-appctl ofproto/trace br0 in_port=9,dl_type=0x1234 -generate)" \
    "sample(sample=100.0%,actions(meter("
