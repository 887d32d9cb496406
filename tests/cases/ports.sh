# Bridges and ports as ovs-vsctl makes them, numbers and errors as it reads them.
client_and_server
start_switch
vsctl add-br br0 -- set bridge br0 datapath_type=netdev
vsctl add-port br0 client -- set interface client ofport_request=7
vsctl add-port br0 server
# Statistics are there as soon as the port is, not at the next interval.
contains "statistics" "$(vsctl get interface server statistics)" "rx_packets="
same "number asked for" 7 "$(ofport client)"
same "number given" 1 "$(ofport server)"
same "the bridge's own" 65534 "$(ofport br0)"
shown=$(ovs-ofctl show br0)
contains "show" "$shown" " 7(client): addr:"
contains "speed of a veth" "$(grep -A3 '(client)' <<<"$shown")" "current:    10GB-FD COPPER"
contains "dpif/show" "$(ovs-appctl dpif/show)" "    client 7/"
same "cur_cfg" "$(vsctl get open_vswitch . next_cfg)" "$(vsctl get open_vswitch . cur_cfg)"
same "types" true "$(vsctl get open_vswitch . iface_types | grep -q internal && echo true)"
same "datapath types" true "$(vsctl get open_vswitch . datapath_types | grep -q netdev && echo true)"

same "mac_in_use" "\"$(cat /sys/class/net/client/address)\"" "$(vsctl get interface client mac_in_use)"
same "ifindex" "$(cat /sys/class/net/client/ifindex)" "$(vsctl get interface client ifindex)"
same "admin_state" up "$(vsctl get interface client admin_state)"
same "link_state" up "$(vsctl get interface client link_state)"
same "mtu" 1500 "$(vsctl get interface client mtu)"
ip -n client link set eth0 down
eventually 6 reads down vsctl get interface client link_state
ip -n client link set eth0 up
eventually 6 reads up vsctl get interface client link_state
pings client 10.0.0.2
counted() { [ "$(vsctl get interface client statistics:rx_packets)" -ge 2 ]; }
eventually 12 counted

# An internal port is a device of the system.
vsctl add-port br0 int0 -- set interface int0 type=internal
ip addr add 10.0.0.4/24 dev int0
ip link set int0 up
pings client 10.0.0.4
vsctl add-port br0 tap0 -- set interface tap0 type=tap
test -e /sys/class/net/tap0
vsctl del-port int0 -- del-port tap0
eventually 3 test ! -e /sys/class/net/int0

says "a device that is not there" "could not open network device nosuch0 (No such device)" \
    vsctl add-port br0 nosuch0
contains "error" "$(vsctl get interface nosuch0 error)" "could not open network device nosuch0"
same "its number" "-1" "$(ofport nosuch0)"
ip link add nosuch0 type veth peer name nosuch1
numbered() { [ "$(ofport nosuch0)" -gt 0 ]; }
eventually 8 numbered
same "its error" "[]" "$(vsctl get interface nosuch0 error)"
vsctl del-port nosuch0
vsctl add-port br0 odd -- set interface odd type=nosuch 2>/dev/null
eventually 3 reads "-1" vsctl get interface odd ofport
vsctl del-port odd
pings client 10.0.0.2

vsctl del-port server
lacks "dpif/show" "$(ovs-appctl dpif/show)" "server"
never pings client 10.0.0.2
vsctl add-port br0 server
pings client 10.0.0.2
contains "twice" "$(must_fail ovs-vsctl add-port br0 server)" "already exists"
vsctl del-br br0
same "no bridge left" "" "$(ovs-appctl dpif/show | grep br0 || true)"
eventually 3 test ! -e /sys/class/net/br0
bridge br0 client server
pings client 10.0.0.2
