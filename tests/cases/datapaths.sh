# Datapaths besides the switch's own: ports and flows put there by hand forward packets, and the switch's own
# flows stay as the tables say.
# limit: 60
start_switch --enable-dummy
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure -- \
    add-port br0 p1 -- set interface p1 type=dummy -- add-port br0 p2 -- set interface p2 type=dummy
dpctl() { local command=$1; shift; ovs-appctl "dpctl/$command" "$@"; }
tx() { dpctl show -s dummy@dp0 | sed -n "/: $1 /,/TX packets/s/.*TX packets:\([0-9]*\).*/\1/p"; }

# Ports.
dpctl add-dp dummy@dp0 q1,type=dummy
dpctl add-if dummy@dp0 q2,type=dummy q3,type=dummy,port_no=7
same "the datapaths" "dummy@dp0 dummy@ovs-dummy" "$(dpctl dump-dps | xargs)"
shown=$(dpctl show dummy@dp0)
contains "the ports" "$shown" "dummy@dp0:
  lookups: hit:0 missed:0 lost:0
  flows: 0
  port 0: dp0 (dummy-internal)
  port 1: q1 (dummy)
  port 2: q2 (dummy)
  port 7: q3 (dummy)"
contains "all ports" "$(dpctl show)" "port 7: q3"
contains "all ports" "$(dpctl show)" "port 100: br0"
contains "again" "$(must_fail dpctl add-dp dummy@dp0)" "add_dp (File exists)"
contains "a name twice" "$(must_fail dpctl add-if dummy@dp0 q1,type=dummy)" \
    "adding q1 to dummy@dp0 failed (File exists)"
contains "another type" "$(must_fail dpctl set-if dummy@dp0 q1,type=system)" \
    "q1: can't change type from dummy to system"
contains "another number" "$(must_fail dpctl set-if dummy@dp0 q1,port_no=9)" "can't change port number from 1 to 9"
contains "the local port" "$(must_fail dpctl del-if dummy@dp0 dp0)" \
    "deleting port dp0 from dummy@dp0 failed (Invalid argument)"
contains "no port" "$(must_fail dpctl del-if dummy@dp0 q9)" "no port named q9"
contains "no datapath" "$(must_fail dpctl add-if dummy@dp9 q9)" "opening datapath (No such device)"
dpctl set-if dummy@dp0 q2,tx_pcap=$work/q2.pcap

# Flows.
udp='eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)'
match='in_port(1),eth_type(0x0800),ipv4(proto=17,frag=no)'
dpctl add-flow dummy@dp0 "$match" "ct(commit,zone=3),push_vlan(vid=5,pcp=0),2"
contains "twice" "$(must_fail dpctl add-flow dummy@dp0 "$match" 2)" "updating flow table (File exists)"
contains "none" "$(must_fail dpctl mod-flow dummy@dp0 'in_port(2),eth_type(0x0800)' 2)" \
    "updating flow table (No such file or directory)"
contains "a wrong action" "$(must_fail dpctl add-flow dummy@dp0 'in_port(2)' 'nosuch')" "parsing actions ("
contains "a wrong key" "$(must_fail dpctl add-flow dummy@dp0 'nosuch(2)' '2')" "parsing flow key ("
ovs-appctl netdev-dummy/receive q1 "$udp" "$udp"
sent() { [ "$(tx "$1")" = "$2" ]; }
eventually 5 sent q2 2
contains "what left" "$(ovs-pcap q2.pcap)" "81000005"
contains "the dump" "$(dpctl dump-flows dummy@dp0)" \
    "recirc_id(0),in_port(1),eth_type(0x0800),ipv4(proto=17,frag=no), packets:2, bytes:"
contains "with names" "$(dpctl dump-flows --names dummy@dp0)" "in_port(q1)"
lacks "the switch's own" "$(dpctl dump-flows)" "in_port(1)"
ufid=$(dpctl dump-flows -m dummy@dp0 | sed -n 's/.*\(ufid:[^,]*\).*/\1/p')
contains "by its number" "$(dpctl get-flow dummy@dp0 "$ufid")" "packets:2"
same "changed" "" "$(dpctl mod-flow --clear dummy@dp0 "$match" 7)"
contains "changed" "$(dpctl dump-flows dummy@dp0)" "packets:0, bytes:0, used:never, actions:7"
ovs-appctl netdev-dummy/receive q1 "$udp"
eventually 5 sent q3 1
contains "what it carried" "$(dpctl mod-flow -s dummy@dp0 "$match" drop)" "packets:1, bytes:"
dpctl del-flow dummy@dp0 "$match"
same "none left" "" "$(dpctl dump-flows dummy@dp0)"
ovs-appctl netdev-dummy/receive q1 "$udp"
lost() { dpctl show dummy@dp0 | grep -q "lookups: hit:3 missed:0 lost:1"; }
eventually 5 lost

# Files of flows.
cat >flows.txt <<F
# A flow to one port, then to another, then deleted.
$match 2
add in_port(2),eth_type(0x0800) 1
add in_port(2),eth_type(0x86dd) 1
modify in_port(2),eth_type(0x86dd) 2
delete in_port(2),eth_type(0x0800)
add nothing
F
contains "a wrong line" "$(dpctl add-flows dummy@dp0 $work/flows.txt)" "Failed parsing line number 7, skipped!"
same "from a file" "1 2" "$(dpctl dump-flows dummy@dp0 | sed -n 's/.*in_port(\([0-9]*\)).*/\1/p' | sort | xargs)"
contains "changed" "$(dpctl dump-flows dummy@dp0)" "eth_type(0x86dd), packets:0, bytes:0, used:never, actions:2"
# A port that must be polled starts a worker that polls; flows are installed in it, too.
dpctl add-if dummy@dp0 q4,type=dummy-pmd
contains "both workers" "$(dpctl dump-flows dummy@dp0)" "flow-dump from pmd on cpu core: "
contains "its queue" "$(ovs-appctl dpif-netdev/pmd-rxq-show dp0)" "port: q4"
same "flows" 4 "$(dpctl dump-flows dummy@dp0 | grep -c in_port)"
ovs-appctl netdev-dummy/receive q1 "$udp"
eventually 5 sent q2 3
dpctl del-flows dummy@dp0
same "none left" "" "$(dpctl dump-flows dummy@dp0)"
ovs-appctl dpif-dummy/change-port-number dp0 q2 9
contains "renumbered" "$(dpctl show dummy@dp0)" "port 9: q2 (dummy)"
dpctl del-if dummy@dp0 q1 7
lacks "the ports" "$(dpctl show dummy@dp0)" "q1"
lacks "the ports" "$(dpctl show dummy@dp0)" "q3"
dpctl del-dp dummy@dp0
contains "gone" "$(must_fail dpctl del-dp dummy@dp0)" "opening datapath (No such device)"
contains "gone" "$(must_fail dpctl dump-flows dummy@dp0)" "datapath not found"

# In the switch's own datapath, a flow installed by command stays until revalidation, a moment
# later.
contains "needed by bridges" "$(must_fail dpctl del-dp dummy@ovs-dummy)" "del_dp (Device or resource busy)"
contains "of bridges" "$(must_fail dpctl add-if dummy@ovs-dummy q1)" "ports are those of bridges"
contains "a port for all" "$(must_fail dpctl add-flow 'eth_type(0x0800)' 2)" "updating flow table (Invalid argument)"
ovs-appctl revalidator/pause
dpctl add-flow "$match" 2
ovs-appctl netdev-dummy/receive p1 "$udp"
sent_own() { ovs-ofctl dump-ports br0 p2 | grep -q "tx pkts=1,"; }
eventually 5 sent_own
ovs-appctl revalidator/resume
ovs-ofctl add-flow br0 priority=1,actions=drop
dropped() { ! dpctl dump-flows | grep -q "actions:2"; }
eventually 5 dropped

# Another port number for a port of a bridge.
ovs-ofctl add-flow br0 in_port=p1,actions=p2
ovs-appctl dpif-dummy/change-port-number ovs-dummy p2 5
contains "traced" "$(ovs-appctl ofproto/trace br0 in_port=p1)" "Datapath actions: 5"
contains "taken" "$(must_fail ovs-appctl dpif-dummy/change-port-number ovs-dummy p2 1)" "port number already in use"
contains "unknown" "$(must_fail ovs-appctl dpif-dummy/change-port-number ovs-dummy p9 6)" "unknown port"

# A port of a bridge that was removed by command returns with the next change of the configuration.
dpctl del-if dummy@ovs-dummy p2
lacks "taken out" "$(ovs-appctl dpif/show)" "p2"
contains "no port" "$(must_fail dpctl del-if dummy@ovs-dummy p9)" "no port named p9"
vsctl add-port br0 p3 -- set interface p3 type=dummy
contains "put in again" "$(ovs-appctl dpif/show)" "p2"

# Ports swap their numbers, and get numbers that are in use without a request.
numbers() { for port in p1 p2 p3; do vsctl get interface $port ofport; done | xargs; }
ask() { vsctl $(for pair; do printf -- '-- set interface %s ofport_request=%s ' "${pair%=*}" "${pair#*=}"; done); }
ask p1=1 p2=2 p3=3
same "as asked" "1 2 3" "$(numbers)"
ask p1=3 p2=1 p3=2
same "exchanged" "3 1 2" "$(numbers)"
vsctl clear interface p2 ofport_request
ask p3=1
[[ $(numbers) =~ ^3\ [2-9]\ 1$ ]] || fail "a number that was not asked for: $(numbers)"
ask p2=3
[[ $(numbers) =~ ^3\ [2-9]\ 1$ ]] || fail "a number that two ask for: $(numbers)"
