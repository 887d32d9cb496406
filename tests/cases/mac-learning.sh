# A bridge without rules of its own learns MAC addresses, shows them, forgets them; fail_mode
# secure forwards nothing.
client_and_server
start_switch
bridge br0 client server
same "the rule of a fresh bridge" " priority=0 actions=NORMAL" " $(flows br0)"
pings client 10.0.0.2
learned() { ovs-appctl fdb/show br0 | awk 'NR > 1 { print $1, $2, $3 }' | sort; }
same "heading" " port  VLAN  MAC                Age" "$(ovs-appctl fdb/show br0 | head -1)"
same "learned" "1 0 02:00:00:00:00:01
2 0 02:00:00:00:00:02" "$(learned)"
# Packets that hit a megaflow refresh learned addresses, up to a second later.
sleep 1.2
same "answer to fdb/flush" "table successfully flushed" "$(ovs-appctl fdb/flush br0)"
same "after fdb/flush" "" "$(learned)"
contains "bad bridge" "$(must_fail ovs-appctl fdb/show nobr)" "no such bridge"

# The shortest time that is taken is 15 seconds; ages are shown in seconds.
pings client 10.0.0.2
sleep 1.5
[ "$(ovs-appctl fdb/show br0 | awk 'NR == 2 { print $4 }')" -ge 1 ] || fail "addresses do not age"
# An address that appears on another port moves.
ip -n server link set eth0 address 02:00:00:00:00:01
on server $python "$tests/hosts/frames.py" send "Ether(src=A,dst='ff:ff:ff:ff:ff:ff')/ARP(psrc='10.0.0.9',pdst='10.0.0.8')"
eventually 3 reads "    2     0  02:00:00:00:00:01" ovs-appctl fdb/show br0
ip -n server link set eth0 address 02:00:00:00:00:02

ovs-ofctl del-flows br0
ovs-appctl fdb/flush br0
never pings client 10.0.0.2
vsctl set bridge br0 fail-mode=secure
ovs-appctl bridge/reconnect br0 2>/dev/null || true
never pings client 10.0.0.2
same "rules of a secure bridge" "" "$(flows br0)"
