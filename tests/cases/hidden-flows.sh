# The flows that every bridge has in its last table: what becomes of packets that no flow matches. They
# are in no dump but that of their table, no one changes them, and they count.
client_and_server
static_neighbours
start_switch
bridge br0 client server
ovs-ofctl del-flows br0
hidden="table=254, priority=0,reg0=0x1 actions=controller(reason=)
table=254, priority=0,reg0=0x2 actions=drop
table=254, priority=0,reg0=0x3 actions=drop
table=254, priority=2,recirc_id=0 actions=drop"
for version in 10 13 15; do
    same "their table" "$hidden" "$(ovs-ofctl -O OpenFlow$version --no-stats dump-flows br0 table=254 |
        sed '/ reply/d; s/^ *//; s/cookie=0x0, //; s/reset_counts //' | sort)"
    same "other dumps" "" "$(flows br0 -O OpenFlow$version)"
done
same "one of them" "table=254, priority=0,reg0=0x2 actions=drop" "$(flows br0 | cat - <(
    ovs-ofctl --no-stats dump-flows br0 table=254,reg0=2 | sed '/ reply/d; s/^ *//; s/cookie=0x0, //'))"
contains "sum" "$(ovs-ofctl dump-aggregate br0 table=254)" "packet_count=0 byte_count=0 flow_count=4"
contains "sum of all" "$(ovs-ofctl dump-aggregate br0)" "flow_count=0"
contains "not to be changed" "$(must_fail ovs-ofctl add-flow br0 table=254,actions=drop)" "OFPT_ERROR"
on client $python - <<'P'
import socket
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(5):
    asker.sendto(b"to no one", ("10.0.0.2", 9))
P
dropped() { ovs-appctl bridge/dump-flows br0 | sed -n 's/.*n_packets=\([0-9]*\), n_bytes=\([0-9]*\), .*reg0=0x2,actions=drop/\1 \2/p'; }
counted() { [ "$(dropped)" = "5 255" ]; }
eventually 5 counted
contains "sum" "$(ovs-ofctl dump-aggregate br0 table=254)" "packet_count=5 byte_count=255 flow_count=4"
rows=$(ovs-appctl bridge/dump-flows --offload-stats br0 | sed 's/duration=[0-9]*s/TIMER/')
same "bridge/dump-flows" "table_id=254, TIMER, n_packets=0, n_bytes=0, n_offload_packets=0, n_offload_bytes=0, priority=2,recirc_id=0,actions=drop
table_id=254, TIMER, n_packets=0, n_bytes=0, n_offload_packets=0, n_offload_bytes=0, priority=0,reg0=0x1,actions=controller(reason=)
table_id=254, TIMER, n_packets=5, n_bytes=255, n_offload_packets=0, n_offload_bytes=0, priority=0,reg0=0x2,actions=drop
table_id=254, TIMER, n_packets=0, n_bytes=0, n_offload_packets=0, n_offload_bytes=0, priority=0,reg0=0x3,actions=drop" "$rows"
