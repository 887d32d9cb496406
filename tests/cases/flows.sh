# Flows are dumped as they were added, in OpenFlow 1.0, 1.3 and 1.5.
client_and_server
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow10,OpenFlow13,OpenFlow15
# many VERSION: the flows, with actions that set fields in the form of that version's dumps.
many() {
    local mark='load:0x1->NXM_NX_CT_MARK[]' part='load:0x1->NXM_NX_REG1[0..7]'
    local set=mod_dl_dst:02:00:00:00:00:09,mod_nw_src:1.1.1.1,mod_tp_dst:99 strip=strip_vlan
    if [ "$1" -ge 13 ]; then
        mark='set_field:0x1->ct_mark' strip=pop_vlan
        set='set_field:02:00:00:00:00:09->eth_dst,set_field:1.1.1.1->ip_src,set_field:99->udp_dst'
    fi
    [ "$1" -lt 15 ] || part='set_field:0x1/0xff->reg1'
    cat <<F
table=0,priority=100,cookie=0x1234,idle_timeout=60,send_flow_rem,tcp,in_port=1,ct_state=+new+trk,nw_src=10.0.0.0/24,tp_dst=80 actions=ct(commit,zone=5,nat(src=1.2.3.4),exec($mark)),output:2
priority=9,ct_state=+est-rel,ct_zone=7,ct_mark=0x1/0xf,ct_label=0x1,tcp actions=ct(commit,force,table=4,zone=NXM_NX_REG0[0..15],nat(dst=10.0.0.2-10.0.0.9:80-90,random)),ct_clear
priority=8,tcp6,ipv6_src=fe80::/10,tp_dst=443 actions=drop
priority=8,arp,arp_tpa=10.0.0.1,arp_op=1,arp_sha=02:00:00:00:00:01 actions=FLOOD,ALL,IN_PORT,LOCAL
priority=7,udp,reg0=0x1/0xff,metadata=0x5,dl_vlan=10,dl_src=02:00:00:00:00:00/ff:00:00:00:00:00,nw_dst=10.0.0.0/8,nw_tos=32,tp_src=5000 actions=$part,move:NXM_OF_IN_PORT[]->NXM_NX_REG2[0..15],resubmit(,3),$set,dec_ttl,$strip,output:NXM_NX_REG1[0..15],NORMAL,CONTROLLER:100
priority=6,icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=02:00:00:00:00:01 actions=resubmit(1,7)
priority=5,ip,nw_frag=later,nw_ttl=64 actions=output:2
priority=4,vlan_tci=0x1000/0x1000 actions=output:1
table=253,priority=0 actions=drop
F
}
for version in 10 13 15; do
    ofctl() { ovs-ofctl -O OpenFlow$version "$@"; }
    many $version >many
    ofctl del-flows br0
    ofctl add-flows br0 many
    same "OpenFlow $version read back" "" "$(ofctl diff-flows br0 many)"
    same "OpenFlow $version count" 9 "$(flows br0 -O OpenFlow$version | wc -l)"
    contains "OpenFlow $version aggregate" "$(ofctl dump-aggregate br0)" "flow_count=9"
    contains "filter" "$(ofctl dump-aggregate br0 tcp)" "flow_count=2"
    contains "cookie" "$(ofctl dump-aggregate br0 cookie=0x1234/-1)" "flow_count=1"
    contains "out_port" "$(ofctl dump-aggregate br0 ip,out_port=2)" "flow_count=2"
    ofctl mod-flows br0 "tcp,ct_state=+new+trk actions=output:1"
    contains "modified" "$(flows br0 -O OpenFlow$version | grep priority=100)" "actions=output:1"
    ofctl --strict mod-flows br0 "priority=5,ip,nw_frag=later,nw_ttl=64 actions=drop"
    contains "modified strictly" "$(flows br0 -O OpenFlow$version)" "nw_ttl=64,nw_frag=later actions=drop"
    ofctl --strict del-flows br0 "priority=4,ip"
    same "nothing deleted" 9 "$(flows br0 -O OpenFlow$version | wc -l)"
    ofctl --strict del-flows br0 "priority=8,tcp6,ipv6_src=fe80::/10,tp_dst=443"
    ofctl del-flows br0 udp
    ofctl del-flows br0 "table=253"
    same "deleted" 6 "$(flows br0 -O OpenFlow$version | wc -l)"
    contains "overlap" "$(must_fail ovs-ofctl -O OpenFlow$version add-flow br0 "check_overlap,priority=9,ip actions=drop")" "OFPFMFC_OVERLAP"
done
ovs-ofctl -O OpenFlow13 add-flow br0 "table=0,ip,actions=set_field:10.0.0.9->ip_src,write_metadata:0x5,goto_table:2"
contains "instructions" "$(flows br0 -O OpenFlow13)" "ip actions=set_field:10.0.0.9->ip_src,write_metadata:0x5,goto_table:2"
ovs-ofctl -O OpenFlow13 add-flow br0 "table=2,actions=write_actions(set_field:02:00:00:00:00:07->eth_dst,output:2)"
contains "write_actions" "$(flows br0 -O OpenFlow13)" "write_actions(set_field:02:00:00:00:00:07->eth_dst,output:2)"
