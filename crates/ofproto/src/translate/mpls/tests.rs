//! Labels that come and go, and what waits until the packet is read anew.

use crate::translate::Notes;
use crate::{BridgeConfig, Config, Ofproto, PortDevice, PortSpec};
use base::{Instant, MacAddr, PortNo};
use flow::FlowKey;
use openflow::message::FlowModCommand;

const NOW: Instant = Instant::from_millis(1000);

fn switch(flows: &[&str]) -> Ofproto {
    let mut ofproto = Ofproto::new(Config::default());
    let id = ofproto.add_bridge(BridgeConfig::new("br0", MacAddr::ZERO), NOW);
    for port in 1..=2 {
        let device = PortDevice::Datapath(PortNo(port));
        ofproto
            .add_port(id, PortSpec::new(&format!("p{port}"), MacAddr::ZERO, device), NOW)
            .unwrap();
    }
    for flow in flows {
        let flow_mod = openflow::text::parse_flow(flow, FlowModCommand::Add, &|_| None).unwrap();
        ofproto.flow_mod(id, &flow_mod, NOW).unwrap();
    }
    ofproto
}

/// The steps that a packet takes, as a dump of flows has them.
fn steps(actions: &str, packet: &str) -> (String, String) {
    let ofproto = switch(&[&format!("actions={actions}"), "table=1,actions=output:2"]);
    let packet = format!("in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),{packet}");
    let (key, _): (FlowKey, _) = crate::text::parse_flow(&packet, &|_| None).unwrap();
    let translation = ofproto.translate(NOW, &key, Notes::Off);
    let names = crate::text::PortNames::default();
    let mask = crate::text::format_flow(&key, &translation.mask, false, names);
    (crate::text::format_actions(&translation.actions, &key, names), mask)
}

const UDP: &str = "eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0x28,ttl=9,frag=no),udp(src=1,dst=2)";
const ONE: &str = "eth_type(0x8847),mpls(label=5,tc=1,ttl=9,bos=1)";
const TWO: &str = "eth_type(0x8847),mpls(label=4,tc=0,ttl=8,bos=0,label=5,tc=1,ttl=9,bos=1)";
const THREE: &str = "eth_type(0x8847),mpls(label=3,tc=0,ttl=7,bos=0,label=4,tc=0,ttl=8,bos=0,label=5,tc=1,ttl=9,bos=0)";

#[test]
fn labels_come_and_go() {
    let push = |label: u32, class: u32, ttl: u32, last: u32| {
        format!("push_mpls(label={label},tc={class},ttl={ttl},bos={last},eth_type=0x8847)")
    };
    let cases: [(&str, &str, String); 15] = [
        ("push_mpls:0x8847,output:2", UDP, push(0, 2, 9, 1) + ",2"),
        ("push_mpls:0x8847,set_mpls_label:7,set_mpls_tc:1,output:2", UDP, push(7, 1, 9, 1) + ",2"),
        ("push_mpls:0x8847,set_field:7->mpls_label,output:2", UDP, push(7, 2, 9, 1) + ",2"),
        (
            "push_mpls:0x8847,push_mpls:0x8847,set_mpls_ttl:3,output:2",
            UDP,
            push(0, 2, 9, 1) + "," + &push(0, 2, 3, 0) + ",2",
        ),
        // What stood before the label goes out before it does.
        (
            "mod_nw_src:10.0.0.9,push_mpls:0x8847,output:2",
            UDP,
            "set(ipv4(src=10.0.0.9)),".to_owned() + &push(0, 2, 9, 1) + ",2",
        ),
        // There is no such header any more.
        ("push_mpls:0x8847,mod_nw_src:10.0.0.9,output:2", UDP, push(0, 2, 9, 1) + ",2"),
        ("push_mpls:0x8847,pop_mpls:0x0800,output:2", UDP, "2".to_owned()),
        ("pop_mpls:0x0800,output:2", ONE, "pop_mpls(eth_type=0x800),2".to_owned()),
        ("pop_mpls:0x8847,output:2", TWO, "pop_mpls(eth_type=0x8847),2".to_owned()),
        (
            "pop_mpls:0x8847,pop_mpls:0x0800,output:2",
            TWO,
            "pop_mpls(eth_type=0x8847),pop_mpls(eth_type=0x800),2".to_owned(),
        ),
        ("dec_mpls_ttl,output:2", ONE, "set(mpls(label=5,tc=1,ttl=8,bos=1)),2".to_owned()),
        (
            "pop_mpls:0x8847,push_mpls:0x8847,set_mpls_label:9,output:2",
            TWO,
            "set(mpls(label=9,tc=1,ttl=9,bos=0)),2".to_owned(),
        ),
        // Neither is known what is behind the third, nor is there room for a fourth.
        ("pop_mpls:0x8847,output:2", THREE, "drop".to_owned()),
        ("push_mpls:0x8847,output:2", THREE, "drop".to_owned()),
        ("set_mpls_label:9,output:2", UDP, "2".to_owned()),
    ];
    for (actions, packet, expect) in cases {
        assert_eq!(steps(actions, packet).0, expect, "{actions} {packet}");
    }
}

#[test]
fn labels_stand_in_front_of_whole_frames() {
    let add = |label: u32, last: u32| {
        format!("add_mpls(label={label},tc=0,ttl=64,bos={last},eth_type=0x8847)")
    };
    let ethernet = "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00)";
    let cases: [(&str, &str, String); 6] = [
        (
            "encap(mpls),set_mpls_label:2,encap(ethernet),output:2",
            UDP,
            format!("{},{ethernet},2", add(2, 1)),
        ),
        (
            "encap(mpls),set_mpls_label:2,encap(mpls),set_mpls_label:3,encap(ethernet),output:2",
            UDP,
            format!("{},{},{ethernet},2", add(2, 1), add(3, 0)),
        ),
        // Without an Ethernet header it leaves by no port.
        ("encap(mpls),output:2", UDP, String::from("drop")),
        (
            "decap(),decap(packet_type(ns=1,type=0x8847)),encap(ethernet),output:2",
            TWO,
            format!("pop_eth,pop_mpls(eth_type=0x8847),{ethernet},2"),
        ),
        ("decap(),decap(packet_type(ns=0,type=0)),output:2", THREE, String::from("drop")),
        ("decap(),decap(),output:2", ONE, String::from("drop")),
    ];
    for (actions, packet, expect) in cases {
        assert_eq!(steps(actions, packet).0, expect, "{actions} {packet}");
    }
    let frame = steps("decap(),decap(packet_type(ns=0,type=0)),output:2", ONE).0;
    assert!(frame.starts_with("pop_eth,pop_mpls(eth_type=0x6558),recirc(0x"), "{frame}");
}

#[test]
fn what_is_behind_labels_is_read_anew_where_it_matters() {
    let pop = "pop_mpls:0x0800";
    for (rest, waits) in [
        ("output:2", false),
        ("mod_dl_src:02:00:00:00:00:09,output:2", false),
        ("mod_vlan_vid:5,output:2", false),
        ("mod_nw_src:10.0.0.9,output:2", true),
        ("dec_ttl,output:2", true),
        ("resubmit(,1)", true),
        ("goto_table:1", true),
        ("push_vlan:0x8100,output:2", true),
    ] {
        let actions = steps(&format!("{pop},{rest}"), ONE).0;
        let expect = actions.starts_with("pop_mpls(eth_type=0x800),recirc(0x");
        assert_eq!(expect, waits, "{rest}: {actions}");
    }
}

#[test]
fn what_decides_about_labels_matters() {
    let mask = |actions: &str, packet: &str| steps(actions, packet).1;
    let has = |text: &str, part: &str| assert!(text.contains(part), "{text}: {part}");
    has(&mask("pop_mpls:0x0800,output:2", ONE), "mpls(label=5/0x0,tc=1/0,ttl=9/0x0,bos=1/1)");
    has(&mask("dec_mpls_ttl,output:2", ONE), "mpls(label=5/0x0,tc=1/0,ttl=9/0xff,bos=1/0)");
    let pushed = mask("push_mpls:0x8847,output:2", UDP);
    has(&pushed, "tos=0x28/0xfc,ttl=9");
    assert!(!pushed.contains("src=10"), "{pushed}");
}
