//! The last counts of flows are exact, however they are removed.

use super::*;
use crate::test_bridge::TestBridge;
use crate::{Config, TableConfig};
use base::WorkerId;
use flow::{FlowCommand, FlowDump, FlowId, MeterBand, UpcallKind};
use openflow::message::{
    FlowModCommand, FlowStatsRequest, GroupCommand, MeterCommand, MeterDesc, MeterMod,
};
use openflow::text;

/// Bytes of the packets.
const BYTES: u64 = 54;
const PACKET: &str = "10.0.0.1:1000>10.0.0.2:80 S";

/// A bridge with a worker that executes commands when it is told to.
struct Rig {
    switch: TestBridge,
    worker: Worker,
}

/// What a worker does with statistics.
#[derive(Default)]
struct Worker {
    /// The flow of all packets, if it is there.
    flow: Option<(FlowId, FlowStats)>,
    marked: Vec<(FlowId, FlowStats)>,
    gone: Vec<(FlowId, FlowStats)>,
    is_asked: bool,
}

impl Rig {
    /// A bridge with a group 5, a meter 6, a table 7 that evicts the third flow, and these flows.
    fn new(flows: &[&str]) -> Rig {
        let mut config = TestBridge::secure();
        let small = TableConfig { flow_limit: Some(2), evicts: true, ..TableConfig::default() };
        config.tables.insert(7, small);
        let switch = TestBridge::configured(Config::default(), config).with_ports(3);
        let mut rig = Rig { switch, worker: Worker::default() };
        rig.group_mod(GroupCommand::Add, "group_id=5,type=all,bucket=output:2");
        rig.meter_mod(MeterCommand::Add);
        flows.iter().for_each(|flow| rig.switch.add(flow));
        rig.settle();
        rig
    }

    /// Packets arrive. The first one misses.
    fn send(&mut self, mut packets: u64) {
        if self.worker.flow.is_none() {
            self.switch.upcall(1, PACKET, UpcallKind::Miss);
            packets -= 1;
            self.obey();
        }
        let (_, stats) = self.worker.flow.as_mut().expect("the answer has a flow");
        let used = Some(self.switch.now);
        stats.add(&FlowStats { packets, bytes: packets * BYTES, used, tcp_flags: 0 });
    }

    /// The worker executes its commands.
    fn obey(&mut self) {
        for (_, command) in self.switch.out.commands.drain(..) {
            let Worker { flow, marked, gone, is_asked } = &mut self.worker;
            if let FlowCommand::Mark(id) = command {
                marked.extend(flow.filter(|flow| flow.0 == id));
            }
            if let Some(put) = command.to_put() {
                match flow.filter(|flow| flow.0 == put.id) {
                    Some(flow) => marked.push(flow),
                    None => gone.extend(flow.replace((put.id, FlowStats::default()))),
                }
            }
            match command {
                FlowCommand::Delete(id) => gone.extend(flow.take_if(|flow| flow.0 == id)),
                FlowCommand::Collect => *is_asked = true,
                _ => {}
            }
        }
    }

    /// The control side does a step.
    fn go_on(&mut self) -> bool {
        self.switch.ofproto.go_on(self.switch.now, &mut self.switch.out)
    }

    /// The worker answers a request for statistics.
    fn answer(&mut self) {
        let Worker { flow, marked, gone, is_asked } = &mut self.worker;
        assert!(std::mem::take(is_asked), "it was asked");
        let [marked, gone] = [marked, gone].map(std::mem::take);
        let (worker, at, flows) = (WorkerId(0), self.switch.now, flow.iter().copied().collect());
        let dump = FlowDump { worker, at, is_last: true, marked, flows, gone };
        self.switch.ofproto.dump(at, dump);
    }

    /// Both sides work until there is nothing to do.
    fn settle(&mut self) {
        loop {
            while self.go_on() {}
            self.obey();
            if !self.worker.is_asked {
                return;
            }
            self.answer();
        }
    }

    fn collect(&mut self) {
        self.switch.ofproto.collect(&mut self.switch.out);
        self.settle();
    }

    /// The worker reports, and the control side has not done a step since.
    fn collect_without_settling(&mut self) {
        self.switch.ofproto.collect(&mut self.switch.out);
        self.obey();
        self.answer();
    }

    /// The packets of the flow with this cookie.
    fn packets(&mut self, cookie: u64) -> u64 {
        self.collect();
        let all = FlowStatsRequest::default();
        let flows = self.switch.ofproto.flows(self.switch.id, &all, self.switch.now);
        flows.iter().filter(|flow| flow.cookie == cookie).map(|flow| flow.packets).sum()
    }

    /// Cookies, packets and bytes of flow-removed messages since the last call, with the reasons.
    fn removed(&mut self) -> Vec<(u64, u64, u64, RemovedReason)> {
        let told = |event| match event {
            Event::FlowRemoved { flow, reason, .. } => {
                (flow.cookie, flow.packets, flow.bytes, reason)
            }
            other => panic!("{other:?}"),
        };
        self.switch.ofproto.take_events().into_iter().map(told).collect()
    }

    fn change(&mut self, command: FlowModCommand, flow: &str) {
        self.switch.send(command, flow).unwrap();
    }

    fn wait(&mut self, s: u64) {
        self.switch.now = self.switch.now + Duration::from_secs(s);
        self.switch.ofproto.tick(self.switch.now, &mut self.switch.out);
    }

    fn group_mod(&mut self, command: GroupCommand, text: &str) {
        let group = text::parse_group(text, command, &|_| None).unwrap();
        self.switch.ofproto.group_mod(self.switch.id, &group, self.switch.now).unwrap();
    }

    fn meter_mod(&mut self, command: MeterCommand) {
        let bands = vec![MeterBand { rate: 1_000_000, burst: 1_000_000 }];
        let meter = MeterDesc { meter: 6, flags: MeterDesc::PKTPS, bands };
        let change = MeterMod { command, meter };
        self.switch.ofproto.meter_mod(self.switch.id, &change, self.switch.now).unwrap();
    }
}

/// The flows, of which the one with cookie 1 is removed, the reason, and the act.
type Case = (&'static [&'static str], RemovedReason, fn(&mut Rig));

/// The flow with cookie 2 gets the packets afterwards.
const REST: &str = "cookie=2,priority=1,actions=output:3";

#[test]
fn flow_removed_tells_all_packets_before_the_removal_and_the_next_flow_counts_the_others() {
    use FlowModCommand as C;
    use RemovedReason as R;
    const TO_2: &[&str] = &["send_flow_rem,cookie=1,priority=5,tcp,actions=output:2", REST];
    let cases: [Case; 9] = [
        (TO_2, R::Delete, |rig| rig.change(C::Delete, "tcp")),
        // The actions stay the same.
        (&["send_flow_rem,cookie=1,priority=5,tcp,actions=output:3", REST], R::Delete, |rig| {
            rig.change(C::DeleteStrict, "priority=5,tcp")
        }),
        (TO_2, R::Delete, |rig| {
            let transaction = rig.switch.ofproto.begin();
            rig.change(C::Delete, "tcp");
            rig.switch.ofproto.commit(transaction);
        }),
        // Another change of the megaflow before the worker knows of the first.
        (TO_2, R::Delete, |rig| {
            rig.change(C::ModifyStrict, "cookie=1,priority=5,tcp,actions=output:1");
            rig.go_on();
            rig.change(C::Delete, "tcp");
        }),
        (
            &["send_flow_rem,cookie=1,priority=5,tcp,hard_timeout=9,actions=output:2", REST],
            R::HardTimeout,
            |rig| rig.wait(9),
        ),
        // Its packets come when the idle time is over.
        (
            &["send_flow_rem,cookie=1,priority=5,tcp,idle_timeout=9,actions=output:2", REST],
            R::IdleTimeout,
            |rig| {
                rig.collect();
                rig.wait(9);
                rig.collect_without_settling();
            },
        ),
        (&["send_flow_rem,cookie=1,priority=5,tcp,actions=group:5", REST], R::GroupDelete, |rig| {
            rig.group_mod(GroupCommand::Delete, "group_id=5")
        }),
        (
            &["send_flow_rem,cookie=1,priority=5,tcp,actions=meter:6,output:2", REST],
            R::MeterDelete,
            |rig| rig.meter_mod(MeterCommand::Delete),
        ),
        (
            &[
                "send_flow_rem,cookie=1,table=7,priority=5,tcp,idle_timeout=99,actions=output:2",
                "cookie=2,table=7,priority=1,actions=output:3",
                "priority=0,actions=resubmit(,7)",
            ],
            R::Eviction,
            |rig| rig.change(C::Add, "table=7,priority=9,udp,actions=drop"),
        ),
    ];
    for (flows, reason, act) in cases {
        let mut rig = Rig::new(flows);
        rig.send(471);
        act(&mut rig);
        // The worker does not know yet.
        rig.send(10);
        rig.go_on();
        rig.send(1);
        assert_eq!(rig.removed(), [], "{flows:?}: the last packets are not counted");
        rig.settle();
        rig.send(100);
        assert_eq!(rig.removed(), [(1, 482, 482 * BYTES, reason)], "{flows:?}");
        assert_eq!(rig.packets(2), 100, "{flows:?}");
        assert_eq!(rig.removed(), [], "{flows:?}");
    }
}

#[test]
fn counters_that_are_reset_begin_after_the_last_packet_before() {
    use FlowModCommand as C;
    let cases = [
        (C::Add, "reset_counts,cookie=1,priority=5,tcp,actions=output:3"),
        (C::Add, "reset_counts,cookie=1,priority=5,tcp,actions=output:2"),
        (C::ModifyStrict, "reset_counts,cookie=1,priority=5,tcp,actions=output:2"),
        (C::Modify, "reset_counts,cookie=1,tcp,actions=output:3"),
    ];
    for (command, flow) in cases {
        let mut rig = Rig::new(&["cookie=1,priority=5,tcp,idle_timeout=9,actions=output:2"]);
        rig.send(471);
        rig.wait(8);
        rig.send(10);
        rig.change(command, flow);
        rig.go_on();
        rig.send(1);
        rig.settle();
        rig.send(100);
        assert_eq!(rig.packets(1), 100, "{flow}");
        // The packets before keep a flow with an idle timeout.
        if command == C::ModifyStrict {
            rig.send(1);
            rig.wait(5);
            rig.collect();
            assert_eq!(rig.packets(1), 101, "{flow}");
        }
        assert!(rig.switch.ofproto.removals.is_empty() && rig.switch.ofproto.rules.len() == 1);
        assert_eq!(rig.switch.ofproto.removals.by_rule.len(), 0);
    }
}

#[test]
fn a_changed_group_counts_the_packets_after_the_change() {
    let mut rig = Rig::new(&["priority=5,tcp,actions=group:5"]);
    rig.send(471);
    rig.group_mod(GroupCommand::Modify, "group_id=5,type=all,bucket=output:2");
    rig.go_on();
    rig.send(1);
    rig.settle();
    rig.send(100);
    rig.collect();
    let ofproto = &rig.switch.ofproto;
    let stats = ofproto.group_stats(rig.switch.id, 5, rig.switch.now);
    assert_eq!((stats[0].packets, &stats[0].buckets[..]), (100, &[(100, 100 * BYTES)][..]));
}

#[test]
fn controllers_are_told_of_flows_without_packets_at_once_and_in_order() {
    let mut rig = Rig::new(&[]);
    for cookie in 1..=1000 {
        rig.switch.add(&format!("send_flow_rem,cookie={cookie},udp,udp_dst={cookie},actions=drop"));
    }
    rig.settle();
    for cookie in 1..=1000 {
        rig.change(FlowModCommand::Delete, &format!("cookie={cookie}/-1"));
    }
    let mut told = Vec::new();
    loop {
        let has_more = rig.go_on();
        let removed = rig.removed();
        assert!(removed.len() <= FLOWS_AT_ONCE, "{}", removed.len());
        told.extend(removed.into_iter().map(|(cookie, packets, ..)| (cookie, packets)));
        if !has_more {
            break;
        }
    }
    assert_eq!(told, (1..=1000).map(|cookie| (cookie, 0)).collect::<Vec<_>>());
    rig.obey();
    assert!(!rig.worker.is_asked, "the worker has nothing to report");
}

#[test]
fn what_is_undone_is_not_told() {
    let mut rig = Rig::new(&["send_flow_rem,cookie=1,priority=5,tcp,actions=output:2", REST]);
    rig.send(471);
    let transaction = rig.switch.ofproto.begin();
    rig.change(FlowModCommand::Delete, "tcp");
    rig.switch.ofproto.rollback(transaction);
    rig.send(10);
    rig.settle();
    assert_eq!((rig.removed(), rig.packets(1), rig.packets(2)), (Vec::new(), 481, 0));
    rig.change(FlowModCommand::Delete, "tcp");
    rig.settle();
    assert_eq!(rig.removed(), [(1, 481, 481 * BYTES, RemovedReason::Delete)]);
}

#[test]
fn a_handler_at_work_is_waited_for() {
    let mut rig = Rig::new(&["send_flow_rem,cookie=1,priority=5,tcp,actions=output:2", REST]);
    let mut handler = rig.switch.ofproto.handler();
    assert!(handler.translate(rig.switch.now, rig.switch.packet(1, PACKET), None).is_none());
    rig.change(FlowModCommand::Delete, "tcp");
    for _ in 0..10 {
        assert!(rig.go_on(), "it is asked again");
    }
    let commands = &mut rig.switch.out.commands;
    handler.install(rig.switch.now, |all| commands.append(all));
    rig.obey();
    rig.send(7);
    rig.settle();
    rig.send(100);
    assert_eq!(rig.removed(), [(1, 8, 8 * BYTES, RemovedReason::Delete)]);
    assert_eq!(rig.packets(2), 100);
}

#[test]
fn threads_that_do_not_answer_are_waited_for_a_second() {
    let begin = || {
        let mut rig = Rig::new(&["send_flow_rem,cookie=1,priority=5,tcp,actions=output:2", REST]);
        rig.send(471);
        rig.collect();
        rig
    };
    let told = [(1, 471, 471 * BYTES, RemovedReason::Delete)];
    // The worker does not answer.
    let mut rig = begin();
    rig.change(FlowModCommand::Delete, "tcp");
    while rig.go_on() {}
    rig.switch.now = rig.switch.now + Duration::from_millis(999);
    while rig.go_on() {}
    assert_eq!(rig.removed(), []);
    rig.switch.now = rig.switch.now + Duration::from_millis(1);
    rig.go_on();
    assert_eq!(rig.removed(), told);
    // Revalidation is paused.
    let mut rig = begin();
    rig.switch.ofproto.pause_upkeep(true);
    rig.change(FlowModCommand::Delete, "tcp");
    rig.go_on();
    assert_eq!(rig.removed(), told);
    // The workers are replaced.
    let mut rig = begin();
    rig.change(FlowModCommand::Delete, "tcp");
    while rig.go_on() {}
    for workers in [0, 1] {
        let config = Config { workers, ..rig.switch.ofproto.config().clone() };
        rig.switch.ofproto.set_config(config);
    }
    rig.go_on();
    assert_eq!(rig.removed(), told);
}

#[test]
fn the_last_packets_of_a_teacher_keep_what_it_taught_and_teach_nothing() {
    let teacher = "cookie=1,priority=5,tcp,actions=learn(table=1,hard_timeout=10,cookie=3,\
         NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:2";
    let learned = |rig: &Rig| {
        let flows = rig.switch.flows();
        flows.iter().filter(|flow| flow.trim().starts_with("cookie=0x3")).count()
    };
    for deletes_both in [false, true] {
        let mut rig = Rig::new(&[teacher, REST]);
        rig.send(1);
        rig.settle();
        assert_eq!(learned(&rig), 1);
        rig.wait(6);
        rig.settle();
        rig.send(10);
        rig.change(FlowModCommand::Delete, "tcp");
        if deletes_both {
            rig.change(FlowModCommand::Delete, "cookie=3/-1");
        }
        rig.settle();
        rig.collect();
        rig.wait(6);
        rig.settle();
        assert_eq!(learned(&rig), usize::from(!deletes_both));
        rig.wait(5);
        rig.settle();
        assert_eq!(learned(&rig), 0);
    }
}
