//! Offload against a device that fills up, fails, forgets, ages and lacks parts of rules on demand.

mod recorder;

use base::PortNo;
use flow::{Action, ConnectionRef, FlowOffload, Headers, OffloadRule, OffloadTraffic, Refusal};
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
    let mut headers = Headers::none();
    assert!(headers.read(&bytes(connection), IN).is_some());
    OffloadRule {
        tunnel: None,
        headers,
        mask: headers.tuple_mask(),
        connection: ConnectionRef { id: connection, generation: 1, is_reply: false },
        second: None,
        translated: None,
        actions: Arc::from(actions),
    }
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
    assert_eq!(offload.install(&forward(2), IDLE), Err(Refusal::Twice));
    assert_eq!(offload.refusal_words(), None);
    assert_eq!(offload.install(&forward(3), IDLE), Err(Refusal::Full));
    assert_eq!(offload.refusal_words().as_deref(), Some("no room for rules"));
    offload.remove(first);
    offload.install(&forward(3), IDLE).unwrap();
    assert_eq!(offload.refusal_words(), None);
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
    let mut offload = card(Recorder::default());
    let [first, second] = [1, 2].map(|it| offload.install(&forward(it), IDLE).unwrap());
    offload.device().is_stuck = true;
    offload.remove(first);
    assert!(!is_forwarded(&mut offload, 1) && !is_forwarded(&mut offload, 2));
    assert!(offload.status(second).is_ended);
}

#[test]
fn a_port_that_goes_takes_its_rules_along() {
    let mut offload = card(Recorder::default());
    offload.install(&forward(1), IDLE).unwrap();
    assert!(offload.receives_from(IN));
    offload.remove_port(IN);
    assert!(offload.device().rules.is_empty() && !offload.receives_from(IN));
    assert_eq!(offload.install(&forward(2), IDLE), Err(Refusal::InPort));
    offload.add_port(IN, 0, 1500);
    offload.remove_port(OUT);
    assert_eq!(offload.install(&forward(2), IDLE), Err(Refusal::OutPort));
}

#[test]
fn ports_that_cannot_take_each_others_frames_are_refused() {
    let mut offload = card(Recorder::default());
    assert_eq!(offload.install(&rule(1, &[Action::Output(IN)]), IDLE), Err(Refusal::OutPort));
    for (mtu, expect) in [(1400, Some(Refusal::Mtu)), (9000, None), (1500, None)] {
        offload.add_port(OUT, 1, mtu);
        let id = offload.install(&forward(1), IDLE);
        assert_eq!(id.err(), expect, "{mtu}");
        if let Ok(id) = id {
            offload.remove(id);
        }
    }
}

#[test]
fn a_device_gets_rules_as_strict_as_it_takes() {
    type Lacks = fn(&FlowRule) -> Option<&'static str>;
    /// Whether the rule has integrity and age, or the device's words.
    type Got = Result<(bool, bool), &'static str>;
    let integrity = |rule: &FlowRule| {
        rule.items.iter().any(|it| matches!(it, Item::Integrity { .. })).then_some("no integrity")
    };
    let age = |rule: &FlowRule| {
        rule.actions.iter().any(|it| matches!(it, RuleAction::Age { .. })).then_some("no age")
    };
    let cases: [(Lacks, Got); 5] = [
        (|_| None, Ok((true, true))),
        (integrity, Ok((false, true))),
        (age, Ok((true, false))),
        (
            |rule| {
                rule.items.iter().any(|it| matches!(it, Item::Integrity { .. })).then_some("a").or(
                    rule.actions
                        .iter()
                        .any(|it| matches!(it, RuleAction::Age { .. }))
                        .then_some("b"),
                )
            },
            Ok((false, false)),
        ),
        (|_| Some("no rules at all"), Err("no rules at all")),
    ];
    for (lacks, expect) in cases {
        let mut offload = card(Recorder { lacks: Some(lacks), ..Recorder::default() });
        let got = offload.install(&forward(1), IDLE);
        let words = offload.refusal_words();
        let rule = offload.device().rules.values().next().map(|it| it.1.clone());
        let got =
            got.map(|_| rule.unwrap()).map(|it| (integrity(&it).is_some(), age(&it).is_some()));
        let got = got.map_err(|refusal| (refusal, words.as_deref().unwrap_or_default()));
        assert_eq!(got, expect.map_err(|words| (Refusal::Device, words)));
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
