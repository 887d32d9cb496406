# limit: 150
# `tidegate bench rfc`: its list, a test over a cable and one through our switch, what it says of what
# cannot be measured, and that an interrupted one tells what there is. A TRex server that is not
# there is named.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"

"$TIDEGATE" bench rfc --list >list.txt || fail "no list"
for section in "RFC 2544 section 26.1" "RFC 2544 section 26.4" "RFC 3511 section 5.5" "RFC 9411 section 7.2" \
    "RFC 9693 sections 4.5 and 4.6" "RFC 9693 section 4.8" "RFC 9693 section 4.9"; do
    contains "list" "$(cat list.txt)" "$section"
done

# On a busy machine the generator may be too late for a rate, which is reported; over a cable
# nothing is ever lost.
got=0
"$TIDEGATE" bench rfc rfc2544-frame-loss --dut none --frame-sizes 64 --seconds 0.5 -m 500 -M 1k \
    --flows 10 --json >loss.json 2>loss.printed || got=$?
$python - $got <<'P' || fail "status $got: $(cat loss.printed) $(cat loss.json)"
import json, sys
it = json.load(open("loss.json"))
assert it["verb"] == "bench rfc" and it["unit"].startswith("frames/s"), it
# If it was too late for every step, it says so.
assert (int(sys.argv[1]) == 0) == (it["stopped"] is None), it["stopped"]
for trial in it["frame_sizes"][0]["trials"]:
    sample = trial["sample"]
    for way in ("forth", "back"):
        assert sample[way]["sent"] == sample[way]["received"] > 0, trial
P

# Over IPv6, between several addresses, through several workers of our own switch.
got=0
"$TIDEGATE" bench rfc rfc2544-back-to-back --workers 2 --ipv6 --addresses 9 --flows 200 --rate 1k \
    --frame-sizes 84,1518 --precision 50 -m 16 -M 256 --json >burst.json 2>burst.printed || got=$?
$python - $got <<'P' || fail "status $got: $(cat burst.printed) $(cat burst.json)"
import json, sys
it = json.load(open("burst.json"))
sizes = it["frame_sizes"]
assert (it["ip_version"], it["addresses"], it["dut"]["workers"]) == (6, 9, 2), it
# Without a result it gives the reason.
assert (int(sys.argv[1]) == 0) == (it["stopped"] is None), it["stopped"]
assert sizes[0]["frame_bytes"] == 84 and sizes[0]["searches"][0]["trials"], sizes
if it["stopped"] is None:
    assert len(sizes) == 2 and all(16 <= size["answer"] <= 256 for size in sizes), sizes
P

# Our own switch: every entry is in its table when it is torn down.
"$TIDEGATE" bench rfc rfc9693-teardown --connections 500 --rate 1k --json >teardown.json \
    2>teardown.printed || fail "$(cat teardown.printed)"
$python - <<'P' || fail "$(cat teardown.json)"
import json
it = json.load(open("teardown.json"))
assert it["dut"]["kind"] == "tidegate" and it["dut"]["timeouts_s"]["udp_single"] == 600, it["dut"]
assert len(it["runs"]) == 10 and all(run["connections"] == 500 for run in it["runs"])
assert it["answer"] > 0
P

refused 2 "required arguments" bench rfc
refused 2 "invalid value" bench rfc rfc2544-latency --frame-sizes 63
refused 1 "a test frame of IPv6 has 84 bytes" bench rfc rfc2544-latency --ipv6 --frame-sizes 64
refused 1 "track IPv4 only" bench rfc rfc9693-throughput --ipv6
refused 1 "is not below -M" bench rfc rfc2544-throughput -m 2k -M 1k
refused 1 "no such device" bench rfc rfc2544-throughput --client nosuch0 --server nosuch1
refused 3 "start it with" cps-ndr --generator trex --server 127.0.0.1 --sync-port 1
refused 2 "takes from 3 to 20 seconds" cps-ndr --generator trex -r 1
refused 2 "takes no --dut" cps-ndr --generator trex --dut ovs
refused 2 "lower --num-messages" cps-ndr --generator trex -n 10000

# A cable without a far end forwards nothing, and a device that disappears is named.
ip link add rfcc0 type veth peer name rfcc1
ip link add rfcs0 type veth peer name rfcs1
for device in rfcc0 rfcc1 rfcs0 rfcs1; do ip link set $device up; done
refused 1 "name both --client and --server" bench rfc rfc2544-throughput --client rfcc0
refused 1 "forwards nothing" bench rfc rfc9693-establishment --client rfcc0 --server rfcs0 \
    --connections 100 -m 100 -M 200
refused 1 "name a command" bench rfc rfc9693-teardown --client rfcc0 --server rfcs0
"$TIDEGATE" bench rfc rfc2544-throughput --client rfcc0 --server rfcc1 --frame-sizes 64 -m 100 \
    -M 200 --flows 10 --rate 100 --seconds 30 >gone.txt 2>&1 &
bench=$!
eventually 20 grep -q '64 bytes' gone.txt
sleep 1
ip link del rfcc0
got=0
wait $bench || got=$?
same "status when the port goes: $(cat gone.txt)" 1 $got
contains "message when the port goes" "$(cat gone.txt)" "no such device"

# After an interrupt, it prints the results so far.
"$TIDEGATE" bench rfc rfc2544-throughput --dut none --frame-sizes 64 -m 100 -M 200 --flows 10 \
    --seconds 2 --precision 1 --json >interrupted.json 2>interrupted.txt &
bench=$!
eventually 30 grep -Eq ': (pass|invalid)' interrupted.txt
kill -INT $bench
got=0
wait $bench || got=$?
same "status when interrupted: $(cat interrupted.txt)" 1 $got
$python - <<'P' || fail "$(cat interrupted.json)"
import json
it = json.load(open("interrupted.json"))
assert it["stopped"] == "interrupted" and len(it["frame_sizes"][0]["trials"]) >= 1, it
P
