# limit: 240
# `tidegate bench matrix`: interrupted it shows what is there and leaves nothing behind, the same
# command goes on, a cell that cannot be measured is named and left out, and the page has the table.
[ -x "$TIDEGATE" ] || skip "there is no $TIDEGATE"
kind=tidegate
ours || kind=ovs
matrix=("$TIDEGATE" bench matrix results --profiles short --tracking ct --ports memory,veth
    --versions $kind --sample-time 1 -r 0 -i 2 --precision 50 --error-threshold 50)
cells=$("${matrix[@]}" --list | grep -c missing)
[ "$cells" -ge 1 ] || fail "$("${matrix[@]}" --list)"
contains "how long" "$("${matrix[@]}" --list)" "about"

# Interrupt it in the first cell.
"${matrix[@]}" >interrupted.txt 2>interrupted.printed &
running=$!
searching() { pgrep -f '[c]ps-ndr --perf' >/dev/null; }
eventually 20 searching
sleep 1
kill -INT $running
got=0
wait $running || got=$?
same "status when interrupted: $(cat interrupted.printed)" 1 $got
contains "why" "$(cat interrupted.printed)" "interrupted; the same command goes on"
same "cells not measured" "$cells" "$(grep -c 'not measured yet' interrupted.txt)"
nothing_left() { ! searching && ! pgrep -f '[o]vsdb-server /run/tidegate' >/dev/null; }
eventually 5 nothing_left
[ -z "$(ls results | grep -v '^matrix.json$')" ] || fail "left: $(ls results)"

# After a kill, no search continues as an orphan.
"${matrix[@]}" >/dev/null 2>&1 &
running=$!
eventually 20 searching
kill -KILL $running
wait $running 2>/dev/null || true
eventually 5 nothing_left

# Run the whole matrix, then again: nothing is measured twice. On a busy machine every rate may be
# too late, which is reported and tried again.
got=0
"${matrix[@]}" >table.txt 2>table.printed || got=$?
contains "progress" "$(cat table.printed)" "(1 of $cells, about"
same "cells" "$cells" "$(grep -c "^short-ct-1x1-$kind-" table.txt)"
lacks "table" "$(cat table.txt)" "not measured yet"
if grep -q 'all samples invalid' table.txt; then
    same "status with invalid cells" 1 $got
    contains "why" "$(cat table.printed)" "the generator did not do what was asked"
else
    same "status: $(cat table.printed)" 0 $got
    "${matrix[@]}" >again.txt 2>again.printed || fail "$(cat again.printed)"
    same "again: $(cat again.printed)" "$(cat table.txt)" "$(cat again.txt)"
fi
"$TIDEGATE" report results >/dev/null || fail "no report"
contains "page" "$(cat results/report.html)" "The published table: matrix"
if [ $kind = tidegate ]; then
    # Our own workers report the time of each stage of packet processing.
    $python - <<'P' || fail "$(cat results/short-ct-1x1-tidegate-memory.json | head -c 2000)"
import json
it = json.load(open("results/short-ct-1x1-tidegate-memory.json"))
if it["connections_per_second"] is not None:
    counters, parts = it["worker"]["counters"], it["worker"]["parts"]
    assert counters["connection, ns per packet"] > 0 and counters["parse, ns per packet"] > 0, counters
    assert abs(sum(part["percent"] for part in parts) - 100) < 40 and parts, parts
P
fi

# A cell that cannot be measured does not affect the others.
rm results/short-ct-1x1-$kind-veth.json
mkdir results/short-ct-1x1-$kind-veth.part
"${matrix[@]}" >without.txt 2>without.printed && fail "it cannot have measured that"
contains "named" "$(cat without.printed)" "short-ct-1x1-$kind-veth could not be measured: "
contains "the others" "$(cat without.txt)" "short-ct-1x1-$kind-veth"
