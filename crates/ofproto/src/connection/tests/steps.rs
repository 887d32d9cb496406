//! What lasts is carried out in steps, between which other connections are answered.

use super::bench::Bench;
use crate::connection::{ConnId, Settings};
use base::{OfPort, TableId};
use flow::{Field, Match};
use openflow::action::Action;
use openflow::message::{
    FlowMod, FlowModCommand, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowStatsRequest,
    GROUP_ALL, GroupCommand, GroupMod, GroupType, METER_ALL, Message, MeterCommand, MeterDesc,
    MeterMod, StatsReply, StatsRequest, Version,
};
use openflow::{EncodeOptions, ErrorCode, encode};

const FLOWS: u32 = 4000;

fn output(port: u16) -> Vec<Action> {
    vec![Action::Output { port: OfPort(port), max_len: 0 }]
}

fn flow(n: u32, actions: Vec<Action>) -> FlowMod {
    let matching = Match::any().with(Field::TunId, n.into());
    let table = Some(TableId(0));
    FlowMod { matching, table, actions, priority: 7, ..FlowMod::default() }
}

fn all(command: FlowModCommand) -> FlowMod {
    FlowMod {
        command,
        table: Some(TableId(0)),
        actions: output(2),
        new_cookie: u64::MAX,
        ..FlowMod::default()
    }
}

/// A bridge with many flows, and two connections.
fn bench(actions: &[Action]) -> (Bench, ConnId, ConnId) {
    let mut bench = Bench::new(0);
    let [one, other] = [(); 2].map(|()| bench.connect(Settings::service(), Version::V14));
    let group = GroupMod {
        command: GroupCommand::Add,
        group: 7,
        kind: GroupType::All,
        buckets: Vec::new(),
        selection: None,
    };
    let meter = MeterDesc { meter: 7, flags: MeterDesc::KBPS, bands: Vec::new() };
    let meter = MeterMod { command: MeterCommand::Add, meter };
    bench.core.group_mod(bench.bridge, &group, bench.now).unwrap();
    bench.core.meter_mod(bench.bridge, &meter, bench.now).unwrap();
    for n in 0..FLOWS {
        bench.core.flow_mod(bench.bridge, &flow(n, actions.to_vec()), bench.now).unwrap();
    }
    bench.core.publish();
    (bench, one, other)
}

impl Bench {
    /// Sends a message, and carries out only what a message begins.
    fn begin(&mut self, id: ConnId, message: &Message) {
        let version = self.connections.status(id).unwrap().version.unwrap();
        for bytes in encode(version, 7, message, &EncodeOptions::default()) {
            self.with(|connections, switch| connections.receive(id, &bytes, switch));
        }
    }

    fn step(&mut self) -> bool {
        self.with(|connections, switch| connections.go_on(switch))
    }

    /// What a connection has received, without carrying out anything.
    fn read_only(&mut self, id: ConnId) -> Vec<Message> {
        let output = self.connections.take_output(id, &self.core);
        super::bench::messages(&output)
    }

    /// What a connection receives after an echo request.
    fn echo(&mut self, id: ConnId) -> Vec<Message> {
        self.begin(id, &Message::EchoRequest(vec![1]));
        let heard = self.read_only(id);
        assert!(heard.contains(&Message::EchoReply(vec![1])), "no answer to an echo request");
        heard
    }
}

#[test]
fn others_are_answered_between_the_steps_of_each_operation() {
    let everything = FlowStatsRequest::default;
    let monitor = FlowMonitor {
        id: 1,
        command: FlowMonitorCommand::Add,
        flags: FlowMonitorFlags::all(),
        flows: everything(),
    };
    let delete_groups = GroupMod {
        command: GroupCommand::Delete,
        group: GROUP_ALL,
        kind: GroupType::All,
        buckets: Vec::new(),
        selection: None,
    };
    let delete_meters = MeterMod {
        command: MeterCommand::Delete,
        meter: MeterDesc { meter: METER_ALL, flags: MeterDesc::KBPS, bands: Vec::new() },
    };
    let by_cookie = FlowMod { cookie: 0, cookie_mask: 1, ..all(FlowModCommand::Delete) };
    let statistics = |request| Message::StatsRequest(request);
    let cases = [
        ("delete", Message::FlowMod(all(FlowModCommand::Delete)), 0),
        ("delete by cookie", Message::FlowMod(by_cookie), 0),
        ("modify", Message::FlowMod(all(FlowModCommand::Modify)), FLOWS),
        ("groups", Message::GroupMod(Box::new(delete_groups)), 0),
        ("meters", Message::MeterMod(delete_meters), 0),
        ("dump", statistics(StatsRequest::Flow { request: everything(), nicira: false }), FLOWS),
        (
            "sum",
            statistics(StatsRequest::Aggregate { request: everything(), nicira: false }),
            FLOWS,
        ),
        ("monitor", statistics(StatsRequest::FlowMonitor(vec![monitor])), FLOWS),
    ];
    for (what, message, left) in cases {
        let actions = [Action::Meter(7), Action::Group(7)];
        let (mut bench, one, other) = bench(&actions);
        bench.begin(one, &message);
        bench.begin(one, &Message::BarrierRequest);
        let (mut steps, mut heard) = (0, Vec::new());
        while bench.step() {
            steps += 1;
            let before = bench.flows();
            bench.echo(other);
            if steps < 5 {
                heard.extend(bench.echo(one));
            }
            assert!(before - bench.flows() <= 1000, "{what}: {} at once", before - bench.flows());
        }
        assert!(steps >= 3, "{what}: {steps} steps");
        heard.extend(bench.heard(one));
        assert!(heard.contains(&Message::BarrierReply), "{what}");
        assert_eq!(bench.flows() as u32, left, "{what}");
    }
}

#[test]
fn a_dump_shows_the_flows_of_its_beginning() {
    let (mut bench, one, other) = bench(&output(1));
    let request = StatsRequest::Flow { request: FlowStatsRequest::default(), nicira: false };
    bench.begin(one, &Message::StatsRequest(request));
    bench.step();
    bench.begin(other, &Message::FlowMod(all(FlowModCommand::Delete)));
    bench.go_on();
    assert_eq!(bench.flows(), 0);
    let mut told = 0;
    let messages = bench.heard(one);
    assert!(messages.len() > 5);
    for message in messages {
        let Message::StatsReply(StatsReply::Flow { flows, .. }) = message else { panic!() };
        told += flows.len() as u32;
    }
    assert_eq!(told, FLOWS);
}

#[test]
fn a_change_of_one_connection_lets_those_of_others_wait_and_outlives_it() {
    let (mut bench, one, other) = bench(&output(1));
    bench.begin(one, &Message::FlowMod(all(FlowModCommand::Delete)));
    bench.begin(other, &Message::FlowMod(flow(1, output(2))));
    bench.begin(other, &Message::BarrierRequest);
    bench.step();
    assert_eq!(bench.read_only(other), []);
    assert!(bench.flows() > 100);
    bench.echo(other);
    let Bench { connections, core, .. } = &mut bench;
    connections.close(one, core);
    bench.go_on();
    assert_eq!(bench.flows(), 1);
    assert!(bench.heard(other).contains(&Message::BarrierReply));
}

#[test]
fn a_bundle_is_carried_out_whole_or_not_at_all_however_long_it_lasts() {
    for fails in [false, true] {
        let (mut bench, one, other) = bench(&output(1));
        let control = |control| Message::BundleControl { bundle: 1, control, flags: 1 };
        let add = |flow_mod: FlowMod| {
            let message = Box::new(Message::FlowMod(flow_mod));
            Message::BundleAdd { bundle: 1, flags: 1, xid: 7, message, bytes: Vec::new() }
        };
        bench.begin(one, &control(0));
        bench.begin(one, &add(all(FlowModCommand::Delete)));
        (0..2000).for_each(|n| bench.begin(one, &add(flow(FLOWS + n, output(2)))));
        if fails {
            bench.begin(one, &add(flow(1, vec![Action::Group(9)])));
        }
        bench.go_on();
        bench.heard(one);
        bench.begin(one, &control(4));
        let mut steps = 0;
        let asked = StatsRequest::Aggregate { request: FlowStatsRequest::default(), nicira: false };
        while bench.step() {
            steps += 1;
            // As published, so as it was.
            if steps == 5 {
                bench.begin(other, &Message::StatsRequest(asked.clone()));
            }
        }
        assert!(steps > 15, "{steps} steps");
        let told: Vec<Message> = bench.heard(other);
        let [Message::StatsReply(StatsReply::Aggregate { flows, .. })] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(*flows, FLOWS);
        let expect = if fails { FLOWS } else { 2000 };
        assert_eq!(bench.flows() as u32, expect);
        let answers = bench.heard(one);
        let errors = answers.iter().filter_map(|it| match it {
            Message::Error { code, .. } => Some(*code),
            _ => None,
        });
        let errors: Vec<ErrorCode> = errors.collect();
        let failed = [ErrorCode::ActionBadOutGroup, ErrorCode::BundleMessageFailed];
        assert_eq!(errors, if fails { &failed[..] } else { &[] });
        assert_eq!(
            answers.contains(&Message::BundleControl { bundle: 1, control: 5, flags: 0 }),
            !fails
        );
    }
}
