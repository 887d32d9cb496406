use super::*;
use crate::test_bridge::TestBridge;
use flow::{Match, MeterBand};
use openflow::message::{FlowMod, FlowModCommand};

fn bridge() -> (Ofproto, BridgeId) {
    let TestBridge { ofproto, id, .. } = TestBridge::new();
    (ofproto, id)
}

fn meter_mod(command: MeterCommand, meter: u32) -> MeterMod {
    let bands = vec![MeterBand { rate: 5, burst: 5 }];
    MeterMod { command, meter: MeterDesc { meter, flags: MeterDesc::PKTPS, bands } }
}

#[test]
fn meters_come_change_and_go() {
    use MeterCommand::{Add, Delete, Modify};
    let (mut ofproto, id) = bridge();
    let exists = Some(ErrorCode::MeterExists);
    for (command, meter, expect, left) in [
        (Delete, 1, None, 0),
        (Modify, 1, Some(ErrorCode::MeterUnknown), 0),
        (Add, 0, Some(ErrorCode::MeterInvalid), 0),
        (Add, METER_MAX + 1, Some(ErrorCode::MeterInvalid), 0),
        (Add, 1, None, 1),
        (Add, 1, exists, 1),
        (Add, METER_CONTROLLER, None, 2),
        (Modify, 1, None, 2),
        (Delete, 1, None, 1),
        (Add, 7, None, 2),
        (Delete, METER_ALL, None, 0),
    ] {
        let got = ofproto.meter_mod(id, &meter_mod(command, meter), Instant::ZERO);
        assert_eq!(got.err().map(|error| error.code), expect, "{command:?} {meter}");
        assert_eq!(ofproto.meter_descs(id, METER_ALL).unwrap().len(), left, "{command:?} {meter}");
    }
    let unknown = ofproto.meter_stats(id, 1, Instant::ZERO).unwrap_err();
    assert_eq!(unknown.code, ErrorCode::MeterUnknown);
}

#[test]
fn the_lowest_number_of_the_datapath_is_given() {
    let (mut ofproto, id) = bridge();
    let mut add = |meter| {
        ofproto.meter_mod(id, &meter_mod(MeterCommand::Add, meter), Instant::ZERO).unwrap();
        ofproto.bridge(id).unwrap().meters.get(meter).unwrap().number()
    };
    assert_eq!([add(9), add(3)], [0, 1]);
    ofproto.meter_mod(id, &meter_mod(MeterCommand::Delete, 9), Instant::ZERO).unwrap();
    ofproto.meter_mod(id, &meter_mod(MeterCommand::Add, 4), Instant::ZERO).unwrap();
    assert_eq!(ofproto.bridge(id).unwrap().meters.get(4).unwrap().number(), 0);
}

/// A search through all numbers for each new meter takes minutes here.
#[test]
fn numbers_are_given_again_also_after_a_bridge_was_removed() {
    let mut bridge = TestBridge::new();
    let number = |bridge: &TestBridge, meter| {
        bridge.ofproto.bridge(bridge.id).unwrap().meters.get(meter).unwrap().number()
    };
    let change = |bridge: &mut TestBridge, command, meter| {
        bridge.ofproto.meter_mod(bridge.id, &meter_mod(command, meter), bridge.now).unwrap();
    };
    for _ in 0..2 {
        for meter in 1..=30_000 {
            change(&mut bridge, MeterCommand::Add, meter);
        }
        assert_eq!((number(&bridge, 1), number(&bridge, 30_000)), (0, 29_999));
        for meter in [700, 80] {
            change(&mut bridge, MeterCommand::Delete, meter);
        }
        for (meter, expect) in [(40_000, 79), (40_001, 699), (40_002, 30_000)] {
            change(&mut bridge, MeterCommand::Add, meter);
            assert_eq!(number(&bridge, meter), expect);
        }
        bridge.ofproto.remove_bridge(bridge.id);
        bridge.id = bridge.ofproto.add_bridge(TestBridge::secure(), bridge.now);
    }
}

#[test]
fn a_flow_goes_with_its_meter_and_cannot_come_without() {
    let (mut ofproto, id) = bridge();
    ofproto.flush_flows(id);
    let flow = FlowMod {
        command: FlowModCommand::Add,
        matching: Match::any(),
        priority: 1,
        actions: vec![Action::Clone(vec![Action::Meter(2)])],
        ..openflow::text::parse_flow("actions=drop", FlowModCommand::Add, &|_| None).unwrap()
    };
    let refused = ofproto.flow_mod(id, &flow, Instant::ZERO).unwrap_err();
    assert_eq!(refused.code, ErrorCode::MeterInvalid);
    ofproto.meter_mod(id, &meter_mod(MeterCommand::Add, 2), Instant::ZERO).unwrap();
    ofproto.flow_mod(id, &flow, Instant::ZERO).unwrap();
    let stats = ofproto.meter_stats(id, METER_ALL, Instant::from_millis(2500)).unwrap();
    assert_eq!((stats[0].flows, stats[0].duration_ns), (1, 2_500_000_000));
    ofproto.meter_mod(id, &meter_mod(MeterCommand::Delete, 2), Instant::ZERO).unwrap();
    assert_eq!(ofproto.rules().len(), 0);
}

/// The answers are those of Open vSwitch 3.7.1: a meter of packets to controllers need not exist, counts no flows,
/// and takes none along when it is deleted.
#[test]
fn packets_to_controllers_pass_the_meter_that_their_action_names() {
    let mut bridge = TestBridge::new().with_ports(1);
    let to = |id, meters: &str| {
        let to = format!(
            "userspace(pid=0,controller(reason=1,dont_send=1,continuation=0,recirc_id={id},rule_cookie=0,controller_id=0,max_len=65535))"
        );
        if meters.is_empty() { to } else { format!("sample(sample=100.0%,actions({meters},{to}))") }
    };
    let trace = |bridge: &mut TestBridge| {
        let matching = openflow::text::parse_match("in_port=1", &|_| None).unwrap();
        let request = crate::TraceRequest::new(bridge.id, matching.key().clone());
        let text = bridge.ofproto.trace(bridge.now, &request, &mut crate::Outbox::default());
        text.rsplit_once("Datapath actions: ").unwrap().1.to_owned()
    };
    let change = |bridge: &mut TestBridge, command, meter| {
        bridge.ofproto.meter_mod(bridge.id, &meter_mod(command, meter), bridge.now).unwrap();
    };
    let flow = "actions=controller(meter_id=5),clone(controller(meter_id=77)),controller";
    bridge.add(flow);
    let check = |bridge: &mut TestBridge, own: &str, other: &str| {
        let parts = [to(1, own), to(1, other), to(1, other)];
        assert_eq!(trace(bridge), parts.join(","));
    };
    check(&mut bridge, "", "");
    change(&mut bridge, MeterCommand::Add, 5);
    check(&mut bridge, "meter(0)", "");
    change(&mut bridge, MeterCommand::Add, METER_CONTROLLER);
    check(&mut bridge, "meter(0)", "meter(1)");
    let stats = bridge.ofproto.meter_stats(bridge.id, 5, bridge.now).unwrap();
    assert_eq!(stats[0].flows, 0);
    change(&mut bridge, MeterCommand::Delete, 5);
    check(&mut bridge, "meter(1)", "meter(1)");
    change(&mut bridge, MeterCommand::Delete, METER_ALL);
    check(&mut bridge, "", "");
    assert_eq!(bridge.flows().len(), 1);
}

#[test]
fn megaflows_follow_the_meters_of_packets_to_controllers() {
    let mut bridge = TestBridge::new().with_ports(1);
    bridge.add("actions=controller(meter_id=5,pause),1");
    let packet = "10.0.0.1:1000>10.0.0.2:80 S";
    bridge.upcall(1, packet, flow::UpcallKind::Miss);
    let is_metered = |bridge: &mut TestBridge| {
        bridge.revalidate();
        let flows = bridge.ofproto.megaflows();
        assert_eq!(flows.len(), 1);
        matches!(flows[0].actions[..], [flow::Action::Clone(_)])
    };
    assert!(!is_metered(&mut bridge));
    for (command, expect) in [(MeterCommand::Add, true), (MeterCommand::Delete, false)] {
        bridge.ofproto.meter_mod(bridge.id, &meter_mod(command, 5), bridge.now).unwrap();
        assert_eq!(is_metered(&mut bridge), expect);
    }
}
