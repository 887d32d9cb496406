# What the other requests of ovs-ofctl answer, and what is wrong with bad ones.
client_and_server
start_switch
bridge br0 client server
pings client 10.0.0.2
all=OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15
vsctl set bridge br0 protocols=$all
for version in 10 11 12 13 14 15; do
    ofctl() { ovs-ofctl -O OpenFlow$version "$@"; }
    contains "show" "$(ofctl show br0)" " 1(client): addr:"
    contains "show" "$(ofctl show br0)" " LOCAL(br0): addr:"
    contains "show" "$(ofctl show br0)" "n_tables:254"
    contains "dump-desc" "$(ofctl dump-desc br0)" "Manufacturer:"
    contains "dump-tables" "$(ofctl dump-tables br0)" "table 0"
    contains "dump-ports" "$(ofctl dump-ports br0)" 'port LOCAL: rx pkts='
    contains "dump-ports of one" "$(ofctl dump-ports br0 client)" "1 ports"
    contains "dump-ports-desc" "$(ofctl dump-ports-desc br0)" " 2(server): addr:"
    contains "get-frags" "$(ofctl get-frags br0)" "normal"
    ofctl probe br0
    ofctl mod-port br0 client no-forward
    eventually 3 reads "NO_FWD" ofctl dump-ports-desc br0
    ofctl mod-port br0 client forward
    says "mod-port of none" "couldn't find port" ofctl mod-port br0 77 down
    contains "group that is not there" \
        "$(must_fail ovs-ofctl -O OpenFlow13 add-flow br0 actions=group:5)" "OFPBAC_BAD_OUT_GROUP"
done
# What asks for a group or a meter that is not there gets an error.
for version in 10 11 12 13 14 15; do
    failing() { must_fail ovs-ofctl -O OpenFlow$version "$@"; }
    working() { ovs-ofctl -O OpenFlow$version "$@"; }
    bucket=type=all,bucket=actions=1
    contains "group" "$(failing add-flow br0 actions=group:5)" "OFPBAC_BAD_OUT_GROUP"
    contains "mod-group" "$(failing mod-group br0 "group_id=9,$bucket")" "OFPGMFC_UNKNOWN_GROUP"
    working add-group br0 "group_id=1,$bucket"
    contains "add-group again" "$(failing add-group br0 "group_id=1,$bucket")" "OFPGMFC_GROUP_EXISTS"
    working del-groups br0
    contains "a group that is gone" "$(failing mod-group br0 "group_id=1,$bucket")" "OFPGMFC_UNKNOWN_GROUP"
    if [ $version -ge 13 ]; then
        band=pktps,band=type=drop,rate=10
        contains "meter" "$(failing add-flow br0 actions=meter:5,1)" "OFPMMFC_INVALID_METER"
        contains "mod-meter" "$(failing mod-meter br0 "meter=7,$band")" "OFPMMFC_UNKNOWN_METER"
        working del-meters br0
        before=$(flows br0)
        working del-flows br0 out_group=5
        same "no flow sends to the group" "$before" "$(flows br0)"
        lacks "no flow sends to the group" "$(working dump-flows br0 out_group=5)" "actions"
    fi
    [ $version -ge 13 ] || continue
    working add-meter br0 "meter=1,$band"
    contains "add-meter again" "$(failing add-meter br0 "meter=1,$band")" "OFPMMFC_METER_EXISTS"
    working del-meters br0
done
vsctl set bridge br0 protocols=OpenFlow13
eventually 3 must_fail ovs-ofctl -O OpenFlow10 show br0
contains "versions" "$(must_fail ovs-ofctl -O OpenFlow10 show br0)" \
    "version negotiation failed (we support version 0x01, peer supports version 0x04)"
# A rejected client gets the reason even while it continues to send: an error of type 0 (hello
# failed) and code 0 (incompatible), then the end of the connection.
turned_away() {
    $python - "$OVS_RUNDIR/br0.mgmt" "$1" <<'P'
import socket, sys, time
path, version = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_UNIX) as client:
    client.connect(path)
    client.settimeout(5)
    echo = bytes([version, 2, 0, 8, 0, 0, 0, 2])
    client.sendall(bytes([version, 0, 0, 8, 0, 0, 0, 1]))
    time.sleep(0.3)
    client.sendall(echo)
    time.sleep(0.3)
    answer = b""
    while piece := client.recv(4096):
        answer += piece
while answer:
    length = int.from_bytes(answer[2:4], "big")
    print(answer[:2].hex(), answer[8:12].hex() if answer[1] == 1 else "")
    answer = answer[length:]
P
}
for version in 1 2 3; do
    ! ours || same "why" "0400 
0${version}01 00000000" "$(turned_away $version)"
    ! ours || contains "ovs-ofctl" "$(must_fail ovs-ofctl -O OpenFlow1$((version - 1)) show br0)" \
        "failed to connect to socket (Protocol error)"
done
vsctl set bridge br0 protocols=$all
eventually 3 ovs-ofctl -O OpenFlow14 show br0

# Malformed messages: an error or the end of the connection.
socket=$OVS_RUNDIR/br0.mgmt
hello=0400000800000001
for message in 04000004000000ff 0405ffff00000002 0463000800000002 041200080000000200 04120010000000020001000000000000ff \
    040e001000000002ffffffffffffffff 0105000800000002 "$(printf '04120018%.0s' {1..50})"; do
    xxd -r -p <<<"$hello$message" | timeout 2 nc -N -w 1 -U "$socket" >answer 2>/dev/null || true
    test -s answer || fail "no HELLO before $message"
done
# A peer that shuts down its side at once gets its answers all the same: every time.
for _ in {1..30}; do
    unknown=$(xxd -r -p <<<"${hello}0463000800000002" | timeout 20 nc -N -w 10 -U "$socket" | xxd -p -c 999)
    # OFPT_ERROR of version 4, OFPET_BAD_REQUEST, OFPBRC_BAD_TYPE, then the offending bytes.
    contains "unknown type" "$unknown" "0000000200010001046300080000000"
done
contains "still there" "$(ovs-ofctl -O OpenFlow13 show br0)" "(client)"
pings client 10.0.0.2
