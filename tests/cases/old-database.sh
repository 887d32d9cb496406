# limit: 60
# A database server that is older than the switch: without `monitor_cond_since` (before 2.12), and
# without `monitor_cond` and the database `_Server` (before 2.9, and 2.6). A proxy before the real
# server stands for it, for the stock tools as well.
client_and_server
real=$work/real.sock
old_server() {
    rm -f $OVS_RUNDIR/db.sock
    $python "$tests/hosts/old_database.py" $OVS_RUNDIR/db.sock "$real" "$@" >proxy.printed &
    proxy=$!
    eventually 5 test -S $OVS_RUNDIR/db.sock
}
passed_on() { sort proxy.printed | uniq -c | sed -n 's/^ *[0-9]* passed on //p'; }

ovsdb-tool create $work/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server $work/conf.db --remote=punix:"$real" --pidfile -vconsole:off -vsyslog:off \
    --log-file=$work/ovsdb-server.log &
DATABASE_PID=$!
eventually 5 test -S "$real"

for unknown in "monitor_cond_since" "monitor_cond_since monitor_cond set_db_change_aware _Server"; do
    # shellcheck disable=SC2086 # a list of words
    old_server $unknown
    ovs-vsctl --no-wait --timeout=5 init
    start_switch
    # Each of these waits for the switch to have done it.
    bridge br0 client server
    pings client 10.0.0.2
    same "ports" "1 2" "$(ofport client) $(ofport server)"
    load br0 <<<"priority=1,actions=drop"
    never pings client 10.0.0.2
    # Rows that change, come and go; what a row had before counts, too.
    vsctl add-br br1 -- set bridge br1 datapath_type=netdev
    contains "a bridge more" "$(ovs-appctl dpif/show)" "br1:"
    vsctl set open_vswitch . other_config:flow-limit=50 other_config:max-idle=5000
    vsctl remove open_vswitch . other_config max-idle
    eventually 3 reads "(limit 50)" ovs-appctl upcall/show
    vsctl set bridge br1 fail_mode=secure
    vsctl -- --id=@dp create Datapath datapath_version=0 -- set open_vswitch . datapaths:netdev=@dp
    vsctl add-zone-tp netdev zone=7 udp_single=9
    vsctl del-br br1 -- remove open_vswitch . other_config flow-limit
    lacks "a bridge less" "$(ovs-appctl dpif/show)" "br1:"
    # The tools wait for other monitors than the switch; all are of the kind that there is.
    contains "refusals" "$(sort -u proxy.printed)" "refused monitor_cond"
    case $unknown in
    *"monitor_cond "*)
        lacks "monitors" "$(passed_on)" "monitor_cond"
        contains "monitors" "$(passed_on)" "monitor Open_vSwitch"
        ;;
    *) contains "monitors" "$(passed_on)" "monitor_cond Open_vSwitch" ;;
    esac
    # The connection breaks. What changed meanwhile is there after the next.
    kill "$proxy"
    wait "$proxy" || true
    ovs-vsctl --db=unix:"$real" --no-wait --timeout=5 add-br br2 -- set bridge br2 datapath_type=netdev
    # shellcheck disable=SC2086
    old_server $unknown
    eventually 15 reads "br2:" ovs-appctl dpif/show
    vsctl del-br br2 -- del-br br0 -- del-zone-tp netdev zone=7 -- remove open_vswitch . datapaths netdev
    contains "asked again" "$(sort -u proxy.printed)" "refused monitor_cond"
    stop_switch
    kill "$proxy"
    wait "$proxy" || true
done
