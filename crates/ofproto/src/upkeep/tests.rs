//! What time brings costs what there is to do: each part visits a bounded number of megaflows, and none of
//! those that had nothing to do is visited for a dump.

use super::*;
use crate::test_bridge::TestBridge;
use crate::{BridgeConfig, Config};
use base::MacAddr;
use flow::{FlowDump, FlowStats, UpcallKind};

/// A bridge with exact megaflows of one worker, as many as are asked for.
fn bridge(flows: u64) -> TestBridge {
    let config = Config { flow_limit: 1_000_000, ..Config::default() };
    let mut switch = TestBridge::configured(config, BridgeConfig::new("br0", MacAddr::ZERO));
    switch = switch.with_ports(3);
    switch.add("priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],2");
    for n in 1..=flows {
        switch.upcall(1, &format!("10.0.0.1:{n}>10.0.0.2:80 udp"), UpcallKind::Miss);
    }
    switch.revalidate();
    switch.out.commands.clear();
    assert_eq!(switch.ofproto.megaflow_counters().current as u64, flows);
    switch
}

/// A dump in which the worker tells of these packets of the first flows.
fn dump(switch: &mut TestBridge, told: u64, packets: u64) {
    let (worker, at) = (WorkerId(0), switch.now);
    switch.ofproto.collect(&mut switch.out);
    let stats = FlowStats { packets, bytes: 60 * packets, used: Some(at), tcp_flags: 0 };
    let flows = (1..=told).map(|id| (FlowId(id), stats)).collect();
    switch.ofproto.dump(
        at,
        FlowDump { worker, at, is_last: true, marked: Vec::new(), flows, gone: Vec::new() },
    );
}

/// How often a megaflow's place was looked at since the last call, also of workers that are no more.
fn take_visits(switch: &mut TestBridge) -> u64 {
    let replaced: u64 = switch.ofproto.upkeep.replaced().map(|it| it.take_visits()).sum();
    replaced + switch.ofproto.megaflows_mut().installed.take_visits()
}

/// Defect 3 (ARCHITECTURE.md). The worker's side is `a_dump_goes_through_flows_that_were_hit_and_no_idle_one`.
#[test]
fn a_dump_visits_the_flows_that_it_tells_of_and_no_idle_one() {
    const TOLD: u64 = 10;
    let visits = [500, 5000].map(|flows| {
        let mut switch = bridge(flows);
        take_visits(&mut switch);
        let mut visits = Vec::new();
        for second in 1..=3 {
            switch.now = switch.now + Duration::from_secs(1);
            dump(&mut switch, TOLD, second);
            switch.ofproto.tick(switch.now, &mut switch.out);
            while switch.ofproto.go_on(switch.now, &mut switch.out) {}
            visits.push(take_visits(&mut switch));
        }
        visits
    });
    assert_eq!(visits[0], visits[1], "ten times the flows cost more");
    assert!(visits[0].iter().all(|visits| *visits <= 10 * TOLD), "{visits:?}");
}

/// Something that concerns all flows.
type Job = (&'static str, fn(&mut TestBridge));

/// Defect 6 (ARCHITECTURE.md). The worker's side is
/// `a_dump_of_many_flows_comes_in_pages_and_counts_every_packet_once` and
/// `an_iteration_executes_a_bounded_number_of_flow_commands`.
#[test]
fn each_part_of_what_concerns_all_flows_visits_a_bounded_number() {
    const FLOWS: u64 = 10_000;
    /// Besides passing slots: to delete a flow visits its neighbours, and the keys of two small blocks are moved
    /// into one now and then.
    const VISITS: u64 = SLOTS_AT_ONCE as u64 + 30 * FLOWS_AT_ONCE as u64;
    let jobs: [Job; 5] = [
        ("flows that were idle for too long are deleted", |switch| {
            switch.now = switch.now + Duration::from_secs(20);
            dump(switch, 0, 0);
        }),
        ("of too many flows those go that are idle", |switch| {
            switch.ofproto.set_flow_limit(10);
            switch.now = switch.now + Duration::from_secs(1);
            dump(switch, 0, 0);
        }),
        ("the idle time is shorter", |switch| {
            switch.now = switch.now + Duration::from_secs(1);
            dump(switch, 0, 0);
            let config = Config { max_idle_ms: 500, ..switch.ofproto.config().clone() };
            switch.ofproto.set_config(config);
        }),
        ("all are deleted", |switch| switch.ofproto.delete_megaflows(switch.now, &mut switch.out)),
        ("the workers are others", |switch| {
            for workers in [0, 1] {
                let config = Config { workers, ..switch.ofproto.config().clone() };
                switch.ofproto.set_config(config);
            }
        }),
    ];
    for (name, begin) in jobs {
        let mut switch = bridge(FLOWS);
        take_visits(&mut switch);
        begin(&mut switch);
        let (mut parts, mut most, mut deleted) = (0, 0, 0);
        loop {
            most = most.max(take_visits(&mut switch));
            deleted = deleted.max(switch.out.commands.len());
            switch.out.commands.clear();
            parts += 1;
            if !switch.ofproto.go_on(switch.now, &mut switch.out) {
                break;
            }
        }
        most = most.max(take_visits(&mut switch));
        assert!(most <= VISITS, "{name}: {most} visits at once");
        // Two kinds of work may be done in one part, of which each deletes so many.
        assert!(deleted <= 2 * FLOWS_AT_ONCE + 1, "{name}: {deleted} at once");
        assert!(parts as u64 >= FLOWS / (2 * FLOWS_AT_ONCE as u64), "{name}: {parts} parts");
        let left = switch.ofproto.megaflow_counters().current;
        assert!(left <= 10, "{name}: {left} are left");
    }
}

/// Defect 6 (ARCHITECTURE.md): deleted flows of which the worker has nothing to tell.
#[test]
fn deleted_flows_are_forgotten_a_part_at_a_time() {
    const FLOWS: u64 = 3000;
    let mut switch = bridge(FLOWS);
    switch.ofproto.delete_megaflows(switch.now, &mut switch.out);
    while switch.ofproto.go_on(switch.now, &mut switch.out) {}
    let dying = |switch: &TestBridge| switch.ofproto.megaflows_mut().installed.dying();
    assert_eq!(dying(&switch), FLOWS as usize, "the worker may still tell of them");
    switch.now = switch.now + Duration::from_secs(1);
    dump(&mut switch, 0, 0);
    let mut counts = vec![dying(&switch)];
    while switch.ofproto.go_on(switch.now, &mut switch.out) {
        counts.push(dying(&switch));
    }
    counts.push(dying(&switch));
    assert!(counts.windows(2).all(|two| two[0] - two[1] <= FLOWS_AT_ONCE), "{counts:?}");
    assert_eq!((counts[0], counts.last()), (FLOWS as usize, Some(&0)));
}
