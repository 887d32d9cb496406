# limit: 240
# The kernel as a router that tracks connections between our clients and servers: not one packet of
# theirs is invalid to it, and with a rule that drops four of a thousand, four of a thousand are
# missing. A search through it has an answer and the status 0; through one that drops, none and 1;
# of a generator that may not do what it was asked, 3.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
command -v nft >/dev/null || skip "nft is not installed (nftables)"
nft add table inet probe 2>/dev/null &&
    nft 'add chain inet probe c { type filter hook forward priority 0; }' 2>/dev/null &&
    nft add rule inet probe c ct state invalid drop 2>/dev/null ||
    skip "the kernel has no connection tracking for nftables"
nft delete table inet probe

for side in c s; do
    ip link add tg${side}0 type veth peer name tg${side}1
    ip link set tg${side}0 up
    ip link set tg${side}1 up
done
echo 1 >/proc/sys/net/ipv4/ip_forward
ip addr add 10.90.0.1/24 dev tgc1
ip addr add 10.91.0.1/24 dev tgs1
nft -f - <<'N'
table inet guard {
    counter invalid { }
    counter fresh { }
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state invalid counter name invalid drop
        ct state established,related accept
        iifname "tgc1" ct state new counter name fresh accept
    }
}
N
cat >kernel.toml <<'T'
name = "kernel"
clients = "10.90.0.10-10.90.0.60"
servers = "10.91.0.10-10.91.0.20"
udp_percent = 10
T
gateway=$(cat /sys/class/net/tgc1/address)
run() {
    "$TIDEGATE" generate --client tgc0 --server tgs0 --gateway "$gateway" --profile kernel.toml \
        --rate "$1" --seconds "$2" --json >kernel.json 2>kernel.printed
}
run 500 4 || unless_late kernel.json "$(cat kernel.printed)"
count() { nft list counter inet guard "$1" | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
same "packets that are invalid to the kernel" 0 "$(count invalid)"
opened=$($python -c 'import json; it = json.load(open("kernel.json")); assert it["opened"] == it["completed"] > 200; print(it["opened"])') ||
    fail "$(cat kernel.json)"
[ "$(count fresh)" -ge "$opened" ] || fail "$(count fresh) connections new to the kernel, $opened opened"

# search STATUS OPTION...: a search through the router ends with this status; or else the generator came
# too late each time, on a machine that is too busy, and then nothing is asserted.
ip neigh add 10.90.0.2 lladdr 02:00:00:00:00:01 dev tgc1
ip neigh add 10.91.0.2 lladdr 02:00:00:00:00:02 dev tgs1
ip route add 16.0.0.0/8 via 10.90.0.2
ip route add 48.0.0.0/8 via 10.91.0.2
search() {
    local expect=$1 attempt got
    shift
    for attempt in 1 2 3; do
        got=0
        "$TIDEGATE" cps-ndr --client tgc0 --server tgs0 --gateway "$gateway" -r 1 \
            --precision 40 -o search.json "$@" >search.txt 2>search.printed || got=$?
        [ $got -ne "$expect" ] || break
    done
    if [ $got -eq 3 ] && [ "$expect" -ne 3 ] && grep -q 'was too late for' search.txt; then
        printf 'the machine is too busy for a search that ends with %s\n' "$expect" >&2
        return 1
    fi
    same "status of a search: $(cat search.txt search.printed)" "$expect" $got
    $python - $got <<'P' || fail "$(head -c 1500 search.json)"
import json, sys
it = json.load(open("search.json"))
assert it["exit_status"] == int(sys.argv[1]) and it["stopped"] is None and it["samples"], it
P
}
if search 0 -m 100 -M 300 -u 10 -c 'echo reset >>resets'; then
    contains "an answer" "$(cat search.txt)" "connections/s ("
    contains "confirmed" "$(cat search.txt)" "(confirming the answer)"
    $python - "$(wc -l <resets)" <<'P' || fail "$(head -c 1500 search.json)"
import json, sys
it = json.load(open("search.json"))
assert 90 < it["connections_per_second"] < 330 and it["answer"]["confirmed"], it["answer"]
assert it["limited_by"] in ("dut", "generator", "range") and it["loss_ratio"] == 0, it
# Before the first sample and after each.
assert int(sys.argv[1]) >= len(it["samples"]) + 1, sys.argv
P
fi
same "packets that are invalid to the kernel after a search" 0 "$(count invalid)"
search 3 -f 100 -m 400 -M 800 -i 2
contains "why there is no answer" "$(cat search.txt)" "raise --max-flows"

nft insert rule inet guard forward numgen random mod 1000 '<' 4 drop
got=0
run 1000 10 || got=$?
case $got in 1 | 3) ;; *) fail "status $got of a rate that lost: $(cat kernel.printed)" ;; esac
$python - <<'P' || fail "$(cat kernel.json)"
import json
it = json.load(open("kernel.json"))
sent = it["client_to_server"]["sent"] + it["server_to_client"]["sent"]
# Three standard deviations of so many packets, about the 0.4% that are dropped.
allowed = 3 * (0.004 * 0.996 / sent) ** 0.5
assert sent > 5000 and abs(it["loss_ratio"] - 0.004) <= max(0.0005, allowed), (sent, it["loss_ratio"])
assert it["verdict"] in ("fail", "invalid") and it["retransmitted"] > 0
P

if search 1 -m 100 -M 300 -T 8 -i 3; then
    contains "no answer" "$(cat search.txt)" "no rate passed, not even 100 connections/s"
    $python - <<'P' || fail "$(head -c 1500 search.json)"
import json
it = json.load(open("search.json"))
ways = [sample[way] for sample in it["samples"] for way in ("client_to_server", "server_to_client")]
sent = sum(way["sent"] for way in ways)
loss = (sent - sum(way["received"] for way in ways)) / sent
allowed = 3 * (0.004 * 0.996 / sent) ** 0.5
assert it["connections_per_second"] is None and sent > 5000, it
assert abs(loss - 0.004) <= max(0.0005, allowed), (sent, loss)
verdicts = [sample["verdict"] for sample in it["samples"]]
assert "fail" in verdicts and "pass" not in verdicts, verdicts
P
fi
