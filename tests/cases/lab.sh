# limit: 120
# `tidegate lab akraino` builds its testbed, web traffic crosses VXLAN and connection tracking on both
# sides, and nothing is left behind, also when it is killed.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
"$TIDEGATE" lab --help >/dev/null 2>&1 || skip "$TIDEGATE has no verbs"
command -v wrk >/dev/null || skip "wrk is not installed"
"$TIDEGATE" lab akraino --seconds 2 --connections 16 --json >lab.json 2>lab.printed ||
    fail "$(tail -1 lab.printed)"
$python - lab.json <<'P' || fail "its figures are not what they should be"
import json, sys
lab = json.load(open(sys.argv[1]))
assert lab["verb"] == "lab" and lab["ok"] and len(lab["checks"]) == 3, lab
kept, closed = (it["measured"] for it in lab["rounds"])
assert (kept["traffic"], closed["traffic"]) == ("kept", "close"), lab
for measured in kept, closed:
    assert measured["requests"] > 100 and measured["errors"] == 0, measured
    assert measured["processor_seconds"] > 0.1, measured
# A connection takes at least eight packets on the underlay.
assert closed["packets"] > closed["requests"] * 8, closed
P
others() { ps -e -o args= | grep -Ec '[o]vsdb-server|[n]ginx|[w]rk -t|[u]nshare|[o]vs-vswitchd' || true; }
same "processes before" 0 "$(others)"
"$TIDEGATE" lab akraino --seconds 60 >/dev/null 2>&1 &
lab=$!
eventually 40 bash -c 'ps -e -o args= | grep -q "[w]rk -t"'
kill -KILL $lab
is_gone() { [ "$(others)" -eq 0 ]; }
eventually 5 is_gone
