# --detach returns when the first configuration is in force; the pidfile is there, and locked.
client_and_server
start_database
ovs-vsctl --no-wait add-br br0 -- set bridge br0 datapath_type=netdev -- add-port br0 client -- add-port br0 server
(exec -a ovs-vswitchd "$TIDEGATE_SWITCH" unix:$OVS_RUNDIR/db.sock --pidfile --detach --no-chdir \
    -vconsole:off -vsyslog:off --log-file=$work/ovs-vswitchd.log)
for port in br0 client server; do
    contains "configured at once" "$(ovs-appctl dpif/show)" "    $port "
done
pings client 10.0.0.2
pid=$(cat $OVS_RUNDIR/ovs-vswitchd.pid)
test -S $OVS_RUNDIR/ovs-vswitchd.$pid.ctl
ovs-appctl exit
eventually 5 test ! -e $OVS_RUNDIR/ovs-vswitchd.pid
never ovs-appctl version
