# limit: 60
# What others can cause fills no log: each source is flooded, and the log has a bounded number of lines of it.
client_and_server
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow13 -- set-fail-mode br0 secure -- set-controller br0 ptcp:6653:127.0.0.1
eventually 5 ovs-ofctl -O OpenFlow13 show tcp:127.0.0.1:6653
# flood WHAT: how many lines the log grew by while a Python program on standard input, with connect(), flooded.
log_lines() { wc -l <$work/ovs-vswitchd.log; }
flood() {
    local before after
    before=$(log_lines)
    $python <(
        cat <<'P'
import socket, struct, sys
def connect(port=6653):
    return socket.create_connection(("127.0.0.1", port))
def message(kind, body=b""):
    return struct.pack("!BBHI", 4, kind, 8 + len(body), 1) + body
P
        cat
    )
    sleep 0.5
    after=$(log_lines)
    printf '%s: %s lines\n' "$1" $((after - before))
    [ $((after - before)) -le 60 ] || fail "$1: the log grew by $((after - before)) lines"
    [ $((after - before)) -ge "${2:-0}" ] || fail "$1: nothing was logged"
}
# Errors that the peer sends, and those that it gets: of a message type that is unknown, and of set-config's flags.
flood "errors of a controller" 1 <<'P'
peer = connect()
peer.sendall(message(0) + message(1, struct.pack("!HH", 1, 1) + bytes(64)) * 5000)
peer.settimeout(1)
try:
    while peer.recv(65536): pass
except OSError: pass
P
flood "errors to a controller" 1 <<'P'
peer = connect()
peer.settimeout(1)
peer.sendall(message(0))
for number in range(50):
    peer.sendall((message(99) + message(9, struct.pack("!HH", 2, 128)) + message(9, struct.pack("!HH", 0xff00, 128))) * 100)
    while len(peer.recv(65536)) == 65536: pass
P
flood "connections that end" <<'P'
for number in range(2000):
    connect().close()
P
flood "connections that do not speak OpenFlow" 1 <<'P'
for number in range(2000):
    peer = connect()
    peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
    peer.close()
P
flood "snoopers of a bridge without a controller" <<'P'
import os
for number in range(500):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(os.environ["OVS_RUNDIR"] + "/br0.snoop")
    peer.close()
P
flood "nonsense on the control socket" 1 <<'P'
import glob, os
path = glob.glob(os.environ["OVS_RUNDIR"] + "/ovs-vswitchd.*.ctl")[0]
for number in range(1000):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    peer.sendall(b"nonsense")
    peer.close()
P
# Packets that meet errors in the flow tables.
ovs-ofctl -O OpenFlow13 add-flow br0 "actions=pop:NXM_NX_REG0[],resubmit(,0)"
before=$(log_lines)
on client $python "$tests/hosts/frames.py" flood 3000 60
sleep 1
[ $(($(log_lines) - before)) -le 400 ] || fail "packets: the log grew by $(($(log_lines) - before)) lines"
# A database that takes the lock away and gives it back.
stop_database
rm -f $OVS_RUNDIR/db.sock
before=$(log_lines)
timeout 4 $python - $OVS_RUNDIR/db.sock <<'P' || true
import socket, sys
service = socket.socket(socket.AF_UNIX)
service.bind(sys.argv[1])
service.listen()
while True:
    client = service.accept()[0]
    try:
        lock = '{"id":null,"method":"%s","params":["ovs_vswitchd"]}'
        client.sendall(((lock % "locked" + lock % "stolen") * 20000).encode() + b"nonsense")
        client.recv(65536)
    except OSError:
        pass
    client.close()
P
[ $(($(log_lines) - before)) -le 120 ] || fail "the database: the log grew by $(($(log_lines) - before)) lines"
contains "the log" "$(cat $work/ovs-vswitchd.log)" "log messages in last"
