# The first published rule set carries HTTP, ping and UDP that the client begins, both ways, and
# nothing that the server begins.
client_and_server
static_neighbours
start_switch
bridge br0 client server
seed1_rules | load br0
same "rules read back" "" "$(ovs-ofctl --names diff-flows br0 $work/rules.br0)"
serve server
serve client 8080
udp_echo server 10.0.0.2 53
udp_echo client 10.0.0.1 5353

same "page" hello "$(fetch client http://10.0.0.2/)"
pings client 10.0.0.2
same "datagrams that came back" 3 "$(udp_ask client 10.0.0.2 53)"

contains "connections" "$(ovs-appctl dpctl/dump-conntrack)" \
    "tcp,orig=(src=10.0.0.1,dst=10.0.0.2,sport="
contains "connections" "$(ovs-appctl dpctl/dump-conntrack)" "icmp,orig=(src=10.0.0.1,dst=10.0.0.2,id="
contains "connections" "$(ovs-appctl dpctl/dump-conntrack)" "udp,orig=(src=10.0.0.1,dst=10.0.0.2,sport="

same "page on the client itself" hello "$(fetch client http://10.0.0.1:8080/)"
contains "server's connection" "$(must_fail on server curl -sS -m 1 http://10.0.0.1:8080/)" "(28)"
never pings server 10.0.0.1
same "server's datagrams that came back" 0 "$(udp_ask server 10.0.0.1 5353)"
lacks "connections" "$(ovs-appctl dpctl/dump-conntrack)" "orig=(src=10.0.0.2"

# Many short connections at once.
on client wrk -t1 -c8 -d1s -H "Connection: Close" http://10.0.0.2/ >wrk.printed
never grep -E "Socket errors|Non-2xx" wrk.printed
