# Ports of every kind come and go under traffic, and two other ports lose nothing: with a worker
# that sleeps and with one that polls, over AF_PACKET and over AF_XDP.
# limit: 180
# alone
client_and_server
static_neighbours
for n in 1 2; do
    ip link add plug$n type veth peer name peer$n
    ip link set plug$n up
    ip link set peer$n up
    ip addr add 10.9.$n.1/24 dev peer$n
done
$python - <<'P'
from scapy.all import Ether, Raw, wrpcap
wrpcap("in.pcap", [Ether(src="02:00:00:00:0a:01", dst="02:00:00:00:0a:02", type=0x88b5) / Raw(bytes(50))] * 10)
P
start_database
vsctl --no-wait set open_vswitch . other_config:dpdk-init=try \
    other_config:dpdk-extra="--no-huge -m 256 --no-pci"
start_switch
dpdk=no
! has_dpdk || [ "$(vsctl get open_vswitch . dpdk_initialized)" != true ] || dpdk=yes
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure
carry() {
    vsctl --if-exists del-port client -- --if-exists del-port server \
        -- add-port br0 client -- set interface client type="$1" ofport_request=1 \
        -- add-port br0 server -- set interface server type="$1" ofport_request=2
    load br0 <<<"in_port=1 actions=output:2
in_port=2 actions=output:1"
    [ "$(ofport client)" = 1 ] || return 1
    # So that the flows are there; and a device takes a moment until it carries anything.
    eventually 5 pings client 10.0.0.2
}
# plug NAME TYPE [OPTION...]: a port comes; it has to be one, and goes again.
plug() {
    local name=$1 type=$2
    shift 2
    vsctl add-port br0 "$name" -- set interface "$name" type="$type" "$@"
    [ "$(ofport "$name")" -gt 0 ] || fail "$name of type $type: $(vsctl get interface "$name" error)"
    # Something arrives at it while it is there: questions for an address that no host has.
    ping -n -q -c 3 -i 0.02 -W 0.1 "10.9.${name#"${name%?}"}.9" >/dev/null 2>&1 || true
    vsctl del-port "$name"
}
come_and_go() {
    local round
    for round in 1 2 3; do
        plug plug1 system
        [ "$xdp" = no ] || plug plug2 afxdp
        [ "$xdp" = no ] || plug plug2 afxdp options:xdp-mode=generic
        plug tap0 tap
        plug int0 internal
        plug play0 pcap options:rx_pcap=$work/in.pcap options:infinite_rx=true options:tx_pcap=$work/out.pcap
        if [ $dpdk = yes ]; then
            plug ring0 dpdk options:dpdk-devargs=net_ring0
            plug packet1 dpdk options:dpdk-devargs=net_af_packet0,iface=plug1
            plug vhost0 dpdkvhostuser
            plug vhost0 dpdkvhostuserclient options:vhost-server-path=$work/vhost0
        fi
        # A device that is torn out, and one that comes back.
        vsctl add-port br0 torn0 2>/dev/null || true
        ip link add torn0 type veth peer name torn1
        numbered() { [ "$(ofport torn0)" -gt 0 ]; }
        eventually 8 numbered
        ip link del torn0
        vsctl del-port torn0
    done
}
# 300 questions per second and as many answers, until the ports have come and gone.
nothing_lost() {
    local pid lost
    on client ping -n -q -s 200 -i 0.003 -w 60 10.0.0.2 >ping.printed &
    pid=$!
    come_and_go
    kill -INT "$(pgrep -f 'ping -n -q -s 200')"
    wait $pid || true
    lost=$(sed -n 's/^\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\1 \2/p' ping.printed)
    [ -n "$lost" ] || fail "ping said nothing: $(cat ping.printed)"
    # The last question may be under way when ping ends.
    printf '%s: sent and came back: %s\n' "$1" "$lost"
    [ "${lost% *}" -ge 200 ] || fail "$1: too little traffic: $lost"
    [ $((${lost% *} - ${lost#* })) -le 1 ] || fail "$1: sent and came back: $lost"
}
xdp=no
vsctl add-port br0 plug2 -- set interface plug2 type=afxdp 2>/dev/null || true
[ "$(ofport plug2)" = -1 ] || xdp=yes
vsctl del-port plug2

carry system
nothing_lost "AF_PACKET, a worker that sleeps"
if [ $xdp = yes ]; then
    carry afxdp
    nothing_lost "AF_XDP, a worker that sleeps"
fi
vsctl set open_vswitch . other_config:pmd-cpu-mask=0x3 other_config:pmd-sleep-max=50
eventually 5 pings client 10.0.0.2
[ $xdp = no ] || nothing_lost "AF_XDP, workers that poll"
carry system
nothing_lost "AF_PACKET, workers that poll"
[ $xdp = yes ] || printf 'AF_XDP is not possible here\n'
[ $dpdk = yes ] || printf 'DPDK is not possible here\n'
