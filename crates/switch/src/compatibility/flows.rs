//! OpenFlow actions and match fields, tried in flows that are added to a bridge.

use super::{Row, note_of};
use base::{Instant, MacAddr, PortNo};
use ofproto::{BridgeConfig, BridgeId, Config, FailMode, Ofproto, PortDevice, PortSpec};
use openflow::message::{FlowModCommand, MeterCommand, MeterDesc, MeterMod, TlvCommand, TlvMap};
use openflow::text::parse_flow;

pub const NOW: Instant = Instant::from_millis(1000);

/// Actions of Open vSwitch 3.1 by their names in `ovs-actions(7)`, each in a flow.
const ACTIONS: &[(&str, &str)] = &[
    ("output", "actions=output:2"),
    ("output(max_len)", "actions=output(port=2,max_len=100)"),
    ("group", "actions=group:1"),
    ("controller", "actions=controller"),
    ("controller(pause)", "actions=controller(reason=action,pause)"),
    ("controller(meter_id)", "actions=controller(meter_id=1)"),
    ("enqueue", "actions=enqueue:2:1"),
    ("output:FIELD", "actions=output:reg1[0..15]"),
    ("bundle", "actions=bundle(eth_src,50,active_backup,ofport,slaves:1,2)"),
    ("bundle_load", "actions=bundle_load(eth_src,50,active_backup,ofport,reg0[0..15],slaves:1,2)"),
    ("set_field", "actions=set_field:1->reg0"),
    ("load", "actions=load:1->reg0[]"),
    ("move", "actions=move:reg0[]->reg1[]"),
    ("mod_vlan_vid", "actions=mod_vlan_vid:5"),
    ("mod_vlan_pcp", "actions=mod_vlan_pcp:5"),
    ("strip_vlan", "actions=strip_vlan"),
    ("push_vlan", "actions=push_vlan:0x8100"),
    ("mod_dl_src", "actions=mod_dl_src:02:00:00:00:00:01"),
    ("mod_dl_dst", "actions=mod_dl_dst:02:00:00:00:00:01"),
    ("mod_nw_src", "ip,actions=mod_nw_src:10.0.0.1"),
    ("mod_nw_dst", "ip,actions=mod_nw_dst:10.0.0.1"),
    ("mod_nw_tos", "ip,actions=mod_nw_tos:4"),
    ("mod_nw_ecn", "ip,actions=mod_nw_ecn:1"),
    ("mod_nw_ttl", "ip,actions=mod_nw_ttl:1"),
    ("mod_tp_src", "udp,actions=mod_tp_src:1"),
    ("mod_tp_dst", "udp,actions=mod_tp_dst:1"),
    ("push", "actions=push:reg0[]"),
    ("pop", "actions=push:reg0[],pop:reg1[]"),
    ("dec_ttl", "ip,actions=dec_ttl"),
    ("set_mpls_label", "mpls,actions=set_mpls_label:1"),
    ("set_mpls_tc", "mpls,actions=set_mpls_tc:1"),
    ("set_mpls_ttl", "mpls,actions=set_mpls_ttl:1"),
    ("dec_mpls_ttl", "mpls,actions=dec_mpls_ttl"),
    ("push_mpls", "actions=push_mpls:0x8847"),
    ("pop_mpls", "mpls,actions=pop_mpls:0x0800"),
    ("dec_nsh_ttl", "dl_type=0x894f,actions=dec_nsh_ttl"),
    ("delete_field", "actions=delete_field:tun_metadata0"),
    ("encap(ethernet)", "packet_type=(1,0x800),actions=encap(ethernet)"),
    ("encap(nsh)", "actions=encap(nsh(md_type=2,tlv(0x1000,10,0x12345678)))"),
    ("encap(mpls) encap(mpls_mc)", "actions=encap(mpls),encap(mpls_mc)"),
    ("decap", "actions=decap()"),
    ("set_tunnel", "actions=set_tunnel:1"),
    ("set_queue", "actions=set_queue:1"),
    ("pop_queue", "actions=pop_queue"),
    ("fin_timeout", "tcp,actions=fin_timeout(idle_timeout=1)"),
    ("resubmit", "actions=resubmit(,1)"),
    ("learn", "actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])"),
    ("conjunction", "actions=conjunction(1,1/2)"),
    ("multipath", "actions=multipath(eth_src,50,modulo_n,1,0,reg0[])"),
    ("note", "actions=note:00"),
    ("exit", "actions=exit"),
    ("sample", "actions=sample(probability=1)"),
    ("ct", "ip,actions=ct(commit,table=1,zone=1)"),
    ("ct(alg=ftp)", "tcp,actions=ct(commit,alg=ftp)"),
    ("ct(alg=tftp)", "udp,actions=ct(commit,alg=tftp)"),
    ("ct_clear", "actions=ct_clear"),
    ("nat", "ip,actions=ct(commit,nat(src=10.0.0.1))"),
    ("clone", "actions=clone(output:2)"),
    ("check_pkt_larger", "actions=check_pkt_larger(100)->reg0[0]"),
    ("meter", "actions=meter:1"),
    ("clear_actions", "actions=clear_actions"),
    ("write_actions", "actions=write_actions(output:2)"),
    ("write_metadata", "actions=write_metadata:1"),
    ("goto_table", "actions=goto_table:1"),
    ("NORMAL", "actions=NORMAL"),
    ("FLOOD", "actions=FLOOD"),
    ("ALL", "actions=ALL"),
    ("LOCAL", "actions=LOCAL"),
    ("IN_PORT", "actions=IN_PORT"),
    ("TABLE (packet-out only)", "actions=resubmit(,0)"),
    ("drop", "actions=drop"),
];

/// Notes on actions that are accepted.
const ACCEPTED_NOTES: &[(&str, &str)] = &[("sample", "there is no exporter: nothing is sampled")];

/// Match fields of Open vSwitch 3.1 by their names in `ovs-fields(7)`, each in a flow.
const FIELDS: &[(&str, &str)] = &[
    ("in_port in_port_oxm", "in_port=1"),
    ("recirc_id", "recirc_id=0"),
    ("dp_hash", "dp_hash=1"),
    ("skb_priority", "skb_priority=1"),
    ("tun_tos tun_ttl", "tun_tos=1,tun_ttl=64"),
    ("packet_type", "packet_type=(1,0x800)"),
    ("conj_id", "conj_id=1"),
    ("actset_output", "actset_output=1"),
    ("tun_id tunnel_id", "tun_id=1"),
    ("tun_src tun_dst", "tun_src=10.0.0.1,tun_dst=10.0.0.2"),
    ("tun_ipv6_src tun_ipv6_dst", "tun_ipv6_src=::1,tun_ipv6_dst=::2"),
    ("tun_flags", "tun_flags=oam"),
    ("tun_gbp_id tun_gbp_flags", "tun_gbp_id=1,tun_gbp_flags=1"),
    ("tun_erspan_idx tun_erspan_ver", "tun_erspan_ver=1,tun_erspan_idx=1"),
    ("tun_erspan_dir tun_erspan_hwid", "tun_erspan_ver=2,tun_erspan_dir=1,tun_erspan_hwid=1"),
    ("tun_gtpu_flags tun_gtpu_msgtype", "tun_gtpu_flags=1,tun_gtpu_msgtype=1"),
    ("metadata", "metadata=1"),
    ("pkt_mark", "pkt_mark=1"),
    ("reg0 to reg15", "reg0=1,reg15=1"),
    ("xreg0 to xreg7", "xreg0=1,xreg7=1"),
    ("xxreg0 to xxreg3", "xxreg0=1,xxreg3=1"),
    ("ct_state ct_zone ct_mark ct_label", "ct_state=+trk,ct_zone=1,ct_mark=1,ct_label=1"),
    (
        "ct_nw_src ct_nw_dst ct_nw_proto",
        "ip,ct_state=+trk+est,ct_nw_src=10.0.0.1,ct_nw_dst=10.0.0.2,ct_nw_proto=6",
    ),
    ("ct_ipv6_src ct_ipv6_dst", "ipv6,ct_state=+trk+est,ct_ipv6_src=::1,ct_ipv6_dst=::2"),
    ("ct_tp_src ct_tp_dst", "ip,ct_state=+trk+est,ct_nw_proto=6,ct_tp_src=1,ct_tp_dst=2"),
    ("eth_src dl_src", "eth_src=02:00:00:00:00:01"),
    ("eth_dst dl_dst", "eth_dst=02:00:00:00:00:01"),
    ("eth_type dl_type", "eth_type=0x1234"),
    ("vlan_tci", "vlan_tci=0x1005"),
    ("vlan_vid dl_vlan", "dl_vlan=5"),
    ("vlan_pcp dl_vlan_pcp", "dl_vlan=5,dl_vlan_pcp=1"),
    ("mpls_label mpls_tc mpls_bos mpls_ttl", "mpls,mpls_label=1,mpls_tc=2,mpls_bos=1,mpls_ttl=64"),
    ("ip_src nw_src ip_dst nw_dst", "ip,nw_src=10.0.0.1,nw_dst=10.0.0.2"),
    ("ipv6_src ipv6_dst", "ipv6,ipv6_src=::1,ipv6_dst=::2"),
    ("ipv6_label", "ipv6,ipv6_label=1"),
    ("nw_proto ip_proto", "ip,nw_proto=6"),
    ("nw_tos ip_dscp", "ip,nw_tos=4"),
    ("nw_ecn ip_ecn", "ip,nw_ecn=1"),
    ("nw_ttl", "ip,nw_ttl=64"),
    ("ip_frag nw_frag", "ip,ip_frag=first"),
    ("arp_op arp_spa arp_tpa", "arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2"),
    ("arp_sha arp_tha", "arp,arp_sha=02:00:00:00:00:01,arp_tha=02:00:00:00:00:02"),
    ("tcp_src tp_src tcp_dst tp_dst", "tcp,tp_src=1,tp_dst=2"),
    ("tcp_flags", "tcp,tcp_flags=+syn"),
    ("udp_src udp_dst", "udp,udp_src=1,udp_dst=2"),
    ("sctp_src sctp_dst", "sctp,sctp_src=1,sctp_dst=2"),
    ("icmp_type icmp_code", "icmp,icmp_type=8,icmp_code=0"),
    ("icmpv6_type icmpv6_code", "icmp6,icmpv6_type=128,icmpv6_code=0"),
    ("nd_target", "icmp6,icmpv6_type=135,nd_target=::1"),
    ("nd_sll", "icmp6,icmpv6_type=135,nd_sll=02:00:00:00:00:01"),
    ("nd_tll", "icmp6,icmpv6_type=136,nd_tll=02:00:00:00:00:01"),
    ("nd_reserved nd_options_type", "icmp6,icmpv6_type=136,nd_reserved=1"),
    (
        "nsh_flags nsh_mdtype nsh_np nsh_spi nsh_si nsh_c1 to nsh_c4 nsh_ttl",
        "dl_type=0x894f,nsh_mdtype=1,nsh_np=3,nsh_spi=1,nsh_si=2,nsh_c1=1,nsh_c4=1,nsh_ttl=63",
    ),
    ("tun_metadata0 to tun_metadata63", "tun_metadata0=1"),
];

const FIELD_NOTES: &[(&str, &str)] = &[
    ("tun_metadata0*", "an option must be mapped to the field first (`ovs-ofctl add-tlv-map`)"),
    ("recirc_id dp_hash", "no rule of OpenFlow may match it, as in Open vSwitch"),
    ("skb_priority tun_tos*", "no OpenFlow message can carry it, as in Open vSwitch"),
    ("nd_reserved*", "neighbour discovery's reserved bits and option types are not read"),
    ("actset_output", "no flow may match it here"),
];

/// Returns a bridge with three ports.
pub fn bridge() -> (Ofproto, BridgeId) {
    let mut core = Ofproto::new(Config::default());
    let mut config = BridgeConfig::new("br0", MacAddr([2, 0, 0, 0, 0, 1]));
    config.fail_mode = FailMode::Secure;
    let bridge = core.add_bridge(config, NOW);
    for number in 1..=3 {
        let (name, mac) = (format!("p{number}"), MacAddr([2, 0, 0, 0, 1, number]));
        let device = PortDevice::Datapath(PortNo(number.into()));
        core.add_port(bridge, PortSpec::new(name, mac, device), NOW).unwrap();
    }
    let map = TlvMap { class: 0xffff, kind: 0, len: 4, index: 0 };
    core.tlv_table_mod(bridge, TlvCommand::Add, &[map]).unwrap();
    (core, bridge)
}

/// Returns why a flow is rejected, if it is.
fn refusal(flow: &str) -> Option<String> {
    let (mut core, bridge) = bridge();
    let meter = MeterDesc { meter: 1, ..MeterDesc::default() };
    core.meter_mod(bridge, &MeterMod { command: MeterCommand::Add, meter }, NOW).unwrap();
    let ports = |_: &str| None;
    for text in [flow.to_owned(), format!("table=1,{flow}")] {
        let parsed = parse_flow(&text, FlowModCommand::Add, &ports);
        match parsed.map(|flow_mod| core.flow_mod(bridge, &flow_mod, NOW)) {
            Ok(Ok(())) => return None,
            Ok(Err(error)) => return Some(error.reason),
            Err(_) if text == flow => {}
            Err(error) => return Some(error.to_string()),
        }
    }
    None
}

fn rows(listed: &[(&str, &str)], suffix: &str, notes: &[(&str, &'static str)]) -> Vec<Row> {
    let row = |(names, flow): &(&str, &str)| {
        // Adding a flow checks that its group exists; the missing group is another error.
        let refused = refusal(&format!("{flow}{suffix}")).filter(|_| *names != "group");
        let (state, note) = match refused {
            None => ("supported", note_of(ACCEPTED_NOTES, names)),
            Some(_) => ("error", note_of(notes, names)),
        };
        Row { names: (*names).to_owned(), state, note }
    };
    listed.iter().map(row).collect()
}

pub fn actions() -> Vec<Row> {
    rows(ACTIONS, "", &[])
}

pub fn fields() -> Vec<Row> {
    rows(FIELDS, ",actions=drop", FIELD_NOTES)
}
