# Frames shorter than the Ethernet minimum and longer than the MTU: those that a port supports come
# out unchanged, the others are counted, and no port stops.
# limit: 90
ours || skip "Open vSwitch has no ports made of files"
start_dpdk
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure
hex() { od -An -v -tx1 | tr -d ' \n'; }
pcap() { $python "$tests/hosts/pcap_file.py" "$@"; }
header=02000000000202000000000188b5
for length in 0 1 13 14 15 20 59 60 1514 1515 1518 1522 1523 3014 3018 3022 3023 9014 20000 65535; do
    frame=$header$(head -c "$length" /dev/urandom | hex)
    printf '%s\n' "${frame:0:2*length}"
done | pcap write in.pcap 10
ip link add one type veth peer name two
for name in one two; do
    sysctl -qw "net.ipv6.conf.$name.disable_ipv6=1"
    ip link set $name up
done
vsctl add-port br0 ring -- set interface ring type=dpdk options:dpdk-devargs=net_ring0 \
    -- add-port br0 one -- add-port br0 two \
    -- add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuser mtu_request=3000
vsctl add-port br0 guest -- set interface guest type=dpdk mtu_request=3000 \
    options:dpdk-devargs=net_virtio_user0,path=$OVS_RUNDIR/vhost0
link_up() { [ "$(vsctl get interface vhost0 link_state)" = up ]; }
eventually 8 link_up
same "MTUs" "3000 3000" "$(vsctl get interface vhost0 mtu) $(vsctl get interface guest mtu)"
errors() { for name in ring one two vhost0 guest; do vsctl get interface $name error; done | xargs; }
same "errors" "[] [] [] [] []" "$(errors)"

lengths() { pcap read out.pcap | awk '{ print length($0) / 2 }' | sort -n | xargs; }
# count NAME: how often something was counted.
count() { ovs-appctl coverage/read-counter "$1"; }
# through EXPECT REFUSED OUT [IN]: the lengths of the frames that come through, and how many are not sent.
through() {
    local expect=$1 refused=$2 out=$3 in=${4:-$3} unsent runts
    rm -f out.pcap
    unsent=$(count ovs_tx_invalid_drops) runts=$(count datapath_drop_rx_invalid_packet)
    vsctl add-port br0 record -- set interface record type=pcap ofport_request=101 \
        options:tx_pcap=$work/out.pcap
    load br0 <<R
in_port=100,actions=output:$(ofport "$out")
in_port=$(ofport "$in"),actions=output:101
R
    vsctl add-port br0 play -- set interface play type=pcap ofport_request=100 \
        options:rx_pcap=$work/in.pcap options:rx_pace=recorded
    # All twenty frames, and what came of each.
    eventually 8 counted play 20
    came() { [ "$(lengths)" = "$expect" ]; }
    eventually 5 came
    same "refused by $out" "$refused" "$(($(count ovs_tx_invalid_drops) - unsent))"
    same "runts" 3 "$(($(count datapath_drop_rx_invalid_packet) - runts))"
    same "errors" "[] [] [] [] []" "$(errors)"
    vsctl del-port play -- del-port record
}
# counted PORT NUMBER: frames that were received.
counted() {
    ovs-appctl dpctl/show -s | awk -v port="$1" '$3 == port { here = 1 }
        here && $1 == "RX" { sub("packets:", "", $2); print $2; exit }' | grep -qx "$2"
}
short="14 15 20 59 60"
# Room for two VLAN tags.
through "$short 1514 1515 1518 1522" 8 ring
# The kernel takes what its device does.
through "$short 1514" 11 one two
through "$short 1514 1515 1518 1522 1523 3014 3018 3022" 4 vhost0 guest
through "$short 1514 1515 1518 1522 1523 3014 3018 3022" 4 guest vhost0
