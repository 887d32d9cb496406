use crate::test_bridge::TestBridge;
use crate::{BridgeConfig, Config, Event, TableConfig};
use openflow::ErrorCode;
use openflow::message::{FlowModCommand, FlowStatsRequest, RemovedReason};
use openflow::text::{self, NamedBits};
use std::collections::BTreeMap;

fn bridge(table: TableConfig) -> TestBridge {
    TestBridge::configured(Config::default(), config(table))
}

fn configure(switch: &mut TestBridge, table: TableConfig) {
    switch.ofproto.set_bridge(switch.id, config(table), switch.now);
}

fn add(switch: &mut TestBridge, flow: &str) -> Result<(), ErrorCode> {
    switch.send(FlowModCommand::Add, &format!("{flow},actions=drop"))
}

fn add_all(switch: &mut TestBridge, flows: &[&str]) {
    flows.iter().for_each(|flow| add(switch, flow).unwrap());
}

/// The in-ports of the flows.
fn ports(switch: &TestBridge) -> Vec<u16> {
    let flows = switch.ofproto.flows(switch.id, &FlowStatsRequest::default(), switch.now);
    let mut ports: Vec<u16> =
        flows.iter().map(|flow| flow.matching.key().in_port_raw() as u16).collect();
    ports.sort_unstable();
    ports
}

fn config(table: TableConfig) -> BridgeConfig {
    BridgeConfig { tables: BTreeMap::from([(0, table)]), ..TestBridge::secure() }
}

fn limited(flow_limit: u32, evicts: bool) -> TableConfig {
    TableConfig { flow_limit: Some(flow_limit), evicts, ..TableConfig::default() }
}

#[test]
fn a_full_table_refuses_flows_but_not_changes() {
    let mut switch = bridge(limited(2, false));
    add_all(&mut switch, &["in_port=1,idle_timeout=5", "in_port=2", "table=1,in_port=9"]);
    assert_eq!(add(&mut switch, "in_port=3"), Err(ErrorCode::TableFull));
    let modify = switch.send(FlowModCommand::Modify, "in_port=3,actions=drop");
    assert_eq!(modify, Err(ErrorCode::TableFull));
    add_all(&mut switch, &["in_port=2,idle_timeout=3", "table=1,in_port=8"]);
    assert_eq!(ports(&switch), [1, 2, 8, 9]);
    // A smaller limit deletes nothing without eviction, and a larger one permits more flows.
    configure(&mut switch, limited(1, false));
    assert_eq!(ports(&switch), [1, 2, 8, 9]);
    configure(&mut switch, limited(3, false));
    add_all(&mut switch, &["in_port=3"]);
    assert_eq!(add(&mut switch, "in_port=4"), Err(ErrorCode::TableFull));
}

#[test]
fn the_least_important_goes_then_what_times_out_first_then_the_oldest() {
    let mut switch = bridge(limited(6, true));
    add_all(
        &mut switch,
        &[
            "in_port=1,importance=2,hard_timeout=10",
            "in_port=2,importance=1,idle_timeout=50",
            "in_port=3,importance=1,idle_timeout=90,hard_timeout=40",
            "in_port=4,importance=0,idle_timeout=60000",
            "in_port=5,importance=2,hard_timeout=10",
            "in_port=6",
        ],
    );
    for (new, left) in [
        (11, [1, 2, 3, 5, 6, 11].as_slice()),
        (12, &[1, 2, 5, 6, 11, 12]),
        (13, &[1, 5, 6, 11, 12, 13]),
        (14, &[5, 6, 11, 12, 13, 14]),
        (15, &[6, 11, 12, 13, 14, 15]),
    ] {
        add(&mut switch, &format!("in_port={new}")).unwrap();
        assert_eq!(ports(&switch), left);
    }
    // Flows without a timeout stay.
    assert_eq!(add(&mut switch, "in_port=16"), Err(ErrorCode::TableFull));
}

#[test]
fn what_was_used_or_modified_lately_stays() {
    let mut switch = bridge(limited(3, true));
    let start =
        ["in_port=1,idle_timeout=20", "in_port=2,hard_timeout=22", "in_port=3,idle_timeout=24"];
    add_all(&mut switch, &start);
    switch.sleep(5);
    let matching = text::parse_match("in_port=1", &|_| None).unwrap();
    let bridge = switch.ofproto.bridge(switch.id).unwrap();
    let used = bridge.tables.find(base::TableId(0), &matching, 0x8000).unwrap();
    switch.ofproto.rules.get(used).unwrap().carried.saw(switch.now);
    switch.send(FlowModCommand::Modify, "in_port=2,actions=output:1").unwrap();
    add_all(&mut switch, &["in_port=4,idle_timeout=30"]);
    assert_eq!(ports(&switch), [1, 2, 4]);
    add_all(&mut switch, &["in_port=5"]);
    assert_eq!(ports(&switch), [2, 4, 5]);
}

#[test]
fn the_largest_group_gives_way_first() {
    let groups = vec![NamedBits::parse("NXM_OF_IN_PORT[0..3]").unwrap()];
    let fair = TableConfig { groups, ..limited(4, true) };
    let mut switch = bridge(fair);
    // 17 and 33 are in one group with 1.
    let start =
        ["in_port=2,idle_timeout=1", "in_port=1,idle_timeout=9", "in_port=17,idle_timeout=8"];
    add_all(&mut switch, &start);
    add_all(&mut switch, &["in_port=33,idle_timeout=7", "in_port=3"]);
    assert_eq!(ports(&switch), [1, 2, 3, 17]);
    // Without groups only time decides; a smaller limit applies at once.
    configure(&mut switch, limited(4, true));
    add_all(&mut switch, &["in_port=4"]);
    assert_eq!(ports(&switch), [1, 3, 4, 17]);
    configure(&mut switch, limited(3, true));
    assert_eq!(ports(&switch), [1, 3, 4]);
    configure(&mut switch, limited(1, true));
    assert_eq!(ports(&switch), [3, 4], "what has no timeout stays beyond the limit");
}

#[test]
fn controllers_hear_of_it_and_a_transaction_takes_it_back() {
    let mut switch = bridge(limited(1, true));
    add_all(&mut switch, &["in_port=1,idle_timeout=5,send_flow_rem"]);
    let transaction = switch.ofproto.begin();
    add_all(&mut switch, &["in_port=2,idle_timeout=5"]);
    switch.ofproto.rollback(transaction);
    assert_eq!((ports(&switch), switch.events()), (vec![1], vec![]));
    add_all(&mut switch, &["in_port=2"]);
    let events = switch.events();
    assert!(
        matches!(events[..], [Event::FlowRemoved { reason: RemovedReason::Eviction, .. }]),
        "{events:?}"
    );
    assert_eq!(ports(&switch), [2]);
}
