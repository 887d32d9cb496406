# Networks of one tunnel end that differ in their VNI alone: the same addresses and ports in each, packets of every
# pair side by side. What is sent in one reaches its guest and no other, and answers leave in the same network, by
# VXLAN and by Geneve, with a port for each network. `tunnels-key-flow.sh` has one port for all.
# limit: 90
networks="101 102 103 104" protocols=${protocols:-vxlan geneve}
host far 172.31.1.2/24 02:00:00:00:00:fe
start_switch
underlay far
vsctl set bridge br-phy other-config:hwaddr=02:00:00:00:00:aa
for vni in $networks; do
    host "guest$vni" 10.0.0.1/24 02:00:00:00:00:01
    ip -n "guest$vni" neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
    bridge "br$vni" "guest$vni"
    for protocol in $protocols; do
        vsctl add-port "br$vni" "$protocol$vni" -- set interface "$protocol$vni" type="$protocol" \
            options:remote_ip=172.31.1.2 options:key="$vni"
    done
    load "br$vni" <<R
table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1,zone=$vni)
table=1,priority=5,ip,ct_state=+trk+new,actions=ct(commit,zone=$vni),normal
table=1,priority=5,ip,ct_state=+trk+est,actions=normal
R
    udp_echo "guest$vni" 10.0.0.1 6
done
on far ping -q -W 2 -c 1 172.31.1.1 >/dev/null
ask() { on far $python "$tests/hosts/tunnel_tenants.py" "$1" 02:00:00:00:00:aa "${@:2}"; }
# isolated PROTOCOL ROUNDS: each network's answers are all of its own, and a few may be lost while flows are new.
isolated() {
    local protocol=$1 rounds=$2 said count payload all
    said=$(ask "$protocol" "$rounds" $networks)
    all=$((rounds * 2 * $(wc -w <<<"$networks")))
    same "$protocol: networks with answers" "$networks" "$(cut -d: -f1 <<<"$said" | xargs)"
    for vni in $networks; do
        read -r count payload <<<"$(sed -n "s/^$vni: //p" <<<"$said")"
        same "$protocol: what network $vni heard" "$vni" "$payload"
        [ "$count" -gt $((all - 40)) ] && [ "$count" -le "$all" ] ||
            fail "$protocol, $vni: $count answers of $all"
    done
    # A network without a tunnel of its own is no other's.
    same "$protocol: of network 105" "" "$(ask "$protocol" 3 105)"
}
capture far
# The far guest's address is behind the tunnel of the last protocol.
for protocol in $protocols; do
    isolated "$protocol" 8
done
well_formed far "ip.src == 172.31.1.1 && (vxlan || geneve)"
