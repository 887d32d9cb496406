# `tidegate bench stats`, `bench upcall` and `bench failover` as a user starts them, made small: what their
# JSON says, the drawing, and what is refused.
# limit: 120
ours || skip "a command of ours"
# check EXPECT ARGUMENT...: a run of whose JSON (r) this is true.
check() {
    local expect=$1
    shift
    "$TIDEGATE" bench "$@" --json >result 2>said || fail "$*: $(cat said)"
    EXPECT=$expect $python - "$1" <<'P' || fail "$*: $(cat result)"
import json, os, sys
r = json.load(open("result"))
assert r["verb"] == "bench " + sys.argv[1] and r["provenance"]["machine"], "provenance"
assert eval(os.environ["EXPECT"]), os.environ["EXPECT"]
P
}
check 'all(p["flows"] == p["wanted"] and p["seconds_to_limit"] > 0 for run in r["runs"] for p in run["phases"])' \
    stats --flows 2000 --most 4000 --svg stats.svg
check '[len(run["phases"]) for run in r["runs"]] == [1, 1, 1]' stats --flows 1000 --most 1000
grep -q "no statistics, no expiry" stats.svg || fail "the drawing: $(cat stats.svg)"
check 'all(p[c]["transfers"] == 32 for p in r["policies"] for c in ("empty_caches", "filled_caches"))' \
    upcall --hosts 32 --batch 16
check '[p["policy"] for p in r["policies"]] == ["arp_to_one_handler", "arp_spread_in_turn", "tidegate"]' \
    upcall --hosts 8 --handlers 2
check 'all(p["empty_caches"]["latency"]["batch_size"]["max"] <= 16 for p in r["policies"])' \
    upcall --hosts 32 --batch 16
check 'r["flushed"]["max"] <= 10000 and r["wait_us"]["median"] > 0' failover --zones 2 --failovers 2
"$TIDEGATE" bench upcall --hosts 8 >printed || fail "$(cat printed)"
for line in "ARP packets (microseconds):" "IPv4 average with ARP requests over that without"; do
    contains "for people" "$(cat printed)" "$line"
done
refused 2 "--hosts" bench upcall --hosts 1
refused 1 "/proc/no/such.svg" bench stats --flows 1000 --most 1000 --svg /proc/no/such.svg
# Real hosts, and drawings.
check '[(run["caches"], run["transfers"], run["failed"]) for run in r["runs"]] == [("empty", 6, 0), ("filled", 6, 0)]' \
    upcall --namespaces --hosts 6 --handlers 1 --svg real.svg
grep -q "tidegate, empty" real.svg || fail "the drawing: $(cat real.svg)"
check 'r["wait_us"]["median"] > 0' failover --zones 2 --failovers 2 --svg waits.svg
grep -q "failovers" waits.svg || fail "the drawing: $(cat waits.svg)"
refused 1 "no more than 512" bench upcall --namespaces --hosts 600
