//! Statistics are as fresh as their request, and later messages wait.

use super::bench::{Bench, add_flow};
use crate::Config;
use crate::connection::Settings;
use base::{OfPort, WorkerId};
use flow::{FlowDump, FlowStats};
use openflow::message::{
    FlowFlags, FlowMod, FlowModCommand, FlowStatsRequest, GROUP_ALL, METER_ALL, Message,
    MeterCommand, MeterDesc, MeterMod, StatsReply, StatsRequest, Version,
};

fn all_flows() -> Message {
    let request = FlowStatsRequest::default();
    Message::StatsRequest(StatsRequest::Flow { request, nicira: false })
}

fn answer(bench: &mut Bench, worker: u16) {
    let worker = WorkerId(worker);
    let (flows, gone) = (Vec::new(), Vec::new());
    let dump = FlowDump { worker, at: bench.now, is_last: true, marked: Vec::new(), flows, gone };
    bench.core.dump(bench.now, dump);
    bench.with(|connections, switch| connections.dumped(worker, switch));
}

#[test]
fn flow_statistics_wait_for_every_worker_and_the_barrier_behind_them_too() {
    for version in Version::ALL {
        let mut bench = Bench::new(2);
        let id = bench.connect(Settings::service(), version);
        bench.tell(id, &all_flows());
        bench.tell(id, &Message::FlowMod(add_flow(1)));
        bench.tell(id, &Message::BarrierRequest);
        assert_eq!(bench.ship(), 2);
        answer(&mut bench, 1);
        assert!(!bench.connections.has_output(id));
        assert_eq!(bench.flows(), 0);
        answer(&mut bench, 0);
        let heard = bench.heard(id);
        let [Message::StatsReply(StatsReply::Flow { flows, .. }), Message::BarrierReply] =
            &heard[..]
        else {
            panic!("{heard:?}")
        };
        // The flow was added after the request.
        assert_eq!((flows.len(), bench.flows()), (0, 1));
    }
}

#[test]
fn all_counters_are_collected_before_they_are_told() {
    let flows = FlowStatsRequest::default();
    let meter = MeterDesc { meter: 1, flags: MeterDesc::PKTPS, bands: Vec::new() };
    let requests = [
        StatsRequest::Flow { request: flows.clone(), nicira: false },
        StatsRequest::Aggregate { request: flows, nicira: false },
        StatsRequest::Table,
        StatsRequest::Port(OfPort::NONE),
        StatsRequest::GroupStats(GROUP_ALL),
        StatsRequest::MeterStats(METER_ALL),
        StatsRequest::MeterStats(1),
    ];
    for request in requests {
        let mut bench = Bench::new(1);
        let id = bench.connect(Settings::service(), Version::V13);
        let meter = meter.clone();
        bench.tell(id, &Message::MeterMod(MeterMod { command: MeterCommand::Add, meter }));
        bench.tell(id, &Message::StatsRequest(request.clone()));
        assert!(!bench.connections.has_output(id), "{request:?}");
        assert_eq!(bench.ship(), 1, "{request:?}");
        answer(&mut bench, 0);
        let heard = bench.heard(id);
        assert!(matches!(heard[..], [Message::StatsReply(_)]), "{request:?}: {heard:?}");
    }
}

/// A flow with a megaflow is deleted by one controller; all barriers behind that wait until its last packets are
/// counted.
#[test]
fn flow_removed_precedes_the_replies_to_barriers() {
    let mut bench = Bench::new(1);
    let [one, other] = [(); 2].map(|()| bench.connect(Settings::controller(), Version::V13));
    let flow = FlowMod { flags: FlowFlags::SEND_FLOW_REM, ..add_flow(9) };
    bench.tell(one, &Message::FlowMod(flow));
    let flow_id = bench.miss(2, "10.0.0.1:1>10.0.0.2:2 udp");
    bench.ship();
    let delete = FlowMod { command: FlowModCommand::DeleteStrict, ..add_flow(9) };
    bench.tell(one, &Message::FlowMod(delete));
    for id in [one, other] {
        bench.tell(id, &Message::BarrierRequest);
        bench.tell(id, &Message::EchoRequest(Vec::new()));
        assert!(!bench.connections.has_output(id));
    }
    // The megaflow is deleted, and the worker is asked.
    assert_eq!(bench.ship(), 1);
    let stats = FlowStats { packets: 6, bytes: 600, used: Some(bench.now), tcp_flags: 0 };
    let (worker, at, gone) = (WorkerId(0), bench.now, vec![(flow_id, stats)]);
    let (marked, flows) = (Vec::new(), Vec::new());
    bench.core.dump(at, FlowDump { worker, at, is_last: true, marked, flows, gone });
    bench.with(|connections, switch| connections.dumped(worker, switch));
    bench.settle();
    for id in [one, other] {
        let heard = bench.heard(id);
        let [Message::FlowRemoved { flow, .. }, Message::BarrierReply, Message::EchoReply(_)] =
            &heard[..]
        else {
            panic!("{heard:?}")
        };
        assert_eq!(flow.packets, 7);
    }
}

#[test]
fn an_answer_to_an_older_question_does_not_count() {
    let mut bench = Bench::new(2);
    let id = bench.connect(Settings::service(), Version::V13);
    bench.core.collect(&mut bench.out);
    assert_eq!(bench.ship(), 2);
    answer(&mut bench, 0);
    // The second worker has not answered the first request yet.
    bench.tell(id, &all_flows());
    assert_eq!(bench.ship(), 1);
    answer(&mut bench, 0);
    assert_eq!(bench.ship(), 0);
    answer(&mut bench, 1);
    // It is asked again, and so is the first one, whose answer is not awaited.
    assert_eq!(bench.ship(), 2);
    assert!(!bench.connections.has_output(id));
    answer(&mut bench, 1);
    assert_eq!(bench.heard(id).len(), 1);
}

#[test]
fn a_worker_that_does_not_answer_is_waited_for_a_second() {
    let mut bench = Bench::new(1);
    let id = bench.connect(Settings::service(), Version::V13);
    bench.tell(id, &all_flows());
    bench.ship();
    assert_eq!(bench.connections.next_tick().unwrap().as_millis(), 1_001_000);
    bench.pass(999);
    assert!(!bench.connections.has_output(id));
    bench.pass(1);
    assert_eq!(bench.heard(id).len(), 1);
    bench.tell(id, &all_flows());
    assert!(!bench.connections.has_output(id));
    bench.with(|connections, switch| connections.worker_gone(WorkerId(0), switch));
    assert_eq!(bench.heard(id).len(), 1);
}

#[test]
fn nobody_waits_for_workers_that_were_replaced() {
    let mut bench = Bench::new(2);
    let id = bench.connect(Settings::service(), Version::V13);
    bench.tell(id, &all_flows());
    assert_eq!(bench.ship(), 2);
    for workers in [0, 2] {
        bench.core.set_config(Config { workers, ..bench.core.config().clone() });
    }
    bench.pass(1);
    assert_eq!(bench.heard(id).len(), 1);
    // The new workers are asked, and have no older request to answer.
    bench.tell(id, &all_flows());
    assert_eq!(bench.ship(), 2);
    answer(&mut bench, 0);
    assert!(!bench.connections.has_output(id));
    answer(&mut bench, 1);
    assert_eq!(bench.heard(id).len(), 1);
}

#[test]
fn connections_do_not_wait_for_each_other() {
    let mut bench = Bench::new(1);
    let [slow, quick] = [(); 2].map(|()| bench.connect(Settings::service(), Version::V15));
    bench.tell(slow, &all_flows());
    assert_eq!(bench.ask(quick, &Message::BarrierRequest), [Message::BarrierReply]);
    bench.connections.close(slow, &mut bench.core);
    bench.ship();
    answer(&mut bench, 0);
    assert!(!bench.connections.has_output(slow));
}

#[test]
fn who_asks_and_does_not_read_must_wait() {
    let mut bench = Bench::new(0);
    let id = bench.connect(Settings::service(), Version::V13);
    let mut asked = 0;
    while bench.connections.wants_input(id) {
        bench.tell(
            id,
            &Message::StatsRequest(StatsRequest::TableFeatures { tables: vec![], more: false }),
        );
        asked += 1;
        assert!(asked < 1_000_000);
    }
    // Input waits in bytes, not in replies.
    bench.tell(
        id,
        &Message::StatsRequest(StatsRequest::TableFeatures { tables: vec![], more: false }),
    );
    bench.tell(id, &Message::BarrierRequest);
    assert!(!bench.heard(id).contains(&Message::BarrierReply));
    while !bench.heard(id).contains(&Message::BarrierReply) {
        bench.pass(1);
        asked += 1;
        assert!(asked < 1_000_000);
    }
    assert!(bench.connections.wants_input(id));
}
