# The dumps of the datapath, in Open vSwitch's text formats.
client_and_server
static_neighbours
start_switch
bridge br0 client server
seed1_rules | load br0
udp_echo server 10.0.0.2 53
ovs-appctl revalidator/purge 2>/dev/null || true
ovs-appctl dpctl/flush-conntrack
sleep 0.3
same "empty connection table" "" "$(ovs-appctl dpctl/dump-conntrack)"
same "came back" 4 "$(udp_ask client 10.0.0.2 53 4 6000)"
same "connection" \
    "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=6000,dport=53),reply=(src=10.0.0.2,dst=10.0.0.1,sport=53,dport=6000)" \
    "$(ovs-appctl dpctl/dump-conntrack)"
same "of another zone" "" "$(ovs-appctl dpctl/dump-conntrack zone=7)"
contains "-m" "$(ovs-appctl dpctl/dump-conntrack -m)" ",id=0,status=0"
contains "-s" "$(ovs-appctl dpctl/dump-conntrack -s)" ",timeout="
same "ct-get-nconns" 1 "$(ovs-appctl dpctl/ct-get-nconns)"
same "ct-stats-show" "Connections Stats:
    Total: 1
  UDP: 1" "$(ovs-appctl dpctl/ct-stats-show)"
same "verbose" "$(ovs-appctl dpctl/ct-stats-show -m)" "$(ovs-appctl dpctl/ct-stats-show zone=0 verbose)"

shown=$(ovs-appctl dpctl/dump-flows)
same "heading" "flow-dump from the main thread:" "$(head -1 <<<"$shown")"
# Open vSwitch counts neither the packet that missed nor its bytes.
line='recirc_id\(0\),in_port\(2\),packet_type\(ns=0,id=0\),eth_type\(0x0800\),ipv4\(frag=no\), packets:[0-9]+, bytes:[0-9]+, used:[0-9.]+s, actions:ct,recirc\(0x[0-9a-f]+\)'
grep -Eq "^ct_state\(-trk\),$line$" <<<"$shown" || fail "no such flow: $line; but: $shown"
contains "by name" "$(ovs-appctl dpctl/dump-flows --names)" "in_port(client)"
grep -Eq '^ufid:[0-9a-f]{8}-[0-9a-f-]{27}, ' <<<"$(ovs-appctl dpctl/dump-flows -m)" || fail "-m has no ufid"
contains "filter" "$(ovs-appctl dpctl/dump-flows filter=in_port=client 2>&1)" "in_port(2)"
contains "of the main thread" "$(ovs-appctl dpctl/dump-flows pmd=-1)" "in_port(2)"
same "of a core without a worker" "" "$(ovs-appctl dpctl/dump-flows pmd=3)"
lacks "filter" "$(ovs-appctl dpctl/dump-flows filter=in_port=client 2>&1)" "in_port(3)"

shown=$(ovs-appctl dpctl/show)
grep -Eqx 'netdev@ovs-netdev:' <<<"$shown" || fail "dpctl/show: $shown"
grep -Eqx '  lookups: hit:[0-9]+ missed:[0-9]+ lost:0' <<<"$shown" || fail "dpctl/show: $shown"
# Only Open vSwitch makes a device that stands for the datapath itself.
grep -qxF '  port 0: ovs-netdev (tap)' <<<"$shown" || fail "dpctl/show: $shown"
for line in '  port 1: br0 (tap)' '  port 2: client' '  port 3: server'; do
    grep -qxF "$line" <<<"$shown" || fail "dpctl/show has no \`$line\`: $shown"
done
same "dpif/show" "  br0:
    br0 65534/1: (tap)
    client 1/2: (system)
    server 2/3: (system)" "$(ovs-appctl dpif/show | tail -n +2)"

trace=$(ovs-appctl ofproto/trace br0 in_port=client,udp,nw_src=10.0.0.1,nw_dst=10.0.0.2)
for piece in 'Flow: udp,in_port=1,' 'bridge("br0")' ' 0. ct_state=-trk,ip, priority 1' \
    'Final flow: ' 'Megaflow: recirc_id=0,' 'Datapath actions: ct,recirc(0x'; do
    contains "ofproto/trace" "$trace" "$piece"
done
contains "bad field" "$(must_fail ovs-appctl ofproto/trace br0 nosuch=1)" "nosuch"
contains "bad datapath" "$(must_fail ovs-appctl dpctl/show nodp)" "nodp"
contains "bad filter" "$(must_fail ovs-appctl dpctl/dump-flows filter=nosuch)" "Failed to parse filter"
