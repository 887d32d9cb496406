# limit: 120
# `tidegate generate` at every kind of port that a name can mean, clients at one end and servers at
# the other of a cable: each connection opened is completed.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"

# The kernel's own neighbour discovery on these devices is none of the test's.
ip link add tgpa type veth peer name tgpb
ip link set tgpa up
ip link set tgpb up
gateway=02:00:00:00:00:02

# between CLIENT SERVER: connections between these two ports.
between() {
    "$TIDEGATE" generate --client "$1" --server "$2" --gateway $gateway --rate 100 --seconds 1 \
        --dpdk-extra '--no-pci --no-huge -m 256' --json >ports.json 2>ports.printed ||
        unless_late ports.json "$1 to $2: $(tail -3 ports.printed)"
    $python - "$1" "$2" <<'P' || fail "$1 to $2: $(cat ports.json)"
import json, sys
it = json.load(open("ports.json"))
assert it["dut"]["kind"] == "external"
assert [it["dut"]["client_port"], it["dut"]["server_port"]] == sys.argv[1:], it["dut"]
assert it["opened"] == it["completed"] > 20 and sum(it["failed"].values()) == 0, it
for way in ("client_to_server", "server_to_client"):
    assert it[way]["sent"] == it[way]["received"] > 40, it[way]
P
}
# refuses CLIENT SERVER: what it says of these.
refuses() { "$TIDEGATE" generate --client "$1" --server "$2" --seconds 1 2>&1 >/dev/null || true; }

between tgpa packet:tgpb
case $(refuses afxdp:tgpa packet:tgpb) in
    *privileges* | *"no AF_XDP"*) printf 'AF_XDP cannot be had here\n' >&2 ;;
    *)
        between afxdp:tgpa packet:tgpb
        between packet:tgpa afxdp:tgpb
        ;;
esac
case $(refuses dpdk:net_null0 packet:tgpb) in
    *"has no DPDK"*) printf 'this build has no DPDK\n' >&2 ;;
    *) between dpdk:net_af_packet_a,iface=tgpa packet:tgpb ;;
esac

# A TAP device's other end is the kernel's: a bridge joins it to the cable.
ip link add tgpbr type bridge
ip link set tgpbr up
ip link set tgpa master tgpbr
"$TIDEGATE" generate --client tap:tgpt --server packet:tgpb --gateway $gateway --rate 100 \
    --seconds 6 --json >tap.json 2>tap.printed &
generator=$!
eventually 20 ip link set tgpt master tgpbr
ended=0
wait $generator || ended=$?
$python -c '
import json
it = json.load(open("tap.json"))
assert it["dut"]["client_port"] == "tap:tgpt" and it["completed"] > 50, it' ||
    fail "tap ($ended): $(tail -3 tap.printed)"

says "another kind" 'there is no kind of port "serial"' \
    "$TIDEGATE" generate --client serial:x --server tgpb
says "what to do" 'nosuch0: no such device; `ip link` shows which there are' \
    "$TIDEGATE" generate --client nosuch0 --server tgpb
