# A second daemon is refused by the first one's pidfile; without one, by the database's lock.
client_and_server
start_switch
bridge br0 client server
second() { (exec -a ovs-vswitchd "$TIDEGATE_SWITCH" unix:$OVS_RUNDIR/db.sock -vsyslog:off "$@"); }
refused=$(must_fail timeout 5 bash -c "exec -a ovs-vswitchd $TIDEGATE_SWITCH unix:$OVS_RUNDIR/db.sock --pidfile -vsyslog:off")
contains "refused" "$refused" "already running as pid $SWITCH_PID, aborting"

second --unixctl=$work/second.ctl -vconsole:off --log-file=$work/second.log &
waits=$!
eventually 5 ovs-appctl -t $work/second.ctl version
sleep 0.5
pings client 10.0.0.2
contains "first" "$(ovs-appctl dpif/show)" "br0:"
lacks "second" "$(ovs-appctl -t $work/second.ctl dpif/show 2>&1 || true)" "br0:"
# After the first has ended, the second gets its lock and takes over.
ovs-appctl exit
wait "$SWITCH_PID"
eventually 8 reads "br0:" ovs-appctl -t $work/second.ctl dpif/show
eventually 5 pings client 10.0.0.2
kill "$waits"
