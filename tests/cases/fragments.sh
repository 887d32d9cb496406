# Datagrams and pings above the MTU pass the published rule sets and NAT, either complete or not at
# all; the ipf-* commands change what is held.
client_and_server
static_neighbours
start_switch
bridge br0 client server
seed1_rules | load br0
udp_echo server 10.0.0.2 53
udp_echo client 10.0.0.1 5353
big_ping() { on "$1" ping -n -q -i 0.2 -W 1 -c 2 -s 3000 "$2" >/dev/null; }
status() { ovs-appctl dpctl/ipf-get-status "$@"; }

big_ping client 10.0.0.2
same "large datagrams that came back" 3 "$(udp_ask client 10.0.0.2 53 3 0 4000)"
# Open vSwitch 3.1 forgets what does not fit into a batch of 32.
! ours || same "largest datagrams that came back" 1 "$(udp_ask client 10.0.0.2 53 1 0 60000)"
contains "connections" "$(ovs-appctl dpctl/dump-conntrack)" "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport="
never big_ping server 10.0.0.1
same "server's large datagrams that came back" 0 "$(udp_ask server 10.0.0.1 5353 1 0 4000)"
contains "nothing is left" "$(status)" "num frag: 0"
lacks "completed" "$(status)" "v4 frags completed: 0"

# Out of order, and a fragment without the rest of its datagram.
frames() {
    on client $python "$tests/hosts/frames.py" send "Ether(src='02:00:00:00:00:01',dst='02:00:00:00:00:02')/IP(src='10.0.0.1',dst='10.0.0.2',id=$1,flags=$2,frag=$3,proto=17)/Raw(b'$4')"
}
frames 77 1 175 "$(printf 'x%.0s' {1..1400})"
for option in -m --more; do
    contains "state of what is held, $option" "$(status $option)" \
        "(src=10.0.0.1,dst=10.0.0.2,recirc_id=0,ip_id=77,dl_type=0x800,zone=0,nw_proto=17,num_fragments=1,state=other frag)"
done

# The settings.
same "off" "disabling fragmentation reassembly successful" "$(ovs-appctl dpctl/ipf-set-disabled v4)"
contains "off" "$(status)" "v4 enabled: 0"
never big_ping client 10.0.0.2
same "on" "enabling fragmentation reassembly successful" "$(ovs-appctl dpctl/ipf-set-enabled v4)"
big_ping client 10.0.0.2
same "least" "setting minimum fragment size successful" "$(ovs-appctl dpctl/ipf-set-min-frag v4 1600)"
contains "least" "$(status)" "min v4 frag size: 1600"
never big_ping client 10.0.0.2
contains "too small" "$(must_fail ovs-appctl dpctl/ipf-set-min-frag v6 399)" \
    "requested minimum fragment size too small; see documentation"
ovs-appctl dpctl/ipf-set-min-frag v4 1200 >/dev/null
same "most" "setting maximum fragments successful" "$(ovs-appctl dpctl/ipf-set-max-nfrags 500)"
contains "most" "$(status)" "max num frags (v4/v6): 500"
contains "too many" "$(must_fail ovs-appctl dpctl/ipf-set-max-nfrags 5001)" \
    "setting maximum fragments failed"
contains "which" "$(must_fail ovs-appctl dpctl/ipf-set-enabled v5)" \
    "parameter missing: 'v4' for IPv4 or 'v6' for IPv6"

# NAT: the server sees the switch's address, and answers come back to the client.
ip -n server neigh replace 10.0.0.9 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
load br0 <<R
priority=1 ip in_port=client actions=ct(commit,zone=5,nat(src=10.0.0.9)),output:server
priority=1 ip in_port=server actions=ct(zone=5,nat,table=1)
table=1 priority=1 ip ct_state=+trk+est actions=output:client
R
same "large datagrams with NAT" 2 "$(udp_ask client 10.0.0.2 53 2 0 4000)"
big_ping client 10.0.0.2
contains "source NAT" "$(ovs-appctl dpctl/dump-conntrack zone=5)" "reply=(src=10.0.0.2,dst=10.0.0.9,sport=53"

# IPv6.
for name in client server; do
    on $name sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
done
ip -n client addr add fd00::1/64 dev eth0 nodad
ip -n server addr add fd00::2/64 dev eth0 nodad
load br0 <<R
priority=2 icmp6,icmp_type=135 actions=normal
priority=2 icmp6,icmp_type=136 actions=normal
priority=1 ipv6 ct_state=-trk actions=ct(table=0)
priority=1 ipv6 ct_state=+trk+new in_port=client actions=ct(commit),normal
priority=1 ipv6 ct_state=+trk+est actions=normal
R
on server $python "$tests/hosts/udp_echo.py" fd00::2 54 &
eventually 5 on server grep -q ":0036 " /proc/net/udp6
same "large datagrams over IPv6" 2 "$(udp_ask client fd00::2 54 2 0 4000)"
big_ping client fd00::2
lacks "completed" "$(status)" "v6 frags completed: 0"

# The second rule set's stateful bridge. (Its stateless one goes by ports, which later fragments
# lack.)
ovs-appctl dpctl/flush-conntrack
seed2_rules_int | load br0
same "by the second rule set" 2 "$(udp_ask client 10.0.0.2 53 2 0 4000)"
big_ping client 10.0.0.2
