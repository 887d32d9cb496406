# limit: 60
# The system's routes and rules, kept current: a rule sends a tunnel's packets by the table that it names,
# and the other way again when it is gone.
host far 172.31.1.2/24 02:00:00:00:00:fe
host other 172.31.2.2/24 02:00:00:00:00:fd
host guest 10.0.0.1/24 02:00:00:00:00:01
start_switch
bridge br-phy far
bridge br-alt other
bridge br-int guest
ip addr add 172.31.1.1/24 dev br-phy
ip addr add 172.31.2.1/24 dev br-alt
ip link set br-phy up
ip link set br-alt up

lists() { ovs-appctl "${@:2}" | grep -qF -- "$1"; }
lacks_line() { ! ovs-appctl "${@:2}" 2>&1 | grep -qF -- "$1"; }
goes_by() { [ "$(ovs-appctl ovs/route/lookup "${@:2}" | tail -1)" = "dev $1" ]; }

same "the standard rules" "Cached: 0: from all lookup local
Cached: 32766: from all lookup main
Cached: 32767: from all lookup default" "$(ovs-appctl ovs/route/rule/show)"
same "those of IPv6" "Cached: 0: from all lookup local
Cached: 32766: from all lookup main" "$(ovs-appctl ovs/route/rule/show -6)"

# Two ways to one prefix: the lower metric counts.
ip route add 192.0.2.0/24 via 172.31.2.2 dev br-alt metric 200
ip route add 192.0.2.0/24 via 172.31.1.2 dev br-phy metric 100
eventually 3 goes_by br-phy 192.0.2.7
ip route del 192.0.2.0/24 metric 100
eventually 3 goes_by br-alt 192.0.2.7
ip route add 192.0.2.0/24 via 172.31.1.2 dev br-phy metric 100
eventually 3 goes_by br-phy 192.0.2.7

# A table that no rule names is not there; with a rule it is, for packets from that address.
ip route add 192.0.2.0/24 via 172.31.2.2 dev br-alt table 42
sleep 0.3
contains "no rule" "$(must_fail ovs-appctl ovs/route/show table=42)" "Table 'table=42' not found"
ip rule add from 172.31.1.1 lookup 42
eventually 3 lists "from 172.31.1.1 lookup 42" ovs/route/rule/show
same "the table" "Route Table #42:
Cached: 192.0.2.0/24 dev br-alt GW 172.31.2.2 SRC 172.31.2.1" "$(ovs-appctl ovs/route/show table=42)"
goes_by br-phy 192.0.2.7
goes_by br-alt 192.0.2.7 src=172.31.1.1
goes_by br-phy 192.0.2.7 src=172.31.2.1
# Rules that look at more than the source are left out.
ip rule add from 172.31.1.1 ipproto udp lookup 43
ip rule add fwmark 5 lookup 43
ip route add 192.0.2.0/25 via 172.31.2.2 dev br-alt table 43
sleep 0.3
lacks "unsupported rules" "$(ovs-appctl ovs/route/rule/show)" "lookup 43"

# A tunnel's packets go by the rules, and follow them.
vsctl add-port br-int vxlan0 -- set interface vxlan0 type=vxlan \
    options:remote_ip=192.0.2.7 options:local_ip=172.31.1.1 options:key=1
ovs-appctl tnl/neigh/set br-phy 172.31.1.2 02:00:00:00:00:fe
ovs-appctl tnl/neigh/set br-alt 172.31.2.2 02:00:00:00:00:fd
ip -n guest neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0
# reaches HOST: pings into the tunnel come to that host's wire.
reaches() {
    listen "$1"
    on guest ping -q -i 0.2 -W 1 -c 3 10.0.0.2 >/dev/null || true
    heard "$1" | grep 'type=0800' >/dev/null
}
reaches other
ip rule del from 172.31.1.1 lookup 42
eventually 3 lacks_line "lookup 42" ovs/route/rule/show
reaches far
never lists "Route Table" ovs/route/show table=42

# Rules and routes by command.
ovs-appctl ovs/route/add 192.0.2.0/24 br-alt 172.31.2.2 table=11
ovs-appctl ovs/route/rule/add from=172.31.1.1/32 table=11
contains "by command" "$(ovs-appctl ovs/route/rule/show)" "User: 32765: from 172.31.1.1 lookup 11"
reaches other
ovs-appctl ovs/route/rule/del from=172.31.1.1/32 table=11
reaches far
must_fail ovs-appctl ovs/route/rule/del from=172.31.1.1/32 table=11
ovs-appctl ovs/route/add 198.51.100.0/24 br-phy 172.31.1.2 src=172.31.1.1
must_fail ovs-appctl ovs/route/add 198.51.101.0/24 br-phy 172.31.1.2 src=172.31.1.9

# Among 10,000 routes, changes of one are followed, and of all.
seq 0 9999 | awk '{ printf "route add 20.%d.%d.0/24 via 172.31.1.2 dev br-phy\n", $1 / 250, $1 % 250 }' >many
ip -batch many
eventually 10 goes_by br-phy 20.39.249.1
ip route replace 20.7.7.0/24 via 172.31.2.2 dev br-alt
eventually 10 goes_by br-alt 20.7.7.1
goes_by br-phy 20.7.8.1
ip route flush root 20.0.0.0/8
eventually 10 lacks_line " 20." ovs/route/show
goes_by br-phy 192.0.2.7
