# What stands in neighbour discovery is matched and rewritten: the reserved word with its flags, the
# options, their type.
client_and_server
start_switch
bridge br0 client server
load br0 <<R
priority=9,icmp6,icmp_type=136,icmp_code=0,nd_reserved=0x60000000,nd_options_type=2 actions=set_field:0x20000000->nd_reserved,server
priority=8,icmp6,icmp_type=135,icmp_code=0,nd_reserved=0 actions=set_field:2->nd_options_type,set_field:0x60000000->nd_reserved,set_field:136->icmpv6_type,resubmit(,1)
table=1,icmp6,icmp_type=136,icmp_code=0 actions=set_field:02:00:00:00:00:77->nd_tll,server
priority=7,icmp6,icmp_type=136,icmp_code=0,nd_reserved=5 actions=set_field:1->nd_options_type,server
priority=0,actions=drop
R
same "as they came, in OpenFlow 1.0" "priority=0 actions=drop
priority=7,icmp6,icmp_type=136,icmp_code=0,nd_reserved=5 actions=load:0x1->ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE[],output:2
priority=8,icmp6,icmp_type=135,icmp_code=0,nd_reserved=0 actions=load:0x2->ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE[],load:0x60000000->ERICOXM_OF_ICMPV6_ND_RESERVED[],load:0x88->NXM_NX_ICMPV6_TYPE[],resubmit(,1)
priority=9,icmp6,icmp_type=136,icmp_code=0,nd_reserved=1610612736,nd_options_type=2 actions=load:0x20000000->ERICOXM_OF_ICMPV6_ND_RESERVED[],output:2
table=1, icmp6,icmp_type=136,icmp_code=0 actions=load:0x20000000077->NXM_NX_ND_TLL[],output:2" "$(flows br0)"
contains "in OpenFlow 1.5" "$(flows br0 -O OpenFlow15)" \
    "nd_options_type=2 actions=set_field:536870912->nd_reserved,output:2"
contains "no other bits" "$(must_fail ovs-ofctl add-flow br0 \
    'icmp6,icmp_type=136,icmp_code=0,nd_reserved=1/1,actions=drop')" "invalid mask for field nd_reserved"
contains "not without neighbour discovery" "$(must_fail ovs-ofctl add-flow br0 \
    'icmp6,icmp_type=128,icmp_code=0,actions=set_field:1->nd_options_type')" "OFPBAC_MATCH_INCONSISTENT"

listen server
ip='IPv6(src="fe80::1",dst="fe80::2")'
on client $python "$tests/hosts/frames.py" send \
    "Ether(src=A,dst=B)/$ip/ICMPv6ND_NA(R=0,S=1,O=1,tgt='fe80::9')/ICMPv6NDOptDstLLAddr(lladdr=A)" \
    "Ether(src=A,dst=B)/$ip/ICMPv6ND_NS(tgt='fe80::9')/ICMPv6NDOptSrcLLAddr(lladdr=A)" \
    "Ether(src=A,dst=B)/$ip/ICMPv6ND_NA(R=0,S=0,O=0,res=5,tgt='fe80::9')/ICMPv6NDOptDstLLAddr(lladdr=A)" \
    "Ether(src=A,dst=B)/$ip/ICMPv6ND_NA(R=1,S=0,O=0,tgt='fe80::9')/ICMPv6NDOptSrcLLAddr(lladdr=A)"
same "on the wire" "nd=136 reserved=20000000 option=2 address=02:00:00:00:00:01 sum=good
nd=136 reserved=60000000 option=2 address=02:00:00:00:00:77 sum=good
nd=136 reserved=00000005 option=1 address=02:00:00:00:00:01 sum=good" "$(heard server | sed -n 's/.* nd=/nd=/p')"
each_once() { [ "$(ovs-ofctl dump-flows br0 | grep -c 'n_packets=1, n_bytes=86,')" = 5 ]; }
eventually 3 each_once
trace=$(ovs-appctl ofproto/trace br0 "in_port=1,icmp6,icmpv6_type=136,icmpv6_code=0,nd_reserved=0x60000000,nd_options_type=2,nd_target=fe80::9")
contains "megaflow" "$trace" "icmp_type=0x88/0xff,icmp_code=0x0/0xff,nd_reserved=1610612736,nd_options_type=0x2/0xff"
contains "datapath" "$trace" "Datapath actions: set(nd_ext(nd_reserved=0x20000000)),3"
contains "names" "$(ovs-appctl ofproto/trace br0 in_port=1,icmp6,icmpv6_type=135,icmpv6_code=0)" \
    "load:0x88->NXM_NX_ICMPV6_TYPE[]"
# Open vSwitch's userspace datapath looks at them and does not say so.
! ours || contains "datapath flow" "$(ovs-appctl dpctl/dump-flows)" \
    "icmpv6(type=136,code=0),nd_ext(nd_reserved=0x60000000,nd_options_type=2), "
