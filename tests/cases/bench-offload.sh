# `tidegate bench offload` as a user starts it: what its JSON says of each way, and what is not there.
# alone
# limit: 90
ours || skip "a command of ours"
"$TIDEGATE" bench offload --seconds 1 --rounds 1 --rate 20000 --json >result 2>said || fail "$(cat said)"
$python - <<'P' || fail "$(cat result)"
import json
it = json.load(open("result"))
assert it["verb"] == "bench offload" and it["provenance"]["command"], it
ways = {way["way"]: way for way in it["ways"]}
missing = {way["way"] for way in it["not_measured"]}
assert set(ways) | missing == {"direct", "switch", "offload", "kernel"}, it
assert {"direct", "switch"} <= set(ways), it
for name, way in ways.items():
    assert way["cpu_ns_per_packet"] > 100 and 0.5 < way["arrived_ratio"] < 1.1, way
    assert (way["forwarding_ns_per_packet"] is None) == (name == "direct"), way
    if name == "offload":
        assert way["offloaded_ratio"] > 0.95, way
    else:
        assert way["offloaded_ratio"] == 0, way
P
"$TIDEGATE" bench offload --seconds 1 --rounds 1 --rate 5000 --frame 200 >printed 2>said || fail "$(cat said)"
contains "for people" "$(cat printed)" "5000 packets per second of 200 bytes"
refused 2 "--frame" bench offload --frame 63
