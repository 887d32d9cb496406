# `exit` ends the switch and leaves its own devices, so that their addresses outlive a restart;
# `exit --cleanup` takes them away. Rows, and devices of others, stay with both.
client_and_server
static_neighbours
start_switch
bridge br0 client server
vsctl add-port br0 int0 -- set interface int0 type=internal
ip addr add 10.0.0.3/24 dev int0
ip link set dev int0 address 02:00:00:00:00:03 up
there() { ip link show dev "$1"; }
gone() { ! there "$1"; }

# ended OPTION: the state after either end.
ended() {
    # shellcheck disable=SC2086
    same "exit $1" "" "$(ovs-appctl -T 10 exit $1)"
    local status=0
    wait "$SWITCH_PID" || status=$?
    SWITCH_PID=''
    same "status of exit $1" 0 $status
    # Its sockets and its pidfile are gone; those of the database are not.
    same "left of exit $1" "db.sock ovsdb-server.ctl ovsdb-server.pid" \
        "$(ls $OVS_RUNDIR | sed 's/\.[0-9]*\.ctl/.ctl/' | tr '\n' ' ' | sed 's/ $//')"
    same "rows" "br0" "$(ovs-vsctl --no-wait --timeout=5 list-br)"
    for host in client server; do contains "$host" "$(ip link show dev $host)" "UP"; done
    never pings client 10.0.0.2
    says "there is no answer" "cannot read pidfile" ovs-appctl version
}
for round in first second; do
    eventually 10 pings client 10.0.0.2
    pings client 10.0.0.3
    number=$(ofport int0)
    ended ""
    for device in br0 int0; do there $device >/dev/null; done
    contains "address in the $round round" "$(ip addr show dev int0)" "10.0.0.3/24"
    start_switch
    eventually 10 test -S $OVS_RUNDIR/br0.mgmt
    same "port number" "$number" "$(ofport int0)"
    ip link set dev int0 up
done
eventually 10 pings client 10.0.0.3
ended --cleanup
for device in br0 int0; do eventually 5 gone $device; done
