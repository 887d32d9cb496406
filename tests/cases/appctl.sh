# The commands of ovs-appctl that every daemon of Open vSwitch has.
client_and_server
start_switch
bridge br0 client server
contains "version" "$(ovs-appctl version)" "Open vSwitch"
# ovs-ctl parses the last word as the version.
[[ $(ovs-appctl version | awk 'NR == 1 { print $NF }') =~ ^[0-9]+\.[0-9]+ ]] || fail "no version"
commands=$(ovs-appctl list-commands)
same "heading" "The available commands are:" "$(head -1 <<<"$commands")"
for command in coverage/show dpctl/ct-del-limits dpctl/ct-get-limits dpctl/ct-get-maxconns \
    dpctl/ct-get-nconns dpctl/ct-set-limits dpctl/ct-set-maxconns dpctl/ct-stats-show \
    dpctl/dump-conntrack dpctl/dump-flows dpctl/flush-conntrack dpctl/show \
    dpif-netdev/pmd-rxq-show dpif-netdev/pmd-stats-clear dpif-netdev/pmd-stats-show dpif/show \
    exit fdb/flush fdb/show list-commands memory/show ofproto/list ofproto/trace upcall/show version \
    vlog/disable-rate-limit vlog/enable-rate-limit \
    vlog/close vlog/list vlog/list-pattern vlog/reopen vlog/set; do
    grep -q "^  $command " <<<"$commands" || fail "list-commands has no $command"
done
if [ "$(sort <<<"${commands#*:}")" != "$(LC_ALL=C sort <<<"${commands#*:}")" ]; then
    fail "list-commands is not sorted"
fi

contains "unknown" "$(must_fail ovs-appctl nosuch)" \
    '"nosuch" is not a valid command (use "list-commands" to see a list of valid commands)'
contains "too few" "$(must_fail ovs-appctl fdb/show)" '"fdb/show" command requires at least 1 arguments'
contains "too many" "$(must_fail ovs-appctl version x)" '"version" command takes at most 0 arguments'

contains "vlog/list" "$(ovs-appctl vlog/list)" "console    syslog    file"
ovs-appctl vlog/set ANY:file:dbg
contains "vlog/list" "$(ovs-appctl vlog/list | grep -E '^(bridge|vlog) ' | head -1)" "DBG"
ovs-appctl vlog/set ANY:file:info
contains "bad level" "$(must_fail ovs-appctl vlog/set foo:bar)" 'no destination, level, or module "foo"'
contains "vlog/list-pattern" "$(ovs-appctl vlog/list-pattern)" "%D{"
mv ovs-vswitchd.log moved.log
ovs-appctl vlog/reopen
test -s ovs-vswitchd.log || ovs-appctl vlog/set ANY:file:dbg
eventually 3 test -e ovs-vswitchd.log
grep -Eq '^20..-..-..T..:..:..\....Z\|[0-9]{5}\|[a-z_0-9()]+\|(INFO|DBG|WARN)\|' moved.log ||
    fail "the log is not in Open vSwitch's format"

# Counters of zero are omitted; a bridge has four hidden flows and one normal flow at first.
shown=$(ovs-appctl memory/show)
for piece in handlers: "ports:3" revalidators: "rules:5"; do contains "memory/show" "$shown" "$piece"; done
lacks "memory/show" "$shown" ":0"
shown=$(ovs-appctl coverage/show)
grep -Eqx 'Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=[0-9a-f]{8}:' \
    <<<"$(head -1 <<<"$shown")" || fail "coverage/show: $shown"
grep -Eqx '[0-9]+ events never hit' <<<"$(tail -1 <<<"$shown")" || fail "coverage/show: $shown"
bad=$(sed '1d; $d' <<<"$shown" | grep -Evx '[a-z0-9_]+ +[0-9]+\.[0-9]/sec +[0-9]+\.[0-9]{3}/sec +[0-9]+\.[0-9]{4}/sec   total: [0-9]+' || true)
same "other lines of coverage/show" "" "$bad"
# The rate over an hour divides by an hour, even in the first seconds.
wrong=$(awk '$NF > 0 && $4 * 3600 > $NF + 1' <<<"$(sed '1d; $d; s|/sec||g' <<<"$shown")")
same "rates of an hour" "" "$wrong"
contains "pmd-stats-show" "$(ovs-appctl dpif-netdev/pmd-stats-show)" "packets received:"
ovs-appctl dpif-netdev/pmd-stats-clear
ovs-appctl dpif-netdev/pmd-rxq-show >/dev/null
contains "upcall/show" "$(ovs-appctl upcall/show)" "flows         : (current"
# Our limit is the configured one; that of Open vSwitch starts low, and grows while revalidation is
# fast.
ours && limit=200000 || limit=10000
contains "upcall/show" "$(ovs-appctl upcall/show)" "(limit $limit)"

for command in dump-flows dump-conntrack ct-stats-show ct-get-nconns; do
    for datapath in nosuch netdev@nosuch; do
        same "$command $datapath" "ovs-vswitchd: datapath not found (Invalid argument)
ovs-appctl: ovs-vswitchd: server returned an error" "$(must_fail ovs-appctl dpctl/$command $datapath)"
    done
done
contains "ct-set-maxconns" "$(must_fail ovs-appctl dpctl/ct-set-maxconns nosuch 5)" \
    "ovs-vswitchd: datapath not found (Invalid argument)"
contains "dpctl/show" "$(must_fail ovs-appctl dpctl/show nosuch)" \
    "ovs-vswitchd: opening datapath nosuch failed (No such file or directory)"
contains "dpctl/show" "$(must_fail ovs-appctl dpctl/show netdev@nosuch)" \
    "ovs-vswitchd: opening datapath netdev@nosuch failed (No such device)"
contains "dpctl/show" "$(ovs-appctl dpctl/show netdev@ovs-netdev)" "port 1: br0"

# The datapath may be named without its type, and a long option abbreviated to its short form.
contains "trace" "$(ovs-appctl ofproto/trace ovs-netdev 'in_port(2)')" "Datapath actions:"
contains "ipf" "$(ovs-appctl dpctl/ipf-get-status --more)" "Fragmentation Module Status"
contains "limit" "$(must_fail ovs-appctl dpctl/ct-set-limits default=x)" "invalid default limit (Invalid argument)"

# The socket of a bridge exists as soon as the bridge does.
for n in 1 2 3 4 5 6 7 8; do
    vsctl add-br "extra$n"
    test -S "$OVS_RUNDIR/extra$n.mgmt" || fail "extra$n: no socket"
    vsctl del-br "extra$n"
done

# What ends each flow of a detailed dump is what the package `ovs` parses.
pings client 10.0.0.2
lines=$(ovs-appctl dpctl/dump-flows -m | grep -c '^ufid')
same "dp-extra-info" "$lines" "$(ovs-appctl dpctl/dump-flows -m | grep -Ec ', dp-extra-info:miniflow_bits\([0-9]+,[0-9]+\)$')"

# An incomplete request, an invalid one, and a client that disconnects do no harm.
socket=$OVS_RUNDIR/ovs-vswitchd.$SWITCH_PID.ctl
for text in '{"id":0,"method":"vers' 'nonsense' '[1,2,3]' '{"id":0}' '{}' "$(head -c 100000 /dev/zero | tr '\0' '[')"; do
    nc -N -w 1 -U "$socket" <<<"$text" >/dev/null 2>&1 || true
done
contains "version" "$(ovs-appctl version)" "Open vSwitch"
pings client 10.0.0.2
