# limit: 120
# The same traffic on Debian's ovs-vswitchd and on the switch under test: the flow and connection
# dumps are the same, but for timers, counters and ports of the hosts' own choice.
command -v ovs-vswitchd >/dev/null || skip "Debian's ovs-vswitchd is not installed"

# Runs both rule sets under a switch, in namespaces of its own, and leaves its dumps in a folder.
one_run() {
    local folder=$1
    mkdir -p "$folder"
    client_and_server
    static_neighbours
    # Both switches get what Debian's daemon needs.
    for name in client server; do on $name ethtool -K eth0 tx off tso off gso off >/dev/null; done
    serve server
    serve server 40080
    udp_echo server 10.0.0.2 53
    udp_echo server 10.0.0.2 40081
    udp_echo client 10.0.0.1 5353
    start_switch
    bridge br0 client server
    seed1_rules | load br0
    traffic 80 53 10.0.0.2
    unsolicited
    dumps "$folder/seed1" br0
    ovs-appctl dpctl/flush-conntrack
    vsctl del-br br0
    seed2_bridges
    ip addr add 10.0.0.3/24 dev br-ex
    vsctl set bridge br-ex other_config:hwaddr='"02:00:00:00:00:03"'
    ip link set br-ex up
    ethtool -K br-ex tx off >/dev/null || true
    ip -n client neigh replace 10.0.0.3 lladdr 02:00:00:00:00:03 dev eth0 nud permanent
    ip neigh replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev br-ex nud permanent
    traffic 40080 40081 10.0.0.3
    dumps "$folder/seed2" br-ex br-int
    stop_switch
}
traffic() {
    local round
    on client bash -c "exec 3<>/dev/tcp/10.0.0.2/$1; sleep 15" &
    for round in 1 2 3; do
        same "page" hello "$(fetch client --local-port $((20000 + ($1 > 1000) * 100 + round)) "http://10.0.0.2:$1/")"
        same "datagrams" 2 "$(udp_ask client 10.0.0.2 "$2" 2 $((6000 + round)))"
        pings client "$3"
    done
}
unsolicited() {
    never fetch server --max-time 1 http://10.0.0.1:8080/
    never pings server 10.0.0.1
    same "unsolicited datagrams" 0 "$(udp_ask server 10.0.0.1 5353 2 7001)"
}
# Removes timers, counters, and numbers that hosts chose.
normal() {
    sed -E 's/ufid:[^,]*, ?//; s/packets:[0-9]+, bytes:[0-9]+, used:[^,]+,( flags:[^,]*,)?/COUNTED,/
        s/duration=[0-9.]+s/TIMER/; s/n_packets=[0-9]+, n_bytes=[0-9]+/COUNTED/; s/,? idle_age=[0-9]+,?//
        s/,id=[0-9]+,type/,id=N,type/g; s/timeout=[0-9]+,?//; s/(sport|dport)=[3-6][0-9]{4}\b/\1=EPHEMERAL/g'
}
dumps() {
    local folder=$1 name
    shift
    mkdir -p "$folder"
    for name; do
        ovs-ofctl dump-flows "$name" | sed '/ reply/d' | normal | sort >"$folder/dump-flows.$name"
        ovs-ofctl -O OpenFlow13 dump-flows "$name" | sed '/ reply/d' | normal | sort >"$folder/dump-flows-13.$name"
    done
    ovs-appctl dpctl/dump-flows --names | normal | recirc_by_port | sort >"$folder/datapath-flows"
    ovs-appctl dpctl/dump-conntrack | normal | sort | uniq >"$folder/conntrack"
    ovs-appctl dpctl/dump-conntrack -m | normal | sort | uniq >"$folder/conntrack-m"
    ovs-appctl dpctl/ct-stats-show >"$folder/ct-stats"
    ovs-appctl dpif/show | sed 's/ hit:.*//; s|/[0-9]*:|/N:|' >"$folder/dpif"
}
# Recirculation ids depend on the order of packets, so each is replaced by the port whose packets
# use it.
recirc_by_port() {
    $python -c '
import re, sys
lines = sys.stdin.read().splitlines()
names = {}
for line in lines:
    used = re.search(r"in_port\((\w[\w-]*)\).*recirc\((0x[0-9a-f]+)\)$", line)
    if used:
        names[used[2]] = "after-" + used[1]
for line in lines:
    print(re.sub(r"(recirc(?:_id)?)\((0x[0-9a-f]+)\)", lambda m: "%s(%s)" % (m[1], names.get(m[2], "?")), line))
'
}

if [ -n "${COMPARE_FOLDER:-}" ]; then
    one_run "$COMPARE_FOLDER"
else
    shared=$(mktemp -d /dev/shm/compare.XXXXXX)
    trap 'rm -rf "$shared"' EXIT
    for run in expected got; do
        program=$TIDEGATE_SWITCH
        [ $run = got ] || program=$(command -v ovs-vswitchd)
        TIDEGATE_SWITCH=$program COMPARE_FOLDER=$shared/$run unshare --fork --kill-child=KILL \
            --pid --mount-proc --net --mount bash "$tests/harness.sh" "$case_file" ||
            fail "$run: $(cat "$CASE_WHY" 2>/dev/null)"
    done
    [ "$(wc -l <"$shared/expected/seed1/datapath-flows")" -ge 6 ] || fail "too few flows to compare"
    if ! diff -ru "$shared/expected" "$shared/got"; then
        differing=$(diff -rq "$shared/expected" "$shared/got" | sed 's|.*/got/||; s| differ$||' || true)
        fail "not as with Debian's ovs-vswitchd: ${differing//$'\n'/, }"
    fi
fi
