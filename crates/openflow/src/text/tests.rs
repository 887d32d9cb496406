//! Parsing and formatting of flows.

use super::*;
use crate::message::{FlowFlags, FlowModCommand, FlowStatsEntry, Message, StatsReply};
use crate::version::Version;
use crate::{DecodeOptions, EncodeOptions, decode, encode};

fn ports(name: &str) -> Option<OfPort> {
    (name == "veth1").then_some(OfPort(7))
}

/// A text, and the text after parsing and formatting it.
const FLOWS: &[(&str, &str)] = &[
    ("actions=drop", "actions=drop"),
    (
        "priority=1 ip ct_state=-trk actions=ct(table=0)",
        "priority=1,ct_state=-trk,ip actions=ct(table=0)",
    ),
    (
        "priority=1 ip ct_state=+trk+new in_port=veth1 actions=ct(commit),normal",
        "priority=1,ct_state=+new+trk,ip,in_port=7 actions=ct(commit),NORMAL",
    ),
    (
        "priority=300 in_port=veth1,udp,tp_dst=32768/0x8000 actions=output:veth1",
        "priority=300,udp,in_port=7,tp_dst=0x8000/0x8000 actions=output:7",
    ),
    (
        "in_port=1 ip nw_dst=10.0.0.0/8 idle_timeout=0 action=output:2",
        "ip,in_port=1,nw_dst=10.0.0.0/8 actions=output:2",
    ),
    // Two fields for one port, of 16 and 32 bits.
    (
        "actions=push:in_port,push:in_port_oxm,push:OXM_OF_IN_PORT[0..15],pop:OXM_OF_IN_PORT[]",
        "actions=push:NXM_OF_IN_PORT[],push:OXM_OF_IN_PORT[],push:OXM_OF_IN_PORT[0..15],\
         pop:OXM_OF_IN_PORT[]",
    ),
    (
        "actions=move:OXM_OF_IN_PORT[]->reg0,move:OXM_OF_IN_PORT[16..31]->reg1[0..15],\
         move:reg2[]->OXM_OF_IN_PORT[],move:in_port[]->reg3[0..15],output:in_port_oxm",
        "actions=move:OXM_OF_IN_PORT[]->NXM_NX_REG0[],\
         move:OXM_OF_IN_PORT[16..31]->NXM_NX_REG1[0..15],\
         move:NXM_NX_REG2[]->OXM_OF_IN_PORT[],\
         move:NXM_OF_IN_PORT[]->NXM_NX_REG3[0..15],output:OXM_OF_IN_PORT[]",
    ),
    (
        "ip,actions=ct(commit,zone=OXM_OF_IN_PORT[0..15])",
        "ip actions=ct(commit,zone=OXM_OF_IN_PORT[0..15])",
    ),
    ("priority=1,actions=normal", "priority=1 actions=NORMAL"),
    // A match on header fields implies Ethernet frames.
    ("packet_type=(0,0),ip,nw_dst=10.0.0.1,actions=1", "ip,nw_dst=10.0.0.1 actions=output:1"),
    ("eth,dl_src=02:00:00:00:00:01,actions=1", "dl_src=02:00:00:00:00:01 actions=output:1"),
    (
        "packet_type=(1,0x800),nw_proto=17,tp_dst=53,actions=encap(ethernet),1",
        "packet_type=(1,0x800),nw_proto=17,tp_dst=53 actions=encap(ethernet),output:1",
    ),
    (
        "mpls,mpls_label=5,mpls_tc=1,mpls_bos=1,mpls_ttl=64,actions=pop_mpls:0x800,dec_ttl,1",
        "mpls,mpls_label=5,mpls_tc=1,mpls_ttl=64,mpls_bos=1 actions=pop_mpls:0x0800,dec_ttl,output:1",
    ),
    (
        "dl_type=0x8848,actions=push_mpls:0x8848,set_field:7->mpls_label,set_mpls_ttl:9,dec_mpls_ttl,\
         push:mpls_ttl,load:3->OXM_OF_MPLS_TC[],1",
        "mplsm actions=push_mpls:0x8848,set_field:7->mpls_label,set_mpls_ttl(9),dec_mpls_ttl,\
         push:NXM_NX_MPLS_TTL[],load:0x3->OXM_OF_MPLS_TC[],output:1",
    ),
    (
        "dl_type=0x894f,nsh_flags=0/2,nsh_ttl=63,nsh_mdtype=1,nsh_np=3,nsp=0x10,nsi=255,nshc1=0,\
         nsh_c4=0x10/0xf0,actions=set_field:2->nsh_flags,set_field:0->nsh_c3,dec_nsh_ttl,decap(),1",
        "dl_type=0x894f,nsh_flags=0x00/0x02,nsh_ttl=63,nsh_mdtype=1,nsh_np=3,nsh_spi=0x10,nsh_si=255,\
         nsh_c1=0x0,nsh_c4=0x10/0xf0 actions=set_field:2->nsh_flags,set_field:0->nsh_c3,dec_nsh_ttl,\
         decap(),output:1",
    ),
    (
        "ip,actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),set_field:0x1234->nsh_spi,\
         encap(mpls_mc),encap(mpls()),encap(ethernet()),encap(nsh),1",
        "ip actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),set_field:0x1234->nsh_spi,\
         encap(mpls_mc),encap(mpls),encap(ethernet),encap(nsh),output:1",
    ),
    (
        "packet_type=(1,0x806),arp_tpa=10.0.0.1,actions=drop",
        "packet_type=(1,0x806),arp_tpa=10.0.0.1 actions=drop",
    ),
    (
        "packet_type=(1,0x86dd),ipv6_dst=fd00::/16,actions=decap(),2",
        "packet_type=(1,0x86dd),ipv6_dst=fd00::/16 actions=decap(),output:2",
    ),
    (
        "actions=decap,decap(packet_type(ns=1,type=0x800)),decap(packet_type(ns=0,type=0)),1",
        "actions=decap(),decap(packet_type(ns=1,type=0x800)),decap(packet_type(ns=0,type=0)),output:1",
    ),
    (
        "tcp6 actions=learn(table=1, hard_timeout=60, eth_type=0x86dd, nw_proto=6, limit=7, \
         NXM_NX_IPV6_SRC[]=NXM_NX_IPV6_DST[], ipv6_dst=2001:0db8::1, tcp_src=NXM_OF_TCP_DST[], \
         vlan_tci[0..11]=5, load(0x20010db885a308d3->NXM_NX_IPV6_DST[64..127]), \
         load:NXM_OF_IN_PORT[]->reg0[0..15], output:NXM_OF_IN_PORT[], result_dst=reg1[3])",
        "tcp6 actions=learn(table=1,hard_timeout=60,limit=7,result_dst=NXM_NX_REG1[3],\
         eth_type=0x86dd,nw_proto=6,NXM_NX_IPV6_SRC[]=NXM_NX_IPV6_DST[],ipv6_dst=2001:db8::1,\
         NXM_OF_TCP_SRC[]=NXM_OF_TCP_DST[],NXM_OF_VLAN_TCI[0..11]=0x5,\
         load:0x20010db885a308d3->NXM_NX_IPV6_DST[64..127],\
         load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15],output:NXM_OF_IN_PORT[])",
    ),
    (
        "udp actions=learn(dl_type=0x0800,nw_proto=17,udp_src=udp_dst,priority=9,send_flow_rem,\
         delete_learned,cookie=0x1,idle_timeout=2,fin_idle_timeout=3,fin_hard_timeout=4)",
        "udp actions=learn(table=1,idle_timeout=2,fin_idle_timeout=3,fin_hard_timeout=4,priority=9,\
         send_flow_rem,delete_learned,cookie=0x1,eth_type=0x800,nw_proto=17,\
         NXM_OF_UDP_SRC[]=NXM_OF_UDP_DST[])",
    ),
    (
        "actions=conjunction(1,1/2),conjunction(2, 3/3)",
        "actions=conjunction(1,1/2),conjunction(2,3/3)",
    ),
    (
        "actions=bundle(symmetric_l3l4+udp,60,hrw,ofport,members:[1,2, LOCAL])",
        "actions=bundle(symmetric_l3l4+udp,60,hrw,ofport,members:1,2,LOCAL)",
    ),
    (
        "actions=bundle_load(eth_src,50,active_backup,ofport,reg0[0..15],slaves:1,veth1)",
        "actions=bundle_load(eth_src,50,active_backup,ofport,NXM_NX_REG0[0..15],members:1,7)",
    ),
    (
        "actions=multipath(nw_dst, 50, iter_hash, 4, 3, NXM_NX_REG0[])",
        "actions=multipath(nw_dst,50,iter_hash,4,3,NXM_NX_REG0[])",
    ),
    (
        "actions=sample(probability=1),sample(probability=65535,collector_set_id=2,obs_domain_id=3,\
         obs_point_id=4,sampling_port=LOCAL),sample(probability=9,egress)",
        "actions=sample(probability=1,collector_set_id=0,obs_domain_id=0,obs_point_id=0),\
         sample(probability=65535,collector_set_id=2,obs_domain_id=3,obs_point_id=4,sampling_port=LOCAL),\
         sample(probability=9,collector_set_id=0,obs_domain_id=0,obs_point_id=0,egress)",
    ),
    ("tcp actions=fin_timeout(hard_timeout=9)", "tcp actions=fin_timeout(hard_timeout=9)"),
    ("in_port=veth1 action=veth1", "in_port=7 actions=output:7"),
    (
        "in_port=LOCAL,actions=in_port,all,flood,local",
        "in_port=LOCAL actions=IN_PORT,ALL,FLOOD,LOCAL",
    ),
    ("tcp,tp_dst=32768/0x8000,actions=drop", "tcp,tp_dst=0x8000/0x8000 actions=drop"),
    ("tcp,tcp_dst=0x50,actions=1", "tcp,tp_dst=80 actions=output:1"),
    ("udp6,udp_src=53,actions=1", "udp6,tp_src=53 actions=output:1"),
    ("sctp,tp_src=5,actions=1", "sctp,tp_src=5 actions=output:1"),
    ("icmp,icmp_type=8,icmp_code=0,actions=1", "icmp,icmp_type=8,icmp_code=0 actions=output:1"),
    (
        "icmp6,icmp_type=135,icmpv6_code=0,nd_target=fe80::1,nd_sll=1:2:3:4:5:6 actions=1",
        "icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::1,nd_sll=01:02:03:04:05:06 actions=output:1",
    ),
    (
        "icmp6,icmp_type=136,icmp_code=0,nd_options_type=2,nd_reserved=0x60000000,actions=1",
        "icmp6,icmp_type=136,icmp_code=0,nd_reserved=1610612736,nd_options_type=2 actions=output:1",
    ),
    (
        "icmp6,icmp_type=136,icmp_code=0,nd_reserved=0,actions=set_field:0x60000000->nd_reserved,\
         load:1->ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE[],move:nd_reserved[0..3]->reg1[0..3]",
        "icmp6,icmp_type=136,icmp_code=0,nd_reserved=0 \
         actions=set_field:1610612736->nd_reserved,\
         load:0x1->ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE[],\
         move:ERICOXM_OF_ICMPV6_ND_RESERVED[0..3]->NXM_NX_REG1[0..3]",
    ),
    (
        "arp,arp_op=1,arp_spa=10.0.0.0/8,arp_sha=00:00:00:00:00:01,actions=1",
        "arp,arp_spa=10.0.0.0/8,arp_op=1,arp_sha=00:00:00:00:00:01 actions=output:1",
    ),
    // In the form of ovs-ofctl and Open vSwitch 3.1.
    ("arp,actions=set_field:2->arp_op", "arp actions=set_field:2->arp_op"),
    ("arp,actions=load:2->arp_op", "arp actions=load:0x2->NXM_OF_ARP_OP[]"),
    ("arp,actions=load:2->arp_op[0..7]", "arp actions=load:0x2->NXM_OF_ARP_OP[0..7]"),
    ("arp,actions=load:0->arp_op[8..15]", "arp actions=load:0->NXM_OF_ARP_OP[8..15]"),
    (
        "ip,nw_src=10.0.0.1/255.0.255.0,nw_dst=1.2.3.4,actions=1",
        "ip,nw_src=10.0.0.0/255.0.255.0,nw_dst=1.2.3.4 actions=output:1",
    ),
    (
        "ipv6,ipv6_src=2001:db8::/32,ipv6_label=0x12,actions=1",
        "ipv6,ipv6_src=2001:db8::/32,ipv6_label=0x00012 actions=output:1",
    ),
    (
        "ip,nw_proto=47,nw_tos=32,nw_ecn=1,nw_ttl=64,nw_frag=first,actions=1",
        "ip,nw_proto=47,nw_tos=32,nw_ecn=1,nw_ttl=64,nw_frag=first actions=output:1",
    ),
    (
        "dl_vlan=5,dl_vlan_pcp=3,actions=strip_vlan,1",
        "dl_vlan=5,dl_vlan_pcp=3 actions=strip_vlan,output:1",
    ),
    (
        "dl_vlan=0xffff,actions=push_vlan:0x8100,set_field:4101->vlan_vid,1",
        "vlan_tci=0x0000 actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:1",
    ),
    (
        "vlan_tci=0x1000/0x1000,actions=pop_vlan,1",
        "vlan_tci=0x1000/0x1000 actions=strip_vlan,output:1",
    ),
    (
        "dl_src=01:00:00:00:00:00/01:00:00:00:00:00,dl_type=0x88cc,actions=1",
        "dl_src=01:00:00:00:00:00/01:00:00:00:00:00,dl_type=0x88cc actions=output:1",
    ),
    ("ct_state=+trk-new,ip,actions=1", "ct_state=-new+trk,ip actions=output:1"),
    (
        "ct_state=0x21/0x21,ct_zone=5,ct_mark=1/3,ct_label=0x5,ip,actions=1",
        "ct_state=+new+trk,ct_zone=5,ct_mark=0x1/0x3,ct_label=0x5,ip actions=output:1",
    ),
    ("ct_state=trk|est,ip,actions=1", "ct_state=est|trk,ip actions=output:1"),
    ("tcp,tcp_flags=+syn-ack,actions=1", "tcp,tcp_flags=+syn-ack actions=output:1"),
    (
        "reg0=1,reg1=0x10/0xf0,metadata=5,tun_id=9,pkt_mark=2,actions=1",
        "pkt_mark=0x2,reg0=0x1,reg1=0x10/0xf0,tun_id=0x9,metadata=0x5 actions=output:1",
    ),
    (
        "pkt_mark=0,ct_mark=0/5,reg0=0,reg1=0/3,metadata=0,actions=1",
        "pkt_mark=0,ct_mark=0/0x5,reg0=0,reg1=0/0x3,metadata=0 actions=output:1",
    ),
    ("xreg0=0x100000002,actions=1", "reg0=0x1,reg1=0x2 actions=output:1"),
    (
        "ip,actions=ct(commit,zone=reg0[0..15],nat(src=1.1.1.1-1.1.1.9:1-9,random),exec(set_field:1->ct_mark))",
        "ip actions=ct(commit,zone=NXM_NX_REG0[0..15],nat(src=1.1.1.1-1.1.1.9:1-9,random),exec(set_field:0x1->ct_mark))",
    ),
    ("ip,actions=ct(table=1,zone=5,nat),ct_clear", "ip actions=ct(table=1,zone=5,nat),ct_clear"),
    (
        "ip,actions=ct(commit,force,alg=ftp,exec(load:3->NXM_NX_CT_LABEL[32..63]))",
        "ip actions=ct(commit,force,exec(load:0x3->NXM_NX_CT_LABEL[32..63]),alg=ftp)",
    ),
    (
        "ipv6,actions=ct(commit,nat(dst=[fd00::1]:80))",
        "ipv6 actions=ct(commit,nat(dst=[fd00::1]:80))",
    ),
    ("ip,actions=ct(commit,nat(src))", "ip actions=ct(commit,nat(src))"),
    (
        "actions=resubmit(,1),resubmit:2,resubmit(3,4),resubmit(5)",
        "actions=resubmit(,1),resubmit:2,resubmit(3,4),resubmit:5",
    ),
    (
        "actions=load:0xa->NXM_NX_REG0[],load:1->reg1[3],move:NXM_NX_REG0[0..15]->reg1[16..31]",
        "actions=load:0xa->NXM_NX_REG0[],load:0x1->NXM_NX_REG1[3],move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31]",
    ),
    (
        "actions=set_field:0x5/0xf->reg0,set_field:02:00:00:00:00:01->eth_dst",
        "actions=set_field:0x5/0xf->reg0,set_field:02:00:00:00:00:01->eth_dst",
    ),
    (
        "udp,actions=set_field:80->udp_dst,set_field:1.2.3.4->ip_src",
        "udp actions=set_field:80->udp_dst,set_field:1.2.3.4->ip_src",
    ),
    (
        "actions=push:NXM_NX_REG0[],pop:NXM_OF_IN_PORT[],output:NXM_NX_REG0[]",
        "actions=push:NXM_NX_REG0[],pop:NXM_OF_IN_PORT[],output:NXM_NX_REG0[]",
    ),
    (
        "ip,actions=mod_dl_src:1:2:3:4:5:6,mod_nw_tos:32,mod_nw_ttl:3,dec_ttl,dec_ttl(1,2)",
        "ip actions=mod_dl_src:01:02:03:04:05:06,mod_nw_tos:32,mod_nw_ttl:3,dec_ttl,dec_ttl(1,2)",
    ),
    (
        "actions=controller,controller:128,controller(reason=invalid_ttl,id=3,max_len=100)",
        "actions=CONTROLLER:65535,CONTROLLER:128,controller(reason=invalid_ttl,max_len=100,id=3)",
    ),
    (
        "actions=set_tunnel:11,set_tunnel:0,set_tunnel64:0x100000005,set_field:7->tun_id",
        "actions=set_tunnel:0xb,set_tunnel:0,set_tunnel64:0x100000005,set_field:0x7->tun_id",
    ),
    ("actions=controller(userdata=01.02,pause)", "actions=controller(userdata=01.02,pause)"),
    (
        "actions=controller(meter_id=5),controller(meter_id=0x7,pause),controller(meter_id=0)",
        "actions=controller(meter_id=5),controller(pause,meter_id=7),CONTROLLER:65535",
    ),
    (
        "actions=clone(mod_vlan_vid:3,output:1),note:00.11.22,exit",
        "actions=clone(mod_vlan_vid:3,output:1),note:00.11.22,exit",
    ),
    (
        "actions=1,clear_actions,write_actions(output:2),write_metadata:0x1/0xff,goto_table:3",
        "actions=output:1,clear_actions,write_actions(output:2),write_metadata:0x1/0xff,goto_table:3",
    ),
];

fn print(flow: &crate::FlowMod) -> String {
    let matching = format_match(&flow.matching, Some(flow.priority));
    let actions = format_actions(&flow.actions, &flow.matching);
    if matching.is_empty() {
        format!("actions={actions}")
    } else {
        format!("{matching} actions={actions}")
    }
}

#[test]
fn flows_are_read_and_printed() {
    for (text, expect) in FLOWS {
        let flow =
            parse_flow(text, FlowModCommand::Add, &ports).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(print(&flow), *expect, "{text}");
        let again = parse_flow(expect, FlowModCommand::Add, &ports).unwrap();
        assert_eq!(again, flow, "{text}");
    }
}

#[test]
fn settings_of_a_flow_are_read() {
    let text = "cookie=0x5, duration=3s, table=3, n_packets=1, idle_timeout=7,hard_timeout=8 \
                importance=9,send_flow_rem reset_counts priority=100,ip,actions=drop";
    let flow = parse_flow(text, FlowModCommand::Add, &ports).unwrap();
    assert_eq!((flow.new_cookie, flow.table.unwrap().0, flow.priority), (5, 3, 100));
    assert_eq!((flow.idle_timeout_s, flow.hard_timeout_s, flow.importance), (7, 8, 9));
    assert_eq!(
        flow.flags,
        crate::message::FlowFlags::SEND_FLOW_REM | crate::message::FlowFlags::RESET_COUNTS
    );
    let flow = parse_flow("cookie=5/0xf,out_port=2", FlowModCommand::Delete, &ports).unwrap();
    assert_eq!((flow.cookie, flow.cookie_mask, flow.out_port), (5, 15, OfPort(2)));
}

#[test]
fn what_is_wrong_is_said_with_its_column() {
    let cases: &[(&str, usize, &str)] = &[
        ("tcp", 1, "needs actions"),
        ("tpc,actions=1", 1, "'tpc' is no field"),
        ("ip,nw_src=1.2.3,actions=1", 11, "not an IPv4 address"),
        ("tp_dst=80,actions=1", 1, "does not promise the protocol"),
        ("ip,actions=outptu:1", 12, "no action 'outptu'"),
        ("ip,actions=sample(collector_set_id=1)", 12, "sample needs a probability"),
        ("actions=sample(probability=0)", 9, "sample needs a probability"),
        ("actions=sample(probability=1,obs_point_id=xreg0)", 43, "64 bits are more than 32"),
        ("actions=sample(probability=1,rate=7)", 30, "sample has no 'rate'"),
        ("actions=learn(reg0=reg1[0..3])", 20, "4 bits can't become 32"),
        ("actions=learn(result_dst=reg0)", 26, "one bit"),
        ("actions=conjunction(1,3/2)", 23, "clause 3 of 2"),
        ("actions=conjunction(1,1/2),output:1", 9, "only beside conjunctions"),
        ("actions=multipath(eth_src,0,hrw,5,0,reg0[0..1])", 33, "2 bits can't hold 5 links"),
        ("actions=bundle(eth_src,0,hrw,ofport)", 16, "arguments are missing"),
        ("ip,actions=output:nosuch", 19, "no port 'nosuch'"),
        ("ip,actions=ct(zone=70000)", 20, "more than 65535"),
        ("ip,actions=ct(zone=reg0)", 20, "16 bits"),
        ("ip,actions=ct(commit", 14, "never closed"),
        ("ip,actions=ct(exec(set_field:1->ct_mark))", 15, "need commit"),
        ("actions=load:0x100->reg0[0..7]", 14, "does not fit"),
        ("actions=load:1->reg0[30..40]", 22, "bits 0 to 31"),
        ("arp,actions=set_field:0x102->arp_op", 23, "does not fit arp_op"),
        ("actions=set_field:1->ct_state", 22, "can't be written"),
        ("actions=goto_table:1,output:1", 9, "can't stand behind goto_table"),
        ("actions=drop,1", 9, "stands alone"),
        ("ct_state=+foo,actions=1", 11, "no flag 'foo'"),
        ("reg0=1,reg0=2,actions=1", 8, "given twice"),
        ("cookie=1/1,actions=1", 8, "not a mask"),
        ("priority=70000,actions=1", 10, "more than"),
        ("actions=push_vlan:0x1234", 19, "no Ethernet type of a VLAN tag"),
        ("actions=push_mpls:0x0800", 19, "no Ethernet type of MPLS"),
        ("actions=set_mpls_label:0x100000", 24, "is more than 1048575"),
        ("actions=encap(gre)", 15, "no header 'gre'"),
        ("actions=encap(mpls(md_type=1))", 20, "mpls has no properties"),
        ("actions=encap(nsh(md_type=3))", 27, "is more than 2"),
        ("actions=encap(nsh(tlv(1,2)))", 23, "three parts"),
        ("actions=encap(nsh(tlv(1,2,3)))", 23, "no hexadecimal number"),
        ("dl_type=0x894f,nsh_ttl=64,actions=drop", 24, "64 is no nsh_ttl"),
        ("dl_type=0x894f,nsh_spi=0x1000000,actions=drop", 24, "does not fit"),
        ("mpls_label=5,actions=drop", 1, "mpls_label does not promise"),
        // It would be printed without a name, and could not be parsed.
        ("actions=controller(reason=7)", 27, "unknown reason \"7\""),
        ("actions=note:1", 14, "two hexadecimal digits"),
        ("actions=resubmit(,1,ct,x)", 24, "does not take this"),
    ];
    for (text, column, what) in cases {
        let error = parse_flow(text, FlowModCommand::Add, &ports).unwrap_err();
        assert!(error.what.contains(what), "{text}: {error}");
        assert_eq!(error.column, *column, "{text}: {error}");
    }
}

fn entry(text: &str) -> FlowStatsEntry {
    let flow = parse_flow(text, FlowModCommand::Add, &ports).unwrap();
    FlowStatsEntry {
        table: base::TableId(1),
        matching: flow.matching,
        priority: flow.priority,
        cookie: 0x1234,
        duration_ns: 5_678_000_000,
        idle_timeout_s: 10,
        hard_timeout_s: 0,
        idle_age_s: 3,
        hard_age_s: 4,
        importance: 0,
        flags: FlowFlags::empty(),
        packets: 17,
        bytes: 1700,
        actions: flow.actions,
    }
}

/// Returns `ovs-ofctl`'s output for a message; `None` if `ovs-ofctl` is not installed.
fn ofp_print(bytes: &[u8]) -> Option<String> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let run = std::process::Command::new("ovs-ofctl").args(["ofp-print", &hex]).output();
    match run {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(_) => None,
    }
}

#[test]
fn ovs_ofctl_reads_what_is_written_and_prints_what_is_printed() {
    let mut checked = 0;
    for version in Version::ALL {
        // Before OpenFlow 1.3 ovs-ofctl does not decode these.
        let is_known = |text: &str| version >= Version::V13 || !text.contains("cap");
        for (text, _) in FLOWS.iter().filter(|(text, _)| is_known(text)) {
            let reply =
                StatsReply::Flow { flows: vec![entry(text)], nicira: version == Version::V10 };
            let message = Message::StatsReply(reply);
            let bytes = encode(version, 1, &message, &EncodeOptions::default()).concat();
            let Some(theirs) = ofp_print(&bytes) else {
                println!("SKIPPED: comparison with ovs-ofctl, which is not installed");
                return;
            };
            let (_, back) = decode(version, &bytes, &DecodeOptions::default()).unwrap();
            let Message::StatsReply(StatsReply::Flow { flows, .. }) = back else {
                panic!("{back:?}")
            };
            let mut ours = format_flow(&flows[0], true);
            if !matches!(version, Version::V10 | Version::V15) {
                // These versions do not contain the idle time.
                ours = ours.replace("idle_age=0, ", "");
            }
            let theirs = theirs.lines().nth(1).unwrap_or(&theirs).trim();
            // Actions with two names.
            let theirs = theirs.replace("pop_vlan", "strip_vlan");
            let theirs = (0..10).fold(theirs, |text, vid| {
                let ours = format!("set_field:{}->vlan_vid", 0x1000 + vid);
                text.replace(&format!("set_vlan_vid:{vid}"), &ours)
            });
            assert_eq!(ours, theirs, "{version:?}: {text}");
            checked += 1;
        }
    }
    assert!(checked > 3 * FLOWS.len());
}

#[test]
fn ovs_ofctl_reads_the_same_out_of_the_text() {
    for (text, _) in FLOWS.iter().filter(|(text, _)| !text.contains("veth1")) {
        let args = ["-O", "OpenFlow13", "parse-flow", text];
        let Ok(run) = std::process::Command::new("ovs-ofctl").args(args).output() else {
            println!("SKIPPED: comparison with ovs-ofctl, which is not installed");
            return;
        };
        let theirs = String::from_utf8_lossy(&run.stdout).into_owned();
        let theirs = theirs.lines().last().unwrap_or_default();
        let flow = parse_flow(text, FlowModCommand::Add, &ports).unwrap();
        let message = Message::FlowMod(flow);
        let bytes = encode(Version::V13, 2, &message, &EncodeOptions::default()).concat();
        let (_, back) = decode(Version::V13, &bytes, &DecodeOptions::default()).unwrap();
        let Message::FlowMod(flow) = back else { panic!("{back:?}") };
        let ours = print(&flow);
        let place = crate::Place { version: Version::V13, table: None, tables: 254 };
        if crate::check(&flow.actions, &flow.matching, place).is_err() {
            let refusal = String::from_utf8_lossy(&run.stderr);
            assert!(refusal.contains("OFPBAC_MATCH_INCONSISTENT"), "{text}: {theirs} {refusal}");
            continue;
        }
        // An action with two names.
        let theirs = theirs.replace("pop_vlan", "strip_vlan");
        assert!(theirs.ends_with(&format!("ADD {ours}")), "{text}\n  {ours}\n  {theirs}");
    }
}
