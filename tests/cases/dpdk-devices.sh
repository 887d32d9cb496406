# Every virtual device of Debian's DPDK that needs no hardware carries frames in and out unharmed:
# net_pcap, net_null, net_ring, net_memif, net_tap, net_af_packet, net_af_xdp, and net_virtio_user with
# dpdkvhostuser and dpdkvhostuserclient at its other end. None of them needs huge pages.
# limit: 150
ours || skip "Open vSwitch's DPDK is another program"
start_dpdk
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure
# Twenty frames of each of five lengths, each frame another one.
hex() { od -An -v -tx1 | tr -d ' \n'; }
pcap() { $python "$tests/hosts/pcap_file.py" "$@"; }
for length in 60 61 128 590 1514; do
    for _ in {1..20}; do
        printf '02000000000202000000000188b5%s\n' "$(head -c $((length - 14)) /dev/urandom | hex)"
    done
done | pcap write in.pcap 2
ports=0
# device NAME TYPE [OPTION...]: it has to open.
device() {
    local name=$1 type=$2
    shift 2
    ports=$((ports + 1))
    vsctl add-port br0 "$name" -- set interface "$name" type="$type" ofport_request=$ports "$@"
    same "error of $name" "[]" "$(vsctl get interface "$name" error)"
}
vdev() { device "$1" dpdk "options:dpdk-devargs=$2" "${@:3}"; }
link_up() { [ "$(vsctl get interface "$1" link_state)" = up ]; }
# recorded: what came out are the frames that went in, whatever their order.
recorded() { [ "$(pcap read out.pcap | sort)" = "$(pcap read in.pcap | sort)" ]; }
# carries WHAT OUT [IN]: the file is played into a pcap port; it goes out at OUT, comes in at IN, and
# what comes in is recorded.
carries() {
    local what=$1 out=$2 in=${3:-$2}
    link_up "$out" || eventually 8 link_up "$out"
    link_up "$in" || eventually 8 link_up "$in"
    rm -f out.pcap
    vsctl add-port br0 record -- set interface record type=pcap ofport_request=101 \
        options:tx_pcap=$work/out.pcap
    # What the kernel says on these devices by itself is none of it.
    load br0 <<R
priority=9,in_port=100,dl_dst=02:00:00:00:00:02,actions=output:$(ofport "$out")
priority=9,in_port=$(ofport "$in"),dl_dst=02:00:00:00:00:02,actions=output:101
R
    vsctl add-port br0 play -- set interface play type=pcap ofport_request=100 \
        options:rx_pcap=$work/in.pcap options:rx_pace=recorded
    eventually 5 recorded
    vsctl del-port play -- del-port record
    printf '%s carries frames\n' "$what"
}

# Files are read and written by net_pcap itself: two of its ports.
ovs-ofctl add-flow br0 in_port=1,actions=output:2
vdev pcap-out net_pcap0,tx_pcap=$work/out.pcap
same "its number" 1 "$(ofport pcap-out)"
ovs-ofctl del-flows br0
ovs-ofctl add-flow br0 in_port=2,actions=output:1
vdev pcap-in net_pcap1,rx_pcap=$work/in.pcap
written() { vsctl get interface pcap-out statistics:tx_packets | grep -qx 100; }
eventually 12 written
vsctl del-port pcap-in -- del-port pcap-out
recorded || fail "net_pcap: other frames came out"
printf 'net_pcap carries frames\n'

# What goes into a ring comes out of it; net_null has frames of one length without end, and loses all.
vdev ring net_ring0
carries net_ring ring
vdev null net_null0,size=100
load br0 <<<"in_port=$(ofport null),actions=in_port"
many() { [ "$(vsctl get interface null statistics:"$1")" -ge 10000 ]; }
eventually 12 many rx_packets
eventually 12 many tx_packets
vsctl del-port null

# Two ends of shared memory, in one switch.
vdev memif0 net_memif0,role=server,socket=$work/memif.sock,socket-abstract=no
vdev memif1 net_memif1,role=client,socket=$work/memif.sock,socket-abstract=no
carries net_memif memif0 memif1
carries "net_memif, the other way" memif1 memif0

# A guest by DPDK's own virtio, and vhost-user in both roles; with rings that wrap, for they are shorter
# than the file, and with two queue pairs.
device vhost0 dpdkvhostuser
vdev virtio0 net_virtio_user0,path=$OVS_RUNDIR/vhost0,queue_size=32
carries "virtio to dpdkvhostuser" virtio0 vhost0
carries "dpdkvhostuser to virtio" vhost0 virtio0
# A guest that makes the socket waits for the other side, and nothing else with it; what is not wanted any
# more leaves no socket behind.
waits() {
    says "a device that waits" "it waits until another program connects to $work/vhost1" \
        vsctl add-port br0 virtio1 -- set interface virtio1 type=dpdk ofport_request=90 \
        options:dpdk-devargs=net_virtio_user1,path=$work/vhost1,server=1,queues=2 options:n_rxq=2
    same "its number" "-1" "$(ofport virtio1)"
}
waits
carries "net_ring, meanwhile," ring
vsctl del-port virtio1
eventually 5 test ! -e $work/vhost1
waits
device vhost1 dpdkvhostuserclient options:vhost-server-path=$work/vhost1 options:n_rxq=2
eventually 10 reads "[]" vsctl get interface virtio1 error
same "its number" 90 "$(ofport virtio1)"
carries "virtio to dpdkvhostuserclient" virtio1 vhost1
carries "dpdkvhostuserclient to virtio" vhost1 virtio1
same "no fault of theirs" "[] []" \
    "$(vsctl get interface vhost0 error) $(vsctl get interface vhost1 error)"

# Devices of the kernel: two ends of a veth pair, by one driver each, and a TAP device.
ip link add one type veth peer name two
sysctl -qw net.ipv6.conf.one.disable_ipv6=1 net.ipv6.conf.two.disable_ipv6=1
ip link set one up
ip link set two up
vdev packet net_af_packet0,iface=one,qpairs=2 options:n_rxq=2
same "its queues" '"2"' "$(vsctl get interface packet status:n_rxq)"
if vsctl add-port br0 xdp -- set interface xdp type=dpdk options:dpdk-devargs=net_af_xdp0,iface=two \
    2>refusal && [ "$(vsctl get interface xdp error)" = "[]" ]; then
    carries "net_af_packet to net_af_xdp" packet xdp
    carries "net_af_xdp to net_af_packet" xdp packet
else
    printf 'net_af_xdp is not possible here: %s\n' "$(cat refusal)"
fi
vdev tap net_tap0,iface=dtap0
sysctl -qw net.ipv6.conf.dtap0.disable_ipv6=1
ip link set dtap0 up
# What goes out there, the system receives.
load br0 <<<"in_port=100,actions=output:$(ofport tap)"
before=$(cat /sys/class/net/dtap0/statistics/rx_packets)
vsctl add-port br0 play -- set interface play type=pcap ofport_request=100 \
    options:rx_pcap=$work/in.pcap options:rx_pace=recorded
arrived() { [ "$(cat /sys/class/net/dtap0/statistics/rx_packets)" -ge $((before + 100)) ]; }
eventually 5 arrived
