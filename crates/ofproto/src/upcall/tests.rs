use super::*;
use crate::test_bridge::TestBridge;
use crate::text::{DumpOptions, PortNames, format_megaflow, parse_flow, parse_megaflow};
use crate::{BridgeConfig, Config, PortSpec};
use base::{MacAddr, OfPort, PortNo, WorkerId};
use flow::{Action, FlowCommand, Frame};
use openflow::message::{FlowModCommand, PacketOut};
use packet::Packet;
use std::sync::Arc;
use std::time::Duration;

/// A bridge with ports 1, 2 and 3.
fn bridge(config: Config) -> TestBridge {
    TestBridge::configured(config, BridgeConfig::new("br0", MacAddr::ZERO)).with_ports(3)
}

fn miss(switch: &mut TestBridge, port: u32, packet: &str) -> Vec<String> {
    switch.upcall(port, packet, UpcallKind::Miss);
    commands(switch)
}

/// Commands to the workers, abbreviated.
fn commands(switch: &mut TestBridge) -> Vec<String> {
    let short = |(worker, command): (WorkerId, FlowCommand)| {
        let key = FlowKey::new();
        let text =
            |actions: &[Action]| crate::text::format_actions(actions, &key, PortNames::default());
        let put = command.to_put().map(|it| format!("put {} {}", name(it.id), text(&it.actions)));
        let other = match &command {
            FlowCommand::Put(_) => None,
            FlowCommand::Delete(id) => Some(format!("delete {}", name(*id))),
            FlowCommand::Execute(execute) => Some(format!("execute {}", text(&execute.actions))),
            FlowCommand::Mark(id) => Some(format!("mark {}", name(*id))),
            FlowCommand::Collect => Some("collect".to_owned()),
        };
        let told = move |it| if worker.0 == 0 { it } else { format!("{worker}: {it}") };
        put.into_iter().chain(other).map(told)
    };
    switch.out.commands.drain(..).flat_map(short).collect()
}

fn revalidate(switch: &mut TestBridge) -> Vec<String> {
    switch.revalidate();
    commands(switch)
}

fn dump(switch: &mut TestBridge, flows: &[(u64, u64)]) {
    let now = switch.now;
    let flows = flows.iter().map(|&(id, packets)| {
        let (bytes, used) = (packets * 100, Some(now));
        (FlowId(id), FlowStats { packets, bytes, used, tcp_flags: 0x12 })
    });
    let (worker, at, flows) = (WorkerId(0), now, flows.collect());
    switch.ofproto.dump(
        now,
        FlowDump { worker, at, is_last: true, marked: Vec::new(), flows, gone: Vec::new() },
    );
}

fn tick_after(switch: &mut TestBridge, ms: u64) -> Vec<String> {
    switch.now = switch.now + Duration::from_millis(ms);
    switch.ofproto.tick(switch.now, &mut switch.out);
    commands(switch)
}

fn packets(switch: &TestBridge) -> Vec<u64> {
    let rules = switch.ofproto.bridge(switch.id).unwrap().tables.all();
    let packets = |&id| switch.ofproto.rules.get(id).unwrap().carried.packets();
    rules.iter().map(packets).collect()
}

/// A flow's slot, with a prime for each earlier flow in it.
fn name(id: FlowId) -> String {
    format!("{}{}", id.0 as u32, "'".repeat((id.0 >> 32) as usize))
}

const THERE: &str = "10.0.0.1:1000>10.0.0.2:80 S";
const BACK: &str = "10.0.0.2:80>10.0.0.1:1000 SA";

#[test]
fn learning_changes_what_is_installed() {
    let mut switch = bridge(Config::default());
    assert_eq!(miss(&mut switch, 1, THERE), ["put 1 2,3", "execute 2,3"]);
    // The flood learns nothing new; the source was learned before.
    assert_eq!(revalidate(&mut switch), [""; 0]);
    assert_eq!(miss(&mut switch, 2, BACK), ["put 2 1", "execute 1"]);
    assert_eq!(revalidate(&mut switch), ["put 1 2"]);
    // The packet arrived before the flow was installed.
    assert_eq!(miss(&mut switch, 1, THERE), ["execute 2"]);
    // The address moves.
    assert_eq!(miss(&mut switch, 3, BACK), ["put 3 1", "execute 1"]);
    assert_eq!(revalidate(&mut switch), ["put 1 3"]);
    switch.ofproto.remove_port(switch.id, OfPort(3), switch.now);
    assert_eq!(revalidate(&mut switch), ["put 1 2", "delete 3"]);
}

#[test]
fn flows_that_look_at_more_replace_those_that_look_at_less() {
    let mut switch = bridge(Config::default());
    switch.send(FlowModCommand::Delete, "").unwrap();
    switch.send(FlowModCommand::Add, "actions=output:2").unwrap();
    assert_eq!(revalidate(&mut switch), [""; 0]);
    assert_eq!(miss(&mut switch, 1, THERE), ["put 1 2", "execute 2"]);
    switch.send(FlowModCommand::Add, "priority=9,arp,actions=drop").unwrap();
    assert_eq!(revalidate(&mut switch), [""; 0]);
    switch.send(FlowModCommand::Add, "priority=40000,tcp,tp_dst=22,actions=drop").unwrap();
    assert_eq!(revalidate(&mut switch), ["delete 1"]);
    assert_eq!(miss(&mut switch, 1, THERE), ["put 1' 2", "execute 2"]);
    let counters = switch.ofproto.megaflow_counters();
    assert_eq!((counters.current, counters.max, counters.outdated), (1, 1, 1));
}

/// As in Open vSwitch's test 1172, which dumps flows before and after `revalidator/purge`.
#[test]
fn flows_that_come_after_all_were_deleted_are_dumped_in_the_order_in_which_they_came() {
    let mut switch = bridge(Config::default());
    switch.send(FlowModCommand::Add, "in_port=1,actions=output:2").unwrap();
    for _ in 0..2 {
        for device in [3, 1, 2] {
            miss(&mut switch, device, THERE);
        }
        let flows = switch.ofproto.megaflows();
        assert_eq!(flows.iter().map(|flow| flow.key.in_port().0).collect::<Vec<_>>(), [3, 1, 2]);
        switch.ofproto.delete_megaflows(switch.now, &mut switch.out);
        assert!(switch.ofproto.megaflows().is_empty());
    }
}

#[test]
fn statistics_reach_the_flows_and_nothing_is_counted_twice() {
    let mut switch = bridge(Config::default());
    miss(&mut switch, 1, THERE);
    assert_eq!(packets(&switch), [1]);
    assert_eq!(tick_after(&mut switch, 500), ["collect"]);
    dump(&mut switch, &[(1, 10)]);
    assert_eq!(packets(&switch), [11]);
    assert_eq!(tick_after(&mut switch, 500), [""; 0]);
    assert_eq!(tick_after(&mut switch, 500), ["collect"]);
    switch.ofproto.delete_megaflows(switch.now, &mut switch.out);
    assert_eq!(commands(&mut switch), ["delete 1"]);
    // This answer was sent before the flow was deleted; the last one comes later.
    dump(&mut switch, &[(1, 12)]);
    assert_eq!(packets(&switch), [13]);
    assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
    dump(&mut switch, &[(1, 15)]);
    assert_eq!(packets(&switch), [16]);
    assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
    dump(&mut switch, &[(1, 99)]);
    assert_eq!(packets(&switch), [16]);
    let stats = switch.ofproto.table_stats(switch.id);
    assert_eq!((stats[0].lookups, stats[0].matched, stats[0].active), (16, 16, 1));
}

#[test]
fn idle_megaflows_go_and_too_many_are_not_put() {
    let config = Config { flow_limit: 1, max_idle_ms: 5000, ..Config::default() };
    let mut switch = bridge(config);
    assert_eq!(miss(&mut switch, 1, THERE), ["put 1 2,3", "execute 2,3"]);
    assert_eq!(miss(&mut switch, 1, "10.0.0.1>10.0.0.9 icmp-echo"), ["execute 2,3"]);
    assert_eq!(switch.ofproto.megaflow_counters().over_limit, 1);
    assert_eq!(tick_after(&mut switch, 4000), ["collect"]);
    dump(&mut switch, &[(1, 1)]);
    // The packets of these five seconds are not reported yet.
    assert_eq!(tick_after(&mut switch, 5500), ["collect"]);
    dump(&mut switch, &[]);
    assert_eq!(tick_after(&mut switch, 1), ["delete 1"]);
    assert_eq!(switch.ofproto.megaflow_counters().idle, 1);
}

#[test]
fn megaflows_in_use_stay_above_the_limit_and_idle_ones_go_down_to_it() {
    let mut switch = bridge(Config::default());
    for n in 1..=6 {
        switch.add(&format!("priority=9,in_port={},tcp,tp_src={n},actions=2", n % 2 + 1));
    }
    for n in 1..=6 {
        miss(&mut switch, n % 2 + 1, &format!("10.0.0.1:{n}>10.0.0.2:80 S"));
    }
    assert_eq!(switch.ofproto.megaflow_counters().current, 6);
    switch.ofproto.set_flow_limit(4);
    assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
    // Five were in use until a moment ago; the statistics come a while later.
    let busy: Vec<(u64, u64)> = (2..=6).map(|id| (id, 9)).collect();
    dump(&mut switch, &busy);
    switch.now = switch.now + Duration::from_millis(700);
    assert_eq!(tick_after(&mut switch, 0), ["delete 1"]);
    assert_eq!(switch.ofproto.megaflow_counters().current, 5);
    // When they are idle, the number above the limit is deleted.
    assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
    dump(&mut switch, &[]);
    assert_eq!(tick_after(&mut switch, 1).len(), 1);
    assert_eq!(switch.ofproto.megaflow_counters().current, 4);
}

#[test]
fn the_flow_limit_is_the_configured_one_from_the_start_however_long_dumps_take() {
    let mut switch = bridge(Config { flow_limit: 150_000, ..Config::default() });
    assert_eq!(switch.ofproto.flow_limit(), 150_000);
    miss(&mut switch, 1, THERE);
    for _ in 0..5 {
        tick_after(&mut switch, 1000);
        // The answer comes a minute later.
        let at = switch.now;
        switch.now = switch.now + Duration::from_secs(60);
        let (flows, gone) = (Vec::new(), Vec::new());
        let dump =
            FlowDump { worker: WorkerId(0), at, is_last: true, marked: Vec::new(), flows, gone };
        switch.ofproto.dump(switch.now, dump);
        assert_eq!(switch.ofproto.flow_limit(), 150_000);
    }
    switch.ofproto.set_flow_limit(7);
    switch.ofproto.set_config(Config { max_idle_ms: 3, ..switch.ofproto.config().clone() });
    assert_eq!(switch.ofproto.flow_limit(), 7);
    switch.ofproto.set_config(Config { flow_limit: 9, ..switch.ofproto.config().clone() });
    assert_eq!(switch.ofproto.flow_limit(), 9);
}

#[test]
fn a_flow_in_use_is_not_removed_before_its_packets_are_counted() {
    let mut switch = bridge(Config::default());
    switch.send(FlowModCommand::Delete, "").unwrap();
    switch.send(FlowModCommand::Add, "idle_timeout=1,actions=2").unwrap();
    miss(&mut switch, 1, THERE);
    // Packets arrive all the time; their statistics come a moment after the idle timeout passed.
    for second in 1..=5 {
        assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
        dump(&mut switch, &[(1, second)]);
        assert_eq!(packets(&switch).len(), 1, "after {second} seconds");
    }
    assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
    dump(&mut switch, &[]);
    assert_eq!(packets(&switch).len(), 0);
}

#[test]
fn many_megaflows_are_deleted_a_part_at_a_time() {
    let mut switch = bridge(Config::default());
    switch.add("priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],2");
    for n in 1..=3000 {
        switch.upcall(1, &format!("10.0.0.1:{n}>10.0.0.2:80 udp"), UpcallKind::Miss);
    }
    commands(&mut switch);
    let mut most = 0;
    switch.ofproto.delete_megaflows(switch.now, &mut switch.out);
    loop {
        most = most.max(commands(&mut switch).len());
        if !switch.ofproto.go_on(switch.now, &mut switch.out) {
            break;
        }
    }
    assert!(most <= 1024, "{most} at once");
    assert_eq!(switch.ofproto.megaflow_counters().current, 0);
}

#[test]
fn states_of_packets_above_the_flow_limit_are_forgotten_at_once_when_their_time_is_over() {
    let mut switch = bridge(Config { flow_limit: 1, ..Config::default() });
    switch.add("priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],ct(table=1)");
    for n in 1..=5000 {
        switch.upcall(1, &format!("10.0.0.1:{n}>10.0.0.2:80 udp"), UpcallKind::Miss);
    }
    assert_eq!(switch.ofproto.recirc.len(), 5000);
    switch.ofproto.delete_megaflows(switch.now, &mut switch.out);
    switch.now = switch.now + Duration::from_secs(11);
    let calls = (1..20).find(|_| !switch.ofproto.go_on(switch.now, &mut switch.out));
    // A bounded number per call.
    assert!(calls.is_some_and(|calls| calls > 3), "{calls:?}");
    assert_eq!(switch.ofproto.recirc.len(), 0);
}

#[test]
fn what_only_describes_a_port_concerns_no_megaflow() {
    let mut switch = bridge(Config::default());
    miss(&mut switch, 1, THERE);
    revalidate(&mut switch);
    let (carrier, speed_kbps) = (false, 10_000);
    let before = switch.ofproto.megaflow_counters().revalidated;
    // A link goes down and up repeatedly.
    for up in [false, true, false, true] {
        let spec = PortSpec { up, carrier, speed_kbps, ..TestBridge::port(3) };
        switch.ofproto.set_port(switch.id, OfPort(3), spec).unwrap();
        assert_eq!(revalidate(&mut switch), [""; 0]);
    }
    assert_eq!(switch.ofproto.megaflow_counters().revalidated, before);
    let spec = PortSpec { protected: true, ..TestBridge::port(3) };
    switch.ofproto.set_port(switch.id, OfPort(3), spec).unwrap();
    revalidate(&mut switch);
    assert_eq!(switch.ofproto.megaflow_counters().revalidated, before + 1);
}

#[test]
fn new_workers_begin_without_flows() {
    let mut switch = bridge(Config::default());
    assert_eq!(miss(&mut switch, 1, THERE), ["put 1 2,3", "execute 2,3"]);
    assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
    for workers in [0, 2] {
        let config = Config { workers, ..switch.ofproto.config().clone() };
        switch.ofproto.set_config(config);
    }
    // The old worker receives nothing, and its unanswered request blocks no other.
    assert_eq!(commands(&mut switch), [""; 0]);
    assert_eq!(switch.ofproto.megaflow_counters().current, 0);
    assert_eq!(miss(&mut switch, 1, THERE), ["put 1' 2,3", "execute 2,3"]);
    assert_eq!(tick_after(&mut switch, 1000), ["collect", "1: collect"]);
    // The statistics of the old flow are ignored.
    dump(&mut switch, &[(1, 50), (1 << 32 | 1, 3)]);
    assert_eq!(packets(&switch), [1 + 1 + 3]);
    assert_eq!(tick_after(&mut switch, 1000), ["collect"]);
}

#[test]
fn flows_of_workers_that_are_no_more_are_forgotten_a_part_at_a_time() {
    let mut switch = bridge(Config::default());
    switch.add("priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],ct(table=1)");
    for n in 1..=3000 {
        switch.upcall(1, &format!("10.0.0.1:{n}>10.0.0.2:80 udp"), UpcallKind::Miss);
    }
    commands(&mut switch);
    assert_eq!(switch.ofproto.megaflow_counters().current, 3000);
    // The last statistics, before the workers are removed.
    dump(&mut switch, &[(1, 50), (2, 7)]);
    assert_eq!(packets(&switch)[0], 3000 + 50 + 7);
    for workers in [0, 1] {
        let config = Config { workers, ..switch.ofproto.config().clone() };
        switch.ofproto.set_config(config);
    }
    // Their last statistics are applied when others forward already.
    let last = |id: u64, packets: u64| {
        let (bytes, used) = (100 * packets, Some(switch.now));
        (FlowId(id), FlowStats { packets, bytes, used, tcp_flags: 0 })
    };
    let (flows, gone) = (vec![last(1, 55)], vec![last(2, 8)]);
    let page = FlowDump {
        worker: WorkerId(0),
        at: switch.now,
        is_last: true,
        marked: Vec::new(),
        flows,
        gone,
    };
    switch.ofproto.last_dump(switch.now, &page);
    assert_eq!(packets(&switch)[0], 3000 + 55 + 8);
    // None are left at once, and a new one has another id.
    let counters = switch.ofproto.megaflow_counters();
    assert_eq!((counters.current, counters.max), (0, 3000));
    let packet = "10.0.0.1:1>10.0.0.2:80 udp";
    assert_eq!(miss(&mut switch, 1, packet)[0].split(' ').nth(1), Some("1'"));
    // Their frozen states are removed when their time is over.
    assert_eq!(switch.ofproto.recirc.len(), 3000);
    let forgotten = (1..50).find(|_| !switch.ofproto.go_on(switch.now, &mut switch.out));
    assert!(forgotten.is_some_and(|calls| calls > 4), "{forgotten:?}");
    switch.now = switch.now + Duration::from_secs(11);
    while switch.ofproto.go_on(switch.now, &mut switch.out) {}
    assert_eq!(switch.ofproto.recirc.len(), 1);
    assert_eq!(commands(&mut switch), [""; 0]);
}

#[test]
fn packets_reach_controllers_with_what_the_tables_know() {
    let mut switch = bridge(Config::default());
    let flow =
        "priority=9,cookie=0xabc,actions=load:5->NXM_NX_REG1[],controller(max_len=60,id=3),2";
    switch.send(FlowModCommand::Add, flow).unwrap();
    revalidate(&mut switch);
    switch.upcall(1, THERE, UpcallKind::Miss);
    let to = switch.out.commands.iter().find_map(|(_, command)| {
        command.to_put().map(|put| match &put.actions[..] {
            [Action::Controller(to), Action::Output(PortNo(2))] => *to,
            other => panic!("{other:?}"),
        })
    });
    switch.upcall(1, THERE, UpcallKind::Controller(to.unwrap()));
    match &switch.ofproto.take_events()[..] {
        [Event::PacketIn { bridge, packet_in, controller_id: 3, is_miss: false }] => {
            assert_eq!(*bridge, switch.id);
            assert_eq!((packet_in.cookie, packet_in.reason), (0xabc, 1));
            assert_eq!(usize::from(packet_in.total_len), packet_in.data.len());
            let expect = Match::any().with(Field::InPort, 1).with(Field::Reg1, 5);
            assert_eq!(packet_in.metadata, expect);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn packet_outs_do_what_they_say() {
    let mut switch = bridge(Config::default());
    let packet = |actions: &str, in_port: OfPort, data: Vec<u8>| PacketOut {
        buffer_id: None,
        metadata: Match::any().with(Field::InPort, in_port.0.into()),
        actions: openflow::text::parse_actions(actions, &|_| None).unwrap(),
        data,
    };
    let bytes = wire::text::parse(THERE).unwrap();
    let cases = [
        ("output:1,output:2", OfPort::NONE, "execute 1,2"),
        ("resubmit(,0)", OfPort(1), "execute 2,3"),
        ("TABLE", OfPort::CONTROLLER, "execute 1,2,3"),
        ("IN_PORT", OfPort(3), "execute 3"),
        ("output:3", OfPort(3), ""),
    ];
    for (actions, in_port, expect) in cases {
        let out = packet(actions, in_port, bytes.clone());
        switch.ofproto.packet_out(switch.id, &out, switch.now, &mut switch.out).unwrap();
        assert_eq!(commands(&mut switch).join(" "), expect, "{actions}");
    }
    let mut refuse = |out: PacketOut| {
        let refused = switch.ofproto.packet_out(switch.id, &out, switch.now, &mut switch.out);
        refused.unwrap_err().code
    };
    use openflow::ErrorCode;
    assert_eq!(refuse(packet("drop", OfPort::FLOOD, bytes)), ErrorCode::BadPort);
    assert_eq!(refuse(packet("drop", OfPort(1), vec![0; 13])), ErrorCode::BadPacket);
}

/// `other_config:max-revalidator` sets how often statistics are requested.
#[test]
fn workers_are_asked_as_often_as_is_configured() {
    for (max_revalidator_ms, max_idle_ms, every_ms) in
        [(1000, 10_000, 1000), (3000, 10_000, 3000), (3000, 500, 500)]
    {
        let config = Config { max_revalidator_ms, max_idle_ms, ..Config::default() };
        let mut switch = bridge(config);
        assert_eq!(tick_after(&mut switch, 1), ["collect"]);
        for _ in 0..3 {
            dump(&mut switch, &[]);
            assert_eq!(tick_after(&mut switch, every_ms - 1), [""; 0], "{every_ms}");
            assert_eq!(tick_after(&mut switch, 1), ["collect"], "{every_ms}");
        }
    }
}

#[test]
fn dumps_read_as_the_tools_expect() {
    let mut switch = bridge(Config::default());
    miss(&mut switch, 1, THERE);
    let short = |switch: &TestBridge, verbose| {
        let flow = switch.ofproto.megaflows().remove(0);
        let options = DumpOptions { verbose, ..DumpOptions::default() };
        format_megaflow(&flow, switch.now + Duration::from_millis(60), options)
    };
    assert_eq!(
        short(&switch, false),
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),\
         eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(frag=no), \
         packets:0, bytes:0, used:never, actions:2,3"
    );
    dump(&mut switch, &[(1, 2)]);
    assert_eq!(
        short(&switch, true),
        "ufid:9e3779b9-7f4a-7c15-0000-000000000001, skb_priority(0/0),skb_mark(0/0),\
         ct_state(0/0),ct_zone(0/0),ct_mark(0/0),ct_label(0/0),recirc_id(0),dp_hash(0/0),\
         in_port(1),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),\
         eth_type(0x0800),ipv4(src=10.0.0.1/0.0.0.0,dst=10.0.0.2/0.0.0.0,proto=6/0,tos=0/0,\
         ttl=64/0,frag=no),tcp(src=1000/0,dst=80/0),tcp_flags(0/0), packets:2, bytes:200, \
         used:0.060s, flags:S., dp:ovs, actions:2,3, dp-extra-info:miniflow_bits(5,0)"
    );
    let flow = switch.ofproto.megaflows().remove(0);
    let text =
        crate::text::format_flow(&flow.key, flow.matching.mask(), true, PortNames::default());
    let (key, mask) = parse_flow(&text, &|_| None).unwrap();
    // The text has no TCP flags outside the mask.
    let mut expect = flow.key.clone();
    expect.set_tcp_flags(0);
    assert_eq!(key, expect);
    assert_eq!(Match::new(&key, &mask).key(), flow.matching.key());
}

#[test]
fn without_masks_each_key_has_a_megaflow_of_its_own() {
    let mut switch = bridge(Config::default());
    assert_eq!(miss(&mut switch, 1, THERE), ["put 1 2,3", "execute 2,3"]);
    let exact = crate::Features { wildcards: false, ..crate::Features::default() };
    switch.ofproto.set_features(exact, switch.now, &mut switch.out);
    assert_eq!(commands(&mut switch), ["delete 1"]);
    for (port, expect) in [(1000, "put 1' 2,3"), (1001, "put 2' 2,3")] {
        let packet = format!("10.0.0.1:{port}>10.0.0.2:80 S");
        assert_eq!(miss(&mut switch, 1, &packet), [expect, "execute 2,3"]);
        assert_eq!(miss(&mut switch, 1, &packet), ["execute 2,3"]);
    }
    switch.ofproto.set_features(crate::Features::default(), switch.now, &mut switch.out);
    assert_eq!(commands(&mut switch).len(), 2);
    assert_eq!(miss(&mut switch, 1, THERE).len(), 2);
    assert_eq!(miss(&mut switch, 1, "10.0.0.1:1001>10.0.0.2:80 S"), ["execute 2,3"]);
}

#[test]
fn collecting_and_expiring_can_be_slowed_down_and_turned_off() {
    let check = |stats_interval_ms, expires, expect: [usize; 2]| {
        let config = Config { stats_interval_ms, expires, max_idle_ms: 5000, ..Config::default() };
        let mut switch = bridge(config);
        miss(&mut switch, 1, THERE);
        let mut collected = 0;
        for _ in 0..40 {
            let asked = tick_after(&mut switch, 500).contains(&"collect".to_owned());
            collected += usize::from(asked);
            if asked {
                dump(&mut switch, &[]);
            }
        }
        assert_eq!([collected, switch.ofproto.megaflow_counters().current], expect);
    };
    check(None, true, [20, 0]);
    check(Some(5000), true, [4, 0]);
    check(Some(1000), false, [20, 1]);
    check(Some(0), true, [0, 1]);
}

#[test]
fn while_paused_nothing_is_revalidated() {
    let mut switch = bridge(Config::default());
    miss(&mut switch, 1, THERE);
    revalidate(&mut switch);
    switch.ofproto.pause_upkeep(true);
    switch.send(FlowModCommand::Add, "priority=9,ip,actions=2").unwrap();
    assert!(!switch.ofproto.go_on(switch.now, &mut switch.out));
    assert_eq!(tick_after(&mut switch, 5000), [""; 0]);
    switch.ofproto.pause_upkeep(false);
    while switch.ofproto.go_on(switch.now, &mut switch.out) {}
    assert_eq!(commands(&mut switch), ["put 1 2"]);
}

#[test]
fn packets_for_a_controller_say_what_sent_them() {
    use openflow::message::reason;
    let mut switch = bridge(Config::default());
    let bytes = wire::text::parse(THERE).unwrap();
    let mut sent = |flow: &str, actions: &str| {
        switch.send(FlowModCommand::Delete, "actions=drop").unwrap();
        switch.send(FlowModCommand::Add, flow).unwrap();
        let packet_out = PacketOut {
            buffer_id: None,
            metadata: Match::any().with(Field::InPort, 1),
            actions: openflow::text::parse_actions(actions, &|_| None).unwrap(),
            data: bytes.clone(),
        };
        let TestBridge { ofproto, id, now, out } = &mut switch;
        ofproto.packet_out(*id, &packet_out, *now, out).unwrap();
        ofproto.upcall(*now, upcall_of(&bytes), out);
        let actions = out.commands.drain(..).filter_map(|(_, command)| match command {
            FlowCommand::Execute(execute) => Some(execute.actions),
            _ => None,
        });
        let reasons = actions.flat_map(|actions| {
            let reason = |action: &Action| match action {
                Action::Controller(to) => Some(to.reason),
                _ => None,
            };
            actions.iter().filter_map(reason).collect::<Vec<_>>()
        });
        reasons.collect::<Vec<_>>()
    };
    // The flow of the packet-out, and that of a missing packet.
    let flow = "priority=1,actions=controller";
    assert_eq!(sent(flow, "controller"), [reason::PACKET_OUT, reason::ACTION]);
    let flow = "priority=0,actions=controller";
    assert_eq!(sent(flow, "output:2"), [reason::EXPLICIT_MISS]);
    let flow = "priority=0,ip,actions=write_actions(output:controller)";
    assert_eq!(sent(flow, "output:2"), [reason::ACTION_SET]);
}

/// An upcall for a packet that missed at port 1.
fn upcall_of(bytes: &[u8]) -> Upcall {
    let frame = Frame::parse(Packet::from_bytes(bytes), PortNo(1)).unwrap();
    let (packet, key) = (frame.packet, Box::new(frame.key));
    let (worker, received, kind) = (WorkerId(0), Instant::from_millis(100_000), UpcallKind::Miss);
    Upcall { worker, kind, packet, key, received, queued: received, trace: None }
}

#[test]
fn flows_put_by_hand_stay_only_where_the_tables_say_the_same() {
    let mut switch = bridge(Config { max_revalidator_ms: 500, ..Config::default() });
    switch.send(FlowModCommand::Delete, "").unwrap();
    switch.send(FlowModCommand::Add, "in_port=1,udp,actions=output:2").unwrap();
    assert_eq!(revalidate(&mut switch), [""; 0]);
    let mut put = |text: &str, to: u32| {
        let (key, mask) = parse_megaflow(text, &|_| None).unwrap();
        let actions = Arc::from([Action::Output(PortNo(to))]);
        let (now, out) = (switch.now, &mut switch.out);
        switch.ofproto.put_megaflow(WorkerId(0), (&key, &mask), &actions, now, out);
    };
    put("recirc_id(0),in_port(1),eth_type(0x0800),ipv4(proto=17,frag=no)", 3);
    // Its mask is narrower than its translation's.
    put("recirc_id(0),in_port(1)", 3);
    put("recirc_id(0),in_port(2)", 3);
    assert_eq!(commands(&mut switch), ["put 1 3", "put 2 3", "put 3 3"]);
    let collects = |it: &String| it == "collect";
    let mut after = |ms| {
        let mut commands = tick_after(&mut switch, ms);
        commands.extend(revalidate(&mut switch));
        commands.retain(|it| !collects(it));
        commands
    };
    assert_eq!(after(499), [""; 0]);
    assert_eq!(after(1), ["put 1 2", "delete 2", "delete 3"]);
    let id = switch.ofproto.megaflows()[0].id;
    let (actions, now) = (Arc::from([Action::Output(PortNo(4))]), switch.now);
    switch.ofproto.set_megaflow_actions(id, &actions, now, &mut switch.out);
    let mut commands = commands(&mut switch);
    commands.extend(tick_after(&mut switch, 500));
    commands.extend(revalidate(&mut switch));
    commands.retain(|it| !collects(it));
    assert_eq!(commands, ["put 1 4", "put 1 2"]);
}
