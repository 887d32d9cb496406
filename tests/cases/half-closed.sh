# Sockets whose peer has closed its sending side and still reads: pending requests are answered,
# nothing hangs, no descriptor stays open, and traffic continues.
# limit: 60
client_and_server
start_switch
bridge br0 client server
pings client 10.0.0.2
descriptors() { find "/proc/$SWITCH_PID/fd" -mindepth 1 | wc -l; }

# ask SOCKET COUNT: each time asks, closes its half at once, and reads what comes until the end.
ask() {
    $python - "$1" "$2" <<'P'
import json, socket, struct, sys
path, count = sys.argv[1], int(sys.argv[2])
hello = struct.pack(">BBHI", 1, 0, 8, 1)
if path.endswith(".mgmt"):
    # A hello, and then an echo request that holds a word.
    question, answer = hello + struct.pack(">BBHI", 1, 2, 12, 2) + b"word", b"word"
else:
    question = json.dumps({"method": "version", "params": [], "id": 5}).encode()
    answer = b"Open vSwitch"
for number in range(count):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(5)
        one.connect(path)
        one.sendall(question)
        one.shutdown(socket.SHUT_WR)
        got = b""
        while piece := one.recv(4096):
            got += piece
        assert answer in got, (path, number, got)
P
}
before=$(descriptors)
for socket in "$OVS_RUNDIR/br0.mgmt" "$OVS_RUNDIR/ovs-vswitchd.$SWITCH_PID.ctl"; do
    ask "$socket" 20
done
same_again() { [ "$(descriptors)" -le "$before" ]; }
eventually 5 same_again
pings client 10.0.0.2

# A controller that closes its half is gone: the switch closes too, and comes again.
$python - "$OVS_RUNDIR/controller" >controller.txt <<'P' &
import socket, struct, sys
listener = socket.socket(socket.AF_INET)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", 6653))
listener.listen()
for number in range(2):
    listener.settimeout(20)
    one, _ = listener.accept()
    one.settimeout(20)
    one.sendall(struct.pack(">BBHI", 4, 0, 8, 1))
    one.shutdown(socket.SHUT_WR)
    while one.recv(4096):
        pass
    print("closed", number, flush=True)
P
controller=$!
vsctl set-controller br0 tcp:127.0.0.1:6653 -- set bridge br0 fail_mode=standalone
eventually 30 grep -q 'closed 1' controller.txt
wait $controller
vsctl del-controller br0
pings client 10.0.0.2

# A database that closes its half is gone as well; the switch comes again until a whole one is there.
stop_database
$python - "$OVS_RUNDIR/db.sock" >database.txt <<'P' &
import os, socket, sys
if os.path.exists(sys.argv[1]):
    os.unlink(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
for number in range(2):
    listener.settimeout(20)
    one, _ = listener.accept()
    one.settimeout(20)
    one.shutdown(socket.SHUT_WR)
    while one.recv(4096):
        pass
    print("closed", number, flush=True)
os.unlink(sys.argv[1])
P
database=$!
eventually 30 grep -q 'closed 1' database.txt
wait $database
! ours || pings client 10.0.0.2
start_database
vsctl --no-wait set bridge br0 other_config:hwaddr=02:00:00:00:00:77
settled() { [ "$(vsctl get interface br0 mac_in_use)" = '"02:00:00:00:00:77"' ]; }
eventually 15 settled
eventually 5 pings client 10.0.0.2
