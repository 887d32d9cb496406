# A full flow table: no more flows are put, yet every packet still goes where it should.
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
udp,in_port=client,actions=move:NXM_OF_UDP_DST[]->NXM_NX_REG0[0..15],server
priority=1,actions=normal
R
vsctl set open_vswitch . other_config:flow-limit=50
# Open vSwitch 3.1 takes that number for the most that its own limit grows to, and starts at 10,000.
ours || ovs-appctl upcall/set-flow-limit 50
eventually 3 reads "(limit 50)" ovs-appctl upcall/show
received() { on server cat /proc/net/dev | awk '$1 == "eth0:" { print $3 }'; }
before=$(received)
on client $python - <<'P'
import socket, time
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(10000, 10400):
    asker.sendto(b"to a port of its own", ("10.0.0.2", port))
    time.sleep(0.002)
P
arrived() { [ $(($(received) - before)) -ge 400 ]; }
eventually 3 arrived
flows=$(ovs-appctl dpctl/show | sed -n 's/^  flows: //p')
[ "$flows" -ge 10 ] || fail "only $flows flows"
# A few more come in before the limit is looked at.
[ "$flows" -le 100 ] || fail "$flows flows in a table of 50"
pings client 10.0.0.2
