# On one core each worker answers its own misses, without a thread beside it, and a storm of misses leaves the
# switch time for its sockets.
taskset -pc "$(taskset -pc $$ | sed 's/.*: *//; s/[-,].*//')" $$ >/dev/null
client_and_server
static_neighbours
start_switch
ours || skip "Open vSwitch does not say which thread answers"
bridge br0 client server
same "processors" 1 "$(nproc)"
contains "who answers" "$(ovs-appctl upcall/show)" \
    "misses answered by each worker, flows revalidated by the control thread"
# Each packet needs a flow of its own.
load br0 <<R
priority=9,udp,in_port=client,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],server
priority=1,actions=normal
R
pings client 10.0.0.2 || fail "no answer"
on client $python - <<'P'
import socket
for port in range(2000, 4000):
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.bind(("10.0.0.1", port))
    it.sendto(b"x", ("10.0.0.2", 9))
    it.close()
P
counted() { ovs-ofctl dump-flows br0 udp | sed -n 's/.*n_packets=\([0-9]*\).*/\1/p'; }
lost() { ovs-appctl dpctl/show | sed -n 's/.*lost:\([0-9]*\).*/\1/p'; }
# What finds the queue full is counted.
all_counted() { [ "$(counted)" -ge 200 ] && [ $(($(counted) + $(lost))) -ge 2000 ]; }
eventually 5 all_counted || fail "$(counted) packets passed, $(lost) were lost"
threads() { cat /proc/"$SWITCH_PID"/task/*/comm; }
lacks "threads" "$(threads)" handler
lacks "threads" "$(threads)" revalidator
contains "by handler" "$(ovs-appctl tidegate/latency-show)" "0 All packets"
pings client 10.0.0.2 || fail "no answer after the storm"
