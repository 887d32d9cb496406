# The last count of a flow is exact, however it is removed and whatever arrives meanwhile: a second flow counts all other
# packets, and the sum is what was sent. Statistics of groups, meters, tables and flows are as exact.
# limit: 150
client_and_server
static_neighbours
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow10,OpenFlow13,OpenFlow15
# Both hosts' datagrams arrive by either flow; what the hosts say of closed ports does not count.
begin() {
    ovs-ofctl del-flows br0
    ovs-ofctl -O OpenFlow13 del-groups br0
    ovs-ofctl -O OpenFlow13 del-meters br0
    ovs-ofctl -O OpenFlow13 add-group br0 group_id=1,type=all,bucket=NORMAL
    ovs-ofctl -O OpenFlow13 add-meter br0 meter=1,pktps,bands=type=drop,rate=1000000
    ovs-ofctl add-flow br0 "priority=9,icmp,actions=drop"
    ovs-ofctl add-flow br0 "cookie=2,priority=1,udp,actions=NORMAL"
    ovs-ofctl -O OpenFlow13 add-flow br0 "send_flow_rem,cookie=1,priority=5,udp,$1"
}
count_received() { on "$1" awk '/eth0:/ { print $3 }' /proc/net/dev; }
# send COUNT RATE: both hosts send so many, and all arrive.
send() {
    local want_client want_server
    want_client=$(($(count_received client) + $1))
    want_server=$(($(count_received server) + $1))
    on server $python "$tests/hosts/udp_send.py" 10.0.0.1 9 "$1" "$2" &
    on client $python "$tests/hosts/udp_send.py" 10.0.0.2 9 "$1" "$2"
    wait $!
    eventually 3 arrived $want_client $want_server
}
arrived() { [ "$(count_received client)" -ge "$1" ] && [ "$(count_received server)" -ge "$2" ]; }
packets() { ovs-ofctl dump-flows br0 "cookie=$1/-1" | sed -n 's/.*n_packets=\([0-9]*\),.*/\1/p'; }
told() { sed -n "s/.*FLOW_REMOVED.*reason=$1.*cookie:0x1 .* pkts\([0-9]*\) .*/\1/p" monitor.printed; }
is_told() { [ -n "$(told "$1")" ]; }
# removed WHAT REASON SENT: the sum is exact, and with a fourth word `all` the flow had all.
removed() {
    local last rest
    eventually 5 is_told "$2"
    last=$(told "$2") rest=$(packets 2)
    unmonitor
    same "$1: sent" "$3" "$((last + rest))"
    [ "$last" -gt 0 ] || fail "$1: the flow had no packet"
    case ${4-} in
    all) same "$1: of the other flow" 0 "$rest" ;;
    *) [ "$rest" -gt 0 ] || fail "$1: the other flow had no packet" ;;
    esac
}
# amid SECONDS COMMAND...: 600 datagrams of each host, and the command meanwhile.
amid() {
    send 600 400 &
    sleep "$1"
    "${@:2}"
    wait $!
}
all_ways() {
    begin hard_timeout=1,actions=NORMAL
    monitor br0 65534 -O OpenFlow13
    send 471 300
    removed "$1, hard timeout" hard 942

    begin actions=NORMAL
    monitor br0 65534 -O OpenFlow13
    send 237 1000
    ovs-ofctl del-flows br0 "cookie=1/-1"
    removed "$1, deleted after the last packet" delete 474 all

    begin actions=NORMAL
    monitor br0 65534 -O OpenFlow13
    amid 0.8 ovs-ofctl del-flows br0 "cookie=1/-1"
    removed "$1, deleted amid packets" delete 1200

    begin actions=NORMAL
    monitor br0 65534 -O OpenFlow13
    printf 'flow delete cookie=1/-1\nflow add table=3,actions=drop\n' >bundle
    amid 0.7 ovs-ofctl -O OpenFlow13 bundle br0 bundle
    removed "$1, deleted by a bundle" delete 1200

    begin actions=group:1
    monitor br0 65534 -O OpenFlow15
    amid 0.9 ovs-ofctl -O OpenFlow13 del-groups br0 group_id=1
    removed "$1, deleted with its group" group_delete 1200

    begin actions=meter:1,NORMAL
    monitor br0 65534 -O OpenFlow15
    amid 0.6 ovs-ofctl -O OpenFlow13 del-meter br0 meter=1
    removed "$1, deleted with its meter" meter_delete 1200

    begin idle_timeout=1,actions=NORMAL
    monitor br0 65534 -O OpenFlow13
    send 471 300
    removed "$1, idle" idle 942 all

    # Counters are reset amid packets: the flow's own are the later ones.
    begin actions=NORMAL
    amid 0.5 ovs-ofctl -O OpenFlow13 mod-flows br0 "reset_counts,udp,cookie=1/-1,actions=NORMAL"
    [ "$(packets 1)" -lt 1200 ] || fail "$1: the counters were not reset"

    # Statistics as soon as the packets have gone.
    begin actions=group:1
    send 237 1000
    contains "$1, group" "$(ovs-ofctl -O OpenFlow13 dump-group-stats br0)" ",packet_count=474,"
    begin actions=meter:1,NORMAL
    send 237 1000
    contains "$1, meter" "$(ovs-ofctl -O OpenFlow13 meter-stats br0)" "packet_in_count:474 "
    same "$1, flow" 474 "$(packets 1)"
    before=$(lookups)
    send 237 1000
    same "$1, table" $((before + 474)) "$(lookups)"
    contains "$1, aggregate" "$(ovs-ofctl dump-aggregate br0 cookie=1/-1)" "packet_count=948 "
}
# What came back of closed ports is looked up, too.
lookups() {
    local all icmp
    all=$(ovs-ofctl -O OpenFlow13 dump-tables br0 | sed -n '/table 0/,/matched/s/.*matched=\([0-9]*\).*/\1/p' | head -1)
    icmp=$(ovs-ofctl dump-flows br0 icmp | sed -n 's/.*n_packets=\([0-9]*\),.*/\1/p')
    echo $((all - icmp))
}
all_ways "one worker"

# With offload the connections' packets pass the switch by.
udp_echo server 10.0.0.2 53
for when in 0.4 0.5; do
    ovs-ofctl del-flows br0
    load br0 <<R
table=0,priority=9,udp,ct_state=-trk,actions=ct(table=1)
table=1,cookie=2,priority=1,udp,actions=ct(commit),NORMAL
R
    ovs-ofctl -O OpenFlow13 add-flow br0 \
        "send_flow_rem,cookie=1,table=1,priority=5,udp,ct_state=+trk+est,actions=NORMAL"
    monitor br0 65534 -O OpenFlow13
    ask() { on client $python "$tests/hosts/udp_ask.py" 10.0.0.2 53 20000 "400${when#0.}" >answers; }
    ask &
    sleep $when
    ovs-ofctl del-flows br0 "cookie=1/-1"
    wait $!
    same "answers" 20000 "$(cat answers)"
    removed "connections" delete 40000
done
[ -z "${TIDEGATE_OFFLOAD-}" ] || eventually 3 offload_is "Forwarded packets" -ge 1

vsctl set open_vswitch . other_config:n-handler-threads=1 other_config:n-revalidator-threads=1
all_ways "handlers and revalidators"
vsctl set open_vswitch . other_config:pmd-cpu-mask=0x3 other_config:pmd-sleep-max=200
all_ways "two workers"
