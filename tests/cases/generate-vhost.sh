# limit: 240
# The generator and a switch joined by vhost-user, a process each: every connection is accounted
# for, several workers share the work, and huge pages and processes go also after a kill.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
kind=tidegate
ours || kind=ovs
[ $kind = tidegate ] || [ -x /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk ] ||
    skip "there is no openvswitch-switch-dpdk"
memory=$(awk '/MemAvailable/ {print $2}' /proc/meminfo)
[ "$memory" -ge 2000000 ] || skip "needs 2 GB of free memory"
pages() { awk '/HugePages_Total/ {print $2}' /proc/meminfo; }
before=$(pages)

# checked FILE QUEUES: the requested load was generated, and nothing is missing.
checked() {
    $python - "$1" $kind "$2" <<'P' || fail "its figures are not what they should be"
import json, sys
it, kind, workers = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
dut = it["dut"]
assert dut["kind"] == kind and dut["ports"] in ("vhost", "memory"), dut
assert dut["workers"] == dut["queues"] == dut["generator_workers"] == workers, dut
assert dut["timeouts_s"]["tcp_established"] == 30 and len(dut["rules"]) == 4
said = {key: it[key] for key in ("opened", "completed", "failed", "unfinished", "port_drops")}
assert it["opened"] == it["completed"] > 50, said
assert sum(it["failed"].values()) == 0 and it["unfinished"] == 0, said
for way in ("client_to_server", "server_to_client"):
    assert it[way]["sent"] == it[way]["received"] > 100, it[way]
assert it["ceiling"]["generator_workers"] == workers and 0 < it["ceiling"]["share"], it["ceiling"]
P
}

status=0
"$TIDEGATE" generate --dut $kind --ports vhost --rate 200 --seconds 2 --json >vhost.json 2>vhost.printed ||
    status=$?
if [ $status -ne 0 ]; then
    grep -q 'built without' vhost.printed && skip "this build has no DPDK"
    grep -q 'could not start DPDK\|Cannot init memory' vhost.printed &&
        skip "DPDK does not start here: $(tail -1 vhost.printed)"
    unless_late vhost.json "status $status: $(tail -3 vhost.printed)"
fi
checked vhost.json 1
grep -q '"ports":"vhost","share"' vhost.json || fail "no ceiling of its own"
given_back() { [ "$(pages)" -eq "$before" ]; }
eventually 5 given_back

# Two queues, workers and generators, through vhost-user and in memory.
"$TIDEGATE" generate --dut $kind --ports vhost --workers 2 --rate 200 --seconds 2 --json \
    >two.json 2>two.printed || unless_late two.json "two workers: $(tail -3 two.printed)"
checked two.json 2
if [ $kind = tidegate ]; then
    "$TIDEGATE" generate --workers 2 --rate 500 --seconds 2 --json >memory.json 2>memory.printed ||
        unless_late memory.json "two workers in memory: $(tail -3 memory.printed)"
    checked memory.json 2
fi
says "fewer generators than queues" "each queue needs one" \
    "$TIDEGATE" generate --workers 2 --generator-workers 1
says "queues of a veth" "have one queue each" "$TIDEGATE" generate --ports veth --workers 2

# After a kill, nothing is left.
"$TIDEGATE" generate --dut $kind --ports vhost --rate 200 --seconds 60 >killed.printed 2>&1 &
running=$!
under_way() { grep -q ' s sample' killed.printed; }
eventually 60 under_way
kill -9 $running
wait $running || true
alone() { ! pgrep -f '[u]nshare --fork|[o]vsdb-server /run/tidegate' >/dev/null; }
eventually 5 alone
eventually 5 given_back
