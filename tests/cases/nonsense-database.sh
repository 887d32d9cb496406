# limit: 45
# A database server that talks nonsense: the switch keeps what it has, and asks again.
client_and_server
start_switch
bridge br0 client server
pings client 10.0.0.2
stop_database
rm -f $OVS_RUNDIR/db.sock
$python "$tests/hosts/nonsense_server.py" $OVS_RUNDIR/db.sock >nonsense.printed &
nonsense=$!
eventually 25 grep -q "bored 3" nonsense.printed
contains "still there" "$(ovs-appctl version)" "Open vSwitch"
contains "bridge" "$(ovs-appctl dpif/show)" "br0:"
# Open vSwitch 3.1 does not serve ports of its main thread while it has no database.
! ours || pings client 10.0.0.2
kill $nonsense
rm -f $OVS_RUNDIR/db.sock
start_database
vsctl --no-wait add-br br1 -- set bridge br1 datapath_type=netdev
eventually 20 reads "br1:" ovs-appctl dpif/show
pings client 10.0.0.2
