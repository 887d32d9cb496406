# Addresses that are put behind a port by hand: they stay, they do not move, and packets go there.
client_and_server
static_neighbours
start_switch
bridge br0 client server
ovs-ofctl add-flow br0 actions=normal
fdb() { ovs-appctl fdb/show br0 | sed 1d | sed -E 's/ +[0-9]+$/ AGE/'; }
pings client 10.0.0.2
contains "learned" "$(fdb)" "    2     0  02:00:00:00:00:02 AGE"

same "fdb/add" "Overriding already existing dynamic entry on 2" \
    "$(ovs-appctl fdb/add br0 client 0 02:00:00:00:00:02)"
contains "put there" "$(fdb)" "    1     0  02:00:00:00:00:02  static"
# There is no answer: a frame that goes back where it came from is dropped.
never pings client 10.0.0.2
contains "it does not move" "$(fdb)" "    1     0  02:00:00:00:00:02  static"
contains "flush" "$(ovs-appctl fdb/flush br0)" "table successfully flushed"
same "it stays" "    1     0  02:00:00:00:00:02  static" "$(fdb | grep static)"
same "again, elsewhere" "Overriding already existing static entry on 1" \
    "$(ovs-appctl fdb/add br0 server 0 02:00:00:00:00:02)"
pings client 10.0.0.2
same "a group address" "" "$(ovs-appctl fdb/add br0 br0 7 01:00:5e:00:00:01)"
contains "LOCAL" "$(fdb)" "LOCAL     7  01:00:5e:00:00:01  static"
contains "fdb/stats-show" "$(ovs-appctl fdb/stats-show br0)" "Current static MAC entries in the table : 2"

same "fdb/del" "" "$(ovs-appctl fdb/del br0 0 02:00:00:00:00:02)"
contains "twice" "$(must_fail ovs-appctl fdb/del br0 0 02:00:00:00:00:02)" "could not find static mac entry"
contains "learned ones" "$(must_fail ovs-appctl fdb/del br0 0 02:00:00:00:00:01)" \
    "could not find static mac entry"
pings client 10.0.0.2
# An address of packets that flows answer is learned with their statistics.
eventually 5 reads "    2     0  02:00:00:00:00:02 AGE" fdb
for command in "add nosuch client 0 02:00:00:00:00:02" "del nosuch 0 02:00:00:00:00:02" "stats-clear nosuch"; do
    # shellcheck disable=SC2086
    contains "no bridge" "$(must_fail ovs-appctl fdb/$command)" "no such bridge"
done
contains "no port" "$(must_fail ovs-appctl fdb/add br0 nosuch 0 02:00:00:00:00:02)" "port"
contains "no address" "$(must_fail ovs-appctl fdb/add br0 client 0 02:00:00:00:00)" "bad MAC address"

contains "fdb/stats-clear" "$(ovs-appctl fdb/stats-clear)" "statistics successfully cleared"
same "cleared" 0 "$(ovs-appctl fdb/stats-show br0 | sed -n 's/.*learned MAC entries *: //p')"

# With its port, the address goes too.
vsctl del-port br0 client
ovs-appctl fdb/add br0 server 0 02:00:00:00:00:09
vsctl del-port br0 server
lacks "ports are gone" "$(fdb)" "02:00:00:00:00:09"
