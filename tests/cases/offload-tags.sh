# XDP does not see a VLAN tag that stands beside a frame, as a veth's peer leaves it. A port with such tags is
# taken out of offload and goes on in the switch; with tags in its frames, it stays.
# limit: 90
command -v clang >/dev/null || skip "clang is not installed, which makes the program that puts tags beside frames"
host client 10.0.0.1/24 02:00:00:00:00:01
host server 10.0.0.2/24 02:00:00:00:00:02
static_neighbours
# A program of tc: frames of the types 0x88b5 and 0x88a8 get a tag, as a VLAN device would leave it to the veth.
cat >push.c <<'C'
struct frame { unsigned len, pkt_type, mark, queue_mapping, protocol; };
static long (*vlan_push)(struct frame *frame, unsigned short tpid, unsigned short tci) = (void *)18;
__attribute__((section("tc"), used)) int push(struct frame *frame)
{
    if (frame->protocol == 0xb588 || frame->protocol == 0xa888)
        vlan_push(frame, 0x0081, 5);
    return 0;
}
char _license[] __attribute__((section("license"))) = "Apache-2.0";
C
clang -O2 -target bpf -c push.c -o push.o
start_switch
bridge br0 client server
seed1_rules | load br0
offload_to_xdp client server
attached() { ip link show "$1" | grep -q prog/xdp; }
detached() { ! attached "$1"; }
eventually 3 attached client
eventually 3 attached server
contains "providers" "$(ovs-appctl dpif/offload/show)" "Globally enabled: true
Datapaths:
netdev@ovs-netdev:
  xdp
  - client: port_no:"
udp_echo server 10.0.0.2 5000
# offloaded PORT: a connection from this port of the client is answered, and XDP forwards packets of it.
offloaded() {
    local before
    before=$(offload_stat "Forwarded packets")
    same "answers" 200 "$(udp_ask client 10.0.0.2 5000 200 "$1")"
    [ "$(offload_stat "Forwarded packets")" -gt "$before" ]
}
# sends HEX: a frame from the client with what follows the addresses.
sends() {
    on client $python - "$1" <<'P'
import socket, sys
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
frames.bind(("eth0", 0))
addresses = bytes.fromhex("020000000009" "020000000001")
frames.send(addresses + bytes.fromhex(sys.argv[1]) + bytes(50))
P
}
tags_in_frames_change_nothing() {
    for _ in 1 2 3 4 5 6; do
        sends 8100000588b5
        sleep 0.4
        attached client || fail "tags in frames were taken for tags beside them"
    done
}
eventually 10 offloaded 4000
tags_in_frames_change_nothing
on client tc qdisc add dev eth0 clsact
# tc wants a file system for programs, of which a host's /sys has none.
puts='mount -t bpf bpf /sys/fs/bpf && tc filter add dev eth0 egress bpf da obj push.o sec tc'
on client bash -c "$puts" 2>refusal || skip "tc takes no program here: $(tail -1 refusal)"
# Tags in frames of the last second may hide the first of them.
found() { sends 88b5; sleep 0.3; detached client; }
eventually 10 found
attached server
contains "the log" "$(cat $work/ovs-vswitchd.log)" \
    "client: its packets are not offloaded, since VLAN tags stand beside them"
same "answers" 20 "$(udp_ask client 10.0.0.2 5000 20 4001)"
flow=$(ovs-appctl dpctl/dump-flows -m "filter=ct_state=+trk+est,in_port=client" | grep -o -m1 '^ufid:[0-9a-f-]*')
contains "why" "$(ovs-appctl tidegate/why-not-offloaded "$flow")" "VLAN tags stand beside them"
# A change of something else changes nothing of it.
vsctl set interface client external_ids:a=b
never attached client

# Without such tags, and with the option set anew, it is offloaded again.
on client tc qdisc del dev eth0 clsact
vsctl remove interface client options xdp-offload
vsctl set interface client options:xdp-offload=true
eventually 3 attached client
eventually 10 offloaded 4002
tags_in_frames_change_nothing

# A tag within the frame does not hide the one beside it.
on client tc qdisc add dev eth0 clsact
on client bash -c "$puts"
found() { sends 88a8000688b5; sleep 0.3; detached client; }
eventually 10 found
attached server
