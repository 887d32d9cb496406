# limit: 60
# Peers that stop reading: a controller is replaced after its probe, one that connected is closed, the database server is
# left, clients of the control socket lose their places; and nothing else waits for any of them.
client_and_server
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow13
connections() { ss -Htn state established "( sport = :$1 )" | wc -l; }
has() { [ "$(connections "$2")" = "$1" ]; }

$python "$tests/hosts/deaf_peer.py" listen 6653 4 >listens.printed &
eventually 5 grep -q ready listens.printed
vsctl set-controller br0 tcp:127.0.0.1:6653 -- set controller br0 inactivity_probe=1000
eventually 5 grep -q "connection 1" listens.printed
eventually 12 grep -q "connection 2" listens.printed
contains "the log" "$(cat $work/ovs-vswitchd.log)" \
    "br0<->tcp:127.0.0.1:6653: no response to inactivity probe after 1 seconds, disconnecting"
status() { vsctl get controller br0 status; }
eventually 5 reads 'last_error="Connection timed out"' status
# A controller that is removed while it does not read.
vsctl del-controller br0
eventually 5 has 0 6653
is_alone() { [ "$(ss -Htn state established '( dport = :6653 )' | wc -l)" = 0 ]; }
eventually 5 is_alone

vsctl set-controller br0 ptcp:6654:127.0.0.1 -- set controller br0 inactivity_probe=1000
$python "$tests/hosts/deaf_peer.py" connect 6654 4 >connects.printed &
eventually 20 grep -q "deaf 3" connects.printed
eventually 8 has 0 6654
ovs-ofctl -O OpenFlow13 show tcp:127.0.0.1:6654 >/dev/null
# One of them stays; its controller is removed.
vsctl set controller br0 inactivity_probe=60000
$python "$tests/hosts/deaf_peer.py" connect 6654 4 >stays.printed &
eventually 10 grep -q "deaf 1" stays.printed
vsctl del-controller br0
eventually 5 has 0 6654

# A database server that asks and never reads: it is left after its probe.
stop_database
rm -f $OVS_RUNDIR/db.sock
$python - $OVS_RUNDIR/db.sock >database.printed <<'P' &
import socket, sys
service = socket.socket(socket.AF_UNIX)
service.bind(sys.argv[1])
service.listen()
number, clients = 0, []
while True:
    client = service.accept()[0]
    clients.append(client)
    number += 1
    print("client", number, flush=True)
    client.settimeout(1)
    try:
        while True:
            client.sendall(b'{"id":1,"method":"echo","params":["%s"]}' % (b"x" * 100000))
    except OSError:
        pass
P
eventually 10 grep -q "client 1" database.printed
eventually 20 grep -q "client 2" database.printed
contains "the log" "$(cat $work/ovs-vswitchd.log)" "connection dropped (no response to inactivity probe)"
contains "bridge" "$(ovs-appctl dpif/show)" "br0:"
pings client 10.0.0.2
