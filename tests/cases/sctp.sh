# Ports of SCTP packets are set, and their CRC with them; a wrong one stays wrong. Associations are
# tracked.
# limit: 60
host a 10.0.0.1/24 02:00:00:00:00:01
host b 10.0.0.2/24 02:00:00:00:00:02
start_switch
bridge br0 a b
ovs-ofctl del-flows br0
received() {
    listen b
    on a $python "$tests/hosts/frames.py" send "Ether(src=A,dst=B)/$1"
    heard b | sed -n 's/.* sctp=//p'
}
v4="IP(src='10.0.0.1',dst='10.0.0.2')"
v6="IPv6(src='fd00::1',dst='fd00::2')"
chunk="SCTPChunkData(data=b'0123456789')"

ovs-ofctl add-flow br0 "priority=1,in_port=a,actions=output:b"
same "as sent" "1000>80 crc=good" "$(received "$v4/SCTP(sport=1000,dport=80,tag=7)/$chunk")"
ovs-ofctl add-flow br0 "in_port=a,sctp,actions=set_field:8080->sctp_dst,output:b"
ovs-ofctl add-flow br0 "in_port=a,sctp6,actions=set_field:9->sctp_src,set_field:8080->sctp_dst,output:b"
same "set over IPv4" "1000>8080 crc=good" "$(received "$v4/SCTP(sport=1000,dport=80,tag=7)/$chunk")"
same "set over IPv6" "9>8080 crc=good" "$(received "$v6/SCTP(sport=1000,dport=80,tag=7)/$chunk")"
same "wrong before" "1000>8080 crc=bad" \
    "$(received "$v4/SCTP(sport=1000,dport=80,tag=7,chksum=5)/$chunk")"

# Tracked by ports, tags and chunks.
ours || exit 0
ovs-ofctl del-flows br0
ovs-ofctl add-flow br0 "in_port=a,sctp,actions=ct(commit),output:b"
ovs-ofctl add-flow br0 "in_port=b,sctp,actions=ct(table=1)"
ovs-ofctl add-flow br0 "table=1,sctp,ct_state=+est,actions=output:a"
init="SCTPChunkInit(init_tag=7,a_rwnd=1,n_out_streams=1,n_in_streams=1,init_tsn=1)"
same "an INIT" "1000>80 crc=good" "$(received "$v4/SCTP(sport=1000,dport=80,tag=0)/$init")"
contains "an association" "$(ovs-appctl dpctl/dump-conntrack)" \
    "sctp,orig=(src=10.0.0.1,dst=10.0.0.2,sport=1000,dport=80),reply=(src=10.0.0.2,dst=10.0.0.1,sport=80,dport=1000),protoinfo=(state=CLOSED,vtag_orig=0,vtag_reply=7)"
answer() {
    listen a
    on b $python "$tests/hosts/frames.py" send \
        "Ether(src=B,dst=A)/IP(src='10.0.0.2',dst='10.0.0.1')/SCTP(sport=80,dport=1000,tag=$1)/SCTPChunkInitAck(init_tag=9,a_rwnd=1,n_out_streams=1,n_in_streams=1,init_tsn=1)"
    heard a | sed -n 's/.* sctp=//p'
}
same "an answer with a wrong tag" "" "$(answer 8)"
same "an answer" "80>1000 crc=good" "$(answer 7)"
contains "an answered association" "$(ovs-appctl dpctl/dump-conntrack)" \
    "protoinfo=(state=COOKIE_WAIT,vtag_orig=9,vtag_reply=7)"
