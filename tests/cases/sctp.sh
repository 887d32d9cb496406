# Ports of SCTP packets are set, and their CRC with them; a wrong one stays wrong.
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
