# limit: 150
# BFD with Open vSwitch's own daemon at the other end: on a port, through VXLAN, with each setting, and while the switch
# is busy with flow-mods.
[ -x /usr/sbin/ovs-vswitchd ] || skip "there is no /usr/sbin/ovs-vswitchd"
host far 172.31.9.9/24 02:00:00:00:00:fe
host other 172.31.9.8/24 02:00:00:00:00:fd
host client 10.0.0.1/24 02:00:00:00:00:01
host server 10.0.0.2/24 02:00:00:00:00:02
on far ip addr flush dev eth0
start_switch
underlay far other
bridge br-int client server

start_peer
far_vsctl add-br phy -- set bridge phy datapath_type=netdev -- add-port phy eth0
on far ip link set phy up
on far ip addr add 172.31.1.2/24 dev phy

status() { vsctl get interface "$1" "bfd_status:$2" | tr -d '"'; }
far_status() { far_vsctl get interface "$1" "bfd_status:$2" | tr -d '"'; }
is() { [ "$(status "$1" "$2" 2>/dev/null)" = "$3" ]; }
far_is() { [ "$(far_status "$1" "$2" 2>/dev/null)" = "$3" ]; }
# up NEAR FAR: both ends say so.
up() {
    eventually 10 is "$1" state up || fail "$1 is not up: $(ovs-appctl bfd/show "$1")"
    eventually 10 far_is "$2" state up || fail "$2 of the peer is not up"
}
shown() { ovs-appctl bfd/show "$1"; }

# On a port. The session's frames reach no flow.
vsctl set interface far bfd:enable=true bfd:min_rx=300 bfd:min_tx=300
far_vsctl set interface eth0 bfd:enable=true bfd:min_rx=300 bfd:min_tx=300
up far eth0
same "forwarding" true "$(status far forwarding)"
same "remote state" up "$(status far remote_state)"
same "flaps" 1 "$(status far flap_count)"
contains "the interval" "$(shown far)" "TX Interval: Approx 300ms"
contains "the flow" "$(ovs-appctl dpctl/dump-flows)" "slow_path(bfd)"
contains "what it matches" "$(ovs-appctl dpctl/dump-flows | grep 'slow_path(bfd)')" "udp(dst=3784)"
contains "no such session" "$(must_fail ovs-appctl bfd/show none)" "no such bfd object"

# Intervals are negotiated while the session is up.
vsctl set interface far bfd:min_tx=500
negotiated() { shown far | grep -q 'TX Interval: Approx 500ms' && shown far | grep -q 'Local Flags: none'; }
eventually 8 negotiated
far_vsctl set interface eth0 bfd:min_rx=700
slower() { shown far | grep -q 'Remote Minimum RX Interval: 700ms'; }
eventually 8 slower
same "flaps" 1 "$(status far flap_count)"
vsctl set interface far bfd:min_tx=300
far_vsctl set interface eth0 bfd:min_rx=300

# The path behind the peer is down.
far_vsctl set interface eth0 bfd:cpath_down=true
eventually 8 is far forwarding false
same "the session stays" up "$(status far state)"
same "why" "Concatenated Path Down" "$(status far remote_diagnostic)"
far_vsctl set interface eth0 bfd:cpath_down=false
eventually 8 is far forwarding true

# Groups and OpenFlow follow the session.
ovs-ofctl -O OpenFlow13 add-group br-phy 'group_id=1,type=ff,bucket=watch_port:far,actions=output:far,bucket=watch_port:other,actions=output:other'
chosen() { ovs-appctl ofproto/trace br-phy in_port=9,dl_type=0x1234 -generate 2>/dev/null | tail -1; }
ovs-ofctl -O OpenFlow13 add-flow br-phy 'priority=9,dl_type=0x1234,actions=group:1'
first=$(chosen)
same "forced" OK "$(ovs-appctl bfd/set-forwarding far false)"
eventually 8 is far forwarding false
[ "$first" != "$(chosen)" ] || fail "the group still chooses the port: $first"
lacks "OpenFlow" "$(ovs-ofctl -O OpenFlow13 show br-phy | grep -A2 '(far)')" LIVE
ovs-appctl bfd/set-forwarding normal >/dev/null
eventually 8 is far forwarding true
same "again" "$first" "$(chosen)"
contains "OpenFlow" "$(ovs-ofctl -O OpenFlow13 show br-phy | grep -A2 '(far)')" LIVE

# A silent peer is down after three intervals, and up when it is heard again.
far_vsctl set interface eth0 bfd:enable=false
eventually 5 is far state down
same "why" "Control Detection Time Expired" "$(status far diagnostic)"
far_vsctl set interface eth0 bfd:enable=true
up far eth0

# Through a tunnel, with the addresses that OVN and others set.
vsctl add-port br-int vx -- set interface vx type=vxlan options:remote_ip=172.31.1.2 options:key=flow \
    bfd:enable=true bfd:min_rx=300 bfd:min_tx=300 bfd:check_tnl_key=true bfd:oam=true
far_vsctl add-br int -- set bridge int datapath_type=netdev -- add-port int vx \
    -- set interface vx type=vxlan options:remote_ip=172.31.1.1 options:key=flow \
    bfd:enable=true bfd:min_rx=300 bfd:min_tx=300
up vx vx
vsctl set interface vx bfd:bfd_local_dst_mac=00:23:20:00:00:77 bfd:bfd_src_ip=10.9.0.1 bfd:bfd_dst_ip=10.9.0.2
far_vsctl set interface vx bfd:bfd_remote_dst_mac=00:23:20:00:00:77 bfd:bfd_src_ip=10.9.0.2 bfd:bfd_dst_ip=10.9.0.1
# The new addresses may cost a packet or two; the sessions are up and stay so.
sleep 2
up vx vx
contains "the tunnel's flow" "$(ovs-appctl dpctl/dump-flows | grep 'slow_path(bfd)')" "dst=10.9.0.1"

# No session flaps while 30,000 flow-mods go on, nor does the peer see a pause.
before=$(status far flap_count)/$(status vx flap_count)/$(far_status eth0 flap_count)/$(far_status vx flap_count)
for round in 1 2; do
    for ((n = 0; n < 15000; n++)); do
        echo "table=$((round + 4)),priority=$((n % 700)),ip,nw_src=10.$((n / 60000)).$((n / 250 % 240)).$((n % 250)),actions=output:1"
    done
done >flows
for _ in 1 2 3; do
    ovs-ofctl add-flows br-int flows
    ovs-ofctl del-flows br-int table=5
    ovs-ofctl del-flows br-int table=6
done
sleep 1
after=$(status far flap_count)/$(status vx flap_count)/$(far_status eth0 flap_count)/$(far_status vx flap_count)
same "flaps meanwhile" "$before" "$after"
lacks "delays" "$(cat "$work/ovs-vswitchd.log")" "long delay"

# Without the setting nothing is left of it.
vsctl clear interface far bfd
empty() { [ "$(vsctl get interface far bfd_status)" = "{}" ]; }
eventually 5 empty
contains "gone" "$(must_fail ovs-appctl bfd/show far)" "no such bfd object"
