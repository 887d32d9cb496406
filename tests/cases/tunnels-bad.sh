# limit: 90
# Broken, foreign and lost packets of tunnels: each a counted drop with its reason, and the next good packet
# passes.
guest_and_underlay
vsctl set bridge br-phy other-config:hwaddr=02:00:00:00:00:aa
vsctl add-port br-int vxlan0 -- set interface vxlan0 type=vxlan options:remote_ip=172.31.1.2 \
    options:key=101
vsctl add-port br-int gnv0 -- set interface gnv0 type=geneve options:remote_ip=172.31.1.2 options:key=7

counted() { ovs-appctl coverage/read-counter "$1"; }
send() { on far $python "$tests/hosts/frames.py" send "$@"; }
# dropped COUNTER FRAME: one frame more is dropped for that reason.
dropped() {
    local before
    before=$(counted "$1")
    send "$2"
    eventually 3 is_more "$1" "$before" || fail "$1 does not count $2"
}
is_more() { [ "$(counted "$1")" -gt "$2" ]; }
outer="Ether(src='02:00:00:00:00:fe',dst='02:00:00:00:00:aa')/IP(src='172.31.1.2',dst='172.31.1.1')"
inner="Ether(src='02:00:00:00:00:02',dst='02:00:00:00:00:01')/IP(src='10.0.0.2',dst='10.0.0.1')/UDP()/b'good'"
vxlan="$outer/UDP(sport=1,dport=4789,chksum=0)"
geneve="$outer/UDP(sport=1,dport=6081,chksum=0)"
good="$vxlan/bytes.fromhex('0800000000006500')/$inner"

capture far
listen guest
send "$good"
contains "a good packet passes" "$(heard guest)" "from=02:00:00:00:00:02"

pop=datapath_drop_tunnel_pop_error
dropped $pop "$vxlan/bytes.fromhex('0000000000006500')/$inner"  # no VNI flag
dropped $pop "$vxlan/bytes.fromhex('0800000000006501')/$inner"  # a reserved byte
dropped $pop "$vxlan/bytes.fromhex('08000000')"                 # half a header
dropped $pop "$vxlan/bytes.fromhex('0800000000006500')/b'short'" # no whole inner frame
dropped $pop "$outer/UDP(sport=1,dport=4789,chksum=0,len=200)/bytes.fromhex('0800000000006500')/$inner"
dropped $pop "$geneve/bytes.fromhex('0300655800000700')/b'abc'"  # options that overrun
dropped $pop "$geneve/bytes.fromhex('0100655800000700000100ff')/$inner" # an option longer than all
dropped $pop "$geneve/bytes.fromhex('4000655800000700')/$inner"  # another version
dropped $pop "${outer/IP(/IP(chksum=1,}/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006500')/$inner"
dropped datapath_drop_tunnel_csum_error \
    "$outer/UDP(sport=1,dport=4789,chksum=0x1234)/bytes.fromhex('0800000000006500')/$inner"
dropped drop_action_tunnel_not_found "$vxlan/bytes.fromhex('0800000000006600')/$inner" # VNI 102
dropped drop_action_tunnel_not_found \
    "Ether(src='02:00:00:00:00:fe',dst='02:00:00:00:00:aa')/IP(src='172.31.1.3',dst='172.31.1.1')/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006500')/$inner"
# Congestion that the inner packet's sender does not know of (RFC 6040).
dropped drop_action_congestion \
    "Ether(src='02:00:00:00:00:fe',dst='02:00:00:00:00:aa')/IP(src='172.31.1.2',dst='172.31.1.1',tos=3)/UDP(sport=1,dport=4789,chksum=0)/bytes.fromhex('0800000000006500')/$inner"

listen guest
send "$good"
contains "and then a good one" "$(heard guest)" "from=02:00:00:00:00:02"

# A neighbour that does not answer: packets are dropped and counted, and it is asked once per second.
vsctl set interface vxlan0 options:remote_ip=172.31.1.77 ofport_request=9
ovs-ofctl add-flow br-int in_port=guest,actions=output:9
ip -n guest neigh replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev eth0
listen far
on guest ping -q -i 0.1 -W 1 -c 20 10.0.0.9 >/dev/null || true
asked=$(heard far | grep -c 'from=02:00:00:00:00:aa.*type=0806' || true)
is_more drop_action_tunnel_neigh_cache_miss 9 || fail "no neighbour, and nothing counted"
[ "$asked" -ge 1 ] && [ "$asked" -le 5 ] || fail "asked $asked times in 2 seconds"
# No route.
vsctl set interface vxlan0 options:remote_ip=192.0.2.1
on guest ping -q -W 1 -c 2 10.0.0.9 >/dev/null || true
is_more drop_action_tunnel_routing_failed 0 || fail "no route, and nothing counted"

# A tunnel through its own bridge comes to an end, and is counted.
vsctl add-br br-loop -- set bridge br-loop datapath_type=netdev other-config:hwaddr=02:00:00:00:00:bb
ip addr add 192.0.2.254/24 dev br-loop
ip link set br-loop up
vsctl add-port br-loop loop0 -- set interface loop0 type=vxlan options:remote_ip=192.0.2.1 options:key=1
ovs-appctl tnl/neigh/set br-loop 192.0.2.1 02:00:00:00:00:cc
ping -q -W 1 -c 2 192.0.2.1 >/dev/null || true
is_more drop_action_recursion_too_deep 0 || fail "a loop, and nothing counted"
ovs-appctl -T 5 version >/dev/null
well_formed far "eth.src == 02:00:00:00:00:aa"
