# The slow path's commands: megaflows without masks, revalidation that waits, statistics and expiry as asked.
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
priority=1,actions=normal
R
flows() { ovs-appctl dpctl/dump-flows; }
pings client 10.0.0.2
contains "upcall/disable-megaflows" "$(ovs-appctl upcall/disable-megaflows)" "megaflows disabled"
pings client 10.0.0.2
contains "flows without masks" "$(flows)" "ttl=64"
contains "upcall/enable-megaflows" "$(ovs-appctl upcall/enable-megaflows)" "megaflows enabled"
pings client 10.0.0.2
! flows | grep -q "ttl=64" || fail "flows without masks are left: $(flows)"
contains "upcall/disable-ufid" "$(ovs-appctl upcall/disable-ufid)" "UFID disabled"
contains "upcall/enable-ufid" "$(ovs-appctl upcall/enable-ufid)" "UFID enabled"

# While it is paused, what is installed stays as it is.
ovs-appctl revalidator/wait
ovs-appctl revalidator/pause
ovs-ofctl add-flow br0 priority=9,icmp,actions=drop
! flows | grep -q "proto=1.*actions:drop" || fail "revalidated while paused: $(flows)"
pings client 10.0.0.2
ovs-appctl revalidator/resume
ovs-appctl revalidator/wait
! on client ping -c 1 -W 1 10.0.0.2 >/dev/null || fail "not revalidated: $(flows)"
ovs-ofctl --strict del-flows br0 priority=9,icmp
ovs-appctl revalidator/wait
pings client 10.0.0.2

# A client that waits while revalidation is paused is answered after the resume; others are answered meanwhile.
ovs-appctl revalidator/pause
ovs-ofctl add-flow br0 priority=9,icmp,actions=drop
timeout 20 ovs-appctl revalidator/wait >"$work/wait.out" 2>&1 &
waiting=$!
sleep 1
kill -0 $waiting 2>/dev/null || fail "revalidator/wait did not wait: $(cat "$work/wait.out")"
contains "other commands are answered" "$(timeout 5 ovs-appctl upcall/show)" "flows"
pings client 10.0.0.2
timeout 5 ovs-appctl revalidator/resume || fail "revalidator/resume has no answer"
wait $waiting || fail "revalidator/wait after the resume: $(cat "$work/wait.out")"
! on client ping -c 1 -W 1 10.0.0.2 >/dev/null || fail "not revalidated after the wait: $(flows)"
ovs-ofctl --strict del-flows br0 priority=9,icmp
ovs-appctl revalidator/wait
pings client 10.0.0.2
ovs-appctl revalidator/purge
[ -z "$(flows)" ] || fail "flows are left: $(flows)"

# A link that is of no bridge concerns no flow.
if ours; then
    pings client 10.0.0.2
    ovs-appctl revalidator/wait
    revalidated() { ovs-appctl coverage/show | sed -n 's/^flows_revalidated .*total: //p'; }
    [ "$(revalidated)" -ge 1 ] || fail "nothing was revalidated: $(ovs-appctl coverage/show)"
    before=$(revalidated)
    ip link add foreign0 type veth peer name foreign1
    ip link set foreign0 up
    ip link del foreign0
    sleep 1
    ovs-appctl revalidator/wait
    [ -n "$(flows)" ] || fail "there are no flows"
    [ "$(revalidated)" = "$before" ] || fail "a foreign link: $before flows, then $(revalidated)"
fi

if ours; then
    vsctl set open_vswitch . other_config:max-idle=500 other_config:tidegate-flow-expiry=false
    pings client 10.0.0.2
    sleep 2
    [ -n "$(flows)" ] || fail "flows expired"
    vsctl set open_vswitch . other_config:tidegate-flow-expiry=true
    gone() { [ -z "$(flows)" ]; }
    eventually 4 gone
fi

# Upcalls are limited by port and class: of many echo requests that each need a flow, few come up.
if ours; then
    ovs-appctl upcall/disable-megaflows >/dev/null
    vsctl set open_vswitch . other_config:tidegate-upcall-rates=client/ip=1
    # The first is within the rate; those of other sizes are flows of their own.
    for ttl in 60 61 62 63; do on client ping -q -c 1 -W 1 -t $ttl 10.0.0.2 >/dev/null || true; done
    lost() { ovs-appctl upcall/show | sed -n 's/.*lost of client: \([0-9]*\).*/\1/p'; }
    [ "$(lost)" -ge 1 ] 2>/dev/null || fail "nothing is limited: $(ovs-appctl upcall/show)"
    vsctl set open_vswitch . other_config:tidegate-upcall-rates=client/arp=1
    contains "what is wrong is said" "$(cat "$work/ovs-vswitchd.log")" "tidegate-upcall-rates"
    vsctl remove open_vswitch . other_config tidegate-upcall-rates
    pings client 10.0.0.2 || fail "limited without limits"
    ovs-appctl upcall/enable-megaflows >/dev/null
fi
