# limit: 60
# `tidegate demo` runs to its end, tells the truth, and leaves nothing behind, also when killed.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
command -v wrk >/dev/null || skip "wrk is not installed"
other=()
ours || other=(--switch "$TIDEGATE_SWITCH")
"$TIDEGATE" demo --seconds 3 --json "${other[@]}" >demo.json 2>demo.printed || fail "$(tail -1 demo.printed)"
$python - demo.json <<'P' || fail "its figures are not what they should be"
import json, sys
demo = json.load(open(sys.argv[1]))
assert demo["verb"] == "demo" and demo["provenance"]["command"].startswith("tidegate demo "), demo
load = demo["load"]
assert demo["ok"] and all(check["ok"] for check in demo["checks"].values()), demo
assert len(demo["checks"]) >= 10, demo["checks"].keys()
assert load["requests"] > 0 and load["errors"] == 0, load
assert load["connections"] >= load["requests"], load
assert load["packets"] > load["connections"] * 8, load
assert len(load["seconds"]) == 3 and load["tracked_max"] > 0, load
begun_by_client = "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,"
assert any(line.startswith(begun_by_client) for line in load["conntrack"]), load["conntrack"]
P
contains "heading" "$(cat demo.printed)" "connections/s"

# With a broken switch, the demo says so and fails.
never "$TIDEGATE" demo --seconds 1 --switch /bin/false

others() { ps -e -o args= | grep -Ec '[o]vsdb-server|[n]ginx|[w]rk -t|[u]nshare|[o]vs-vswitchd' || true; }
same "processes before" 0 "$(others)"
devices=$(ip -br link | wc -l)
for signal in INT KILL; do
    # Background jobs of a shell ignore SIGINT, and so would what they start.
    $python - "$signal" "$TIDEGATE" demo "${other[@]}" <<'P' || fail "was not stopped by SIG$signal"
import signal, subprocess, sys, time
number = signal.Signals["SIG" + sys.argv[1]]
signal.signal(signal.SIGINT, signal.default_int_handler)
demo = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(3)
assert demo.poll() is None, "ended by itself"
demo.send_signal(number)
status = demo.wait(5)
assert status == (130 if number == signal.SIGINT else -9), status
P
    gone() { [ "$(others)" -eq 0 ]; }
    eventually 2 gone
    same "devices after SIG$signal" "$devices" "$(ip -br link | wc -l)"
    same "namespaces after SIG$signal" "" "$(ip netns)"
    test ! -e /run/tidegate
done
