# limit: 120
# OpenFlow pushes, changes and pops VLAN tags.
host a 10.0.0.1/24 02:00:00:00:00:01
host b 10.0.0.2/24 02:00:00:00:00:02
start_switch
bridge br0 a b
ovs-ofctl del-flows br0
received() {
    listen b
    on a $python "$tests/hosts/frames.py" send "$1"
    heard b | sed -n 's/ from=02:00:00:00:00:01 type=88b5$//p'
}
plain="Ether(src=A,dst=B,type=0x88b5)/b'0123456789'"
tagged="Ether(src=A,dst=B)/Dot1Q(vlan=10,prio=3,type=0x88b5)/b'0123456789'"

ovs-ofctl -O OpenFlow13 add-flow br0 "in_port=a,actions=push_vlan:0x8100,set_field:4106->vlan_vid,output:b"
same "pushed" "vlan=10" "$(received "$plain")"
ovs-ofctl add-flow br0 "in_port=a,actions=mod_vlan_vid:20,mod_vlan_pcp:5,output:b"
same "set on an untagged frame" "vlan=20" "$(received "$plain")"
same "set on a tagged frame" "vlan=20" "$(received "$tagged")"
ovs-ofctl add-flow br0 "in_port=a,actions=strip_vlan,output:b"
same "popped" "vlan=none" "$(received "$tagged")"
ovs-ofctl add-flow br0 "in_port=a,actions=drop"
ovs-ofctl add-flow br0 "priority=40000,in_port=a,dl_vlan=10,dl_vlan_pcp=3,actions=output:b"
same "matched" "vlan=10" "$(received "$tagged")"
same "not matched" "" "$(received "$plain")"

# other_config:vlan-limit: whether a second tag is payload, or part of what flows match and change.
double="Ether(src=A,dst=B,type=0x88a8)/Dot1Q(vlan=100,type=0x8100)/Dot1Q(vlan=10,prio=3,type=0x88b5)/b'0123456789'"
ovs-ofctl del-flows br0
ovs-ofctl add-flow br0 "in_port=a,dl_vlan=100,dl_type=0x8100,actions=output:b"
ovs-ofctl add-flow br0 "in_port=a,dl_vlan=100,dl_type=0x88b5,actions=strip_vlan,output:b"
payload="eth_type(0x88a8),vlan(vid=100),encap(eth_type(0x8100)),"
parsed="eth_type(0x88a8),vlan(vid=100,pcp=0),encap(eth_type(0x8100),vlan(vid=10,pcp=3),encap(eth_type(0x88b5))),"
same "one tag is matched by default" "vlan=s100/10" "$(received "$double")"
contains "megaflow of one tag" "$(ovs-appctl dpctl/dump-flows)" "$payload"
for limit in 0 2; do
    vsctl set Open_vSwitch . other_config:vlan-limit=$limit
    same "megaflows of before are gone, limit $limit" "" "$(ovs-appctl dpctl/dump-flows | grep -F "$payload")"
    same "both tags are matched, limit $limit" "vlan=10" "$(received "$double")"
    contains "megaflow of two tags, limit $limit" "$(ovs-appctl dpctl/dump-flows)" "$parsed"
    vsctl set Open_vSwitch . other_config:vlan-limit=1
    same "one tag again after limit $limit" "vlan=s100/10" "$(received "$double")"
done
vsctl set Open_vSwitch . other_config:vlan-limit=0
traced=$(ovs-appctl ofproto/trace br0 in_port=a 02000000000202000000000188a800648100600a88b530313233)
contains "a traced packet has both tags" "$traced" "dl_vlan=100,dl_vlan_pcp=0,dl_vlan1=10,dl_vlan_pcp1=3"
listen b
ovs-ofctl packet-out br0 "in_port=a,packet=02000000000202000000000188a800648100600a88b530313233,actions=strip_vlan,strip_vlan,output:b"
same "both tags of a packet-out are taken away" "vlan=none" \
    "$(heard b | sed -n 's/ from=02:00:00:00:00:01 type=88b5$//p')"
! ours || contains "what is supported" "$(ovs-appctl dpif/show-dp-features br0)" "Max VLAN headers: 2"
