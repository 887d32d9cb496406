# Timeouts of a zone, set with ovs-vsctl, are what connections get, and expire by.
client_and_server
static_neighbours
start_switch
bridge br0 client server
seed1_rules | load br0
udp_echo server 10.0.0.2 53
serve server
contains "no datapath row" "$(must_fail ovs-vsctl add-zone-tp netdev zone=0 udp_first=2)" "netdev"
vsctl -- --id=@m create Datapath datapath_version=0 -- set Open_vSwitch . datapaths:netdev=@m
eventually 5 reads "ct_timeout=true" vsctl list-dp-cap netdev
vsctl add-zone-tp netdev zone=0 tcp_established=30 udp_first=5 udp_single=6 udp_multiple=2 icmp_first=7 icmp_reply=3
contains "listed" "$(vsctl list-zone-tp netdev)" "tcp_established=30"
sleep 0.5
same "datagrams that came back" 3 "$(udp_ask client 10.0.0.2 53 3 6001)"
on client bash -c 'exec 3<>/dev/tcp/10.0.0.2/80; sleep 5' &
pings client 10.0.0.2
sleep 0.3
timeout_of() { ovs-appctl dpctl/dump-conntrack -s | sed -n "s/^$1,.*,timeout=\([0-9]*\).*/\1/p"; }
in_range() { [ "$(timeout_of "$1")" -ge "$2" ] && [ "$(timeout_of "$1")" -le "$3" ]; }
in_range tcp 28 30 || fail "TCP: $(timeout_of tcp) s"
in_range udp 0 2 || fail "UDP: $(timeout_of udp) s"
in_range icmp 0 3 || fail "ICMP: $(timeout_of icmp) s"
# Expired connections disappear; how long after their timeout depends on the switch.
gone() { ! ovs-appctl dpctl/dump-conntrack | grep -q ^udp; }
eventually 15 gone
contains "still there" "$(ovs-appctl dpctl/dump-conntrack)" "tcp,"
vsctl del-zone-tp netdev zone=0
same "deleted" "" "$(vsctl list-zone-tp netdev)"
