# The second published rule set: two bridges joined by patch ports; high ports go through
# connection tracking, everything else to the bridge's own device.
client_and_server
static_neighbours
start_switch
seed2_bridges
same "rules of br-ex read back" "" "$(ovs-ofctl --names diff-flows br-ex $work/rules.br-ex)"
same "rules of br-int read back" "" "$(ovs-ofctl --names diff-flows br-int $work/rules.br-int)"
ip addr add 10.0.0.3/24 dev br-ex
ip link set br-ex up
ours || ethtool -K br-ex tx off >/dev/null
serve server 40080
udp_echo server 10.0.0.2 40081

same "page" hello "$(fetch client http://10.0.0.2:40080/)"
same "datagrams that came back" 3 "$(udp_ask client 10.0.0.2 40081)"
pings client 10.0.0.3
# Low ports and ICMP do not reach br-int.
never pings client 10.0.0.2
never fetch client http://10.0.0.2:81/

contains "tracked" "$(ovs-appctl dpctl/dump-conntrack)" "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport="
contains "tracked" "$(ovs-appctl dpctl/dump-conntrack)" "sport=40081,dport="
contains "patch ports" "$(ovs-appctl dpif/show)" "br-int-patch 2/none: (patch: peer=br-ex-patch)"
contains "mask of high ports" "$(ovs-appctl dpctl/dump-flows)" "tcp(dst=40080/0x8000)"
lacks "patch ports in the datapath" "$(ovs-appctl dpctl/show)" "patch"
same "rules shown" "3" "$(flows br-ex | grep -c priority=200)"
contains "rules shown" "$(flows br-ex)" "tp_dst=0x8000/0x8000"
