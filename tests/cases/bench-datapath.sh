# `tidegate bench datapath` on the command line: every option, with ports in memory and with DPDK's,
# and the contents of its JSON object.
# alone
# limit: 240
ours || skip "a command of ours"
pcap() { $python "$tests/hosts/pcap_file.py" "$@"; }
# Fifty UDP packets in each direction, of as many connections.
for n in {0..49}; do
    port=$(printf '%04x' $((1000 + n)))
    printf '020000000002 020000000001 0800 4500002e00004000401126bd 0a000001 0a000002 %s07d0001a0000 %036d\n' "$port" 0
done | pcap write fwd.pcap 1
for n in {0..49}; do
    port=$(printf '%04x' $((1000 + n)))
    printf '020000000001 020000000002 0800 4500002e00004000401126bd 0a000002 0a000001 07d0%s001a0000 %036d\n' "$port" 0
done | pcap write rev.pcap 1
cat >rules <<R
priority=1,ip,ct_state=-trk,actions=ct(table=1)
table=1,ip,ct_state=+trk+new,in_port=p0,actions=ct(commit),output:p1
table=1,ip,ct_state=+trk+est,in_port=p0,actions=output:p1
table=1,ip,ct_state=+trk+est,in_port=p1,actions=output:p0
R
# check EXPECT ARGUMENT...: a run of a second, of whose JSON (r) this is true.
check() {
    local expect=$1
    shift
    "$TIDEGATE" bench datapath --seconds 1 --json "$@" >result 2>said || fail "$*: $(cat said)"
    EXPECT=$expect $python - "$*" <<'P' || fail "$*: $(cat result)"
import json, os, sys
r = json.load(open("result"))
assert r["packets_per_second"] > 10_000, "packets_per_second"
assert 0.7 < r["ns_per_packet"] * r["packets_per_second"] / 1e9 / r["workers"] < 1.3, "ns_per_packet"
assert r["dropped"] == 0, "dropped"
assert abs(sum(r["stages"].values()) - 1) < 0.01 and r["stages"]["lookup"] > 0, "stages"
assert eval(os.environ["EXPECT"]), os.environ["EXPECT"]
P
}
check 'r["connections"] == 0' --connections 200
check 'r["connections"] == 200' --connections 200 --ct
check 'r["connections"] == 200' --connections 200 --nat
check 'r["connections"] == 50' --fwd fwd.pcap --rev rev.pcap --ct
check 'r["connections"] == 50' --fwd fwd.pcap --rev rev.pcap --rules rules
check 'r["connections"] == 50' --fwd fwd.pcap --nat
check 'r["port"] == "memory"' --port memory --connections 200 --rules rules
[ "$(nproc)" -lt 2 ] || check 'r["workers"] == 2 == len(r["per_worker"])' --workers 2 --connections 200 --ct
"$TIDEGATE" bench datapath --seconds 1 >printed
for piece in "million packets per second" "dropped" "lookup"; do
    contains "for people" "$(cat printed)" "$piece"
done

# Impossible settings are reported, with a non-zero status.
refused 1 "missing.pcap" bench datapath --seconds 1 --fwd missing.pcap --rev rev.pcap
refused 2 "--seconds" bench datapath --seconds 0
printf 'in_port=p0,actions=banana\n' >wrong
refused 1 "banana" bench datapath --seconds 1 --rules wrong

extra='--no-pci --no-huge -m 512'
if "$TIDEGATE" bench datapath --seconds 1 --port dpdk --dpdk-extra "$extra" >printed 2>&1; then
    check 'r["connections"] == 200' --port dpdk --dpdk-extra "$extra" --connections 200 --ct
    check 'r["connections"] == 50' --port dpdk --dpdk-extra "$extra" --fwd fwd.pcap --rev rev.pcap --ct
else
    grep -q "no DPDK" printed || fail "through DPDK: $(cat printed)"
    printf 'this build has no DPDK\n'
fi
