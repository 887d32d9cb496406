# limit: 120
# Access and trunk ports and native VLANs, seen on the wire.
host a 10.0.0.1/24 02:00:00:00:00:01
host b 10.0.0.2/24 02:00:00:00:00:02
host trunk 10.0.0.3/24 02:00:00:00:00:03
start_switch
bridge br0 a b trunk
vsctl set port a tag=10 -- set port b tag=20 -- set port trunk trunks=10,20

# sent FROM FRAME: what b and trunk receive of it, each in a line.
sent() {
    local from=$1 others=(a b trunk) receiver
    shift
    others=("${others[@]/$from/}")
    for receiver in ${others[*]}; do listen $receiver; done
    on "$from" $python "$tests/hosts/frames.py" send "$@"
    for receiver in ${others[*]}; do
        heard $receiver | sed -n "s/ from=02:00:00:00:00:0[1-3] type=88b5$/&/p" |
            sed "s/^/$receiver /; s/ from=.*//"
    done
}
broadcast="Ether(src=A,dst='ff:ff:ff:ff:ff:ff',type=0x88b5)/b'0123456789'"
from_trunk="Ether(src='02:00:00:00:00:03',dst='ff:ff:ff:ff:ff:ff')"

same "access 10 to trunk" "trunk vlan=10" "$(sent a "$broadcast")"
same "tagged frame on an access port" "" "$(sent a "Ether(src=A,dst=B)/Dot1Q(vlan=10,type=0x88b5)/b'0123456789'")"
same "trunk, VLAN 10" "a vlan=none" "$(sent trunk "$from_trunk/Dot1Q(vlan=10,type=0x88b5)/b'0123456789'")"
same "trunk, VLAN 20" "b vlan=none" "$(sent trunk "$from_trunk/Dot1Q(vlan=20,type=0x88b5)/b'0123456789'")"
same "trunk, VLAN 30" "" "$(sent trunk "$from_trunk/Dot1Q(vlan=30,type=0x88b5)/b'0123456789'")"
same "trunk, untagged" "" "$(sent trunk "Ether(src=B,dst='ff:ff:ff:ff:ff:ff',type=0x88b5)/b'0123456789'")"
contains "learned" "$(ovs-appctl fdb/show br0)" "    1    10  02:00:00:00:00:01"

vsctl set port trunk vlan_mode=native-untagged tag=10 trunks=20
same "native-untagged, in" "a vlan=none" \
    "$(sent trunk "Ether(src='02:00:00:00:00:03',dst='ff:ff:ff:ff:ff:ff',type=0x88b5)/b'0123456789'")"
same "native-untagged, out" "trunk vlan=none" "$(sent a "$broadcast")"
vsctl set port trunk vlan_mode=native-tagged
same "native-tagged, out" "trunk vlan=10" "$(sent a "$broadcast")"

# Two tags are read: a tunnel's port takes the provider's tag away, and looks at the customer's.
vsctl set Open_vSwitch . other_config:vlan-limit=0 -- clear port trunk tag vlan_mode trunks \
    -- set port a vlan_mode=dot1q-tunnel tag=100 cvlans=10
provider="Ether(src='02:00:00:00:00:03',dst='ff:ff:ff:ff:ff:ff',type=0x88a8)/Dot1Q(vlan=100,type=0x8100)"
same "dot1q-tunnel, out" "a vlan=10" "$(sent trunk "$provider/Dot1Q(vlan=10,type=0x88b5)/b'0123456789'")"
same "dot1q-tunnel, other customer VLAN" "" "$(sent trunk "$provider/Dot1Q(vlan=20,type=0x88b5)/b'0123456789'")"
! ours || contains "megaflow of two tags" "$(ovs-appctl dpctl/dump-flows)" \
    "eth_type(0x88a8),vlan(vid=100),encap(eth_type(0x8100),vlan(vid=20,pcp=0),encap(eth_type(0x88b5)))"
same "dot1q-tunnel, in" "trunk vlan=s100/10" \
    "$(sent a "Ether(src=A,dst='ff:ff:ff:ff:ff:ff')/Dot1Q(vlan=10,type=0x88b5)/b'0123456789'")"
vsctl set port a other_config:qinq-ethtype=802.1q
same "dot1q-tunnel, in, qinq-ethtype" "trunk vlan=100/10" \
    "$(sent a "Ether(src=A,dst='ff:ff:ff:ff:ff:ff')/Dot1Q(vlan=10,type=0x88b5)/b'0123456789'")"
