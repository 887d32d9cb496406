# Events of connections are reported when they happen: new, replied, flushed.
ours || skip "Open vSwitch does not tell"
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
ip,in_port=client,actions=ct(commit,zone=7),server
ip,in_port=server,actions=ct(zone=7),client
R
udp_echo server 10.0.0.2 53
"$TIDEGATE" conntrack --events --json --seconds 20 >events &
pid=$!
told() { grep -qE "$1" events; }
eventually 5 udp_ask client 10.0.0.2 53 1 6001 >/dev/null
asked() { udp_ask client 10.0.0.2 53 1 6002 >/dev/null; told '"6002|:6002'; }
eventually 10 asked
contains "listed" "$("$TIDEGATE" conntrack --json zone=7 port=6002)" "10.0.0.1"
same "listed of another zone" "" "$("$TIDEGATE" conntrack --json zone=8)"
ovs-appctl dpctl/flush-conntrack zone=7
eventually 5 told 'flushed'
for what in new updated destroyed; do told "$what" || fail "nothing $what: $(head -5 events)"; done
kill $pid
wait $pid || true
contains "no such filter" "$(must_fail "$TIDEGATE" conntrack nosuch=1)" "nosuch"

# Counting can be switched off.
same "off" "packets and bytes of connections: off" "$(ovs-appctl tidegate/conntrack-counters off)"
udp_ask client 10.0.0.2 53 2 6003 >/dev/null
contains "nothing is counted" "$("$TIDEGATE" conntrack --port 6003)" "packets=0/0,bytes=0/0"
same "on" "packets and bytes of connections: on" "$(ovs-appctl tidegate/conntrack-counters on)"
udp_ask client 10.0.0.2 53 2 6003 >/dev/null
contains "counted" "$("$TIDEGATE" conntrack --port 6003)" "packets=2/2,"
contains "neither" "$(must_fail ovs-appctl tidegate/conntrack-counters x)" "say on or off"
