# `tidegate bench offload` as a user starts it: what its JSON says of each forwarder, and what is not there.
# alone
# limit: 90
ours || skip "a command of ours"
"$TIDEGATE" bench offload --seconds 1 --rounds 1 --rate 20000 --json >result 2>said || fail "$(cat said)"
$python - <<'P' || fail "$(cat result)"
import json
it = json.load(open("result"))
assert it["verb"] == "bench offload" and it["provenance"]["command"], it
forwarders = {forwarder["forwarder"]: forwarder for forwarder in it["forwarders"]}
missing = {forwarder["forwarder"] for forwarder in it["not_measured"]}
assert set(forwarders) | missing == {"direct", "switch", "offload", "kernel"}, it
assert {"direct", "switch"} <= set(forwarders), it
for name, forwarder in forwarders.items():
    assert forwarder["cpu_ns_per_packet"] > 100 and 0.5 < forwarder["arrived_ratio"] < 1.1, forwarder
    assert (forwarder["forwarding_ns_per_packet"] is None) == (name == "direct"), forwarder
    if name == "offload":
        assert forwarder["offloaded_ratio"] > 0.95, forwarder
    else:
        assert forwarder["offloaded_ratio"] == 0, forwarder
P
"$TIDEGATE" bench offload --seconds 1 --rounds 1 --rate 5000 --frame 200 >printed 2>said || fail "$(cat said)"
contains "for people" "$(cat printed)" "5000 packets per second of 200 bytes"
refused 2 "--frame" bench offload --frame 63
