# limit: 60
# A tunnel within a tunnel: the underlay of one is a bridge whose packets go through another.
host guest 10.0.0.1/24 02:00:00:00:00:01
host far 172.31.1.2/24 02:00:00:00:00:fe
start_switch
bridge br-phy far
bridge br-mid
bridge br-int guest
ip addr add 172.31.1.1/24 dev br-phy
ip link set br-phy up
# The outer tunnel's headers take 50 bytes of the middle bridge's packets.
vsctl set interface br-mid mtu_request=1450
ip addr add 10.1.0.1/24 dev br-mid
ip link set br-mid up
vsctl add-port br-mid outer0 -- set interface outer0 type=vxlan options:remote_ip=172.31.1.2 options:key=5 \
    -- add-port br-int inner0 -- set interface inner0 type=vxlan options:remote_ip=10.1.0.2 options:key=6
ip -n far link add outer type vxlan id 5 local 172.31.1.2 remote 172.31.1.1 dstport 4789
ip -n far link set outer address 02:00:00:00:00:02 up
ip -n far addr add 10.1.0.2/24 dev outer
ip -n far link add inner type vxlan id 6 local 10.1.0.2 remote 10.1.0.1 dstport 4789
ip -n far link set inner address 02:00:00:00:00:03 up
ip -n far addr add 10.0.0.2/24 dev inner

capture far
counted() { ovs-appctl coverage/read-counter "$1"; }
is_more() { [ "$(counted "$1")" -gt "$2" ]; }
eventually 5 pings guest 10.0.0.2
on guest ping -q -i 0.1 -c 10 -W 1 10.0.0.2 >/dev/null
contains "both neighbours" "$(ovs-appctl tnl/neigh/show)" "br-mid"
contains "both neighbours" "$(ovs-appctl tnl/neigh/show)" "br-phy"
# The MTU is told from the outside inwards.
contains "MTU" "$(on guest ping -M "do" -s 1472 -c 1 -W 1 10.0.0.2 2>&1 || true)" "mtu = 1400"
on guest ping -q -M "do" -s 1372 -c 1 -W 2 10.0.0.2 >/dev/null

# What is broken within the outer tunnel is counted as outside.
outer="Ether(src='02:00:00:00:00:fe',dst='$(cat /sys/class/net/br-phy/address)')/IP(src='172.31.1.2',dst='172.31.1.1')/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000000500')"
middle="Ether(src='02:00:00:00:00:02',dst='$(cat /sys/class/net/br-mid/address)')/IP(src='10.1.0.2',dst='10.1.0.1')/UDP(sport=1,dport=4789,chksum=0)"
inner="Ether(src='02:00:00:00:00:03',dst='02:00:00:00:00:01')/IP(src='10.0.0.2',dst='10.0.0.1')/UDP()/b'inside'"
# dropped COUNTER HEX: a middle packet with this VXLAN header is dropped for that reason.
dropped() {
    local before
    before=$(counted "$1")
    on far $python "$tests/hosts/frames.py" send "$outer/$middle/bytes.fromhex('$2')/$inner"
    eventually 3 is_more "$1" "$before"
}
dropped drop_action_tunnel_not_found 0800000000000700
dropped drop_action_tunnel_not_found 0800000000000500
dropped datapath_drop_tunnel_pop_error 0000000000000600
listen guest
on far $python "$tests/hosts/frames.py" send "$outer/$middle/bytes.fromhex('0800000000000600')/$inner"
contains "a good one" "$(heard guest)" "from=02:00:00:00:00:03"
well_formed far "ip.src == 172.31.1.1 && vxlan"
