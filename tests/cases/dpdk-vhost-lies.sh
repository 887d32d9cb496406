# A guest that lies about its memory and its rings, or talks nonsense, is hung up on; the rest of the
# switch goes on, and an honest guest may come to the same socket.
# limit: 60
ours || skip "Open vSwitch's DPDK is another program"
client_and_server
start_dpdk
bridge br0 client server
vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuser
same "its error" "[]" "$(vsctl get interface vhost0 error)"
eventually 5 pings client 10.0.0.2
timeout 40 $python "$tests/hosts/vhost_liar.py" $OVS_RUNDIR/vhost0 >lies || fail "after $(tail -1 lies)"
[ "$(wc -l <lies)" -ge 50 ] || fail "lies that were told: $(cat lies)"
kill -0 "$SWITCH_PID" || fail "the switch is gone after: $(cat lies)"
pings client 10.0.0.2
eventually 8 reads down vsctl get interface vhost0 link_state
# The socket still answers.
$python - "$OVS_RUNDIR/vhost0" <<'P'
import socket, struct, sys
with socket.socket(socket.AF_UNIX) as guest:
    guest.settimeout(5)
    guest.connect(sys.argv[1])
    guest.send(struct.pack("<III", 1, 1, 0))
    assert struct.unpack("<IIIQ", guest.recv(20))[0] == 1
P
