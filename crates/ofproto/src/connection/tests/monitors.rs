//! Flow monitors: which peers receive which updates.

use super::bench::{Bench, add_flow};
use crate::connection::{ConnId, Settings};
use base::{OfPort, TableId};
use flow::{Field, Match};
use openflow::ErrorCode;
use openflow::action::Action;
use openflow::message::{
    FlowEvent, FlowMod, FlowModCommand, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags as Flags,
    FlowStatsRequest, FlowUpdate, Message, RemovedReason, StatsReply, StatsRequest, Version,
};

const OWN: Flags = Flags::all();
const NOT_OWN: Flags = Flags::all().difference(Flags::OWN);

fn monitor(id: u32, flags: Flags) -> FlowMonitor {
    let flows = FlowStatsRequest::default();
    FlowMonitor { id, command: FlowMonitorCommand::Add, flags, flows }
}

fn request(monitors: Vec<FlowMonitor>) -> Message {
    Message::StatsRequest(StatsRequest::FlowMonitor(monitors))
}

fn output(ports: &[u16]) -> Vec<Action> {
    ports.iter().map(|&port| Action::Output { port: OfPort(port), max_len: 0 }).collect()
}

fn flow_mod(command: FlowModCommand, flow: &FlowMod) -> Message {
    Message::FlowMod(FlowMod { command, ..flow.clone() })
}

/// One text per message: its updates, by priority, cookie and output ports of the flow.
fn told(bench: &mut Bench, id: ConnId) -> Vec<String> {
    bench.heard(id).iter().map(text).collect()
}

fn text(message: &Message) -> String {
    match message {
        Message::StatsReply(StatsReply::FlowMonitor(updates)) => {
            updates.iter().map(update).collect::<Vec<_>>().join(", ")
        }
        Message::BarrierReply => "barrier".to_owned(),
        Message::BundleControl { .. } => "bundle".to_owned(),
        Message::Error { code, .. } => format!("{code:?}"),
        other => panic!("{other:?}"),
    }
}

fn update(update: &FlowUpdate) -> String {
    let (event, flow) = match update {
        FlowUpdate::Flow { event, flow } => (event, flow),
        FlowUpdate::Abbreviated { xid } => return format!("xid {xid}"),
        FlowUpdate::Paused => return "paused".to_owned(),
        FlowUpdate::Resumed => return "resumed".to_owned(),
    };
    let event = match event {
        FlowEvent::Initial => "initial".to_owned(),
        FlowEvent::Added => "added".to_owned(),
        FlowEvent::Modified => "modified".to_owned(),
        FlowEvent::Removed(reason) => format!("removed {reason:?}"),
    };
    let ports = flow.actions.iter().map(|action| match action {
        Action::Output { port, .. } => format!(" {port}"),
        other => panic!("{other:?}"),
    });
    format!("{event} {}/{}{}", flow.priority, flow.cookie, ports.collect::<String>())
}

#[test]
fn a_monitor_is_told_of_flows_that_are_there_come_change_and_go() {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify};
    for version in Version::ALL {
        let mut bench = Bench::new(0);
        let watcher = bench.connect(Settings::service(), version);
        let other = bench.connect(Settings::service(), Version::V10);
        bench.tell(other, &Message::FlowMod(add_flow(1)));
        bench.tell(watcher, &request(vec![monitor(1, OWN)]));
        let initial = if version < Version::V14 { "added 1/0 2" } else { "initial 1/0 2" };
        assert_eq!(told(&mut bench, watcher), [initial]);

        let five = FlowMod { new_cookie: 5, ..add_flow(5) };
        let timed = FlowMod { hard_timeout_s: 1, ..add_flow(6) };
        let changed = FlowMod { actions: output(&[3, 4]), modify_cookie: true, ..five.clone() };
        let everything = FlowMod { matching: Match::any(), ..changed.clone() };
        let cases: [(Message, &[&str]); 8] = [
            (flow_mod(Add, &five), &["added 5/5 2"]),
            (flow_mod(Add, &timed), &["added 6/0 2"]),
            // An addition is reported although nothing changes.
            (flow_mod(Add, &five), &["added 5/5 2"]),
            (
                flow_mod(Modify, &everything),
                &["modified 1/5 3 4, modified 6/5 3 4, modified 5/5 3 4"],
            ),
            (flow_mod(Modify, &everything), &[]),
            (flow_mod(DeleteStrict, &five), &["removed Delete 5/5 3 4"]),
            (flow_mod(DeleteStrict, &five), &[]),
            (flow_mod(Add, &five), &["added 5/5 2"]),
        ];
        for (message, expect) in cases {
            assert_eq!(bench.ask(other, &message), []);
            assert_eq!(told(&mut bench, watcher), expect, "{version:?} {message:?}");
        }
        bench.now = bench.now + std::time::Duration::from_secs(2);
        bench.core.tick(bench.now, &mut bench.out);
        bench.pass(0);
        assert_eq!(told(&mut bench, watcher), ["removed HardTimeout 6/5 3 4"]);
        bench.tell(watcher, &flow_mod(Delete, &everything));
        bench.tell(watcher, &Message::BarrierRequest);
        let own = ["removed Delete 1/5 3 4, removed Delete 5/5 2", "barrier"];
        assert_eq!(told(&mut bench, watcher), own);
    }
}

#[test]
fn own_changes_are_told_by_their_transaction_id_unless_a_monitor_wants_them() {
    let both = |flags: [Flags; 2]| request(vec![monitor(1, flags[0]), monitor(2, flags[1])]);
    for (flags, expect) in [
        ([NOT_OWN, NOT_OWN], ["xid 7"; 2]),
        ([OWN, NOT_OWN], ["added 1/0 2", "removed Delete 1/0 2, removed Delete 2/0 2"]),
        (
            [Flags::ADD, Flags::REMOVED | Flags::OWN],
            ["xid 7", "removed Delete 1/0, removed Delete 2/0"],
        ),
    ] {
        for version in Version::ALL {
            let mut bench = Bench::new(0);
            let [watcher, other] =
                [version, Version::V10].map(|v| bench.connect(Settings::service(), v));
            bench.tell(watcher, &both(flags));
            assert_eq!(told(&mut bench, watcher), [""]);
            bench.tell(watcher, &Message::FlowMod(add_flow(1)));
            assert_eq!(told(&mut bench, watcher), [expect[0]], "{flags:?}");
            bench.tell(other, &Message::FlowMod(add_flow(2)));
            let actions = if flags[0].contains(Flags::ACTIONS) { " 2" } else { "" };
            assert_eq!(told(&mut bench, watcher), [format!("added 2/0{actions}")]);
            bench.tell(watcher, &flow_mod(FlowModCommand::Delete, &add_flow(0)));
            assert_eq!(told(&mut bench, watcher), [expect[1]], "{flags:?}");
        }
    }
}

#[test]
fn a_monitor_is_told_of_the_flows_that_it_asks_for() {
    let base = monitor(1, OWN);
    let of = |flows: FlowStatsRequest| FlowMonitor { flows, ..base.clone() };
    let port = |number| Match::any().with(Field::InPort, number);
    let cases = [
        (base.clone(), "1a 2a 2m 3a 1r 2r 3r"),
        (monitor(1, Flags::ADD), "1a 2a 3a"),
        (monitor(1, Flags::MODIFY), "2m"),
        (monitor(1, Flags::REMOVED | Flags::INITIAL), "1r 2r 3r"),
        (of(FlowStatsRequest { table: Some(TableId(0)), ..base.flows.clone() }), "1a 2a 2m 1r 2r"),
        (of(FlowStatsRequest { matching: port(3), ..base.flows.clone() }), "3a 3r"),
        // Flow 2 no longer outputs to port 2 when it is modified.
        (of(FlowStatsRequest { out_port: OfPort(2), ..base.flows.clone() }), "1a 2a 2m 3a 1r 3r"),
        (of(FlowStatsRequest { out_port: OfPort(9), ..base.flows.clone() }), "2m 2r"),
    ];
    for (monitor, expect) in cases {
        let mut bench = Bench::new(0);
        let [watcher, other] = [(); 2].map(|()| bench.connect(Settings::service(), Version::V13));
        bench.ask(watcher, &request(vec![monitor.clone()]));
        let third = FlowMod { table: Some(TableId(4)), matching: port(3), ..add_flow(3) };
        let modified = FlowMod { actions: output(&[9]), ..add_flow(2) };
        for message in [
            Message::FlowMod(add_flow(1)),
            Message::FlowMod(add_flow(2)),
            flow_mod(FlowModCommand::ModifyStrict, &modified),
            Message::FlowMod(third),
            flow_mod(
                FlowModCommand::Delete,
                &FlowMod { matching: Match::any(), table: None, ..add_flow(0) },
            ),
        ] {
            bench.tell(other, &message);
        }
        let heard = bench.heard(watcher);
        let updates = heard.iter().flat_map(|message| match message {
            Message::StatsReply(StatsReply::FlowMonitor(updates)) => updates.iter(),
            other => panic!("{other:?}"),
        });
        let short = updates.map(|update| match update {
            FlowUpdate::Flow { event, flow } => {
                let letter = match event {
                    FlowEvent::Added => 'a',
                    FlowEvent::Modified => 'm',
                    FlowEvent::Removed(RemovedReason::Delete) => 'r',
                    other => panic!("{other:?}"),
                };
                format!("{}{letter}", flow.priority)
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(short.collect::<Vec<_>>().join(" "), expect, "{monitor:?}");
    }
}

#[test]
fn flows_of_several_monitors_are_told_once_with_actions_if_one_asks() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::service(), Version::V14);
    bench.tell(id, &Message::FlowMod(add_flow(1)));
    let (with, without) = (OWN, OWN - Flags::ACTIONS);
    bench.tell(id, &request(vec![monitor(1, without), monitor(2, with), monitor(3, without)]));
    assert_eq!(told(&mut bench, id), ["initial 1/0 2"]);
    bench.tell(id, &Message::FlowMod(add_flow(2)));
    assert_eq!(told(&mut bench, id), ["added 2/0 2"]);
    bench.tell(id, &Message::FlowMonitorCancel(2));
    assert_eq!(told(&mut bench, id), [""], "from 1.4 on it is a request with a reply");
    bench.tell(id, &Message::FlowMod(add_flow(3)));
    assert_eq!(told(&mut bench, id), ["added 3/0"]);
}

#[test]
fn a_request_for_monitors_is_carried_out_whole_or_not_at_all() {
    let delete = |id| FlowMonitor { command: FlowMonitorCommand::Delete, ..monitor(id, OWN) };
    let modify = |id| FlowMonitor { command: FlowMonitorCommand::Modify, ..monitor(id, OWN) };
    let nowhere = FlowStatsRequest { out_group: Some(1), ..monitor(1, OWN).flows };
    let cases: [(Vec<FlowMonitor>, &str); 7] = [
        (vec![monitor(2, OWN), monitor(1, OWN)], "MonitorExists"),
        (vec![delete(1), delete(2)], "MonitorUnknown"),
        (vec![delete(1), modify(2)], "MonitorUnknown"),
        (vec![modify(1), modify(1)], ""),
        (vec![delete(1), monitor(1, NOT_OWN)], ""),
        // No flow sends to groups.
        (vec![delete(1), FlowMonitor { flows: nowhere, ..monitor(1, OWN) }], ""),
        (vec![monitor(7, Flags::OWN)], "MonitorBadFlags"),
    ];
    for (monitors, expect) in cases {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::service(), Version::V15);
        bench.ask(id, &request(vec![monitor(1, OWN)]));
        bench.tell(id, &request(monitors.clone()));
        assert_eq!(told(&mut bench, id), [expect], "{monitors:?}");
        if !expect.is_empty() {
            bench.tell(id, &Message::FlowMod(add_flow(1)));
            assert_eq!(told(&mut bench, id), ["added 1/0 2"], "{monitors:?}");
        }
    }
}

#[test]
fn a_monitor_is_cancelled_by_its_id() {
    for version in [Version::V10, Version::V11, Version::V12, Version::V13] {
        let mut bench = Bench::new(0);
        let id = bench.connect(Settings::service(), version);
        bench.ask(id, &request(vec![monitor(3, OWN)]));
        assert_eq!(bench.ask(id, &Message::FlowMonitorCancel(3)), []);
        bench.tell(id, &Message::FlowMod(add_flow(1)));
        assert_eq!(told(&mut bench, id), [""; 0]);
        let refused = bench.ask(id, &Message::FlowMonitorCancel(3));
        let code = ErrorCode::MonitorUnknown;
        assert!(matches!(&refused[..], [Message::Error { code: c, .. }] if *c == code));
    }
}

#[test]
fn changes_are_reported_only_while_somebody_watches_the_bridge() {
    let mut bench = Bench::new(0);
    let [a, b, c] = [(); 3].map(|()| bench.connect(Settings::service(), Version::V13));
    let reported = |bench: &mut Bench, priority| {
        let (bridge, now) = (bench.bridge, bench.now);
        bench.core.flow_mod(bridge, &add_flow(priority), now).unwrap();
        bench.core.take_events().len()
    };
    assert_eq!(reported(&mut bench, 1), 0);
    for id in [a, b] {
        bench.ask(id, &request(vec![monitor(1, OWN)]));
    }
    assert_eq!(reported(&mut bench, 2), 1);
    bench.connections.close(c, &mut bench.core);
    bench.tell(b, &Message::FlowMonitorCancel(1));
    assert_eq!(reported(&mut bench, 3), 1);
    bench.connections.close(a, &mut bench.core);
    assert_eq!(reported(&mut bench, 4), 0);
}

#[test]
fn a_bundle_is_told_in_one_message_and_a_failed_one_not_at_all() {
    let mut bench = Bench::new(0);
    let [watcher, other] = [(); 2].map(|()| bench.connect(Settings::service(), Version::V14));
    bench.ask(watcher, &request(vec![monitor(1, NOT_OWN)]));
    let overlapping = FlowMod {
        matching: Match::any(),
        flags: openflow::message::FlowFlags::CHECK_OVERLAP,
        ..add_flow(1)
    };
    let good = vec![add_flow(1), add_flow(2)];
    let bad = vec![add_flow(1), overlapping];
    for (from, flows, expect) in [
        (other, bad, None),
        (other, good.clone(), Some("added 1/0 2, added 2/0 2")),
        (watcher, good, Some("xid 7")),
    ] {
        for flow in flows {
            let message = Box::new(Message::FlowMod(flow));
            let bytes = openflow::encode(Version::V14, 7, &message, &Default::default()).remove(0);
            let (bundle, flags, xid) = (1, 3, 7);
            bench.tell(from, &Message::BundleAdd { bundle, flags, xid, message, bytes });
        }
        bench.tell(from, &Message::BundleControl { bundle: 1, control: 4, flags: 3 });
        let mut heard = told(&mut bench, watcher);
        heard.retain(|message| message != "bundle");
        assert_eq!(heard, Vec::from_iter(expect));
    }
}

#[test]
fn monitoring_pauses_while_much_waits_and_then_tells_what_was_missed() {
    for version in Version::ALL {
        let mut bench = Bench::new(0);
        let watcher = bench.connect(Settings::service(), version);
        let other = bench.connect(Settings::service(), Version::V13);
        bench.tell(other, &Message::FlowMod(add_flow(1)));
        bench.tell(other, &Message::FlowMod(add_flow(2)));
        bench.ask(watcher, &request(vec![monitor(1, NOT_OWN)]));
        let mut first = |n: u16| {
            let cookie = FlowMod { new_cookie: 9, table: Some(TableId(1)), ..add_flow(n) };
            bench.tell(other, &Message::FlowMod(cookie));
        };
        // More than 128 KiB of updates, of 64 to 88 bytes each.
        (10..2510).for_each(&mut first);
        let modified = FlowMod { actions: output(&[5]), ..add_flow(2) };
        bench.tell(other, &flow_mod(FlowModCommand::ModifyStrict, &modified));
        bench.tell(other, &Message::FlowMod(add_flow(3)));
        bench.tell(other, &Message::FlowMod(add_flow(4)));
        bench.tell(other, &flow_mod(FlowModCommand::DeleteStrict, &add_flow(4)));
        bench.tell(watcher, &flow_mod(FlowModCommand::DeleteStrict, &add_flow(1)));
        let all = FlowMod { matching: Match::any(), table: Some(TableId(1)), ..add_flow(0) };
        bench.tell(other, &flow_mod(FlowModCommand::Delete, &all));

        let heard = told(&mut bench, watcher);
        let paused = heard.iter().position(|text| text == "paused").unwrap();
        assert!(
            heard[..paused].iter().all(|text| text.starts_with("added ") && !text.contains(','))
        );
        assert!(paused > 1000 && paused < 2500, "{version:?}: {paused}");
        // Its own changes are reported in full, too. A message holds at most 64 KB.
        let rest = heard[paused + 1..].join(", ");
        let mut removed = rest.split(", ");
        assert_eq!(removed.next(), Some("removed Delete 1/0 2"));
        for n in 10..10 + paused {
            assert_eq!(removed.next(), Some(&format!("removed Delete {n}/9 2")[..]), "{version:?}");
        }
        assert_eq!(removed.next(), None, "{version:?}");

        // All output was read.
        let heard = told(&mut bench, watcher);
        assert_eq!(heard, ["modified 2/0 5, added 3/0 2", "resumed"], "{version:?}");
        bench.tell(other, &Message::FlowMod(add_flow(8)));
        assert_eq!(told(&mut bench, watcher), ["added 8/0 2"]);
    }
}
