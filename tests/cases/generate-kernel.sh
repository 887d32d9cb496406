# limit: 60
# The kernel as a router that tracks connections between our clients and servers: not one packet of
# theirs is invalid to it, and with a rule that drops four of a thousand, four of a thousand are
# missing.
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
run 500 4 || fail "$(cat kernel.printed)"
count() { nft list counter inet guard "$1" | sed -n 's/.*packets \([0-9]*\).*/\1/p'; }
same "packets that are invalid to the kernel" 0 "$(count invalid)"
opened=$($python -c 'import json; it = json.load(open("kernel.json")); assert it["opened"] == it["completed"] > 200; print(it["opened"])') ||
    fail "$(cat kernel.json)"
[ "$(count fresh)" -ge "$opened" ] || fail "$(count fresh) connections new to the kernel, $opened opened"

nft insert rule inet guard forward numgen random mod 1000 '<' 4 drop
run 1000 10 || true
$python - <<'P' || fail "$(cat kernel.json)"
import json
it = json.load(open("kernel.json"))
sent = it["client_to_server"]["sent"] + it["server_to_client"]["sent"]
# Three standard deviations of so many packets, about the 0.4% that are dropped.
allowed = 3 * (0.004 * 0.996 / sent) ** 0.5
assert sent > 5000 and abs(it["loss_ratio"] - 0.004) <= max(0.0005, allowed), (sent, it["loss_ratio"])
assert it["verdict"] in ("fail", "invalid") and it["retransmitted"] > 0
P
