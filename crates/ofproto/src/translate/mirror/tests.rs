//! Which packets mirrors copy.

use crate::test_bridge::{NOW, TestBridge};
use crate::translate::Notes;
use crate::{BridgeConfig, Config, MirrorConfig, MirrorId, MirrorOutput, PortSpec, VlanMode};
use base::MacAddr;
use flow::{Action, Field, FlowKey, VLAN_PRESENT};
use std::collections::BTreeSet;

/// The outputs of a bridge with ports 1 to 4, the fourth in VLAN 12 only.
fn sent(flows: &str, mirrors: &[MirrorConfig], in_port: u32, vlan: u16) -> Vec<String> {
    let mirrors = mirrors.to_vec();
    let config = BridgeConfig { mirrors, ..BridgeConfig::new("br0", MacAddr::ZERO) };
    let mut bridge = TestBridge::configured(Config::default(), config).with_ports(3);
    let fourth = PortSpec { vlan: VlanMode::Access(12), ..TestBridge::port(4) };
    bridge.ofproto.add_port(bridge.id, fourth, NOW).unwrap();
    flows.lines().for_each(|flow| bridge.add(flow));
    let mut key = FlowKey::new();
    key.set(Field::InPort, in_port.into());
    key.set(Field::EthSrc, 0x0200_0000_0001);
    key.set(Field::EthDst, 0x0200_0000_0002);
    key.set(Field::EthType, 0x0800);
    if vlan != 0 {
        key.set(Field::VlanTci, (vlan | VLAN_PRESENT).into());
        key.set(Field::VlanTpid, 0x8100);
    }
    let translation = bridge.ofproto.translate(NOW, &key, Notes::Off);
    let text = |action: &Action| match action {
        Action::Output(port) => port.0.to_string(),
        Action::OutputCut { port, max_len } => format!("{max_len} bytes to {}", port.0),
        Action::Drop(_) => "drop".to_owned(),
        Action::PushVlan { tci, .. } => format!("push {}", tci & 0xfff),
        other => format!("{other:?}"),
    };
    translation.actions.iter().map(text).collect()
}

fn mirror(output: MirrorOutput) -> MirrorConfig {
    MirrorConfig {
        id: MirrorId(1),
        filter: None,
        all: true,
        sources: BTreeSet::new(),
        destinations: BTreeSet::new(),
        vlans: BTreeSet::new(),
        snaplen: 0,
        output,
    }
}

fn to(port: &str) -> MirrorConfig {
    mirror(MirrorOutput::Port(port.to_owned()))
}

const CROSS: &str = "in_port=1,actions=output:2\nin_port=2,actions=output:1";

#[test]
fn a_packet_is_copied_once_where_it_came_from_or_went() {
    assert_eq!(sent(CROSS, &[to("p3")], 1, 0), ["3", "2"]);
    // Two mirrors with one output make one copy.
    assert_eq!(sent(CROSS, &[to("p3"), to("p3")], 1, 0), ["3", "2"]);
    let some = |sources: &[&str], destinations: &[&str]| MirrorConfig {
        all: false,
        sources: sources.iter().map(|it| (*it).to_owned()).collect(),
        destinations: destinations.iter().map(|it| (*it).to_owned()).collect(),
        ..to("p3")
    };
    assert_eq!(sent(CROSS, &[some(&["p1"], &[])], 1, 0), ["3", "2"]);
    assert_eq!(sent(CROSS, &[some(&["p1"], &[])], 2, 0), ["1"]);
    assert_eq!(sent(CROSS, &[some(&[], &["p1"])], 1, 0), ["2"]);
    assert_eq!(sent(CROSS, &[some(&[], &["p1"])], 2, 0), ["1", "3"]);
    let cut = |snaplen| MirrorConfig { snaplen, ..to("p3") };
    assert_eq!(sent(CROSS, &[cut(100)], 1, 0), ["100 bytes to 3", "2"]);
    assert_eq!(sent(CROSS, &[cut(u16::MAX)], 1, 0), ["3", "2"]);
    // A missing port gets no copies.
    assert_eq!(sent(CROSS, &[to("p7")], 1, 0), ["2"]);
}

#[test]
fn a_port_of_copies_has_nothing_else() {
    assert_eq!(sent("actions=normal", &[to("p3")], 1, 0), ["3", "2"]);
    assert_eq!(sent("actions=output:2", &[to("p3")], 3, 0), [""; 0]);
    assert_eq!(sent("actions=normal", &[to("p3")], 3, 0), [""; 0]);
}

#[test]
fn vlans_choose_what_is_copied() {
    let some = MirrorConfig { vlans: BTreeSet::from([11]), ..to("p3") };
    assert_eq!(sent(CROSS, std::slice::from_ref(&some), 1, 11), ["3", "2"]);
    assert_eq!(sent(CROSS, std::slice::from_ref(&some), 1, 12), ["2"]);
    assert_eq!(sent(CROSS, std::slice::from_ref(&some), 1, 0), ["2"]);
}

#[test]
fn a_filter_chooses_among_the_packets_of_a_mirror() {
    for (filter, is_copied) in [
        ("ip", true),
        ("dl_src=02:00:00:00:00:01", true),
        ("arp", false),
        ("dl_dst=02:00:00:00:00:09", false),
    ] {
        let matching = openflow::text::parse_match(filter, &|_| None).unwrap();
        let some = MirrorConfig { filter: Some(Box::new(matching)), ..to("p3") };
        let expect: &[&str] = if is_copied { &["3", "2"] } else { &["2"] };
        assert_eq!(sent(CROSS, std::slice::from_ref(&some), 1, 0), expect, "{filter}");
    }
    // The megaflow tells packets apart that the filter does.
    let matching = openflow::text::parse_match("dl_dst=02:00:00:00:00:09", &|_| None).unwrap();
    let mirrors = vec![MirrorConfig { filter: Some(Box::new(matching)), ..to("p3") }];
    let config = BridgeConfig { mirrors, ..BridgeConfig::new("br0", MacAddr::ZERO) };
    let mut bridge = TestBridge::configured(Config::default(), config).with_ports(3);
    bridge.add("actions=output:2");
    let mut key = FlowKey::new();
    key.set(Field::InPort, 1);
    assert!(bridge.ofproto.translate(NOW, &key, Notes::Off).mask.has(Field::EthDst));
}

#[test]
fn copies_are_counted_for_each_mirror_while_it_is_configured() {
    let number = |id: u128, port: &str| MirrorConfig { id: MirrorId(id), ..to(port) };
    let only = MirrorConfig { vlans: BTreeSet::from([11]), ..number(3, "p3") };
    let mirrors = vec![number(1, "p3"), number(2, "gone"), only];
    let config = BridgeConfig { mirrors, ..BridgeConfig::new("br0", MacAddr::ZERO) };
    let mut bridge = TestBridge::configured(Config::default(), config.clone()).with_ports(3);
    bridge.add("actions=output:2");
    let count = |ofproto: &mut crate::Ofproto| {
        let mut key = FlowKey::new();
        key.set(Field::InPort, 1);
        let links = ofproto.translate(NOW, &key, Notes::Off).links;
        let stats = flow::FlowStats { packets: 2, bytes: 120, ..Default::default() };
        ofproto.credit(&links, &stats, NOW);
        ofproto.mirrored().map(|(id, counts)| (id.0, counts)).collect::<Vec<_>>()
    };
    let ofproto = &mut bridge.ofproto;
    assert_eq!(count(ofproto), [(1, (2, 120)), (2, (2, 120)), (3, (0, 0))]);
    let mirrors = vec![MirrorConfig { snaplen: 100, ..number(1, "p3") }, number(4, "p3")];
    ofproto.set_bridge(bridge.id, BridgeConfig { mirrors, ..config }, NOW);
    // The second mirror has the same output.
    assert_eq!(count(ofproto), [(1, (4, 240)), (4, (0, 0))]);
}

#[test]
fn copies_go_to_a_vlan() {
    let mirror = mirror(MirrorOutput::Vlan(12));
    let copies = sent(CROSS, std::slice::from_ref(&mirror), 1, 0);
    assert_eq!(copies[0], "push 12", "{copies:?}");
    assert!(copies.contains(&"4".to_owned()), "{copies:?}");
    // Packets already in the VLAN are not copied.
    assert_eq!(sent(CROSS, &[mirror], 1, 12), ["2"]);
}
