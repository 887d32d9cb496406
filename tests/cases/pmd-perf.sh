# Statistics of workers are correct: packets as counted by ports, passes as served by the caches,
# histograms and histories of the same iterations, warnings about long iterations, usage of queues.
# limit: 60
ours || skip "Open vSwitch's histograms hold cycles of its own"
client_and_server
static_neighbours
# Only the requested workers are shown.
for name in client server; do
    on $name sysctl -qw net.ipv6.conf.all.disable_ipv6=1
    sysctl -qw net.ipv6.conf.$name.disable_ipv6=1
done
start_switch
bridge br0 client server
load br0 <<R
priority=10,ip,ct_state=-trk,actions=ct(table=1)
table=1,ip,in_port=client,actions=ct(commit),server
table=1,ip,in_port=server,actions=client
R
udp_echo server 10.0.0.2 53
vsctl set open_vswitch . other_config:pmd-cpu-mask=0x1 other_config:pmd-perf-metrics=true
eventually 5 udp_ask client 10.0.0.2 53 1 6001
sleep 1.2
ovs-appctl dpif-netdev/pmd-perf-log-set on -us 0 -b 1 -a 1
eventually 5 grep -q "Suspicious iteration (Excessive total cycles): iter=" $work/ovs-vswitchd.log
ovs-appctl dpif-netdev/pmd-perf-log-set off
contains "set" "$(cat $work/ovs-vswitchd.log)" \
    "pmd-perf-log-set: on, before=1, after=1, extend=false, us_thr=0, q_thr=128"
contains "neighbours" "$(grep -A 1 "Neighborhood of suspicious" $work/ovs-vswitchd.log | head -2)" \
    "   iter                cycles "
contains "usage" "$(must_fail ovs-appctl dpif-netdev/pmd-perf-log-set maybe)" "Usage: ovs-appctl"

ports() { ovs-appctl dpctl/show -s | grep -oE '(RX|TX) packets:[0-9]+'; }
ovs-appctl dpif-netdev/pmd-stats-clear
ports >before
same "answers" 300 "$(udp_ask client 10.0.0.2 53 300 6002)"
# The shown values are at most a second old.
sleep 1.5
ports >after
ovs-appctl dpif-netdev/pmd-stats-show >stats
ovs-appctl dpif-netdev/pmd-perf-show -it 1000 -ms 1000 >perf
ovs-appctl dpif-netdev/pmd-perf-show -nh >short
$python - <<'P' || fail "$(cat stats; head -70 perf)"
import re
def counts(name):
    found = re.findall(r"(RX|TX) packets:(\d+)", open(name).read())
    return {way: sum(int(count) for which, count in found if which == way) for way in ("RX", "TX")}
before, after = counts("before"), counts("after")
came, went = (after[way] - before[way] for way in ("RX", "TX"))
stats, perf = open("stats").read(), open("perf").read()
stat = lambda name: float(re.search(rf"^  {name}: ([\d.]+)", stats, re.M)[1])
kept = lambda name: int(re.search(rf"^ +(?:- )?{name}: +(\d+)", perf, re.M)[1])

received, again = stat("packets received"), stat("packet recirculations")
assert received == came >= 600, (received, came)
assert kept("Tx packets") == went >= 600, (kept("Tx packets"), went)
assert again == received, "each packet is tracked and comes by once more"
answered = sum(stat(name) for name in ("emc hits", "megaflow hits", "miss with success upcall",
                                       "miss with failed upcall"))
assert answered == received + again, (answered, received, again)
assert stat("avg. datapath passes per packet") == 2
for one, other in (("packets received", "Rx packets"), ("emc hits", "EMC hits"),
                   ("megaflow hits", "Megaflow hits"), ("miss with success upcall", "Upcalls")):
    assert stat(one) == kept(other), one
assert kept("Datapath passes") == received + again
assert kept("idle iterations") + kept("busy iterations") == kept("Iterations")

# Of the histograms each counts the same turns, and of packets no more than there were.
rows = [line.split() for line in perf.split("Histograms\n")[1].split("---")[0].splitlines()[1:]]
assert len(rows) == 32, len(rows)
columns = [[int(row[2 * i + 1]) for row in rows] for i in range(7)]
cycles, packets, per_packet, batches, fill, upcalls, per_upcall = map(sum, columns)
assert cycles == packets == upcalls >= kept("Iterations") > 0, (cycles, kept("Iterations"))
assert 0 < per_packet <= kept("busy iterations"), (per_packet, kept("busy iterations"))
assert per_packet == packets - columns[1][0], "turns with packets"
assert received / 32 <= batches <= received, batches
assert fill == per_upcall == 0, "what nothing tells"
least = lambda i: sum((int(rows[at - 1][2 * i]) + 1 if at else 0) * count
                      for at, count in enumerate(columns[i]))
assert least(1) <= received, "packets by the bins' least sizes"
turns, ms = perf.split("   iter  ")[1].split("   ms  ")
numbers = lambda text: [[int(word) for word in line.split()] for line in text.splitlines()[1:] if line]
turns, ms = numbers(turns), numbers(ms)
assert len(turns) == 1000 and 10 < len(ms) <= 1000, (len(turns), len(ms))
assert all(a[0] == b[0] + 1 for a, b in zip(turns, turns[1:])), "turns, the newest first"
assert all(a[0] > b[0] for a, b in zip(ms, ms[1:])), "milliseconds, the newest first"
assert all(one[1] >= 1 for one in ms), "each with a turn"
assert "Histograms" not in open("short").read()
P
vsctl set open_vswitch . other_config:pmd-perf-metrics=false
lacks "histograms" "$(ovs-appctl dpif-netdev/pmd-perf-show)" "Histograms"

# Who is busy with what: the queue that is flooded, and not the other.
on client $python - <<'P' &
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    end = time.monotonic() + 12
    while time.monotonic() < end:
        for _ in range(64):
            asker.sendto(b"x" * 18, ("10.0.0.2", 9))
        time.sleep(0.0005)
P
usage() { ovs-appctl dpif-netdev/pmd-rxq-show -secs 5 | awk -v port="$1" '$2 == port { print $(NF - 1) }'; }
flooded() { [ "$(usage client)" -gt 0 ] && [ "$(usage client)" -gt "$(usage server)" ]; }
eventually 14 flooded
overhead=$(ovs-appctl dpif-netdev/pmd-rxq-show -secs 5 | awk '/overhead/ { print $(NF - 1) }')
all=$(($(usage client) + $(usage server) + $(usage br0) + overhead))
[ "$all" -le 100 ] || fail "more than there is: $(ovs-appctl dpif-netdev/pmd-rxq-show)"
