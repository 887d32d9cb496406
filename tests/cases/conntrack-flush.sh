# Connections are flushed all, by zone, and one by one.
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
udp,in_port=client,actions=ct(commit,zone=7),server
ip,in_port=client,actions=ct(commit),server
ip,in_port=server,actions=client
R
udp_echo server 10.0.0.2 53
fill() {
    pings client 10.0.0.2
    udp_ask client 10.0.0.2 53 1 6001 >/dev/null
    udp_ask client 10.0.0.2 53 1 6002 >/dev/null
}
left() { ovs-appctl dpctl/dump-conntrack | cut -d, -f1,4 | sed 's/id=[0-9]*/id/' | sort | tr '\n' ' '; }
fill
same "before" "icmp,id udp,sport=6001 udp,sport=6002 " "$(left)"
contains "zone shown" "$(ovs-appctl dpctl/dump-conntrack zone=7)" ",zone=7"
tuple="ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=17,ct_tp_src=6001,ct_tp_dst=53"
ovs-appctl dpctl/flush-conntrack zone=7 "$tuple"
same "after the tuple" "icmp,id udp,sport=6002 " "$(left)"
ovs-appctl dpctl/flush-conntrack zone=7
same "after the zone" "icmp,id " "$(left)"
fill
ovs-appctl dpctl/flush-conntrack
same "after all" "" "$(left)"
contains "bad tuple" "$(must_fail ovs-appctl dpctl/flush-conntrack nosuch=1)" "nosuch"
must_fail ovs-appctl dpctl/flush-conntrack zone=x >/dev/null

# By OpenFlow.
fill
ovs-ofctl ct-flush br0 zone=7 "$tuple"
same "after ct-flush of a tuple" "icmp,id udp,sport=6002 " "$(left)"
ovs-ofctl ct-flush br0 'ct_nw_proto=17,ct_tp_src=6002'
same "after ct-flush of a part of it" "icmp,id " "$(left)"
ovs-appctl dpctl/flush-conntrack
fill
ovs-ofctl ct-flush-zone br0 7
same "after ct-flush-zone" "icmp,id " "$(left)"

# By mark and label, as Open vSwitch has it since 3.3.
ours || exit 0
load br0 <<R
udp,in_port=client,tp_src=6001,actions=ct(commit,zone=7,exec(set_field:0xaa->ct_mark)),server
udp,in_port=client,tp_src=6002,actions=ct(commit,zone=7,exec(set_field:0xaa00000000->ct_label)),server
ip,in_port=server,actions=client
R
ovs-appctl dpctl/flush-conntrack
udps() { udp_ask client 10.0.0.2 53 1 6001 >/dev/null; udp_ask client 10.0.0.2 53 1 6002 >/dev/null; }
udps
ovs-appctl dpctl/flush-conntrack zone=8 mark=0xaa
same "not in this zone" "udp,sport=6001 udp,sport=6002 " "$(left)"
ovs-appctl dpctl/flush-conntrack mark=2/2
same "by a bit of the mark" "udp,sport=6002 " "$(left)"
ovs-appctl dpctl/flush-conntrack zone=7 mark=0 labels=0x0200000000/0x0200000000 'ct_nw_src=10.0.0.1'
same "by a bit of the label" "" "$(left)"
# The messages that ovs-ofctl of 3.3 sends, and then a barrier.
tell() { $python - "$OVS_RUNDIR/br0.mgmt" "$@" <<'P'
import socket, sys
switch = socket.socket(socket.AF_UNIX)
switch.connect(sys.argv[1])
switch.settimeout(5)
for message in sys.argv[2:]:
    switch.send(bytes.fromhex(message))
heard = b""
while b"\x04\x15\x00\x08\0\0\0\3" not in heard:
    heard += switch.recv(4096)
print(heard.hex())
P
}
hello=04000010000000010001000800000010 barrier=0414000800000003
udps
tell $hello 04040028000000020000232000000020000000000000000000030008000000020004000800000002 $barrier >/dev/null
same "by a bit of the mark, by OpenFlow" "udp,sport=6002 " "$(left)"
contains "what it does not know" \
    "$(tell $hello 0404002000000002000023200000002000000000000000000007000800000000 $barrier)" \
    0401002c00000002000d0002
tell $hello 040400300000000200002320000000200000000000000000000500140000000000000000000000aa0000000000000000 $barrier >/dev/null
same "by the label, by OpenFlow" "" "$(left)"

error() { must_fail ovs-appctl dpctl/flush-conntrack "$@"; }
contains "zone" "$(error zone=invalid ct_nw_src=10.1.1.1)" "ovs-vswitchd: failed to parse zone (Invalid argument)"
contains "mark" "$(error mark=invalid)" "ovs-vswitchd: failed to parse mark (Invalid argument)"
contains "labels" "$(error labels=invalid)" "ovs-vswitchd: failed to parse labels (Invalid argument)"
contains "field" "$(error zone=1 ct_nw_src=10.1.1.1,invalid=invalid ct_nw_dst=10.1.1.1)" \
    "invalid conntrack tuple field: invalid (Invalid argument)"
contains "address" "$(error zone=1 ct_nw_src=invalid)" "failed to parse field ct_nw_src (Invalid argument)"
contains "too many" "$(error zone=1 ct_nw_src=10.1.1.1 ct_nw_dst=10.1.1.1 invalid)" \
    "invalid arguments (Invalid argument)"
contains "far too many" "$(error zone=1 mark=1 labels=1 ct_nw_src=10.1.1.1 ct_nw_dst=10.1.1.1 x x)" \
    "command takes at most 6 arguments"
contains "no such connection" "$(error ct_nw_src=9.9.9.9,ct_nw_dst=9.9.9.8,ct_nw_proto=17,ct_tp_src=1,ct_tp_dst=2)" \
    "ovs-vswitchd: failed to flush conntrack (No such file or directory)"
