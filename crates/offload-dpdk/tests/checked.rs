//! Connections whose windows the device checks: its rules, what they do with segments, and what is left when something
//! fails or ends.

mod recorder;

use base::PortNo;
use flow::{
    Action, ConnectionRef, FlowOffload, Headers, MARK_IN_WINDOW, OffloadId, OffloadRefusal,
    OffloadRule, OffloadTraffic, Refusal, TcpWindow, TcpWindows, WindowCheck,
};
use offload_dpdk::DpdkOffload;
use port_dpdk::flow_rule::{Commands, FlowRule, Item, RuleAction};
use recorder::{Fate, Recorder};
use std::sync::Arc;
use std::time::Duration;

const IN: PortNo = PortNo(1);
const OUT: PortNo = PortNo(2);

/// A card with two ports.
fn card(device: Recorder) -> DpdkOffload<Recorder> {
    let mut offload = DpdkOffload::new(device);
    assert!(offload.add_port(IN, 0, 1500) && offload.add_port(OUT, 1, 1500));
    offload
}

/// A segment of connection `nth`, with addresses and ports in front.
fn segment(nth: u16, is_reply: bool, rest: &str) -> Vec<u8> {
    let port = 1000 + nth;
    let text = match is_reply {
        false => format!("10.0.0.1:{port}>10.0.0.2:80 {rest}"),
        true => format!("10.0.0.2:80>10.0.0.1:{port} {rest}"),
    };
    wire::text::parse(&text).unwrap()
}

fn rule(nth: u16, is_reply: bool) -> OffloadRule {
    let (from, to) = if is_reply { (OUT, IN) } else { (IN, OUT) };
    let mut headers = Headers::none();
    assert!(headers.read(&segment(nth, is_reply, "."), from).is_some());
    OffloadRule {
        tunnel: None,
        headers,
        mask: headers.tuple_mask(),
        connection: ConnectionRef { id: nth.into(), generation: 1, is_reply },
        second: None,
        copies_ecn: false,
        mark: None,
        nat_rewrite: None,
        actions: Arc::new([Action::Output(to)]),
    }
}

/// A connection that sent 100 and 500, with windows of 64,000 and 8,000 bytes.
fn windows() -> TcpWindows {
    TcpWindows {
        original: TcpWindow {
            sent_end: 101,
            allowed_end: 8101,
            max_window: 64_000,
            scale: Some(7),
        },
        reply: TcpWindow { sent_end: 501, allowed_end: 64_501, max_window: 8000, scale: Some(2) },
        is_checked: true,
    }
}

fn install(
    offload: &mut DpdkOffload<Recorder>,
    nth: u16,
) -> Result<[OffloadId; 2], OffloadRefusal> {
    let [there, back] = [false, true].map(|is_reply| rule(nth, is_reply));
    offload.install_checked([&there, &back], &windows())
}

/// What becomes of a segment of connection 1.
fn fate(offload: &mut DpdkOffload<Recorder>, is_reply: bool, rest: &str) -> Fate {
    offload.device().receive(is_reply.into(), &segment(1, is_reply, rest))
}

fn is_forwarded(offload: &mut DpdkOffload<Recorder>, is_reply: bool, rest: &str) -> bool {
    let sent = Fate::Sent((!is_reply).into(), segment(1, is_reply, rest));
    fate(offload, is_reply, rest) == sent
}

fn remove(offload: &mut DpdkOffload<Recorder>, ids: [OffloadId; 2]) {
    for id in ids {
        offload.remove(id);
    }
}

/// Nothing is left in the device.
fn is_empty(offload: &mut DpdkOffload<Recorder>) -> bool {
    offload.device().rules.is_empty() && offload.device().objects.is_empty()
}

#[test]
fn a_connection_becomes_an_object_and_the_rules_of_the_api() {
    let mut offload = card(Recorder::default());
    install(&mut offload, 1).unwrap();
    let Recorder { objects, rules, .. } = offload.device();
    let [(handle, object)] = objects.iter().collect::<Vec<_>>()[..] else { panic!("one object") };
    let (number, object) = (handle.0, object.object.to_string());
    // From the description of the fields in DPDK 22.11's rte_flow.h, struct rte_flow_action_conntrack.
    let expect = [
        "set conntrack com peer 0 is_orig 1 enable 1 live 1 sack 1 cack 0 last_dir 1 liberal 0 state 1 max_ack_win 7 \
         r_lim 7 last_win 500 last_seq 101 last_ack 501 last_end 101 last_index 0x8",
        "set conntrack orig scale 7 fin 0 acked 1 unack_data 0 sent_end 101 reply_end 8101 max_win 64000 max_ack 501",
        "set conntrack rply scale 2 fin 0 acked 1 unack_data 0 sent_end 501 reply_end 64501 max_win 8000 max_ack 101",
    ];
    assert_eq!(object.lines().collect::<Vec<_>>(), expect);
    let got: Vec<String> =
        rules.values().map(|(port, rule, _)| Commands(*port, rule).to_string()).collect();
    let whole = "integrity level is 1 value spec 0xc value mask 0xc";
    let there = "ipv4 proto is 6 fragment_offset spec 0x0 fragment_offset mask 0x3fff src is 10.0.0.1 dst is 10.0.0.2 \
                 / tcp src is 1001 dst is 80";
    let back = "ipv4 proto is 6 fragment_offset spec 0x0 fragment_offset mask 0x3fff src is 10.0.0.2 dst is 10.0.0.1 \
                / tcp src is 80 dst is 1001";
    let from = |port: u16| format!("transfer pattern represented_port ethdev_port_id is {port}");
    let leaving = |port: u16| {
        let mark = format!("count / mark id {MARK_IN_WINDOW} / port_representor port_id {port}");
        let start = format!("flow create {port} group 1");
        [
            format!(
                "{start} priority 1 {} / conntrack is 1 / end actions {mark} / end",
                from(port)
            ),
            format!(
                "{start} priority 1 {} / conntrack is 3 / end actions {mark} / end",
                from(port)
            ),
            format!(
                "{start} priority 2 {} / end actions count / port_representor port_id {port} / end",
                from(port)
            ),
        ]
    };
    let check = |port: u16, items: &str| {
        format!(
            "flow create {port} {} / eth / {items} / {whole} / end actions count / indirect {number} / jump group 1 / \
             end",
            from(port)
        )
    };
    let forward = |port: u16, items: &str| {
        format!(
            "flow create {port} group 1 priority 0 {} / eth / {items} flags spec 0x10 flags mask 0x17 / conntrack is 1 \
             / {whole} / end actions count / represented_port ethdev_port_id {} / end",
            from(port),
            1 - port
        )
    };
    let expect: Vec<String> = leaving(0)
        .into_iter()
        .chain(leaving(1))
        .chain([check(0, there), check(1, back), forward(0, there), forward(1, back)])
        .collect();
    assert_eq!(got, expect);
}

#[test]
fn segments_within_the_windows_are_forwarded_and_others_left_to_the_switch() {
    let mut offload = card(Recorder::default());
    let ids = install(&mut offload, 1).unwrap();
    // Both directions move the same windows on.
    let data = ". seq=101 ack=501 win=500 len=1000";
    assert!(is_forwarded(&mut offload, false, data));
    assert!(is_forwarded(&mut offload, true, ". seq=501 ack=1101 win=2000"));
    assert!(is_forwarded(&mut offload, false, "PA seq=8101 ack=501 win=500 len=1000"));
    let bytes = segment(1, false, data).len() as u64;
    let status = offload.status(ids[0]);
    assert_eq!(status.traffic, OffloadTraffic { packets: 2, bytes: 2 * bytes });
    let mut expect = windows();
    (expect.original.sent_end, expect.original.allowed_end) = (9101, 9101);
    assert_eq!((status.windows, status.is_ended), (Some(expect), false));
    assert!(offload.status(ids[1]).windows.is_some());
    assert_eq!(offload.status(ids[0]), flow::OffloadStatus::default(), "nothing came since");
    // Within the windows, and not for the device to forward.
    let fin = fate(&mut offload, false, "F. seq=9101 ack=501 win=500");
    assert_eq!(fin, Fate::Switch, "there is no window left for it");
    let ids = install(&mut offload, 2).unwrap();
    let fin = segment(2, false, "F. seq=101 ack=501 win=500");
    assert_eq!(offload.device().receive(0, &fin), Fate::Marked(MARK_IN_WINDOW));
    assert!(offload.status(ids[0]).is_ended, "the switch has the connection's end");
}

#[test]
fn what_the_flows_do_not_forward_is_checked_all_the_same() {
    let mut offload = card(Recorder::default());
    let [mut there, back] = [false, true].map(|is_reply| rule(1, is_reply));
    // The flow looks at the TTL, so that packets with another one are the switch's.
    let ttl = there.headers.mask_of(&flow::Mask::of(flow::Field::NwTtl));
    there.mask = there.mask.union(&ttl);
    offload.install_checked([&there, &back], &windows()).unwrap();
    let far = ". seq=101 ack=501 win=500 len=100 ttl=3";
    assert_eq!(fate(&mut offload, false, far), Fate::Marked(MARK_IN_WINDOW));
    let object = offload.device().objects.values().next().unwrap().object;
    assert_eq!(object.original.sent_end, 201);
    // A fragment and a wrong checksum are no part of the connection.
    for other in [". seq=201 ack=501 len=8 frag=first", ". seq=201 ack=501 len=8 csum=bad"] {
        assert_eq!(fate(&mut offload, false, other), Fate::Switch);
    }
    assert!(offload.device().objects.values().next().unwrap().object.enable);
}

#[test]
fn an_invalid_segment_is_the_switchs_and_so_is_the_connection_then() {
    for invalid in [
        ". seq=900000 ack=501 win=500 len=10",
        "R seq=5000",
        ". seq=101 ack=90000 win=500",
        "S seq=101",
    ] {
        let mut offload = card(Recorder::default());
        let ids = install(&mut offload, 1).unwrap();
        assert!(!offload.status(ids[0]).is_ended);
        assert_eq!(fate(&mut offload, false, invalid), Fate::Switch, "{invalid}");
        assert_eq!(fate(&mut offload, true, ". seq=501 ack=101 win=2000"), Fate::Switch);
        let status = offload.status(ids[0]);
        assert_eq!((status.is_ended, status.windows), (true, Some(windows())), "{invalid}");
    }
    // In liberal mode only changes are left to the switch.
    let mut offload = card(Recorder::default());
    let ids = install(&mut offload, 1).unwrap();
    assert!(offload.set_checked(ids[1], false));
    assert!(is_forwarded(&mut offload, false, ". seq=900000 ack=501 win=500 len=10"));
    assert!(!offload.status(ids[0]).windows.unwrap().is_checked);
    assert!(offload.set_checked(ids[0], true));
    assert_eq!(fate(&mut offload, false, ". seq=1 ack=501 win=500 len=10"), Fate::Switch);
    offload.device().changes_none = true;
    assert!(!offload.set_checked(ids[0], false));
}

#[test]
fn the_end_of_one_direction_is_the_end_of_both_and_tells_the_windows() {
    for (nth, first) in [(0, "checked"), (1, "checked"), (0, "removed"), (1, "removed")] {
        let mut offload = card(Recorder::default());
        let ids = install(&mut offload, 1).unwrap();
        assert!(is_forwarded(&mut offload, false, ". seq=101 ack=501 win=500 len=1000"));
        let mut expect = windows();
        expect.original.sent_end = 1101;
        if first == "checked" {
            assert_eq!(offload.end_checked(ids[nth]), Some(expect));
            assert_eq!(offload.end_checked(ids[1 - nth]), None, "once");
        }
        let traffic = [ids[nth], ids[1 - nth]].map(|id| offload.remove(id).packets);
        assert_eq!(traffic.iter().sum::<u64>(), 1, "the last packets are told");
        assert!(is_empty(&mut offload));
        assert_eq!(fate(&mut offload, false, ". seq=1101 ack=501 win=500"), Fate::Switch);
    }
}

#[test]
fn connections_of_a_port_share_its_rules_until_the_last_one() {
    let mut offload = card(Recorder::default());
    let first = install(&mut offload, 1).unwrap();
    let second = install(&mut offload, 2).unwrap();
    assert_eq!((offload.device().rules.len(), offload.device().objects.len()), (6 + 8, 2));
    remove(&mut offload, first);
    assert_eq!((offload.device().rules.len(), offload.device().objects.len()), (6 + 4, 1));
    // A new MTU changes nothing of them; another number of the port's does.
    assert!(offload.add_port(OUT, 1, 1400));
    assert_eq!(offload.device().rules.len(), 6 + 4);
    remove(&mut offload, second);
    assert!(is_empty(&mut offload));
    offload.add_port(OUT, 1, 1500);
    install(&mut offload, 3).unwrap();
    assert!(offload.add_port(OUT, 5, 1500));
    assert_eq!(offload.device().rules.len(), 3 + 4);
}

#[test]
fn rules_that_a_flush_took_are_made_again() {
    let mut offload = card(Recorder::default());
    let ids = install(&mut offload, 1).unwrap();
    offload.device().rules.clear();
    assert!(ids.map(|id| offload.status(id).is_ended).iter().all(|it| *it));
    // The object is there still, and tells the windows.
    assert_eq!(offload.end_checked(ids[0]), Some(windows()));
    remove(&mut offload, ids);
    let again = install(&mut offload, 1).unwrap();
    assert_eq!(offload.device().rules.len(), 6 + 4);
    assert!(is_forwarded(&mut offload, false, ". seq=101 ack=501 win=500"));
    // A device that tells no windows any more has ended.
    offload.device().tells_none = true;
    assert!(offload.status(again[0]).is_ended);
    assert_eq!(offload.end_checked(again[0]), None);
    remove(&mut offload, again);
    assert!(is_empty(&mut offload));
}

#[test]
fn a_port_that_goes_takes_objects_along() {
    let mut offload = card(Recorder::default());
    let ids = install(&mut offload, 1).unwrap();
    remove(&mut offload, ids);
    offload.remove_port(OUT);
    assert!(is_empty(&mut offload));
    assert_eq!(install(&mut offload, 1), Err(Refusal::OutPort.into()));
    let Fate::Switch = fate(&mut offload, false, ". seq=101 ack=501") else { panic!("no rules") };
}

type Lacks = fn(&FlowRule) -> Option<&'static str>;

fn has(rule: &FlowRule, action: fn(&RuleAction) -> bool) -> bool {
    rule.actions.iter().any(action)
}

#[test]
fn what_fails_half_way_leaves_nothing_and_is_not_tried_again() {
    let leaves: Lacks =
        |rule| has(rule, |it| matches!(it, RuleAction::PortRepresentor(_))).then_some("no way up");
    let marks: Lacks =
        |rule| has(rule, |it| matches!(it, RuleAction::Mark(_))).then_some("no mark");
    let jumps: Lacks =
        |rule| has(rule, |it| matches!(it, RuleAction::Jump(_))).then_some("no jump");
    let cases: [(Recorder, &str); 5] = [
        (Recorder { lacks: Some(leaves), ..Recorder::default() }, "no way up"),
        (Recorder { lacks: Some(marks), ..Recorder::default() }, "no mark"),
        (Recorder { lacks: Some(jumps), ..Recorder::default() }, "no jump"),
        (Recorder { turns_none: true, ..Recorder::default() }, "no other direction"),
        (
            Recorder {
                lacks_objects: Some((Refusal::Device, "Function not implemented")),
                ..Recorder::default()
            },
            "Function not implemented",
        ),
    ];
    for (device, words) in cases {
        let mut offload = card(device);
        let refusal = OffloadRefusal { kind: Refusal::Device, words: Some(words.into()) };
        assert_eq!(offload.window_check(&rule(1, false)), WindowCheck::Possible);
        assert_eq!(install(&mut offload, 1), Err(refusal.clone()));
        assert!(is_empty(&mut offload), "{words}");
        for is_reply in [false, true] {
            let check = offload.window_check(&rule(2, is_reply));
            assert_eq!(check, WindowCheck::Refused(refusal.clone()));
        }
    }
}

#[test]
fn a_device_without_room_is_asked_again_and_one_that_forwards_none_only_so_often() {
    let full = Some((Refusal::Full, "no room for objects"));
    let mut offload = card(Recorder { lacks_objects: full, ..Recorder::default() });
    assert!(install(&mut offload, 1).is_err_and(|it| it.kind == Refusal::Full));
    assert!(is_empty(&mut offload));
    offload.device().lacks_objects = None;
    // Room for all but one rule.
    for room in 0..10 {
        offload.device().room = Some(room);
        assert!(install(&mut offload, 1).is_err_and(|it| it.kind == Refusal::Full), "{room}");
        assert!(is_empty(&mut offload), "{room}");
        assert_eq!(offload.window_check(&rule(1, false)), WindowCheck::Possible);
    }
    offload.device().room = Some(10);
    let ids = install(&mut offload, 1).unwrap();
    remove(&mut offload, ids);
    // The rules that forward may be refused on account of one connection's flows, those of the other direction on
    // account of its port.
    let forwards: Lacks = |rule| {
        let forwards = has(rule, |it| matches!(it, RuleAction::RepresentedPort(_)));
        (rule.group == 1 && forwards).then_some("not this")
    };
    let back: Lacks = |rule| {
        let is_back = rule.items.contains(&Item::RepresentedPort(1));
        (is_back && has(rule, |it| matches!(it, RuleAction::Check(_)))).then_some("no way back")
    };
    for lacks in [forwards, back] {
        let mut offload = card(Recorder { lacks: Some(lacks), ..Recorder::default() });
        for tried in 1..17 {
            assert_eq!(offload.window_check(&rule(1, false)), WindowCheck::Possible, "{tried}");
            assert!(install(&mut offload, 1).is_err() && is_empty(&mut offload));
        }
        assert!(matches!(offload.window_check(&rule(1, false)), WindowCheck::Refused(_)));
    }
}

#[test]
fn only_tcp_from_port_to_port_in_one_zone_is_checked() {
    let offload = card(Recorder::default());
    let check = |change: &dyn Fn(&mut OffloadRule)| {
        let mut rule = rule(1, false);
        change(&mut rule);
        offload.window_check(&rule)
    };
    assert_eq!(check(&|_| {}), WindowCheck::Possible);
    assert_eq!(check(&|it| it.actions = Arc::new([])), WindowCheck::Never);
    assert_eq!(check(&|it| it.actions = Arc::new([Action::Output(PortNo(9))])), WindowCheck::Never);
    let udp = wire::text::parse("10.0.0.1:1001>10.0.0.2:80 udp").unwrap();
    let check_udp = check(&|it| assert!(it.headers.read(&udp, IN).is_some()));
    assert_eq!(check_udp, WindowCheck::Never);
    let refused = |words: &str| {
        let (kind, words) = (Refusal::Device, Some(words.into()));
        WindowCheck::Refused(OffloadRefusal { kind, words })
    };
    let other = ConnectionRef { id: 9, generation: 1, is_reply: false };
    let two_zones = refused("its packets are tracked in two zones");
    assert_eq!(check(&|it| it.second = Some(other)), two_zones);
}

#[test]
fn a_device_that_checks_no_checksums_gets_rules_without_them() {
    let lacks: Lacks =
        |rule| rule.items.iter().any(|it| matches!(it, Item::Integrity { .. })).then_some("no");
    let mut offload = card(Recorder { lacks: Some(lacks), ..Recorder::default() });
    install(&mut offload, 1).unwrap();
    assert!(is_forwarded(&mut offload, false, ". seq=101 ack=501 win=500"));
    // Without the object, its time is the device's matter; with it, the switch's.
    let ages =
        |(_, rule, _): &(u16, FlowRule, _)| has(rule, |it| matches!(it, RuleAction::Age { .. }));
    assert!(!offload.device().rules.values().any(ages));
    offload.install(&rule(2, false), Duration::from_secs(30)).unwrap();
    assert!(offload.device().rules.values().any(ages));
}
