//! Side effects of a trace. Its output is tested in `testdata/ofproto`.

use super::*;
use crate::test_bridge::{NOW, TestBridge};
use crate::{BridgeConfig, Config, PortSpec, PriorityTags, VlanMode};
use base::MacAddr;
use openflow::message::FlowModCommand;

/// A learning switch with two ports and two tables.
fn switch() -> (Ofproto, BridgeId) {
    let config = BridgeConfig::new("br0", MacAddr::ZERO);
    let mut bridge = TestBridge::configured(Config::default(), config).with_ports(2);
    bridge.add("actions=resubmit(,1)");
    bridge.add("table=1,actions=normal");
    (bridge.ofproto, bridge.id)
}

fn trace(ofproto: &mut Ofproto, id: BridgeId, flow: &str, packet_bytes: Option<usize>) -> String {
    let matching = openflow::text::parse_match(flow, &|_| None).unwrap();
    let packet = packet_bytes.map(|bytes| vec![0; bytes]);
    let request = TraceRequest { packet, ..TraceRequest::new(id, matching.key().clone()) };
    ofproto.trace(NOW, &request, &mut Outbox::default())
}

/// `VLAN MAC PORT`, sorted.
fn learned(ofproto: &Ofproto, id: BridgeId) -> Vec<String> {
    let entries = ofproto.macs(id).unwrap().iter();
    let mut out: Vec<_> =
        entries.map(|entry| format!("{} {} {}", entry.vlan, entry.mac, entry.port)).collect();
    out.sort();
    out
}

#[test]
fn only_a_packet_is_learned_from_and_nothing_counts_it() {
    const TO_ITSELF: &str = "in_port=1,dl_src=02:00:00:00:00:07,dl_dst=02:00:00:00:00:07";
    let (mut ofproto, id) = switch();
    for flow in [TO_ITSELF, "in_port=1"] {
        let text = trace(&mut ofproto, id, flow, None);
        assert!(text.contains("-> no learned MAC for destination, flooding"), "{text}");
        assert!(learned(&ofproto, id).is_empty());
    }
    let text = trace(&mut ofproto, id, TO_ITSELF, Some(60));
    assert!(text.contains("-> learned that 02:00:00:00:00:07 is on port p1 in VLAN 0"), "{text}");
    assert!(text.contains("-> learned port is input port, dropping"), "{text}");
    assert_eq!(learned(&ofproto, id), ["0 02:00:00:00:00:07 1"]);
    let back = "in_port=2,dl_src=02:00:00:00:00:08,dl_dst=02:00:00:00:00:07";
    let text = trace(&mut ofproto, id, back, Some(60));
    assert!(text.ends_with("Datapath actions: 1"), "{text}");
    for rule in ofproto.bridge(id).unwrap().tables.all() {
        let rule = ofproto.rules().get(rule).unwrap();
        assert_eq!(rule.carried.pair(), (0, 0));
    }
    for table in ofproto.table_stats(id) {
        assert_eq!((table.lookups, table.matched), (0, 0), "{table:?}");
    }
}

/// What the datapath is ordered to do for a traced packet, without and with an actual packet.
#[test]
fn a_packet_goes_to_controllers_and_connection_tracking_and_not_out() {
    let cases = [
        ("output:2", ""),
        ("controller,output:2", "userspace(pid=0,controller("),
        ("mod_nw_tos:4,controller,output:2", "set(ipv4(tos=0x4/0xfc)),userspace(pid=0,controller("),
        ("clone(mod_nw_ttl:9,controller,output:2),output:2", "set(ipv4(ttl=9)),userspace("),
        (
            "check_pkt_larger(100)->reg0[0],controller,output:2",
            "check_pkt_len(size=100,gt(userspace(",
        ),
        ("ct(commit),output:2", "ct(commit)"),
        ("ct(table=1),output:2", "ct"),
        ("mod_nw_tos:4,output:2", ""),
    ];
    for (actions, expect) in cases {
        let config = BridgeConfig::new("br0", MacAddr::ZERO);
        let mut bridge = TestBridge::configured(Config::default(), config).with_ports(2);
        bridge.add(&format!("udp,actions={actions}"));
        let flow = "in_port=1,udp,nw_src=10.0.0.1,nw_dst=10.0.0.2";
        let matching = openflow::text::parse_match(flow, &|_| None).unwrap();
        let mut request = TraceRequest::new(bridge.id, matching.key().clone());
        let mut out = Outbox::default();
        bridge.ofproto.trace(NOW, &request, &mut out);
        assert!(out.commands.is_empty(), "{actions}: no packet");
        request.packet = Some(vec![7; 60]);
        bridge.ofproto.trace(NOW, &request, &mut out);
        let told = match out.commands.as_slice() {
            [] => String::new(),
            [(WorkerId(0), FlowCommand::Execute(it))] => {
                assert_eq!(it.packet.data(), [7; 60]);
                let text = text::format_actions(&it.actions, &it.key, PortNames::default());
                assert!(!text.contains("recirc(") && !text.ends_with(",2"), "{actions}: {text}");
                text
            }
            other => panic!("{actions}: {other:?}"),
        };
        assert!(
            told.starts_with(expect) && told.is_empty() == expect.is_empty(),
            "{actions}: {told}"
        );
    }
}

#[test]
fn other_vlans_make_a_port_forget_what_is_behind_it() {
    let with_vlan = |vlan| PortSpec { vlan, ..TestBridge::port(2) };
    let changes = [
        (TestBridge::port(2), false),
        (PortSpec { speed_kbps: 7, ..TestBridge::port(2) }, false),
        (with_vlan(VlanMode::Access(10)), true),
        (with_vlan(VlanMode::Trunk { trunks: vec![10, 20] }), true),
        (PortSpec { priority_tags: PriorityTags::Always, ..TestBridge::port(2) }, true),
        (PortSpec { protected: true, ..TestBridge::port(2) }, true),
    ];
    for (spec, forgets) in changes {
        let (mut ofproto, id) = switch();
        for last in [1, 2] {
            let mac = MacAddr([2, 0, 0, 0, 0, last]);
            ofproto.learn_mac(id, 0, mac, OfPort(last.into()), NOW);
        }
        ofproto.set_port(id, OfPort(2), spec.clone()).unwrap();
        let mut expect = vec!["0 02:00:00:00:00:01 1", "0 02:00:00:00:00:02 2"];
        expect.truncate(if forgets { 1 } else { 2 });
        assert_eq!(learned(&ofproto, id), expect, "{spec:?}");
    }
}

#[test]
fn a_stack_without_end_stops_the_packet() {
    let (mut ofproto, id) = switch();
    let push = ["push:NXM_NX_REG0[]"; 80].join(",");
    let flow = format!("actions={push},resubmit(,0)");
    let flow_mod = openflow::text::parse_flow(&flow, FlowModCommand::Add, &|_| None).unwrap();
    ofproto.flow_mod(id, &flow_mod, NOW).unwrap();
    let text = trace(&mut ofproto, id, "in_port=1", None);
    assert!(text.contains(">>>> resubmits yielded over 64 kB of stack <<<<"), "{text}");
    assert!(text.ends_with("Translation failed (Stack too deep), packet is dropped.\n"), "{text}");
}

#[test]
fn the_priority_that_linux_keeps_is_told_behind_the_mark() {
    let (mut ofproto, id) = switch();
    let matching = openflow::text::parse_match("in_port=1,pkt_mark=2", &|_| None).unwrap();
    let request = TraceRequest { skb_priority: 7, ..TraceRequest::new(id, matching.key().clone()) };
    let text = ofproto.trace(NOW, &request, &mut Outbox::default());
    assert!(text.starts_with("Flow: pkt_mark=0x2,skb_priority=0x7,in_port=1,"), "{text}");
}

#[test]
fn a_port_that_goes_takes_its_addresses_out_of_all_bridges() {
    let (mut ofproto, id) = switch();
    let other = ofproto.add_bridge(BridgeConfig::new("br1", MacAddr::ZERO), NOW);
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    for (bridge, last, port) in [(id, 1, 1), (id, 2, 2), (other, 1, 9), (other, 3, 9)] {
        ofproto.learn_mac(bridge, 0, mac(last), OfPort(port), NOW);
    }
    ofproto.remove_port(id, OfPort(1), NOW);
    assert_eq!(learned(&ofproto, id), ["0 02:00:00:00:00:02 2"]);
    assert_eq!(learned(&ofproto, other), ["0 02:00:00:00:00:03 9"]);
}
