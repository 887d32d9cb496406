# An address that sends nothing for other_config:mac-aging-time is forgotten; the minimum is 15 s.
# limit: 45
client_and_server
start_switch
bridge br0 client server
vsctl set bridge br0 other_config:mac-aging-time=15
pings client 10.0.0.2
contains "learned" "$(ovs-appctl fdb/show br0)" "02:00:00:00:00:01"
ip -n client link set eth0 down
ip -n server link set eth0 down
sleep 10
contains "after 10 s" "$(ovs-appctl fdb/show br0)" "02:00:00:00:00:01"
forgotten() { ! ovs-appctl fdb/show br0 | grep -q 02:00:00:00:00:01; }
eventually 12 forgotten
