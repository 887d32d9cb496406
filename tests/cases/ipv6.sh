# IPv6: neighbour discovery, ping, HTTP and UDP through connection tracking.
client_and_server
for name in client server; do
    on $name bash -c 'echo 0 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
done
ip -n client addr add fd00::1/64 dev eth0 nodad
ip -n server addr add fd00::2/64 dev eth0 nodad
start_switch
bridge br0 client server
load br0 <<R
priority=3 icmp6,icmp_type=135 actions=normal
priority=3 icmp6,icmp_type=136 actions=normal
priority=1 ipv6 ct_state=-trk actions=ct(table=0)
priority=1 ipv6 ct_state=+trk+new in_port=client actions=ct(commit),normal
priority=1 ipv6 ct_state=+trk+est actions=normal
priority=0 actions=drop
R
serve server
udp_echo server fd00::2 53 &
sleep 0.5
eventually 5 pings client fd00::2
same "page" hello "$(fetch client 'http://[fd00::2]/')"
same "datagrams that came back" 3 "$(udp_ask client fd00::2 53)"
never pings server fd00::1
table=$(ovs-appctl dpctl/dump-conntrack)
contains "TCP" "$table" "tcp,orig=(src=fd00::1,dst=fd00::2,sport="
contains "ICMPv6" "$table" "icmpv6,orig=(src=fd00::1,dst=fd00::2,id="
contains "UDP" "$table" "udp,orig=(src=fd00::1,dst=fd00::2,sport="
lacks "server's" "$table" "orig=(src=fd00::2"
