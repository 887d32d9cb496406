//! Work is done in bounded steps, and no source starves.

use super::*;
use crate::work::FLOWS_AT_ONCE;

#[test]
fn flows_have_their_turn_though_snapshots_are_published_faster_than_flows_are_translated() {
    const FLOWS: u16 = 900;
    let mut switch = Switch::new(false);
    switch.ofproto.set_flow_limit(10_000);
    let of_source = "table=0,priority=1,udp,in_port=1,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:2";
    switch.happen(&add(of_source));
    for port in 1..=FLOWS {
        switch.miss(1, &format!("10.0.0.1:{port}>10.0.0.2:80 udp"), false);
    }
    switch.revalidate();
    switch.ofproto.set_revalidates(false);
    let mut revalidator = switch.ofproto.revalidator();
    switch.happen(&add(&of_source.replace("output:2", "output:3")));
    // Each step is carried out after another snapshot was published, so all its flows are outdated.
    let is_done = |switch: &Switch| {
        let is_new = |flow: &crate::DatapathFlow| *flow.actions == [Action::Output(PortNo(3))];
        switch.ofproto.megaflows().iter().all(is_new)
    };
    let mut slices = 0;
    while !is_done(&switch) {
        slices += 1;
        assert!(slices <= 16, "flows wait after {slices} slices");
        assert!(revalidator.translate(switch.now));
        switch.happen(&add(&format!("table=9,priority={slices},actions=drop")));
        assert!(revalidator.carry_out(switch.now, |_| ()));
    }
    assert_eq!(switch.ofproto.megaflows().len(), usize::from(FLOWS));
    // It ends when no more snapshots are published.
    let left = (0..64).find(|_| !revalidator.revalidate(switch.now, |_| ()));
    assert!(left.is_some() && !switch.ofproto.needs_revalidation());
    assert_eq!(switch.check(), Ok(()));
}

#[test]
fn many_links_are_looked_through_a_part_at_a_time() {
    const MANY: u16 = 5000;
    let mut switch = Switch::new(false);
    switch.ofproto.set_flow_limit(10_000);
    for port in 1..=MANY {
        let to = "actions=mod_dl_dst:02:00:00:00:00:05,resubmit(,1)";
        switch.happen(&add(&format!("table=0,priority=2,udp,in_port=1,udp_dst={port},{to}")));
    }
    switch.happen(&add("table=1,priority=1,actions=output:2"));
    for port in 1..=MANY {
        switch.miss(1, &format!("10.0.0.1:9>10.0.0.2:{port} udp"), false);
    }
    switch.revalidate();
    let all = u64::from(MANY);
    assert_eq!(switch.ofproto.megaflow_counters().current as u64, all);
    for (flow, expected) in [
        // After the rewrite headers are unknown; registers are known.
        ("table=1,priority=9,udp,actions=output:3", all),
        ("table=1,priority=9,in_port=2,udp,actions=drop", 0),
        ("table=1,priority=10,in_port=1,actions=output:2", all),
        ("table=1,priority=11,reg1=5,actions=drop", 0),
        ("table=1,priority=10,in_port=1,actions=output:3", all),
    ] {
        let before = switch.ofproto.megaflow_counters().revalidated;
        switch.ofproto.set_revalidates(false);
        switch.happen(&add(flow));
        assert_eq!(switch.ofproto.megaflows_mut().work.waiting().0, 0, "{flow}");
        switch.ofproto.set_revalidates(true);
        switch.revalidate();
        let cost = switch.ofproto.megaflow_counters().revalidated - before;
        assert_eq!(cost, expected, "{flow}");
    }
    assert_eq!(switch.check(), Ok(()));
}

#[test]
fn searches_do_not_pile_up_while_they_last_longer_than_changes_come() {
    const MANY: u16 = 1200;
    let mut switch = Switch::new(false);
    switch.ofproto.set_flow_limit(10_000);
    let of_source = "table=0,priority=1,udp,in_port=1,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:2";
    switch.happen(&add(of_source));
    for port in 1..=MANY {
        switch.miss(1, &format!("10.0.0.1:{port}>10.0.0.2:80 udp"), false);
    }
    switch.revalidate();
    switch.ofproto.set_revalidates(false);
    for port in 1..=300 {
        switch.happen(&add(&format!("table=0,priority=9,udp,udp_src={port},actions=drop")));
    }
    let (_, searches) = switch.ofproto.megaflows_mut().work.waiting();
    assert!(searches <= 64, "{searches} searches");
    switch.ofproto.set_revalidates(true);
    switch.revalidate();
    assert_eq!(switch.check(), Ok(()));
    let dropped = |flow: &crate::DatapathFlow| matches!(*flow.actions, [] | [Action::Drop(_)]);
    assert_eq!(switch.ofproto.megaflows().iter().filter(|it| dropped(it)).count(), 300);
}

#[test]
fn flows_with_few_packets_are_deleted_where_revalidation_lasts_long() {
    const FLOWS: u64 = 900;
    for min_revalidate_pps in [0, 5] {
        let mut switch = Switch::new(false);
        let (flow_limit, config) = (10_000, switch.ofproto.config().clone());
        switch.ofproto.set_config(Config { flow_limit, min_revalidate_pps, ..config });
        let of_source = "table=0,priority=1,udp,in_port=1,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],output:2";
        switch.happen(&add(of_source));
        for port in 1..=FLOWS {
            switch.miss(1, &format!("10.0.0.1:{port}>10.0.0.2:80 udp"), false);
        }
        switch.revalidate();
        // A third has no packets yet, a third had the last one 300 ms ago, and a third 100 ms ago.
        switch.now = switch.now + Duration::from_secs(1);
        let ago = |ms: u64| Some(Instant::from_nanos(switch.now.as_nanos() - ms * 1_000_000));
        let used = |n: u64| match n % 3 {
            0 => None,
            1 => ago(300),
            _ => ago(100),
        };
        let told = (0..FLOWS).filter_map(|n| used(n).map(|used| (n, Some(used))));
        let stats = |used| flow::FlowStats { packets: 9, bytes: 900, used, tcp_flags: 0 };
        let ids: Vec<_> = switch.ofproto.megaflows().iter().map(|flow| flow.id).collect();
        let flows = told.map(|(n, used)| (ids[n as usize], stats(used))).collect();
        let (worker, at, gone) = (WorkerId(0), switch.now, Vec::new());
        switch.ofproto.dump(
            at,
            flow::FlowDump { worker, at, is_last: true, marked: Vec::new(), flows, gone },
        );
        // The first step is quick; the others come after half of `max-revalidator`.
        switch.ofproto.set_revalidates(false);
        switch.happen(&add(&of_source.replace("output:2", "output:3")));
        let mut revalidator = switch.ofproto.revalidator();
        assert!(revalidator.revalidate(switch.now, |_| ()));
        let counters = switch.ofproto.megaflow_counters();
        assert_eq!((counters.current, counters.changed), (900, FLOWS_AT_ONCE as u64));
        switch.now = switch.now + Duration::from_millis(600);
        while revalidator.revalidate(switch.now, |_| ()) {}
        let counters = switch.ofproto.megaflow_counters();
        match min_revalidate_pps {
            0 => assert_eq!((counters.current, counters.changed), (900, 900)),
            _ => {
                let deleted = 900 - counters.current as u64;
                assert!((200..=300).contains(&deleted), "{deleted} are deleted");
                assert_eq!(counters.changed, 900 - deleted);
            }
        }
        assert!(!switch.ofproto.needs_revalidation());
        assert_eq!(switch.check(), Ok(()));
    }
}
