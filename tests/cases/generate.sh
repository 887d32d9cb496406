# limit: 240
# `tidegate generate` and `tidegate cps-ndr`: between veth pairs with a daemon of their own, in
# memory, and what they say of what cannot be measured; nothing of theirs stays.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
kind=tidegate
ours || kind=ovs

# A daemon between two veth pairs, set up as published, and gone afterwards.
devices=$(ip -br link | wc -l)
"$TIDEGATE" generate --dut $kind --ports veth --rate 200 --seconds 2 --json >veth.json 2>veth.printed ||
    unless_late veth.json "$(tail -3 veth.printed)"
$python - veth.json $kind <<'P' || fail "its figures are not what they should be: $(cat veth.json)"
import json, sys
it = json.load(open(sys.argv[1]))
assert it["dut"]["kind"] == sys.argv[2] and it["dut"]["ct_set_maxconns"] == 5000000, it["dut"]
assert it["dut"]["timeouts_s"]["tcp_established"] == 30 and len(it["dut"]["rules"]) == 4
assert it["opened"] == it["completed"] > 50 and it["verdict"] in ("pass", "invalid"), it
assert sum(it["failed"].values()) == 0 and it["unfinished"] == 0
for way in ("client_to_server", "server_to_client"):
    assert it[way]["sent"] == it[way]["received"] > 100, it[way]
assert it["ceiling"]["ports"] == "veth" and 0 < it["ceiling"]["share"]
assert it["handshake"]["count"] == it["opened"]
P
gone() { ! pgrep -f '[u]nshare' && [ "$(ip -br link | wc -l)" -eq "$devices" ]; } >/dev/null
eventually 3 gone

# Our own switch and a cable, in memory.
for dut in tidegate none; do
    "$TIDEGATE" generate --dut $dut --rate 500 --seconds 1 --profile dns --json >memory.json 2>/dev/null ||
        unless_late memory.json "--dut $dut: $(cat memory.json)"
done
"$TIDEGATE" generate --self-test --profile http --seconds 1 >self-test.txt 2>&1 || fail "$(cat self-test.txt)"
grep -q '^http .*conn/s' self-test.txt || fail "no calibration table: $(cat self-test.txt)"

# A search ends by itself, with one of the statuses that it names.
status=0
"$TIDEGATE" cps-ndr -m 100 -M 800 -r 0 -i 2 --precision 20 -o search.json >search.txt 2>&1 || status=$?
case $status in 0 | 1 | 3) ;; *) fail "cps-ndr ended with $status: $(cat search.txt)" ;; esac
contains "lines" "$(cat search.txt)" "... iteration #1: lower=100 current=450 upper=800"
grep -Eq '^(▲▲▲|▼▼▼|■■■ INVALID) Flows: active ' search.txt || fail "no verdict: $(cat search.txt)"
$python - search.json $status <<'P' || fail "$(cat search.json)"
import json, sys
it = json.load(open(sys.argv[1]))
assert it["exit_status"] == int(sys.argv[2]) and len(it["samples"]) >= 1, it
assert it["limited_by"] in ("dut", "generator", "range", "iterations", None) and it["timeouts"]["tcp_time_wait"] == 1
assert all(s["table_before"] == 0 for s in it["samples"]), "the table was not seen empty"
if it["exit_status"] == 0:
    assert it["connections_per_second"] > 90 and it["answer"]["passed"] >= 1
P

# Results make a page.
"$TIDEGATE" report . -o page.html >/dev/null 2>&1 || fail "no report"
contains "page" "$(cat page.html)" "Search: search"

# A profile is shown with every key, and what is shown is read again.
"$TIDEGATE" generate --profile dns --print-profile >shown.toml || fail "no profile"
contains "profile" "$(cat shown.toml)" "udp_percent = 100.0"
same "again" "$(cat shown.toml)" "$("$TIDEGATE" generate --profile shown.toml --print-profile)"

# What cannot be measured is said, with what to do, and a status of its own.
printf 'name = "mine"\nmessages = 0\n' >bad.toml
printf 'colour = 1\n' >unknown.toml
printf 'clients = "10.0.0.1"\nservers = "10.0.0.2"\nclient_ports = "1-100"\n' >narrow.toml
refused 2 "line 2: messages: a connection needs at least 1" generate --profile bad.toml
refused 2 "unknown field \`colour\`" generate --profile unknown.toml
refused 2 "more than the 100 combinations of addresses and ports; widen" generate --profile narrow.toml
refused 2 "name a TOML file, or one of short-lived" generate --profile nosuch
refused 2 "is not below --max-cps" cps-ndr -m 20k -M 10k
refused 2 "use --sample-time 25 or more" cps-ndr -n 500 -w 50
refused 2 "invalid value" cps-ndr -M 1.2x
refused 2 "same port" generate --client lo --server lo
refused 2 "no ports in this one's memory" generate --dut ovs --ports memory
refused 3 "no such device" generate --client nosuch0 --server nosuch1 --seconds 1

# Devices that are no device: one that forwards nothing, one that sends everything back, and one
# that goes away in the middle.
ip link add tgc0 type veth peer name tgc1
ip link add tgs0 type veth peer name tgs1
for device in tgc0 tgc1 tgs0; do ip link set $device up; done
gateway=02:00:00:00:00:02
refused 3 "the device is down; bring it up" generate --client tgc0 --server tgs1 --seconds 1
ip link set tgs1 up
refused 3 "forwards nothing" cps-ndr --client tgc0 --server tgs0 --gateway $gateway -m 100 -M 200 -r 0
"$TIDEGATE" generate --client tgc0 --server tgc1 --gateway $gateway --rate 100 --seconds 20 \
    >gone.txt 2>&1 &
generator=$!
eventually 20 grep -q sample gone.txt
ip link del tgc0
got=0
wait $generator || got=$?
same "status when the port goes: $(cat gone.txt)" 3 $got
contains "message when the port goes" "$(cat gone.txt)" "no such device"
contains "what was measured until then" "$(cat gone.txt)" "client opened"
# A search keeps the samples that it had.
ip link add tgc2 type veth peer name tgc3
for device in tgc2 tgc3; do ip link set $device up; done
"$TIDEGATE" cps-ndr --client tgc2 --server tgc3 --gateway $gateway -m 100 -M 400 -r 0 -T 3 \
    --precision 1 -o search-gone.json >gone.txt 2>&1 &
search=$!
eventually 40 grep -Eq '▲▲▲|▼▼▼|■■■' gone.txt
ip link del tgc2
got=0
wait $search || got=$?
same "status when the port goes: $(cat gone.txt)" 3 $got
contains "message when the port goes" "$(cat gone.txt)" "no such device"
$python -c 'import json; assert len(json.load(open("search-gone.json"))["samples"]) >= 1' ||
    fail "its samples are lost: $(cat search-gone.json)"

contains "a profile without an end" "$(must_fail "$TIDEGATE" generate --profile /dev/zero)" \
    "has no end within 67108864 bytes"

# Interrupted, it prints the figures up to then, and says that they are no result.
"$TIDEGATE" generate --dut none --rate 100 --seconds 60 --json >interrupted.json 2>interrupted.txt &
generator=$!
eventually 20 grep -q sample interrupted.txt
kill -INT $generator
got=0
wait $generator || got=$?
same "status of an interrupted run: $(cat interrupted.txt)" 130 $got
contains "interrupted" "$(cat interrupted.txt)" "these are the figures up to then, and no result"
$python - <<'P' || fail "interrupted: $(cat interrupted.json)"
import json
it = json.load(open("interrupted.json"))
assert it["opened"] > 0 and it["interrupted"] and it["verdict"] is None
P
# A rate that cannot be sent has not passed, though no connection failed.
refused 3 "connections/s INVALID" generate --dut none --rate 5m --seconds 1

gone_again() { ! pgrep -f '[u]nshare|[o]vsdb-server'; } >/dev/null
# Between veth pairs too, where it is told what to do; and killed, it leaves nothing.
"$TIDEGATE" cps-ndr --dut $kind --ports veth -m 100 -M 500 -r 1 >interrupted.txt 2>&1 &
search=$!
eventually 30 grep -q 'iteration #1' interrupted.txt
kill -INT $search
got=0
wait $search || got=$?
case $got in 0 | 1 | 3) ;; *) fail "interrupted: status $got: $(cat interrupted.txt)" ;; esac
contains "interrupted" "$(cat interrupted.txt)" "iteration #1"
# Whether or not a rate had passed by then, that is what it says, and nothing of its own limits.
grep -Eq '; interrupted|^interrupted before' interrupted.txt || fail "$(cat interrupted.txt)"
lacks "interrupted" "$(cat interrupted.txt)" "no answer"
eventually 3 gone_again
"$TIDEGATE" cps-ndr --dut $kind --ports veth -m 100 -M 500 -r 1 >/dev/null 2>&1 &
search=$!
sleep 6
kill -KILL $search
eventually 3 gone_again
