# The device of a port disappears and returns; the other ports are not affected.
client_and_server
host third 10.0.0.3/24 02:00:00:00:00:03
start_switch
bridge br0 client server third
pings client 10.0.0.2
pings client 10.0.0.3
# The peer of a veth, in its own namespace, as reported by Open vSwitch 4.0.
peer() { ip -n server -o link show eth0 | sed 's/\([0-9]*\):.*/"\1"/'; }
knows_peer() { reads "$(peer)" vsctl get interface server status:peer_ifindex; }
if ours; then eventually 3 knows_peer; fi
before=$(peer)
ip link del server
# Open vSwitch keeps its number, without an error, and says that the link is down.
vanished() { ! reads up vsctl get interface server link_state; }
eventually 6 vanished
never pings client 10.0.0.2
pings client 10.0.0.3
ip link add server type veth peer name eth0 netns server
ip link set server up
ip -n server link set eth0 address 02:00:00:00:00:02 up
ip -n server addr add 10.0.0.2/24 dev eth0
# Open vSwitch 3.1 keeps listening on the device that is gone.
if ! ours; then
    vsctl del-port server
    vsctl add-port br0 server
fi
eventually 8 reads up vsctl get interface server link_state
eventually 5 pings client 10.0.0.2
pings client 10.0.0.3
[ "$(peer)" != "$before" ] || fail "the other end has the same number again"
if ours; then eventually 8 knows_peer; fi
