# Networks of one tunnel end that differ in their VNI alone: the same addresses and ports in each. What is sent in
# one reaches its guest and no other, and answers leave in the same network, also where the kernel forwards them.
# limit: 60
networks="101 102 103 104"
host far 172.31.1.2/24 02:00:00:00:00:fe
start_switch
underlay far
vsctl set bridge br-phy other-config:hwaddr=02:00:00:00:00:aa
for vni in $networks; do
    host "guest$vni" 10.0.0.1/24 02:00:00:00:00:01
    ip -n "guest$vni" neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
    bridge "br$vni" "guest$vni"
    vsctl add-port "br$vni" "vxlan$vni" -- set interface "vxlan$vni" type=vxlan \
        options:remote_ip=172.31.1.2 options:key="$vni"
    load "br$vni" <<R
table=0,priority=5,ip,ct_state=-trk,actions=ct(table=1,zone=$vni)
table=1,priority=5,ip,ct_state=+trk+new,actions=ct(commit,zone=$vni),normal
table=1,priority=5,ip,ct_state=+trk+est,actions=normal
R
    udp_echo "guest$vni" 10.0.0.1 6
done
on far ping -q -W 2 -c 1 172.31.1.1 >/dev/null
# Each network's answers, of so many rounds: all of its own, and a few may be lost while flows are new.
isolated() {
    local rounds=$1 said count payload
    said=$(on far $python "$tests/hosts/vxlan_tenants.py" 02:00:00:00:00:aa "$rounds" $networks)
    same "networks with answers" "$networks" "$(cut -d: -f1 <<<"$said" | xargs)"
    for vni in $networks; do
        read -r count payload <<<"$(sed -n "s/^$vni: //p" <<<"$said")"
        same "what network $vni heard" "$vni" "$payload"
        [ "$count" -gt $((rounds - 4)) ] && [ "$count" -le "$rounds" ] || fail "$vni: $count answers"
    done
}
isolated 20
# A network without a tunnel of its own is no other's.
same "of network 105" "" "$(on far $python "$tests/hosts/vxlan_tenants.py" 02:00:00:00:00:aa 3 105)"
