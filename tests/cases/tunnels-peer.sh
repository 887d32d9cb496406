# limit: 150
# Tunnels whose other end is Open vSwitch's own daemon with its userspace datapath: each protocol, over
# IPv4 and IPv6, with ping and TCP through it both ways.
[ -x /usr/sbin/ovs-vswitchd ] || skip "there is no /usr/sbin/ovs-vswitchd"
host guest 10.0.0.1/24 02:00:00:00:00:01
host far 172.31.9.9/24 02:00:00:00:00:fe
on far ip addr flush dev eth0
start_switch
bridge br-phy far
bridge br-int guest
echo 0 >/proc/sys/net/ipv6/conf/br-phy/disable_ipv6
ip link set br-phy up
ip addr add 172.31.1.1/24 dev br-phy
ip addr add fd00:31::1/64 dev br-phy nodad
ip -n guest link set eth0 mtu 1400

start_peer
far_vsctl add-br phy -- set bridge phy datapath_type=netdev -- add-port phy eth0 \
    -- add-br int -- set bridge int datapath_type=netdev
on far bash -c 'echo 0 >/proc/sys/net/ipv6/conf/phy/disable_ipv6'
on far ip link set phy up
on far ip addr add 172.31.1.2/24 dev phy
on far ip addr add fd00:31::2/64 dev phy nodad
on far ip link set int mtu 1400 up
on far ip addr add 10.0.0.2/24 dev int
serve far
serve guest
capture far

# tunnel TYPE LOCAL REMOTE [OPTION...]
tunnel() {
    local type=$1 near=$2 remote=$3
    shift 3
    vsctl --if-exists del-port t0 -- add-port br-int t0 -- set interface t0 type="$type" \
        options:remote_ip="$remote" "${@/#/options:}"
    far_vsctl --if-exists del-port t0 -- add-port int t0 -- set interface t0 type="$type" \
        options:remote_ip="$near" "${@/#/options:}"
}
check() {
    local what="$*"
    tunnel "$@"
    eventually 8 pings guest 10.0.0.2 || fail "$what: no answer"
    on far ping -n -q -i 0.2 -W 1 -c 2 10.0.0.1 >/dev/null || fail "$what: no answer to the peer"
    same "$what, TCP" hello "$(fetch guest http://10.0.0.2/)"
    same "$what, TCP to the guest" hello "$(fetch far http://10.0.0.1/)"
}
check vxlan 172.31.1.1 172.31.1.2 key=7
check vxlan 172.31.1.1 172.31.1.2 key=7 csum=true dst_port=4790
check geneve 172.31.1.1 172.31.1.2 key=8
check gre 172.31.1.1 172.31.1.2
check gre 172.31.1.1 172.31.1.2 key=9 csum=true
check erspan 172.31.1.1 172.31.1.2 key=10 erspan_ver=1 erspan_idx=3
check erspan 172.31.1.1 172.31.1.2 key=11 erspan_ver=2 erspan_dir=1 erspan_hwid=4
check vxlan fd00:31::1 fd00:31::2 key=7
check geneve fd00:31::1 fd00:31::2 key=8
check ip6gre fd00:31::1 fd00:31::2 key=9
check ip6erspan fd00:31::1 fd00:31::2 key=10 erspan_ver=1 erspan_idx=3
check ip6erspan fd00:31::1 fd00:31::2 key=11 erspan_ver=2 erspan_dir=1 erspan_hwid=4
# Geneve options of 8 and of 124 bytes, both ways: either end drops what comes without the other's.
options="{class=0x102,type=0x80,len=8}->tun_metadata0,{class=0x103,type=1,len=124}->tun_metadata7"
value() { printf '0x'; for ((i = 0; i < $1; i++)); do printf '%02x' $(((i * 7 + 16 + $2) % 256)); done; }
by_options() { # BRIDGE PORT OWN OTHER
    printf 'in_port=%s,actions=set_field:%s->tun_metadata0,set_field:%s->tun_metadata7,t0\n' \
        "$2" "$(value 8 "$3")" "$(value 124 "$3")"
    printf 'in_port=t0,tun_metadata0=%s,tun_metadata7=%s,actions=%s\n' \
        "$(value 8 "$4")" "$(value 124 "$4")" "$2"
}
ip -n guest link set eth0 mtu 1200
on far ip link set int mtu 1200
tunnel geneve 172.31.1.1 172.31.1.2 key=8
ovs-ofctl add-tlv-map br-int "$options"
ovs-ofctl del-flows br-int
by_options br-int guest 1 2 | ovs-ofctl add-flows br-int -
peer ovs-ofctl add-tlv-map int "$options"
peer ovs-ofctl del-flows int
by_options int LOCAL 2 1 | peer ovs-ofctl add-flows int -
eventually 8 pings guest 10.0.0.2 || fail "no answer with options"
same "options, TCP" hello "$(fetch guest http://10.0.0.2/)"
same "options, TCP to the guest" hello "$(fetch far http://10.0.0.1/)"
contains "options" "$(ovs-appctl dpctl/dump-flows)" \
    "{class=0x102,type=0x80,len=8,$(value 8 2)}{class=0x103,type=0x1,len=124,$(value 124 2)}"
lacks "drops" "$(ovs-appctl coverage/show)" datapath_drop_tunnel
# GTP-U carries packets without Ethernet headers: flows give them the addresses of their receivers. Open vSwitch 3.1
# writes the length of GTP-U behind the UDP checksum (ovs: `lib/netdev-native-tnl.c`, `netdev_gtpu_push_header`), so
# that the answers have a wrong one: they are dropped and counted for that reason.
arrives() {
    on guest ping -q -W 1 -c 1 10.0.0.2 >/dev/null || true
    peer ovs-ofctl dump-flows int in_port=t0 | grep -q 'n_packets=[1-9]'
}
counted() { ovs-appctl coverage/read-counter datapath_drop_tunnel_csum_error; }
is_more() { [ "$(counted)" -gt "$1" ]; }
gtpu() { # NEAR REMOTE
    local before
    tunnel gtpu "$1" "$2" key=12
    ip -n guest neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
    ip -n far neigh replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev int nud permanent
    load br-int <<'R'
in_port=guest,ip,actions=t0
in_port=t0,ip,actions=set_field:02:00:00:00:00:02->eth_src,set_field:02:00:00:00:00:01->eth_dst,guest
R
    peer ovs-ofctl del-flows int
    peer ovs-ofctl add-flows int - <<R
in_port=LOCAL,ip,actions=t0
in_port=t0,ip,actions=set_field:02:00:00:00:00:01->eth_src,set_field:$(on far cat /sys/class/net/int/address)->eth_dst,LOCAL
R
    before=$(counted)
    eventually 8 arrives || fail "gtpu $1: the peer hears nothing"
    eventually 8 is_more "$before" || fail "gtpu $1: no answer of the peer came"
}
gtpu 172.31.1.1 172.31.1.2
gtpu fd00:31::1 fd00:31::2
# What this switch sent is well-formed for tshark, too, inside and outside.
well_formed far "ip.src == 172.31.1.1 || ipv6.src == fd00:31::1" -d udp.port==4790,vxlan
