# limit: 120
# Every verb that measures says in the same place of its JSON where the result comes from, and its command
# line with all defaults does the same again.
ours || skip "a command of ours"
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"

# result VERB ARGUMENT...: the shortest run of a verb; whatever it finds, its result is whole.
result() {
    local verb=$1
    shift
    "$TIDEGATE" "$@" --json >result.json 2>result.printed || true
    [ -s result.json ] || fail "$verb: $(cat result.printed)"
    $python - "$verb" "$@" <<'P' || fail "$verb: $(head -c 1500 result.json)"
import json, re, shlex, sys
it = json.load(open("result.json"))
verb, arguments = sys.argv[1], sys.argv[2:]
assert it["verb"] == verb, it["verb"]
here = it["provenance"]
assert set(here) == {"date", "command", "version", "commit", "machine", "seed"}, here
assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", here["date"]), here
assert re.fullmatch(r"unknown|[0-9a-f]{40}( with changes)?", here["commit"]), here
assert here["version"] and here["machine"]["cores"] >= 1 and here["machine"]["kernel"], here
words = shlex.split(here["command"])
assert words[0] == "tidegate" and "--json" in words, words
# All that was said, and more: what was not said stands there as it was.
assert len(words) > len(arguments) + 1, words
if "--seed" in words:
    assert here["seed"] == int(words[words.index("--seed") + 1]), here
open("command", "w").write(shlex.join(words[1:]))
P
}
result generate generate --dut none --rate 100 --seconds 1 --seed 5
# As it stands there it is taken, and says the same of itself.
said=$(cat command)
eval "\"\$TIDEGATE\" $said" >again.json 2>/dev/null || true
$python -c '
import json
first, again = (json.load(open(name))["provenance"] for name in ("result.json", "again.json"))
assert first["command"] == again["command"] and first["seed"] == again["seed"] == 5, (first, again)' ||
    fail "again: $said"
result "generate --self-test" generate --self-test --profile dns --seconds 1
result cps-ndr cps-ndr --dut none -m 100 -M 200 -r 0 -i 1
result "bench conntrack" bench conntrack 1 64 32
result "bench zones" bench zones 10 2 1
result "bench datapath" bench datapath --seconds 1 --connections 10
result "bench rfc" bench rfc rfc9693-establishment --dut none --connections 100 -m 100 -M 200 \
    --precision 60

# A page shows it.
mkdir results
cp again.json results/load.json
"$TIDEGATE" report results >/dev/null || fail "no report"
contains "page" "$(cat results/report.html)" "<details><summary>Settings</summary><pre>\$ tidegate generate "
