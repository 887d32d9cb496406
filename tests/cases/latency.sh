# Latency of upcalls is recorded by packet class and stage, shown as text and JSON, and cleared on
# request.
ours || skip "Open vSwitch does not tell"
client_and_server
for name in client server; do
    on $name sysctl -qw net.ipv6.conf.all.disable_ipv6=1
    sysctl -qw net.ipv6.conf.$name.disable_ipv6=1
done
start_switch
bridge br0 client server
load br0 <<R
priority=10,arp,actions=normal
priority=10,ip,in_port=client,actions=server
priority=10,ip,in_port=server,actions=client
R
pings client 10.0.0.2 || fail "no answer"

"$TIDEGATE" latency --json >json
python3 - <<'P' || fail "latencies: $(cat json)"
import json
it = json.load(open("json"))
classes = it["classes"]
assert classes["arp"]["rtt"]["count"] >= 2, "a request and its answer"
assert classes["ipv4"]["rtt"]["count"] >= 2, "an echo request and its answer"
assert classes["all"]["rtt"]["count"] == sum(
    classes[name]["rtt"]["count"] for name in ("arp", "ipv4", "ipv6", "other"))
for name in ("all", "arp", "ipv4"):
    of = classes[name]
    parts = ["received_to_queued", "queued_to_taken", "taken_to_translated",
             "translated_to_installed"]
    whole = sum(of[part]["average"] for part in parts)
    assert abs(whole - of["rtt"]["average"]) < 1 + whole / 100, (name, whole, of["rtt"])
    assert 0 < of["rtt"]["min"] <= of["rtt"]["p50"] <= of["rtt"]["max"] < 5e6, of["rtt"]
    assert sum(count for _, count in of["rtt"]["log2"]) == of["rtt"]["count"]
assert it["batch_size"]["count"] > 0 and it["refused"] == 0
P
text=$("$TIDEGATE" latency)
for line in "All packets (microseconds):" "ARP packets (microseconds):" "IPv4 packets (microseconds):" \
    "base-2 logarithmic histogram of upcall batch size" "Upcalls refused: 0"; do
    contains "report" "$text" "$line"
done
same "both ways" "$("$TIDEGATE" latency)" "$(ovs-appctl tidegate/latency-show)"
"$TIDEGATE" latency --clear
contains "cleared" "$(ovs-appctl tidegate/latency-show)" "Number of samples=0"
contains "form" "$(must_fail ovs-appctl tidegate/latency-show xml)" "say text or json"

# A tracer finds the probes by the notes of the program's file.
notes=$(readelf -nW "$(realpath "$TIDEGATE_SWITCH")")
for probe in upcall_queued upcall_taken upcall_translated upcall_installed; do
    contains "probes" "$notes" "Name: $probe"
done
