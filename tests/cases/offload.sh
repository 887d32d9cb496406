# Connections forwarded by XDP in the kernel: the same for those who talk, counted, kept alive, and
# nothing of them left when they end, when rules change, when a port goes or the switch is killed.
# limit: 90
host client 10.0.0.1/24 02:00:00:00:00:01
host server 10.0.0.2/24 02:00:00:00:00:02
static_neighbours
start_switch
bridge br0 client server
seed1_rules | load br0
contains "off" "$(must_fail ovs-appctl dpctl/offload-stats-show)" "retrieving offload statistics"
offload_to_xdp
attached() { ip link show "$1" | grep -q prog/xdp; }
flow() { ovs-appctl dpctl/dump-flows -m "filter=ct_state=+trk+est,in_port=$1" type=ovs | grep -o -m1 '^ufid:[0-9a-f-]*'; }

# Without the word that tags stand in frames, nothing of a port is offloaded, and it is said why.
udp_echo server 10.0.0.2 5000
same "answers" 5 "$(udp_ask client 10.0.0.2 5000 5 4000)"
eventually 3 offload_is "Refused: in-port" -ge 1
why=$(ovs-appctl tidegate/why-not-offloaded "$(flow client)")
contains "why" "$why" "in-port: packets of client are not offloaded; it takes a system device"
never attached client
vsctl set interface client options:xdp-offload=true -- set interface server options:xdp-offload=true
eventually 3 attached client
eventually 3 attached server

# UDP: both directions, from the kernel's counters into flows and connections.
asked() { udp_ask client 10.0.0.2 5000 "$1" "$2"; }
same "answers" 20 "$(asked 20 4001)"
eventually 3 offload_is "CT bi-dir Connections" -ge 1
before=$(offload_stat "Forwarded packets")
same "answers" 300 "$(asked 300 4001)"
eventually 3 offload_is "Forwarded packets" -ge $((before + 590))
contains "dump" "$(ovs-appctl dpctl/dump-flows -m type=offloaded)" "offloaded:partial, dp:ovs"
lacks "others" "$(ovs-appctl dpctl/dump-flows -m type=non-offloaded)" "offloaded:partial"
contains "type" "$(must_fail ovs-appctl dpctl/dump-flows type=x)" "Failed to parse type (x)"
packets() { ovs-ofctl dump-flows br0 "$1" | sed -n 's/.*n_packets=\([0-9]*\),.*/\1/p'; }
est() { [ "$(packets ct_state=+trk+est)" -ge 600 ]; }
eventually 3 est
connection=$(ovs-appctl dpctl/dump-conntrack | grep "sport=4001")
contains "connection" "$connection" "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=4001"
contains "why" "$(ovs-appctl tidegate/why-not-offloaded json "$(flow client)")" '"rules":'

# TCP: requests on kept connections, a large transfer both ways of which large frames stay the
# switch's, and connections that end.
serve server
head -c 3000000 /dev/urandom >$work/www.file
mkdir -p $work/www && mv $work/www.file $work/www/file
forwarded() { offload_stat "Forwarded packets"; }
before=$(forwarded)
on client wrk -t1 -c4 -d2s http://10.0.0.2/ >wrk.txt
lacks "errors" "$(cat wrk.txt)" "Socket errors"
requests=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' wrk.txt)
same "enough requests" true "$([ "$requests" -gt 100 ] && echo true)"
after=$(forwarded)
same "by the kernel" true "$([ $((after - before)) -gt "$requests" ] && echo true)"
fetch client -o $work/got http://10.0.0.2/file
cmp $work/www/file $work/got
none_left() { [ "$(offload_stat "CT bi-dir Connections")" -le 2 ]; }
eventually 5 none_left
closed() { ! ovs-appctl dpctl/dump-conntrack | grep -q 'tcp.*state=ESTABLISHED'; }
eventually 5 closed

# A rule that changes takes effect at once: no packet of a connection goes by the old one.
same "answers" 20 "$(asked 20 4002)"
eventually 3 offload_is "CT bi-dir Connections" -ge 1
ovs-ofctl add-flow br0 'priority=9,udp,ct_state=+trk,actions=drop'
same "none" 0 "$(asked 5 4002)"
ovs-ofctl --strict del-flows br0 'priority=9,udp,ct_state=+trk'
same "answers" 20 "$(asked 20 4002)"

# A connection that is flushed goes from the kernel, too; its next packet begins a new one.
eventually 3 offload_is "CT bi-dir Connections" -ge 1
ovs-appctl dpctl/flush-conntrack
eventually 3 offload_is "CT bi-dir Connections" -eq 0
same "answers" 5 "$(asked 5 4003)"

# A port that goes takes its rules and the program with it.
same "answers" 20 "$(asked 20 4004)"
eventually 3 offload_is "CT bi-dir Connections" -ge 1
vsctl del-port server
eventually 3 offload_is "Inserted offloads" -eq 0
detached() { ! attached "$1"; }
eventually 3 detached server
attached client
vsctl add-port br0 server -- set interface server options:xdp-offload=true
eventually 3 attached server
works() { [ "$(asked 5 4005)" = 5 ]; }
eventually 5 works

# Disabled, and enabled again.
vsctl set open_vswitch . other_config:hw-offload=false
eventually 3 detached client
same "answers" 5 "$(asked 5 4005)"
vsctl set open_vswitch . other_config:hw-offload=true
eventually 3 attached client
same "answers" 20 "$(asked 20 4005)"
eventually 3 offload_is "CT bi-dir Connections" -ge 1

# Killed, the switch leaves nothing in the kernel.
kill -9 "$SWITCH_PID"
wait "$SWITCH_PID" || true
eventually 3 detached client
eventually 3 detached server
same "no answers without a switch" 0 "$(asked 2 4005)"
