# limit: 300
# `tidegate lab akraino` builds its testbed, web traffic crosses VXLAN and connection tracking on both
# sides, also offloaded and with Open vSwitch's own daemon; and nothing is left behind, by whatever end.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
"$TIDEGATE" lab --help >/dev/null 2>&1 || skip "$TIDEGATE has no verbs"
command -v wrk >/dev/null || skip "wrk is not installed"
others() { ps -e -o args= | grep -Ec '[o]vsdb-server|[n]ginx|[w]rk -t|[u]nshare|[o]vs-vswitchd' || true; }
is_gone() { [ "$(others)" -eq 0 ]; }
is_gone || fail "processes before"
devices=$(ip -br link | wc -l)
# nothing_is_left WHEN
nothing_is_left() {
    eventually 5 is_gone
    same "devices $1" "$devices" "$(ip -br link | wc -l)"
    same "namespaces $1" "" "$(ip netns)"
    test ! -e /run/tidegate
}
# check NAME...: what the switches with these names measured in lab.json.
check() {
    $python - "$@" <<'P' || fail "the figures are not what they should be"
import json, sys
lab, names = json.load(open("lab.json")), sys.argv[1:]
assert lab["verb"] == "lab" and lab["ok"], lab
assert len(lab["checks"]) == 3 * len(names) + ("tidegate-xdp" in names), lab
assert [it["switch"] for it in lab["rounds"]] == [name for name in names for _ in range(2)], lab
for kept, closed in zip(lab["rounds"][::2], lab["rounds"][1::2]):
    kept, closed = kept["measured"], closed["measured"]
    assert (kept["traffic"], closed["traffic"]) == ("kept", "close"), lab
    for measured in kept, closed:
        assert measured["requests"] > 20 and measured["errors"] == 0, measured
        assert measured["processor_seconds"] > 0.1, measured
    # A connection takes at least eight packets on the underlay.
    assert closed["packets"] > closed["requests"] * 8, closed
P
}
quietly() { "$TIDEGATE" lab akraino "$@" 2>lab.printed || fail "$(tail -1 lab.printed)"; }

quietly --seconds 2 --connections 16 --threads 2 --json >lab.json
check tidegate
nothing_is_left "behind a whole lab"

# In turns with what can be measured beside it, and as a drawing.
beside=() names=(tidegate)
if "$TIDEGATE" lab akraino --seconds 2 --connections 4 --offload --json >lab.json 2>lab.printed; then
    check tidegate tidegate-xdp
    beside=(--offload) names+=(tidegate-xdp)
else
    grep -q 'is off' lab.printed || fail "$(tail -1 lab.printed)"
    printf 'no offload here: %s\n' "$(tail -1 lab.printed)"
fi
if [ -x /usr/sbin/ovs-vswitchd ]; then
    quietly --seconds 2 --connections 4 "${beside[@]}" --peer ovs --svg lab.svg --json >lab.json
    check "${names[@]}" ovs
    $python -c "import xml.dom.minidom; xml.dom.minidom.parse('lab.svg')"
    for name in "${names[@]}" ovs; do
        contains "the drawing" "$(cat lab.svg)" ">$name "
    done
    nothing_is_left "behind a lab with the peer"
fi

# A shell inside, which reads its commands from a file. Of one hypervisor's packets, a capture is made meanwhile.
cat >commands <<'C'
ip netns exec hv2 tcpdump -Z root -p -n -U -s 0 -B 8192 -i eth2 -w lab.pcap 2>lab.tcpdump &
until grep -q 'listening on' lab.tcpdump; do sleep 0.1; done
ip netns exec guest2 curl -sS --noproxy '*' -m 4 http://10.0.1.1/; echo
sleep 1.2; kill -INT $!; wait $!
OVS_RUNDIR=/run/tidegate/hv1 ovs-vsctl list-br | sed 's/^/bridge /'
ip netns list | sed 's/^/host /'
C
"$TIDEGATE" lab akraino --seconds 1 --connections 4 --shell <commands >shell.printed 2>&1 ||
    fail "$(tail -1 shell.printed)"
for line in hello "bridge br-int0" "bridge br-phy0" "host guest3" "host hv3"; do
    grep -q "^$line" shell.printed || fail "the shell does not say $line: $(tail -5 shell.printed)"
done
nothing_is_left "behind the shell"
decodes lab "vxlan && tcp"

for signal in INT TERM KILL; do
    # Background jobs of a shell ignore SIGINT, and so would what they start.
    $python - "$signal" "$TIDEGATE" lab akraino --seconds 60 <<'P' || fail "was not stopped by SIG$signal"
import signal, subprocess, sys, time
number = signal.Signals["SIG" + sys.argv[1]]
signal.signal(signal.SIGINT, signal.default_int_handler)
lab = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
def runs():
    return "wrk -t" in subprocess.run(["ps", "-e", "-o", "args="], capture_output=True, text=True).stdout
end = time.monotonic() + 40
while not runs() and time.monotonic() < end:
    time.sleep(0.2)
assert runs() and lab.poll() is None, "no traffic"
lab.send_signal(number)
status = lab.wait(10)
assert status == (-9 if number == signal.SIGKILL else 128 + number), status
P
    nothing_is_left "after SIG$signal"
done
