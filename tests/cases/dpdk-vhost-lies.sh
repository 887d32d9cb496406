# A guest that lies about its memory and its rings, or talks nonsense, is hung up on, and its port says
# what it did; the rest of the switch goes on, and an honest guest may come to the same socket.
# limit: 150
ours || skip "Open vSwitch's DPDK is another program"
client_and_server
start_dpdk
bridge br0 client server
vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuser
# The honest guest's, so that its two ends are not a loop.
bridge br1
error_of() { vsctl get interface vhost0 error; }
link() { vsctl get interface vhost0 link_state; }
same "its error" "[]" "$(error_of)"
eventually 5 pings client 10.0.0.2
lie() { timeout 60 $python "$tests/hosts/vhost_liar.py" $OVS_RUNDIR/vhost0 "$@"; }
honest_guest() {
    vsctl add-port br1 virtio0 -- set interface virtio0 type=dpdk \
        options:dpdk-devargs="net_virtio_user0,path=$OVS_RUNDIR/vhost0"
    same "the guest's own error" "[]" "$(vsctl get interface virtio0 error)"
    eventually 8 reads up link
    eventually 5 reads "[]" error_of
}

# Long frames go to the guest all the time.
ip netns exec client ping -q -b -i 0.002 -s 1472 10.0.0.255 >/dev/null 2>&1 &
frames=$!
# What it does is told in words, also when it has gone, until another does better.
for told in "a thousand regions|its guest broke the protocol of vhost-user: " \
    "a file that cannot be mapped|its guest broke the protocol of vhost-user: " \
    "memory that is longer than its file|its guest's memory is shorter than it says; " \
    "memory that becomes shorter|its guest's memory is shorter than it says; " \
    "an index that jumps to 60000|its guest broke ring 0: its available index goes from "; do
    lie "${told%|*}"
    eventually 5 reads "vhost0: ${told#*|}" error_of
    eventually 5 reads down link
    eventually 5 grep -qF "netdev_dpdk(vhost-events)|WARN|vhost0: ${told#*|}" $work/ovs-vswitchd.log
    pings client 10.0.0.2
    honest_guest
    # An honest guest may go as it likes.
    vsctl del-port virtio0
    eventually 5 reads down link
    same "no fault" "[]" "$(error_of)"
done

# A notification that waits for ever, if it is a write, holds up nothing; nor does a descriptor whose closing takes
# a while, not even the end of its port.
lie "notifications that wait for ever" >lies
same "the lie" "notifications that wait for ever" "$(cat lies)"
pings client 10.0.0.2
lie "notifications that thousands watch" >lies
eventually 5 grep -qF "vhost0: notifications of its guest take long" $work/ovs-vswitchd.log
pings client 10.0.0.2
lie "a descriptor with request 12 that is slow to close" >lies
vsctl --timeout=5 del-port vhost0
pings client 10.0.0.2
vsctl --timeout=5 add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuser
same "its error" "[]" "$(error_of)"

# All lies, one after the other, and much noise, in both kinds of rings. None
# leaves a descriptor behind.
descriptors() { ls /proc/$SWITCH_PID/fd | wc -l; }
before=$(descriptors)
for packed in '' 1; do
    PACKED=$packed lie >lies || fail "after $(tail -1 lies)"
    [ "$(wc -l <lies)" -ge 80 ] || fail "lies that were told: $(cat lies)"
    kill -0 "$SWITCH_PID" || fail "the switch is gone after: $(cat lies)"
    eventually 5 reads down link
done
kill $frames
got=$(vsctl get interface vhost0 statistics:tx_packets)
[ "$got" -gt 10 ] || fail "the guest got only $got frames"
same "descriptors" "$before" "$(descriptors)"
pings client 10.0.0.2
eventually 8 reads down link
eventually 5 reads "vhost0: its guest" error_of
honest_guest
pings client 10.0.0.2
# A second connection to the same socket is refused, and the first guest goes on.
$python -c 'import socket, sys
it = socket.socket(socket.AF_UNIX)
it.connect(sys.argv[1])
it.settimeout(5)
assert it.recv(1) == b""' $OVS_RUNDIR/vhost0
same "link" up "$(link)"
