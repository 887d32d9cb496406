# The devices that the switch makes have the smallest MTU of the bridge's other ports, unless one is
# asked for, and follow it when it changes.
client_and_server
start_switch
has() { [ "$(ip -o link show dev "$1" | grep -o 'mtu [0-9]*')" = "mtu $2" ]; }
bridge br0
vsctl add-port br0 int0 -- set interface int0 type=internal
has br0 1500
has int0 1500
ip link set dev client mtu 9000
vsctl add-port br0 client
eventually 5 has br0 9000
has int0 9000
same "the database" 9000 "$(eventually 5 reads 9000 vsctl get interface int0 mtu && vsctl get interface int0 mtu)"
vsctl add-port br0 server
eventually 5 has br0 1500
ip link set dev server mtu 1400
eventually 5 has int0 1400
has br0 1400
# What is asked for stays, and counts for the others.
vsctl add-port br0 int1 -- set interface int1 type=internal mtu_request=1300
eventually 5 has int1 1300
eventually 5 has int0 1300
vsctl del-port int1
eventually 5 has int0 1400
# A user may make one smaller by hand.
ip link set dev int0 mtu 1200
sleep 0.5
has int0 1200
has br0 1400
ip link set dev int0 mtu 1450
eventually 5 has int0 1400
# Another bridge has its own.
bridge br1
has br1 1500
