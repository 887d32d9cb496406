# `tidegate bench flow-setup` as a user starts it: a switch of its own, what its JSON says, the drawing, and
# a peer that is measured or told to be missing.
# alone
# limit: 120
ours || skip "a command of ours"
"$TIDEGATE" bench flow-setup --flows 2000 --hold --established-rate 20000 --seconds 20 --svg flows.svg \
    --json >result 2>said || fail "$(cat said)"
$python - <<'P' || fail "$(cat result)"
import json
it = json.load(open("result"))
assert it["verb"] == "bench flow-setup" and it["provenance"]["command"], it
assert [(run["limit"], run["window"]) for run in it["runs"]] == [("default", None), ("raised", None), ("raised", 128)], "runs"
assert it["runs"][2]["refused"] == 0, "back pressure leaves no packet without room"
for run in it["runs"]:
    assert run["switch"] == "tidegate" and run["flows_installed"] == 2000, run
    assert 0 < run["seconds_to_all"] <= 20 and run["setups_per_second"] > 50, run
    assert run["upcalls"] >= 2000 and 0 <= run["refused_share"] < 1, run
    assert 0.01 < run["established_rate_ratio"] < 1.5, run
    assert run["other_processor_s"] > 0 and run["workers_processor_s"] > 0, run
    assert run["installed"][-1][1] == 2000, run
P
grep -q "tidegate, limit raised" flows.svg || fail "the drawing: $(cat flows.svg)"

# Without --hold each packet comes once; what was refused stays away.
"$TIDEGATE" bench flow-setup --flows 2000 --rate 2000 --established-rate 20000 --peer ovs >printed 2>&1 &&
    fail "a rate beside a peer"
contains "refusal" "$(cat printed)" "--rate"
"$TIDEGATE" bench flow-setup --flows 500 --rate 2000 --established-rate 20000 >printed 2>said || fail "$(cat said)"
contains "for people" "$(cat printed)" "tidegate, default limit"
refused 2 "--flows" bench flow-setup --flows 5
