# Single flows of the datapath, its limits and capabilities, and trace requests of packets, in the
# text formats of Open vSwitch.
client_and_server
static_neighbours
start_switch
bridge br0 client server
ovs-ofctl del-flows br0
load br0 <<R
ip,ct_state=-trk,actions=ct(table=1)
table=1,ip,actions=ct(commit),normal
R
same "no connection" "Total Buckets: 1
Current Connections: 0" "$(ovs-appctl dpctl/ct-bkts)"
pings client 10.0.0.2
same "one connection" "Total Buckets: 1
Current Connections: 1

+-----------+-----------------------------------------+
|  Buckets  |         Connections per Buckets         |
+-----------+-----------------------------------------+
   0..  7   |     1" "$(ovs-appctl dpctl/ct-bkts)"
contains "few" "$(ovs-appctl dpctl/ct-bkts netdev@ovs-netdev gt=1)" "   0..  7   |     ."
contains "no number" "$(must_fail ovs-appctl dpctl/ct-bkts gt=x)" "ovs-vswitchd: datapath not found"

ufid() { ovs-appctl dpctl/dump-flows -m | grep "in_port($1).*recirc(0x" | grep -o '^ufid:[0-9a-f-]*'; }
ufid=$(ufid client)
counted='packets:[0-9]+, bytes:[0-9]+, used:[0-9.]+s'
flow='ct_state\(-trk\),recirc_id\(0\),in_port\(2\),packet_type\(ns=0,id=0\),eth_type\(0x0800\),ipv4\(frag=no\)'
got=$(ovs-appctl dpctl/get-flow "$ufid")
grep -Eqx "$flow, $counted, actions:ct,recirc\(0x[0-9a-f]+\)" <<<"$got" || fail "dpctl/get-flow: $got"
contains "names" "$(ovs-appctl dpctl/get-flow --names "$ufid")" "in_port(client)"
contains "a datapath" "$(ovs-appctl dpctl/get-flow netdev@ovs-netdev "$ufid")" "in_port(2)"
contains "-m" "$(ovs-appctl dpctl/get-flow -m "$ufid")" "$ufid, skb_priority(0/0),"
contains "no such datapath" "$(must_fail ovs-appctl dpctl/get-flow nosuch "$ufid")" "datapath not found"
contains "no such flow" "$(must_fail ovs-appctl dpctl/get-flow ufid:00000000-0000-0000-0000-000000000000)" \
    "ovs-vswitchd: getting flow (No such file or directory)"
says "no identifier" "ovs-vswitchd: parsing flow ufid" ovs-appctl dpctl/get-flow ufid:1

same "dpctl/del-flow" "" "$(ovs-appctl dpctl/del-flow "$ufid")"
contains "it is gone" "$(must_fail ovs-appctl dpctl/get-flow "$ufid")" "getting flow (No such file"
same "twice" "ovs-vswitchd: deleting flow (No such file or directory)
Perhaps you need to specify a UFID?
ovs-appctl: ovs-vswitchd: server returned an error" "$(must_fail ovs-appctl dpctl/del-flow "$ufid")"
got=$(ovs-appctl dpctl/del-flow -s "$(ufid server)")
grep -Eqx "$counted" <<<"$got" || fail "dpctl/del-flow -s: $got"
says "no flow" "ovs-vswitchd: syntax error at " ovs-appctl dpctl/del-flow x
# Packets bring it back; Open vSwitch remembers for a while that it is there.
ovs-appctl revalidator/purge
back() { pings client 10.0.0.2 && ufid client; }
eventually 10 back
contains "again" "$(ovs-appctl dpctl/get-flow "$(ufid client)")" "in_port(2)"

same "upcall/set-flow-limit" "set flow_limit to 20000" "$(ovs-appctl upcall/set-flow-limit 20000)"
contains "in force" "$(ovs-appctl upcall/show)" "(limit 20000)"
features=$(ovs-appctl dpif/show-dp-features br0)
same "features" 26 "$(wc -l <<<"$features")"
for line in "Masked set action: Yes" "Conntrack timeout policy: Yes" "Max VLAN headers: 1" "CT state NAT: Yes"; do
    grep -qx "$line" <<<"$features" || fail "dpif/show-dp-features has no \`$line\`: $features"
done
# What the database says of the datapath is the same.
vsctl -- --id=@new create Datapath datapath_version=x -- set open_vswitch . datapaths:netdev=@new
eventually 5 reads 'recirc="true"' ovs-vsctl --timeout=5 list Datapath
capabilities=$(ovs-vsctl --bare --columns=capabilities list Datapath)
for pair in "Truncate action:trunc" "Check pkt length action:check_pkt_len" "MPLS Label add:add_mpls"; do
    told=$(sed -n "s/^${pair%:*}: //p" <<<"$features" | sed 's/Yes/true/; s/No/false/')
    contains "$pair" "$capabilities" "${pair#*:}=$told"
done
contains "no bridge" "$(must_fail ovs-appctl dpif/show-dp-features nosuch)" "no such bridge"

trace=$(ovs-appctl ofproto/trace-packet-out br0 in_port=1,ip output:2)
same "ofproto/trace-packet-out" 'bridge("br0")
-------------
    output:2

Final flow: unchanged
Megaflow: recirc_id=0,eth,ip,in_port=1,nw_frag=no
Datapath actions: 3' "$(sed 1,2d <<<"$trace")"
contains "flow" "$trace" "Flow: ip,in_port=1,vlan_tci=0x0000,"
contains "by the tables" "$(ovs-appctl ofproto/trace-packet-out br0 in_port=1,ip 'resubmit(,1)')" \
    " 1. ip, priority 32768"
contains "-generate" "$(ovs-appctl ofproto/trace-packet-out br0 in_port=1,ip -generate output:2)" \
    "Datapath actions: 3"
contains "an instruction" "$(must_fail ovs-appctl ofproto/trace-packet-out br0 in_port=1,ip goto_table:1)" \
    "goto_table instruction not allowed here"
contains "no action" "$(must_fail ovs-appctl ofproto/trace-packet-out br0 in_port=1,ip nosuch)" "nosuch"
must_fail ovs-appctl ofproto/trace-packet-out nosuch in_port=1,ip output:2 >/dev/null
