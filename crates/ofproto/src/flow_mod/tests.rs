use super::*;
use crate::Event;
use crate::test_bridge::TestBridge;
use crate::{BridgeConfig, ControllerState};
use base::MacAddr;
use flow::{Field, FlowStats, Match};
use openflow::text;
use std::time::Duration;

#[test]
fn commands_choose_the_flows_they_should() {
    use FlowModCommand as C;
    let start = [
        "priority=5,ip,actions=output:1",
        "priority=5,tcp,actions=output:2",
        "table=1,priority=5,ip,actions=output:1",
    ];
    let cases: [(C, &str, &[&str]); 11] = [
        (
            C::Add,
            "priority=5,ip,actions=drop",
            &[
                "priority=5,ip actions=drop",
                "priority=5,tcp actions=output:2",
                "table=1, priority=5,ip actions=output:1",
            ],
        ),
        (
            C::Modify,
            "ip,actions=drop",
            &[
                "priority=5,ip actions=drop",
                "priority=5,tcp actions=drop",
                "table=1, priority=5,ip actions=output:1",
            ],
        ),
        (
            C::ModifyStrict,
            "priority=5,ip,actions=drop",
            &[
                "priority=5,ip actions=drop",
                "priority=5,tcp actions=output:2",
                "table=1, priority=5,ip actions=output:1",
            ],
        ),
        // No flow to modify: one is added.
        (
            C::ModifyStrict,
            "priority=6,ip,actions=drop",
            &[
                "priority=5,ip actions=output:1",
                "priority=6,ip actions=drop",
                "priority=5,tcp actions=output:2",
                "table=1, priority=5,ip actions=output:1",
            ],
        ),
        (
            C::Modify,
            "cookie=1/1,actions=drop",
            &[
                "priority=5,ip actions=output:1",
                "priority=5,tcp actions=output:2",
                "table=1, priority=5,ip actions=output:1",
            ],
        ),
        (C::Delete, "", &[]),
        (
            C::Delete,
            "table=1",
            &["priority=5,ip actions=output:1", "priority=5,tcp actions=output:2"],
        ),
        (
            C::Delete,
            "tcp",
            &["priority=5,ip actions=output:1", "table=1, priority=5,ip actions=output:1"],
        ),
        (C::Delete, "out_port=1", &["priority=5,tcp actions=output:2"]),
        (C::DeleteStrict, "priority=5,ip", &["priority=5,tcp actions=output:2"]),
        (
            C::DeleteStrict,
            "priority=4,ip",
            &[
                "priority=5,ip actions=output:1",
                "priority=5,tcp actions=output:2",
                "table=1, priority=5,ip actions=output:1",
            ],
        ),
    ];
    for (command, flow, expect) in cases {
        let mut switch = TestBridge::new();
        start.iter().for_each(|flow| switch.add(flow));
        // A modification without a table means the first one here, as OpenFlow 1.0 sends it.
        let table = matches!(command, C::Modify | C::ModifyStrict);
        let flow = if table { format!("table=0,{flow}") } else { flow.to_owned() };
        switch.send(command, &flow).unwrap();
        let dump: Vec<String> =
            switch.flows().iter().map(|flow| flow.trim().replace("cookie=0x0, ", "")).collect();
        assert_eq!(dump, expect, "{command:?} {flow}");
    }
}

#[test]
fn requests_that_cannot_be_done_are_refused() {
    let mut switch = TestBridge::new();
    switch.add("priority=5,tcp,actions=output:2");
    let mut refuse = |flow, expect| {
        assert_eq!(switch.send(FlowModCommand::Add, flow), Err(expect), "{flow}");
    };
    refuse("check_overlap,priority=5,ip,actions=drop", ErrorCode::Overlap);
    refuse("table=3,ip,actions=goto_table:3", ErrorCode::InstructionBadTableId);
    switch.add("check_overlap,priority=6,ip,actions=drop");
    switch.add("check_overlap,priority=5,tcp,actions=drop");
    assert_eq!(switch.flows().len(), 2);
}

#[test]
fn counters_and_times_are_kept_as_they_should() {
    let mut switch = TestBridge::new();
    switch.add("cookie=7,idle_timeout=10,hard_timeout=30,ip,actions=output:1");
    let rule = |switch: &TestBridge| switch.ofproto.bridge(switch.id).unwrap().tables.all()[0];
    let three = FlowStats { packets: 3, ..FlowStats::default() };
    switch.ofproto.rules.get(rule(&switch)).unwrap().carried.add(&three, switch.now);
    let packets = |switch: &TestBridge| {
        let rule = switch.ofproto.rules.get(rule(switch)).unwrap();
        (rule.carried.packets(), rule.cookie, rule.idle_timeout_s)
    };
    switch.send(FlowModCommand::Modify, "idle_timeout=99,ip,actions=output:2").unwrap();
    assert_eq!(packets(&switch), (3, 0, 10));
    switch.add("ip,actions=output:3");
    assert_eq!(packets(&switch), (3, 0, 0));
    switch.add("reset_counts,ip,actions=output:3");
    assert_eq!(packets(&switch), (0, 0, 0));
}

#[test]
fn flows_time_out_and_tell_why() {
    let mut switch = TestBridge::new();
    switch.add("send_flow_rem,idle_timeout=10,tcp,actions=drop");
    switch.add("send_flow_rem,hard_timeout=20,udp,actions=drop");
    switch.add("idle_timeout=5,arp,actions=drop");
    switch.sleep(9);
    assert_eq!(switch.flows().len(), 2);
    // A packet keeps the first one for another ten seconds.
    let tcp = switch.ofproto.bridge(switch.id).unwrap().tables.all();
    for id in tcp {
        switch.ofproto.rules.get(id).unwrap().carried.saw(switch.now);
    }
    switch.sleep(9);
    assert_eq!(switch.flows().len(), 2);
    switch.sleep(2);
    let reasons: Vec<RemovedReason> = switch
        .events()
        .into_iter()
        .map(|event| match event {
            Event::FlowRemoved { reason, .. } => reason,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(reasons, [RemovedReason::IdleTimeout, RemovedReason::HardTimeout]);
    assert!(switch.flows().is_empty());
}

#[test]
fn a_transaction_can_be_taken_back() {
    let mut switch = TestBridge::new();
    switch.add("send_flow_rem,priority=5,ip,actions=output:1");
    switch.add("priority=5,tcp,actions=output:2");
    // Masks of equal rank may have changed places.
    let sorted = |switch: &TestBridge| {
        let mut flows = switch.flows();
        flows.sort_unstable();
        flows
    };
    let before = sorted(&switch);
    let transaction = switch.ofproto.begin();
    switch.add("priority=5,ip,actions=drop");
    switch.add("priority=9,actions=drop");
    switch.send(FlowModCommand::Delete, "").unwrap();
    switch.add("priority=5,tcp,actions=output:9");
    switch.ofproto.rollback(transaction);
    assert_eq!(sorted(&switch), before);
    assert!(switch.events().is_empty());
    let transaction = switch.ofproto.begin();
    switch.send(FlowModCommand::Delete, "").unwrap();
    switch.ofproto.commit(transaction);
    assert!(switch.flows().is_empty());
    assert_eq!(switch.events().len(), 1);
}

#[test]
fn controllers_and_fail_mode_decide_what_a_bridge_begins_with() {
    let mut switch = TestBridge::new();
    let now = switch.now;
    let config = BridgeConfig::new("br0", MacAddr::ZERO);
    assert!(switch.flows().is_empty());
    switch.ofproto.set_bridge(switch.id, config.clone(), now);
    assert_eq!(switch.flows(), ["cookie=0x0, priority=0 actions=NORMAL"]);
    let configured = ControllerState { configured: true, ..ControllerState::default() };
    switch.ofproto.set_controllers(switch.id, configured, now);
    assert!(switch.flows().is_empty());
    switch.add("ip,actions=drop");
    let fail_open = ControllerState { fail_open: true, ..configured };
    switch.ofproto.set_controllers(switch.id, fail_open, now);
    assert_eq!(switch.flows().len(), 1);
    switch.ofproto.set_controllers(switch.id, ControllerState::default(), now);
    assert_eq!(switch.flows(), ["cookie=0x0, priority=0 actions=NORMAL"]);
}

/// Recorded from Debian's Open vSwitch 3.1, except for the actions.
#[test]
fn dumps_go_by_masks_and_these_by_their_highest_priority() {
    let mut switch = TestBridge::new();
    for flow in [
        "priority=0,actions=NORMAL",
        "vlan_tci=0,actions=drop",
        "priority=9,in_port=1,actions=drop",
        "actions=NORMAL",
        "priority=5,ip,actions=drop",
        "priority=555,actions=output:1",
        "priority=100,in_port=1,actions=output:2",
        "table=3,priority=100,actions=goto_table:254",
        "priority=100,actions=output:77",
        "priority=555,in_port=1,actions=output:2",
    ] {
        switch.add(flow);
        switch.sleep(1);
    }
    let expect = [
        "cookie=0x0, vlan_tci=0x0000 actions=drop",
        "cookie=0x0, priority=0 actions=NORMAL",
        "cookie=0x0, actions=NORMAL",
        "cookie=0x0, priority=555 actions=output:1",
        "cookie=0x0, priority=100 actions=output:77",
        "cookie=0x0, priority=9,in_port=1 actions=drop",
        "cookie=0x0, priority=100,in_port=1 actions=output:2",
        "cookie=0x0, priority=555,in_port=1 actions=output:2",
        "cookie=0x0, priority=5,ip actions=drop",
        "cookie=0x0, table=3, priority=100 actions=goto_table:254",
    ];
    assert_eq!(switch.flows(), expect);
    // A replaced or modified flow moves to the end of its mask.
    switch.add("priority=0,actions=drop");
    switch.send(FlowModCommand::ModifyStrict, "priority=9,in_port=1,actions=output:4").unwrap();
    let now = switch.flows();
    let of_any: Vec<&str> = now[1..5].iter().map(String::as_str).collect();
    assert_eq!(of_any, [expect[2], expect[3], expect[4], "cookie=0x0, priority=0 actions=drop"]);
    assert_eq!(now[5..7], expect[6..8]);
    assert_eq!(now[7], "cookie=0x0, priority=9,in_port=1 actions=output:4");
}

#[test]
fn the_last_table_takes_no_flows() {
    use FlowModCommand as C;
    let mut switch = TestBridge::new();
    let flow = "table=254,actions=drop";
    for command in [C::Add, C::Modify, C::ModifyStrict] {
        assert_eq!(switch.send(command, flow), Err(ErrorCode::RequestEperm), "{command:?}");
    }
    for command in [C::Delete, C::DeleteStrict] {
        assert_eq!(switch.send(command, "table=254"), Ok(()), "{command:?}");
    }
    assert_eq!(switch.send(C::Add, "table=253,actions=drop"), Ok(()));
}

#[test]
fn durations_are_whole_milliseconds() {
    let mut switch = TestBridge::new();
    switch.add("actions=drop");
    switch.now = switch.now + std::time::Duration::from_nanos(255_999_999);
    let id = switch.ofproto.bridge(switch.id).unwrap().tables.all()[0];
    let rule = switch.ofproto.rules().get(id).unwrap();
    assert_eq!(rule.stats(switch.now).duration_ns, 255_000_000);
}

#[test]
fn what_packets_get_inside_the_datapath_is_not_matched() {
    use FlowModCommand as C;
    let any = u128::from(u32::MAX);
    // The errors are those of Open vSwitch 3.1; no flow text can express these cases.
    let cases = [
        (Match::any().with(Field::RecircId, 0), Ok(())),
        (Match::any().with(Field::RecircId, 1), Err(ErrorCode::RequestEperm)),
        (masked(Field::RecircId, 0, 0xff), Err(ErrorCode::RequestEperm)),
        (masked(Field::DpHash, 0, any), Err(ErrorCode::RequestEperm)),
        (masked(Field::DpHash, 1, 1), Err(ErrorCode::RequestEperm)),
    ];
    for (matching, expect) in cases {
        for command in [C::Add, C::Modify, C::ModifyStrict, C::Delete, C::DeleteStrict] {
            let mut switch = TestBridge::new();
            let text = if is_delete(command) { "" } else { "actions=drop" };
            let mut flow_mod = text::parse_flow(text, command, &|_| None).unwrap();
            flow_mod.matching = matching.clone();
            let got = switch.ofproto.flow_mod(switch.id, &flow_mod, switch.now);
            let expect = if is_delete(command) { Ok(()) } else { expect };
            assert_eq!(got.map_err(|error| error.code), expect, "{command:?} {matching:?}");
        }
    }
}

fn is_delete(command: FlowModCommand) -> bool {
    matches!(command, FlowModCommand::Delete | FlowModCommand::DeleteStrict)
}

fn masked(field: Field, value: u128, mask: u128) -> Match {
    let mut matching = Match::any();
    matching.set_masked(field, value, mask);
    matching
}

/// Flows on headers match frames, even without `packet_type`, and differ from those for packets without
/// Ethernet headers.
#[test]
fn flows_of_frames_and_of_other_packets_are_told_apart() {
    use FlowModCommand as C;
    let flows = [
        "priority=5,ip,actions=output:1",
        "priority=5,dl_src=02:00:00:00:00:01,actions=output:2",
        "priority=5,packet_type=(1,0x800),actions=output:3",
        "priority=5,in_port=1,actions=output:4",
    ];
    let (ip, mac) = ("priority=5,ip actions=output:1", "priority=5,dl_src=02:00:00:00:00:01");
    let check = |command, asked: &str, left: usize, is_left: [bool; 2]| {
        let mut switch = TestBridge::new();
        flows.iter().for_each(|flow| switch.add(flow));
        switch.send(command, asked).unwrap();
        let dump = switch.flows();
        let has = |text: &str| dump.iter().any(|it| it.contains(text));
        assert_eq!((dump.len(), [has(ip), has(mac)]), (left, is_left), "{asked}: {dump:?}");
    };
    check(C::Delete, "eth", 2, [false, false]);
    check(C::Delete, "packet_type=(0,0),ip", 3, [false, true]);
    check(
        C::DeleteStrict,
        "priority=5,packet_type=(0,0),dl_src=02:00:00:00:00:01",
        3,
        [true, false],
    );
    check(C::DeleteStrict, "priority=5,eth", 4, [true, true]);
    check(C::Delete, "packet_type=(1,0x800)", 3, [true, true]);
    check(C::Delete, "packet_type=(1,0x806)", 4, [true, true]);
    check(C::Delete, "", 0, [false, false]);
    let mut switch = TestBridge::new();
    flows.iter().for_each(|flow| switch.add(flow));
    for (flow, overlaps) in [
        ("priority=5,packet_type=(1,0x800),nw_dst=10.0.0.1", true),
        ("priority=5,packet_type=(1,0x86dd)", true),
        ("priority=5,in_port=2,packet_type=(1,0x806)", false),
        ("priority=5,in_port=2,arp", true),
        ("priority=5,in_port=2,arp,dl_src=02:00:00:00:00:02", false),
    ] {
        let asked = format!("check_overlap,{flow},actions=drop");
        let expect = if overlaps { Err(ErrorCode::Overlap) } else { Ok(()) };
        assert_eq!(switch.send(C::Add, &asked), expect, "{flow}");
    }
}

#[test]
fn flows_within_a_match_of_frames_are_those_about_headers() {
    let parse = |text: &str| text::parse_match(text, &|_| None).unwrap();
    let cases = [
        ("ip", "eth", true),
        ("ip,nw_dst=10.0.0.1", "eth,ip", true),
        ("ip,ct_state=+trk+est,ct_nw_proto=6", "eth", true),
        ("packet_type=(0,0)", "eth", true),
        ("in_port=1", "eth", false),
        ("packet_type=(1,0x800)", "eth", false),
        ("packet_type=(1,0x800)", "packet_type=(1,0x800)", true),
        ("ip", "", true),
    ];
    for (flow, asked, expect) in cases {
        let is_within = crate::table::is_within(&parse(flow), &parse(asked));
        assert_eq!(is_within, expect, "{flow} within {asked}");
    }
    let tuple = Match::any().with(Field::CtNwProto, 6);
    assert!(tuple.implies_frames(), "the tuple of a connection is of frames");
}

#[test]
fn many_flows_time_out_a_part_at_a_time_and_deleted_ones_are_forgotten() {
    let mut switch = TestBridge::new();
    for n in 1..=2000 {
        switch.add(&format!("hard_timeout=10,udp,udp_dst={n},actions=drop"));
        switch.add(&format!("idle_timeout=600,hard_timeout=60000,tcp,tcp_dst={n},actions=drop"));
    }
    assert_eq!(switch.ofproto.timeouts.len(), 3 * 2000);
    // One is added anew without a timeout, and half of the others are deleted.
    switch.add("udp,udp_dst=1,actions=drop");
    switch.send(FlowModCommand::Delete, "tcp").unwrap();
    assert_eq!(switch.ofproto.timeouts.len(), 1999);
    switch.now = switch.now + Duration::from_secs(10);
    switch.ofproto.tick(switch.now, &mut switch.out);
    let (mut before, mut calls) = (switch.ofproto.rules().len(), 0);
    assert!(before > 1000, "{before}");
    while switch.ofproto.go_on(switch.now, &mut switch.out) {
        let count = switch.ofproto.rules().len();
        assert!(before - count <= 512, "{before} flows, then {count}");
        (before, calls) = (count, calls + 1);
    }
    assert!(calls > 4, "{calls} calls");
    assert_eq!((switch.flows().len(), switch.ofproto.timeouts.len()), (1, 0));
}
