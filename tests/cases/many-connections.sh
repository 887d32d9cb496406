# limit: 120
# A large table is shown and searched while packets pass: complete, each connection once, and new
# flows are served meanwhile.
client_and_server
static_neighbours
start_switch
bridge br0 client server
# A busy machine may need more than the minute that a connection has otherwise.
vsctl -- --id=@m create Datapath datapath_version=0 -- set Open_vSwitch . datapaths:netdev=@m
for zone in 1 2; do vsctl add-zone-tp netdev zone=$zone udp_first=900 udp_single=900; done
load br0 <<R
priority=2,udp,in_port=client,tp_dst=1000,actions=ct(commit,zone=1,exec(set_field:0xaa->ct_mark)),server
priority=1,udp,in_port=client,actions=ct(commit,zone=2),server
icmp,actions=normal
R
many() { on client $python "$tests/hosts/many_udp.py" eth0 02:00:00:00:00:01 02:00:00:00:00:02 10.0.0.1 10.0.0.2 "$@"; }
nconns() { ovs-appctl dpctl/ct-get-nconns; }
has() { [ "$(nconns)" -ge "$1" ]; }
# A burst may be more than a port takes: what was lost is sent again.
fill() { until has "$2"; do many "$1" "$3"; done; }
fill 40000 40000 0
same "all there" 40000 "$(nconns)"

# Others come and go while the dump is made.
(for number in 1 2 3; do many 10000 $((number * 10 + 90)); done) &
others=$!
ovs-appctl dpctl/dump-conntrack >dump
wait $others
same "every connection once" "$(grep -c 'dport=100[01])' dump)" "$(grep 'dport=100[01]),reply' dump | sort -u | wc -l)"
same "every connection" 40000 "$(grep 'dport=100[01]),reply' dump | sort -u | wc -l)"
same "-m" 40000 "$(ovs-appctl dpctl/dump-conntrack -m | grep 'dport=100[01]),reply' | sort -u | grep -c ',id=0,.*status=0')"
if ours; then
    same "by the page" 20000 "$("$TIDEGATE" conntrack --zone 1 --mark 0xa0/0xf0 --source 10.0.0.0/30 --port 1000 --protocol udp | sort -u | wc -l)"
    same "one" 1 "$("$TIDEGATE" conntrack --port 1024 zone=1 | wc -l)"
    same "none" "" "$("$TIDEGATE" conntrack --destination 10.0.0.1 --json)"
    contains "no such state" "$(must_fail "$TIDEGATE" conntrack --state open)" "failed to parse field state"
fi

# A client that asks and does not read costs little.
resident_kb() { awk '/^VmRSS:/ { print $2 }' "/proc/$SWITCH_PID/status"; }
if ours; then
    before=$(resident_kb)
    $python - "$OVS_RUNDIR"/ovs-vswitchd.*.ctl <<'P' &
import socket, sys, time
clients = []
for _ in range(20):
    clients.append(socket.socket(socket.AF_UNIX))
    clients[-1].connect(sys.argv[1])
    clients[-1].sendall(b'{"id":0,"method":"dpctl/dump-conntrack","params":[]}')
open("asked", "w").close()
time.sleep(60)
P
    readers=$!
    eventually 5 test -e asked
    sleep 3
    grown=$(($(resident_kb) - before))
    kill $readers
    [ "$grown" -lt 50000 ] || fail "20 unread dumps take $grown kB"
fi

# A flush that must look at all of them takes what fits, and new flows are set up while it looks.
ours || skip "Open vSwitch 3.1 knows no flush by mark"
before=$(nconns)
ovs-appctl dpctl/flush-conntrack mark=0xaa/0xff &
flush=$!
pings client 10.0.0.2
wait $flush
same "the marked ones are gone" $((before - 20000)) "$(nconns)"
same "no marked one is left" "" "$(ovs-appctl dpctl/dump-conntrack zone=1)"
ovs-ofctl ct-flush br0 'ct_nw_proto=17,ct_tp_dst=1001'
same "nor those of a port, when ovs-ofctl ends" $((before - 40000)) "$(nconns)"
