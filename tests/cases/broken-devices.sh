# limit: 200
# Devices under test that are broken, from the start or in mid-run: a search says in which way and
# what to do, ends with 3 and keeps the samples that it had.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
for side in c s; do
    ip link add bd${side}0 type veth peer name bd${side}1
    ip link set bd${side}0 up
    ip link set bd${side}1 up
done

# broken MODE SECONDS SAYS...: a device that is sound for so long, and what a search says of it.
broken() {
    local mode=$1 seconds=$2 got=0 piece device
    shift 2
    $python "$tests/hosts/bad_device.py" bdc1 bds1 "$mode" "$seconds" >device.printed &
    device=$!
    eventually 5 grep -q ready device.printed
    rm -f broken.json
    # By itself this search goes on for ever.
    "$TIDEGATE" cps-ndr --client bdc0 --server bds0 --gateway 02:00:00:00:00:02 -m 100 -M 200 -r 0 \
        --search bisect -o broken.json >broken.txt 2>&1 || got=$?
    kill $device
    wait $device || true
    same "status of $mode after $seconds s: $(cat broken.txt)" 3 $got
    for piece; do contains "$mode after $seconds s" "$(cat broken.txt)" "$piece"; done
}

broken nothing 0 "the device forwards nothing" "check that both ports are up"
broken mute 0 "forwards nothing from the servers to the clients" "check its rules"
broken twice 0 "forwards packets twice" "look for a loop"
broken back 0 "back to the side that they came from" "check which of its ports"
broken garbage 0 "answers garbage" "checksum offloads off"

# In mid-run the sample that fell into it is worse than those before, and that or the next says all.
for mode in nothing mute twice back garbage; do
    broken $mode 6 "iteration #1" "what is said below"
    $python - <<'P' || fail "$mode: $(cat broken.txt broken.json)"
import json
it = json.load(open("broken.json"))
assert it["exit_status"] == 3 and it["stopped"].startswith("the device "), it["stopped"]
assert len(it["samples"]) >= 2 and not it["interrupted"], it["samples"]
last = it["samples"][-1]
assert last["verdict"] == "invalid" and it["stopped"] in last["reasons"], last
P
done
