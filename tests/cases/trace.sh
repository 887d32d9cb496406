# The processing of single packets is shown while the switch runs: all passes with a miss, a cache
# hit, drops; by filter, by count, in both formats; and the trace leaves nothing behind.
ours || skip "Open vSwitch does not tell"
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
priority=10,ip,ct_state=-trk,actions=ct(table=1,zone=7)
priority=20,udp,in_port=client,tp_dst=99,actions=drop
table=1,ip,in_port=client,ct_state=+trk,actions=ct(commit,zone=7),server
table=1,ip,in_port=server,ct_state=+trk+est,actions=client
R
udp_echo server 10.0.0.2 53
busy() { reads "trace " ovs-appctl tidegate/trace show; }

# The only running switch is found without its pidfile.
mv $OVS_RUNDIR/ovs-vswitchd.pid was.pid
"$TIDEGATE" conntrack zone=9 >/dev/null
mv was.pid $OVS_RUNDIR/ovs-vswitchd.pid

# The first packet of a connection: missed, translated, tracked, missed again, sent.
"$TIDEGATE" trace udp,in_port=client,tp_dst=53 --json --count 1 --timeout 20 >first &
pid=$!
eventually 5 busy
udp_ask client 10.0.0.2 53 1 6001 >/dev/null
wait $pid || fail "no packet was traced: $(cat first)"
python3 - <<'P' || fail "the first packet's steps: $(cat first)"
import json
parts = [json.loads(line) for line in open("first")]
assert {part["packet"] for part in parts} == {1}, "one packet"
received, answered = parts[0], parts[1:]
assert received["received"]["port"] == "client" and received["steps"][-1]["step"] == "miss"
assert answered and all(part["received"] is None for part in answered)
steps = [step for part in answered for step in part["steps"]]
tracked = [step for step in steps if step["step"] == "ct"]
assert tracked and tracked[0]["zone"] == 7 and tracked[0]["state"] == "new|trk", tracked
assert [step["port"] for step in steps if step["step"] == "output"] == ["server"], steps
assert sum(part["sent"]["packets"] for part in parts) == 1
assert all(part["total_ns"] > 0 for part in parts)
P

# Packets like earlier ones hit the unified cache, with their connection.
for _ in 1 2 3 4; do udp_ask client 10.0.0.2 53 1 6001 >/dev/null; done
"$TIDEGATE" trace udp in_port=client --count 1 --timeout 20 >known &
pid=$!
asked() { udp_ask client 10.0.0.2 53 1 6001 >/dev/null; ! kill -0 $pid 2>/dev/null; }
eventually 10 asked
wait $pid || fail "no known packet was traced"
for what in '^packet 1: [0-9]+ bytes from client' 'ns  cache +known$' \
    'ns  connection +as known, udp,orig=\(src=10.0.0.1,dst=10.0.0.2,sport=6001,dport=53\).*zone=7' \
    'ns  flow +.*recirc_id\(0\).*actions:ct\(zone=7\),recirc\(0x[0-9a-f]+\) \(unified cache\)' \
    'ns  output +server$' 'ns  send +1 taken by ports$' 'ns  in all$'; do
    grep -qE "$what" known || fail "not shown: $what in $(cat known)"
done

# Why a packet was dropped.
"$TIDEGATE" trace udp,tp_dst=99 --count 2 --timeout 20 --json >dropped &
pid=$!
asked() { udp_ask client 10.0.0.2 99 1 >/dev/null || true; ! kill -0 $pid 2>/dev/null; }
eventually 10 asked
wait $pid || fail "no dropped packet was traced"
contains "the reason" "$(cat dropped)" '"reason":"drop_action_of_pipeline"'

# A sample of the packets.
"$TIDEGATE" trace icmp,in_port=client --sample 1/20 --count 5 --timeout 25 --json >sampled &
pid=$!
eventually 5 busy
on client ping -n -q -i 0.005 -w 20 10.0.0.2 >sampled.printed &
pings=$!
wait $pid || fail "no sampled packet was traced"
kill -INT "$(pgrep -f 'ping -n -q -i 0.005')"
wait $pings || true
same "packets" "1 2 3 4 5" "$(grep -oE '"packet":[0-9]+' sampled | cut -d: -f2 | sort -nu | xargs)"
# By chance; that five are among so few is as good as impossible.
passed=$(sed -n 's/^\([0-9]*\) packets transmitted.*/\1/p' sampled.printed)
[ "$passed" -ge 10 ] || fail "5 of $passed packets, not one in 20"
contains "no such sample" "$(must_fail "$TIDEGATE" trace --sample 3)" "1/N"

# Invalid requests.
contains "no such field" "$(must_fail "$TIDEGATE" trace nosuch=1)" "nosuch"
contains "not when it comes in" "$(must_fail "$TIDEGATE" trace ct_state=+est)" "ct_state"
contains "nothing came" "$(must_fail "$TIDEGATE" trace udp,tp_dst=7 --timeout 1)" "no such packet"
"$TIDEGATE" trace udp,tp_dst=7 --timeout 30 &
pid=$!
eventually 5 busy
contains "one at a time" "$(must_fail "$TIDEGATE" trace)" "another client"
# After the client is killed, the trace ends a few seconds later.
kill -9 $pid
wait $pid 2>/dev/null || true
free() { ovs-appctl tidegate/trace start text 1 1 >number 2>&1; }
eventually 15 free
ovs-appctl tidegate/trace stop "$(cat number)"
udp_ask client 10.0.0.2 53 1 6001 >/dev/null || fail "packets do not pass after tracing"
