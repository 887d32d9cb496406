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
