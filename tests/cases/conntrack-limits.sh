# Limits of zones and of the whole table: connections above them are refused, existing ones
# continue.
client_and_server
static_neighbours
start_switch
bridge br0 client server
load br0 <<R
udp,ct_state=-trk,actions=ct(table=0,zone=3)
udp,ct_state=+trk+new,in_port=client,actions=ct(commit,zone=3),server
udp,ct_state=+trk+est,in_port=client,actions=server
udp,ct_state=+trk+est,in_port=server,actions=client
R
udp_echo server 10.0.0.2 53
same "none set" "default limit=0" "$(ovs-appctl dpctl/ct-get-limits)"
ovs-appctl dpctl/ct-set-limits default=100 zone=3,limit=2 zone=4,limit=7
udp_ask client 10.0.0.2 53 1 6001 >/dev/null
udp_ask client 10.0.0.2 53 1 6002 >/dev/null
udp_ask client 10.0.0.2 53 1 6003 >/dev/null
same "limits" "default limit=100
zone=3,limit=2,count=2
zone=4,limit=7,count=0" "$(ovs-appctl dpctl/ct-get-limits)"
same "within the limit" 1 "$(udp_ask client 10.0.0.2 53 1 6002)"
same "tracked" 2 "$(ovs-appctl dpctl/ct-get-nconns)"
same "one zone" "default limit=100
zone=3,limit=2,count=2" "$(ovs-appctl dpctl/ct-get-limits zone=3)"
ovs-appctl dpctl/ct-del-limits zone=3
udp_ask client 10.0.0.2 53 1 6003 >/dev/null
same "without a limit" 3 "$(ovs-appctl dpctl/ct-get-nconns)"
contains "bad" "$(must_fail ovs-appctl dpctl/ct-set-limits zone=x)" "failed to parse field zone"
for command in ct-get-limits ct-del-limits; do
    contains "bad" "$(must_fail ovs-appctl dpctl/$command zone=x)" \
        "ovs-vswitchd: invalid zone (Invalid argument)"
    # Open vSwitch truncates these to the zones 4464 and 0.
    for zone in 70000 65536; do
        ! ours || contains "bad" "$(must_fail ovs-appctl dpctl/$command zone=$zone)" "invalid zone"
    done
done
same "the limits are as they were" "default limit=100
zone=4,limit=7,count=0" "$(ovs-appctl dpctl/ct-get-limits)"

same "most connections" 3000000 "$(ovs-appctl dpctl/ct-get-maxconns)"
ovs-appctl dpctl/flush-conntrack
same "answer" "setting maxconns successful" "$(ovs-appctl dpctl/ct-set-maxconns 20)"
same "most connections" 20 "$(ovs-appctl dpctl/ct-get-maxconns)"
# A full table: of 60 connections 20 are accepted, and stay usable.
for source in $(seq 7001 7060); do printf '%s\n' "$source"; done |
    on client xargs -P 8 -I{} $python "$tests/hosts/udp_ask.py" 10.0.0.2 53 1 {} >/dev/null
same "tracked in a full table" 20 "$(ovs-appctl dpctl/ct-get-nconns)"
first=$(ovs-appctl dpctl/dump-conntrack | head -1 | sed 's/.*,sport=\([0-9]*\),dport=53).*/\1/')
same "an old connection" 1 "$(udp_ask client 10.0.0.2 53 1 "$first")"
if ours; then
    # In a full table an unanswered connection is dropped for a new one (early drop), unless that is
    # disabled. A zone's limit only refuses.
    ovs-appctl dpctl/ct-set-maxconns 1
    remains() { ovs-appctl dpctl/dump-conntrack | sed 's/.*,dport=\([0-9]*\)),reply.*/\1/'; }
    for state in off on; do
        ovs-appctl dpctl/flush-conntrack
        same "$state" "early drop: $state" \
            "$(ovs-appctl tidegate/conntrack-early-drop $state)"
        udp_ask client 10.0.0.2 54 1 8000 >/dev/null
        for source in $(seq 8001 8020); do
            [ "$(remains)" = 54 ] || break
            udp_ask client 10.0.0.2 53 1 "$source" >/dev/null
        done
        case $state in
        off) same "it stays" 54 "$(remains)" ;;
        on) same "a new one has its place" 53 "$(remains)" ;;
        esac
    done
    contains "neither" "$(must_fail ovs-appctl tidegate/conntrack-early-drop x)" "say on or off"
    ovs-appctl dpctl/flush-conntrack
fi
must_fail ovs-appctl dpctl/ct-set-maxconns x >/dev/null
ovs-appctl dpctl/ct-set-maxconns 3000000 >/dev/null
same "room again" 1 "$(udp_ask client 10.0.0.2 53 2 7777 | grep -c '[12]')"
