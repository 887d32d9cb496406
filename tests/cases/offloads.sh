# What a host leaves to its device (checksums, large TCP frames, over IPv4 and IPv6) is done in software
# where a frame leaves by a port that has no such device: through AF_XDP, through DPDK, into files. Every
# frame of them is as long as the wire allows and has right checksums, and nothing of the bytes is lost.
# limit: 120
ours || skip "Open vSwitch has no ports made of files"
client_and_server
static_neighbours
start_dpdk
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure
for name in client server; do
    on $name bash -c 'echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
done
ip -n client addr add fd00::1/64 dev eth0 nodad
ip -n server addr add fd00::2/64 dev eth0 nodad
ip -n client neigh replace fd00::2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
ip -n server neigh replace fd00::1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
contains "offloads" "$(on client ethtool -k eth0)" "tcp-segmentation-offload: on"
contains "offloads" "$(on client ethtool -k eth0)" "tx-checksumming: on"
# The server's frames come whole: what its device would do, AF_XDP and net_af_packet are not told.
on server ethtool -K eth0 tx off tso off gso off >/dev/null
# The client's large frames come through AF_PACKET, which tells of them.
vsctl add-port br0 client -- set interface client ofport_request=1
head -c 20000000 /dev/urandom >sent

# check_file FILE FAMILY WHAT: the client's TCP frames that were recorded.
check_file() {
    $python - "$@" <<'P' || fail "$3: wrong frames in $1"
import struct, sys
path, family, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
data, at, frames, full = open(path, "rb").read(), 24, 0, 0
def folded(covered):
    total = sum(struct.unpack(f">{len(covered) // 2}H", covered))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return total
while at + 16 <= len(data):
    length, on_wire = struct.unpack("<II", data[at + 8:at + 16])
    frame, at = data[at + 16:at + 16 + length], at + 16 + length
    if len(frame) < length:
        break  # the last one, which is being written
    assert length == on_wire <= 1514, f"a frame of {on_wire} bytes"
    if family == 4:
        assert frame[12:14] == b"\x08\x00" and frame[23] == 6
        assert folded(frame[14:34]) == 0xffff, "an IPv4 header's checksum"
        packet = frame[14:14 + int.from_bytes(frame[16:18], "big")]
        addresses, segment = packet[12:20], packet[20:]
    else:
        assert frame[12:14] == b"\x86\xdd" and frame[20] == 6
        packet = frame[14:14 + 40 + int.from_bytes(frame[18:20], "big")]
        addresses, segment = packet[8:40], packet[40:]
    pseudo = addresses + struct.pack(">HH", 6, len(segment))
    assert folded(pseudo + segment + b"\0" * (len(segment) % 2)) == 0xffff, "a TCP checksum"
    frames, full = frames + 1, full + (length == 1514)
print(f"{what}, IPv{family}: {frames} frames with right checksums, {full} of them full")
assert full >= 10000, f"{full} full frames"
P
}
# How many TCP segments with wrong checksums came to the server.
checksum_errors() {
    on server awk '$1 == "Tcp:" && !column { while (column++ < NF && $column != "InCsumErrors"); next }
        $1 == "Tcp:" { print $column }' /proc/net/snmp
}
# carries WHAT TYPE [OPTION...]: the server is behind a port of this type. What goes to it is recorded by
# our own port and by DPDK's, neither of which has offloads.
carries() {
    local what=$1 type=$2 family address
    shift 2
    vsctl add-port br0 server -- set interface server type="$type" ofport_request=2 "$@"
    same "error of $what" "[]" "$(vsctl get interface server error)"
    for family in 4 6; do
        address=10.0.0.2
        [ $family = 4 ] || address=fd00::2
        rm -f own.pcap dpdk.pcap
        vsctl add-port br0 own -- set interface own type=pcap ofport_request=3 \
            options:tx_pcap=$work/own.pcap \
            -- add-port br0 dpdk -- set interface dpdk type=dpdk ofport_request=4 \
            options:dpdk-devargs=net_pcap_out,tx_pcap=$work/dpdk.pcap
        load br0 <<R
priority=9,in_port=1,tcp,actions=output:2,output:3,output:4
priority=9,in_port=1,tcp6,actions=output:2,output:3,output:4
priority=1,in_port=1,actions=output:2
priority=1,in_port=2,actions=output:1
R
        eventually 5 pings client $address
        on server bash -c "nc -l -N $address 9000 >came" &
        eventually 5 on server grep -qE ":2328 [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6
        on client nc -N $address 9000 <sent
        wait $!
        cmp sent came
        vsctl del-port own -- del-port dpdk
        check_file own.pcap $family "$what, and our own file"
        check_file dpdk.pcap $family "$what, and DPDK's file"
        same "errors of TCP checksums" 0 "$(checksum_errors)"
        # And back, where frames have no checksums left to do.
        on client bash -c "nc -l -N ${address/2/1} 9001 >came" &
        eventually 5 on client grep -qE ":2329 [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6
        on server nc -N "${address/2/1}" 9001 <sent
        wait $!
        cmp sent came
    done
    vsctl del-port server
}
carries "net_af_packet" dpdk options:dpdk-devargs=net_af_packet0,iface=server
if vsctl add-port br0 server -- set interface server type=afxdp 2>refusal &&
    [ "$(vsctl get interface server error)" = "[]" ]; then
    vsctl del-port server
    for mode in native generic; do
        carries "AF_XDP, $mode" afxdp options:xdp-mode=$mode
    done
else
    vsctl --if-exists del-port server
    printf 'AF_XDP is not possible here: %s\n' "$(cat refusal)"
fi
# A large frame says so as long as it is not cut: from AF_PACKET to AF_PACKET none is cut.
vsctl add-port br0 server -- set interface server ofport_request=2
load br0 <<<"in_port=1,actions=output:2
in_port=2,actions=output:1"
on server bash -c "nc -l -N 10.0.0.2 9000 >came" &
eventually 5 on server grep -qE ":2328 [0-9A-F]+:0000 0A" /proc/net/tcp
before=$(cat /sys/class/net/server/statistics/tx_packets)
on client nc -N 10.0.0.2 9000 <sent
wait $!
cmp sent came
frames=$(($(cat /sys/class/net/server/statistics/tx_packets) - before))
printf 'AF_PACKET to AF_PACKET: %s frames\n' $frames
[ $frames -lt 10000 ] || fail "$frames frames: large ones were cut"
