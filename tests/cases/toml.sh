# The second published rule set from a TOML file, with no database at all.
ours || skip "only Tidegate reads TOML"
client_and_server
static_neighbours
serve server 40080
udp_echo server 10.0.0.2 40081
seed2_rules_ex >br-ex.flows
seed2_rules_int >br-int.flows
cat >switch.toml <<T
[switch]
max_connections = 5000

[zone.0]
timeouts = { udp_multiple = 40 }

[[bridge]]
name = "br-ex"
fail_mode = "secure"
flows = ["$work/br-ex.flows"]
port = [{ name = "client" }, { name = "br-int-patch", type = "patch", peer = "br-ex-patch" }]

[[bridge]]
name = "br-int"
fail_mode = "secure"
flows = ["$work/br-int.flows"]
port = [{ name = "br-ex-patch", type = "patch", peer = "br-int-patch" }, { name = "server" }]
T
"$TIDEGATE_SWITCH" switch --config switch.toml --check
"$TIDEGATE_SWITCH" switch --config switch.toml --pidfile=$OVS_RUNDIR/ovs-vswitchd.pid \
    -vconsole:off --log-file=$work/ovs-vswitchd.log >switch.printed 2>&1 &
eventually 8 ovs-appctl version
eventually 5 reads "br-int:" ovs-appctl dpif/show
same "page" hello "$(fetch client http://10.0.0.2:40080/)"
same "datagrams that came back" 3 "$(udp_ask client 10.0.0.2 40081)"
never pings client 10.0.0.2
same "rules read back" "" "$(ovs-ofctl --names diff-flows unix:$OVS_RUNDIR/br-ex.mgmt br-ex.flows)"
same "most connections" 5000 "$(ovs-appctl dpctl/ct-get-maxconns)"
contains "timeouts" "$(ovs-appctl dpctl/dump-conntrack -s | grep udp)" "timeout=3"

sed -i 's/^max_connections.*/max_conections = 5/; s/"patch"/"pach"/' switch.toml
wrong=$(must_fail "$TIDEGATE_SWITCH" switch --config switch.toml --check)
contains "wrong key" "$wrong" "switch.toml:2:1: "
contains "wrong key" "$wrong" "max_connections"
contains "wrong type" "$wrong" "switch.toml:11:"
contains "no file" "$(must_fail "$TIDEGATE_SWITCH" switch --config nosuch.toml --check)" "nosuch.toml"
contains "a file without an end" "$(must_fail "$TIDEGATE_SWITCH" switch --config /dev/zero --check)" \
    "/dev/zero: has no end within 67108864 bytes"
