//! Offload against a device that fills up, fails, forgets, ages and lacks parts of rules on demand.

mod recorder;

use base::PortNo;
use flow::{
    Action, ConnectionRef, FlowKey, FlowOffload, Headers, OffloadId, OffloadRefusal, OffloadRule,
    OffloadTraffic, OffloadTunnel, Refusal, TunnelKind, TunnelPush,
};
use offload_dpdk::DpdkOffload;
use port_dpdk::flow_rule::{FlowRule, Item, RuleAction};
use recorder::{Fate, Recorder};
use std::sync::Arc;
use std::time::Duration;

const IN: PortNo = PortNo(1);
const OUT: PortNo = PortNo(2);
const IDLE: Duration = Duration::from_secs(30);

/// A card with two ports.
fn card(device: Recorder) -> DpdkOffload<Recorder> {
    let mut offload = DpdkOffload::new(device);
    assert!(offload.add_port(IN, 0, 1500) && offload.add_port(OUT, 1, 1500));
    assert!(!offload.add_port(IN, 0, 1500), "it is no news");
    offload
}

fn text(connection: u32) -> String {
    format!("10.0.0.1:{}>10.0.0.2:53 udp len=10", 1000 + connection)
}

fn bytes(connection: u32) -> Vec<u8> {
    wire::text::parse(&text(connection)).unwrap()
}

/// A rule of a connection's packets.
fn rule(connection: u32, actions: &[Action]) -> OffloadRule {
    rule_from(IN, connection, actions)
}

fn rule_from(port: PortNo, connection: u32, actions: &[Action]) -> OffloadRule {
    rule_of(port, connection, &bytes(connection), actions)
}

fn rule_of(port: PortNo, connection: u32, frame: &[u8], actions: &[Action]) -> OffloadRule {
    let mut headers = Headers::none();
    assert!(headers.read(frame, port).is_some());
    OffloadRule {
        tunnel: None,
        headers,
        mask: headers.tuple_mask(),
        connection: ConnectionRef { id: connection, generation: 1, is_reply: false },
        second: None,
        copies_ecn: false,
        mark: None,
        nat_rewrite: None,
        actions: Arc::from(actions),
    }
}

/// A refusal in the device's words.
fn refusal(kind: Refusal, words: &str) -> OffloadRefusal {
    OffloadRefusal { kind, words: Some(words.into()) }
}

fn refused(kind: Refusal, words: &str) -> Result<OffloadId, OffloadRefusal> {
    Err(refusal(kind, words))
}

fn forward(connection: u32) -> OffloadRule {
    rule(connection, &[Action::Output(OUT)])
}

fn is_forwarded(offload: &mut DpdkOffload<Recorder>, connection: u32) -> bool {
    let fate = offload.device().receive(0, &bytes(connection));
    matches!(fate, Fate::Sent(1, frame) if frame == bytes(connection))
}

#[test]
fn traffic_is_told_once_and_a_rule_that_is_removed_forwards_nothing() {
    let mut offload = card(Recorder::default());
    let id = offload.install(&forward(1), IDLE).unwrap();
    let frame_bytes = bytes(1).len() as u64;
    let traffic = |packets| OffloadTraffic { packets, bytes: packets * frame_bytes };
    for packets in [3, 0, 1] {
        (0..packets).for_each(|_| assert!(is_forwarded(&mut offload, 1)));
        let status = offload.status(id);
        assert_eq!((status.traffic, status.is_ended), (traffic(packets), false));
    }
    assert!(is_forwarded(&mut offload, 1));
    assert_eq!(offload.remove(id), traffic(1));
    assert_eq!(offload.remove(id), traffic(0), "it is gone");
    assert!(!is_forwarded(&mut offload, 1) && offload.device().rules.is_empty());
    // Its number is another rule's.
    assert_eq!(offload.install(&forward(2), IDLE), Ok(id));
    assert!(is_forwarded(&mut offload, 2));
}

#[test]
fn a_full_device_refuses_until_there_is_room() {
    let mut offload = card(Recorder { room: Some(2), ..Recorder::default() });
    let first = offload.install(&forward(1), IDLE).unwrap();
    offload.install(&forward(2), IDLE).unwrap();
    assert_eq!(offload.install(&forward(3), IDLE), refused(Refusal::Full, "no room for rules"));
    offload.remove(first);
    offload.install(&forward(3), IDLE).unwrap();
}

#[test]
fn an_idle_rule_has_ended_unless_a_packet_came_since() {
    let mut offload = card(Recorder::default());
    let id = offload.install(&forward(1), IDLE).unwrap();
    assert!(is_forwarded(&mut offload, 1));
    offload.device().age();
    let status = offload.status(id);
    assert_eq!((status.traffic.packets, status.is_ended), (1, false));
    assert!(offload.status(id).is_ended);
    // The time of the rule is the connection's, in whole seconds.
    let ages = |rule: &FlowRule| {
        rule.actions.iter().find_map(|action| match action {
            RuleAction::Age { timeout_s } => Some(*timeout_s),
            _ => None,
        })
    };
    for (idle, expect) in [
        (IDLE, Some(30)),
        (Duration::from_millis(1), Some(1)),
        (Duration::from_secs(1 << 24), None),
        (Duration::MAX, None),
    ] {
        let mut offload = card(Recorder::default());
        offload.install(&forward(1), idle).unwrap();
        let rules: Vec<_> = offload.device().rules.values().map(|it| ages(&it.1)).collect();
        assert_eq!(rules, [expect], "{idle:?}");
    }
}

#[test]
fn a_rule_that_the_device_forgot_has_ended() {
    let mut offload = card(Recorder::default());
    let id = offload.install(&forward(1), IDLE).unwrap();
    offload.device().rules.clear();
    assert!(offload.status(id).is_ended);
    assert_eq!(offload.remove(id), OffloadTraffic::default());
    offload.install(&forward(1), IDLE).unwrap();
}

#[test]
fn a_device_that_removes_no_single_rule_loses_all() {
    for (proxy, expect) in [(None, [false, false, true]), (Some(7), [false; 3])] {
        let mut offload = card(Recorder { proxy, ..Recorder::default() });
        let back = rule_from(OUT, 3, &[Action::Output(IN)]);
        let ids = [forward(1), forward(2), back].map(|it| offload.install(&it, IDLE).unwrap());
        offload.device().is_stuck = true;
        offload.remove(ids[0]);
        assert!(!is_forwarded(&mut offload, 1) && !is_forwarded(&mut offload, 2));
        let holds =
            ids.map(|id| offload.device().rules.keys().any(|it| it.0 == u64::from(id.0) + 1));
        assert_eq!(holds, expect, "rules of the other port end where the card has a proxy");
        assert!(offload.status(ids[1]).is_ended);
        assert_eq!(offload.status(ids[2]).is_ended, !expect[2]);
    }
}

#[test]
fn a_device_that_cannot_be_flushed_keeps_its_rules() {
    let device = Recorder { is_stuck: true, keeps_rules: true, ..Recorder::default() };
    let mut offload = card(device);
    let [first, second] = [1, 2].map(|it| offload.install(&forward(it), IDLE).unwrap());
    offload.remove(first);
    assert_eq!(offload.device().rules.len(), 2);
    assert!(!offload.status(second).is_ended && is_forwarded(&mut offload, 2));
}

#[test]
fn a_port_that_goes_takes_its_rules_along() {
    let mut offload = card(Recorder::default());
    offload.install(&forward(1), IDLE).unwrap();
    assert!(offload.receives_from(IN));
    offload.remove_port(IN);
    assert!(offload.device().rules.is_empty() && !offload.receives_from(IN));
    assert_eq!(offload.install(&forward(2), IDLE), Err(Refusal::InPort.into()));
    offload.add_port(IN, 0, 1500);
    offload.remove_port(OUT);
    assert_eq!(offload.install(&forward(2), IDLE), Err(Refusal::OutPort.into()));
}

#[test]
fn ports_that_cannot_take_each_others_frames_are_refused() {
    let mut offload = card(Recorder::default());
    assert_eq!(
        offload.install(&rule(1, &[Action::Output(IN)]), IDLE),
        Err(Refusal::OutPort.into())
    );
    for (mtu, expect) in [(1400, Some(Refusal::Mtu)), (9000, None), (1500, None)] {
        offload.add_port(OUT, 1, mtu);
        let id = offload.install(&forward(1), IDLE);
        assert_eq!(id.as_ref().err(), expect.map(OffloadRefusal::from).as_ref(), "{mtu}");
        if let Ok(id) = id {
            offload.remove(id);
        }
    }
}

#[test]
fn tags_count_where_they_make_frames_larger_than_the_way_out() {
    let tagged = wire::text::parse(&format!("{} vlan=5", text(1))).unwrap();
    let into = |frame_max| {
        let push = TunnelPush {
            port: PortNo(4),
            out_port: PortNo(3),
            kind: TunnelKind::Vxlan,
            strips_ethernet: false,
            source_ports: (40_000, 40_000),
            header: encapsulation(),
            frame_max,
            answer: FlowKey::new(),
            copies_ecn: false,
            sequence: flow::TunnelSequence::default(),
        };
        Action::TunnelPush(Arc::new(push))
    };
    let push = || Action::PushVlan { tpid: 0x8100, tci: 0x1007 };
    let cases: [(&[u8], Vec<Action>, u32); 5] = [
        (&bytes(1), vec![], 1514),
        (&bytes(1), vec![push()], 1518),
        (&tagged, vec![], 1518),
        (&tagged, vec![Action::PopVlan], 1514),
        (&tagged, vec![Action::PopVlan, push()], 1518),
    ];
    for (frame, steps, least) in cases {
        for (frame_max, expect) in [(least, None), (least - 1, Some(Refusal::Mtu))] {
            let mut offload = card(Recorder::default());
            let actions = [steps.clone(), vec![into(frame_max), Action::Output(OUT)]].concat();
            let rule = rule_of(IN, 1, frame, &actions);
            let got = offload.install(&rule, IDLE).err().map(|it| it.kind);
            assert_eq!(got, expect, "{steps:?} {frame_max}");
            // Without a tunnel, the MTU of the way out counts no tags.
            let actions = [steps.clone(), vec![Action::Output(OUT)]].concat();
            assert!(
                card(Recorder::default()).install(&rule_of(IN, 1, frame, &actions), IDLE).is_ok()
            );
        }
    }
}

/// Outer headers of VXLAN over IPv4.
fn encapsulation() -> Box<[u8]> {
    let mac = |last| base::MacAddr([2, 0, 0, 0, 0, last]);
    let outer = tunnel::Outer {
        ethernet: (mac(1), mac(2)),
        source: [172, 31, 0, 1].into(),
        destination: [172, 31, 0, 2].into(),
        tos: 0,
        ttl: 64,
        dont_fragment: true,
        checksum: false,
        oam: false,
        key: 101,
        options: &[],
        group: (0, 0),
        erspan: (0, 0, 0, 0),
        gtpu: (0, 0),
        packet: None,
    };
    tunnel::build(&tunnel::TunnelConfig::new(TunnelKind::Vxlan), &outer).unwrap()
}

/// A connection's packet in a VXLAN tunnel.
fn encapsulated(connection: u32) -> Vec<u8> {
    let mut frame = [&encapsulation()[..], &bytes(connection)].concat();
    tunnel::finish(
        &mut frame,
        TunnelKind::Vxlan,
        40_000,
        &flow::TunnelSequence::default(),
        base::Instant::ZERO,
    )
    .unwrap();
    frame
}

/// A rule of packets that come out of a VXLAN tunnel.
fn out_of_tunnel(connection: u32) -> OffloadRule {
    let mut headers = Headers::none();
    assert!(headers.read(&encapsulated(connection), IN).is_some());
    let tunnel = OffloadTunnel {
        kind: TunnelKind::Vxlan,
        headers,
        mask: Headers::none(),
        word: 0x08 << 56 | 101 << 8,
        has_checksum: false,
        header_bytes: 50,
    };
    OffloadRule { tunnel: Some(tunnel), ..rule(connection, &[Action::Output(OUT)]) }
}

/// Which optional parts a rule has: integrity, age, VXLAN's flags.
fn parts(rule: &FlowRule) -> [bool; 3] {
    let has_item = |is_it: fn(&Item) -> bool| rule.items.iter().any(is_it);
    [
        has_item(|it| matches!(it, Item::Integrity { .. })),
        rule.actions.iter().any(|it| matches!(it, RuleAction::Age { .. })),
        has_item(|it| matches!(it, Item::Vxlan { compares_flags: true, .. })),
    ]
}

type Lacks = fn(&FlowRule) -> Option<&'static str>;

#[test]
fn a_device_gets_rules_as_strict_as_it_takes() {
    /// The parts that the rule has, or the device's words.
    type Got = Result<[bool; 3], &'static str>;
    let cases: [(Lacks, [Got; 2]); 7] = [
        (|_| None, [Ok([true, true, false]), Ok([true, true, true])]),
        (
            |rule| parts(rule)[0].then_some("no integrity"),
            [Ok([false, true, false]), Ok([false, true, true])],
        ),
        (
            |rule| parts(rule)[1].then_some("no age"),
            [Ok([true, false, false]), Ok([true, false, true])],
        ),
        (
            |rule| parts(rule)[2].then_some("no flags"),
            [Ok([true, true, false]), Ok([true, true, false])],
        ),
        (
            |rule| (parts(rule) != [false; 3]).then_some("nothing of all that"),
            [Ok([false; 3]), Ok([false; 3])],
        ),
        (
            |rule| (rule.actions.contains(&RuleAction::VxlanDecap)).then_some("no tunnels"),
            [Ok([true, true, false]), Err("no tunnels")],
        ),
        (|_| Some("no rules at all"), [Err("no rules at all"); 2]),
    ];
    for (lacks, expect) in cases {
        // What one kind of rule lacks says nothing of the other.
        for order in [[0, 1], [1, 0]] {
            let mut offload = card(Recorder { lacks: Some(lacks), ..Recorder::default() });
            for at in order {
                let rule = if at == 0 { forward(1) } else { out_of_tunnel(2) };
                let installed = offload.install(&rule, IDLE);
                let last = offload.device().rules.values().next_back().map(|it| parts(&it.1));
                let got = installed.map(|_| last.unwrap());
                assert_eq!(got, expect[at].map_err(|words| refusal(Refusal::Device, words)));
            }
        }
    }
}

#[test]
fn a_device_without_room_is_asked_once_and_known_strictness_comes_first() {
    let mut offload = card(Recorder { room: Some(0), ..Recorder::default() });
    assert!(offload.install(&forward(1), IDLE).is_err_and(|it| it.kind == Refusal::Full));
    assert_eq!(offload.device().asked, 1);
    let lacks: Lacks = |rule| parts(rule)[0].then_some("no");
    let mut offload = card(Recorder { lacks: Some(lacks), ..Recorder::default() });
    for (connection, asked) in [(1, 3), (2, 1)] {
        offload.install(&forward(connection), IDLE).unwrap();
        assert_eq!(std::mem::take(&mut offload.device().asked), asked);
    }
    // A rule that is refused as strict as the first one is tried with less.
    offload.device().lacks = Some(|rule| (parts(rule) != [false; 3]).then_some("no"));
    offload.install(&forward(3), IDLE).unwrap();
}

#[test]
fn packets_with_extensions_of_vxlan_are_left_to_the_switch_where_the_device_compares_flags() {
    let lacks: Lacks = |rule| parts(rule)[2].then_some("no");
    for (lacks, flags, expect) in [
        (None, 0x08, Fate::Sent(1, bytes(1))),
        (None, 0x88, Fate::Switch),
        (Some(lacks), 0x88, Fate::Sent(1, bytes(1))),
    ] {
        let mut offload = card(Recorder { lacks, ..Recorder::default() });
        offload.install(&out_of_tunnel(1), IDLE).unwrap();
        let mut frame = encapsulated(1);
        frame[42] = flags;
        assert_eq!(offload.device().receive(0, &frame), expect);
    }
}

#[test]
fn wrong_checksums_are_left_to_the_switch_where_the_device_checks() {
    let mut offload = card(Recorder::default());
    offload.install(&forward(1), IDLE).unwrap();
    let wrong = wire::text::parse(&format!("{} csum=bad", text(1))).unwrap();
    assert_eq!(offload.device().receive(0, &wrong), Fate::Switch);
    assert!(is_forwarded(&mut offload, 1));
}

#[test]
fn dropped_connections_are_the_ports_own_rules() {
    let mut offload = card(Recorder::default());
    offload.install(&rule(1, &[]), IDLE).unwrap();
    let (port, made, _) = offload.device().rules.values().next().unwrap();
    assert!(*port == 0 && !made.transfers);
    assert_eq!(offload.device().receive(0, &bytes(1)), Fate::Dropped);
    assert_eq!(offload.device().receive(1, &bytes(1)), Fate::Switch);
}

/// A rule whose packets may be marked.
fn markable(connection: u32) -> OffloadRule {
    OffloadRule { mark: Some(40 + connection), ..forward(connection) }
}

fn forwards(rule: &FlowRule) -> bool {
    !rule.actions.contains(&RuleAction::Rss)
}

#[test]
fn a_device_that_forwards_no_packets_marks_them() {
    let lacks: Lacks = |rule| forwards(rule).then_some("transfer is not supported");
    let mut offload = card(Recorder { lacks: Some(lacks), ..Recorder::default() });
    let id = offload.install(&markable(1), IDLE).unwrap();
    let expect = refusal(Refusal::Device, "transfer is not supported");
    assert_eq!(offload.only_marks(id), Some(expect));
    assert_eq!(offload.device().receive(0, &bytes(1)), Fate::Marked(41));
    assert_eq!(offload.device().receive(1, &bytes(1)), Fate::Switch);
    // The switch forwards the packets, and counts them.
    offload.device().age();
    assert_eq!(offload.status(id), flow::OffloadStatus::default());
    assert_eq!(offload.remove(id), OffloadTraffic::default());
    assert_eq!(offload.device().receive(0, &bytes(1)), Fate::Switch);
    // A device that forwards does not mark.
    let mut offload = card(Recorder::default());
    let id = offload.install(&markable(1), IDLE).unwrap();
    assert!(offload.only_marks(id).is_none() && is_forwarded(&mut offload, 1));
}

#[test]
fn packets_are_marked_whatever_the_device_is_not_asked_to_forward() {
    let steps: [(&[Action], Option<Refusal>); 4] = [
        (&[Action::Output(OUT), Action::Output(OUT)], None),
        (&[Action::Output(IN)], None),
        (&[Action::Output(PortNo(9))], None),
        (&[Action::Output(OUT)], Some(Refusal::Full)),
    ];
    for (actions, refusal) in steps {
        let room = refusal.map(|_| 0);
        let mut offload = card(Recorder { room, ..Recorder::default() });
        let rule = OffloadRule { mark: Some(41), ..rule(1, actions) };
        let got = offload.install(&rule, IDLE);
        assert_eq!(got.err().map(|it| it.kind), refusal, "{actions:?}");
        let expect = if refusal.is_none() { Fate::Marked(41) } else { Fate::Switch };
        assert_eq!(offload.device().receive(0, &bytes(1)), expect);
    }
}

#[test]
fn a_device_that_refuses_a_mark_is_not_asked_for_one_again() {
    let mut offload = card(Recorder { lacks: Some(|_| Some("no rules")), ..Recorder::default() });
    for (connection, asked) in [(1, 5), (2, 4)] {
        let got = offload.install(&markable(connection), IDLE);
        assert_eq!(got, refused(Refusal::Device, "no rules"));
        assert_eq!(std::mem::take(&mut offload.device().asked), asked);
    }
    // A tunnel is another question.
    let tunnelled = OffloadRule { mark: Some(43), ..out_of_tunnel(3) };
    assert_eq!(offload.install(&tunnelled, IDLE), refused(Refusal::Device, "no rules"));
    assert_eq!(offload.device().asked, 9);
}
