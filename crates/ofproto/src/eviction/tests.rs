use crate::{BridgeConfig, BridgeId, Config, Event, FailMode, Ofproto, TableConfig};
use base::{Instant, MacAddr};
use openflow::ErrorCode;
use openflow::message::{FlowModCommand, FlowStatsRequest, RemovedReason};
use openflow::text::{self, NamedBits};
use std::collections::BTreeMap;
use std::time::Duration;

struct Switch {
    ofproto: Ofproto,
    id: BridgeId,
    now: Instant,
}

impl Switch {
    fn new(table: TableConfig) -> Self {
        let mut ofproto = Ofproto::new(Config::default());
        let now = Instant::from_millis(1_000_000);
        let id = ofproto.add_bridge(config(table), now);
        Switch { ofproto, id, now }
    }

    fn configure(&mut self, table: TableConfig) {
        self.ofproto.set_bridge(self.id, config(table), self.now);
    }

    fn send(&mut self, command: FlowModCommand, flow: &str) -> Result<(), ErrorCode> {
        let flow_mod = text::parse_flow(flow, command, &|_| None).unwrap();
        self.ofproto.flow_mod(self.id, &flow_mod, self.now).map_err(|error| error.code)
    }

    fn add(&mut self, flow: &str) -> Result<(), ErrorCode> {
        self.send(FlowModCommand::Add, &format!("{flow},actions=drop"))
    }

    fn add_all(&mut self, flows: &[&str]) {
        flows.iter().for_each(|flow| self.add(flow).unwrap());
    }

    fn sleep(&mut self, s: u64) {
        self.now = self.now + Duration::from_secs(s);
    }

    /// The ports of table 0's flows.
    fn ports(&self) -> Vec<u16> {
        let request = FlowStatsRequest::default();
        let flows = self.ofproto.flows(self.id, &request, self.now);
        let mut ports: Vec<u16> =
            flows.iter().map(|flow| flow.matching.key().in_port_raw() as u16).collect();
        ports.sort_unstable();
        ports
    }
}

fn config(table: TableConfig) -> BridgeConfig {
    BridgeConfig {
        fail_mode: FailMode::Secure,
        tables: BTreeMap::from([(0, table)]),
        ..BridgeConfig::new("br0", MacAddr::ZERO)
    }
}

fn limited(flow_limit: u32, evicts: bool) -> TableConfig {
    TableConfig { flow_limit: Some(flow_limit), evicts, ..TableConfig::default() }
}

#[test]
fn a_full_table_refuses_flows_but_not_changes() {
    let mut switch = Switch::new(limited(2, false));
    switch.add_all(&["in_port=1,idle_timeout=5", "in_port=2", "table=1,in_port=9"]);
    assert_eq!(switch.add("in_port=3"), Err(ErrorCode::TableFull));
    let modify = switch.send(FlowModCommand::Modify, "in_port=3,actions=drop");
    assert_eq!(modify, Err(ErrorCode::TableFull));
    switch.add_all(&["in_port=2,idle_timeout=3", "table=1,in_port=8"]);
    assert_eq!(switch.ports(), [1, 2, 8, 9]);
    // A smaller limit deletes nothing where no flow gives way, and a larger one makes room.
    switch.configure(limited(1, false));
    assert_eq!(switch.ports(), [1, 2, 8, 9]);
    switch.configure(limited(3, false));
    switch.add_all(&["in_port=3"]);
    assert_eq!(switch.add("in_port=4"), Err(ErrorCode::TableFull));
}

#[test]
fn the_least_important_goes_then_what_times_out_first_then_the_oldest() {
    let mut switch = Switch::new(limited(6, true));
    switch.add_all(&[
        "in_port=1,importance=2,hard_timeout=10",
        "in_port=2,importance=1,idle_timeout=50",
        "in_port=3,importance=1,idle_timeout=90,hard_timeout=40",
        "in_port=4,importance=0,idle_timeout=60000",
        "in_port=5,importance=2,hard_timeout=10",
        "in_port=6",
    ]);
    for (new, left) in [
        (11, [1, 2, 3, 5, 6, 11].as_slice()),
        (12, &[1, 2, 5, 6, 11, 12]),
        (13, &[1, 5, 6, 11, 12, 13]),
        (14, &[5, 6, 11, 12, 13, 14]),
        (15, &[6, 11, 12, 13, 14, 15]),
    ] {
        switch.add(&format!("in_port={new}")).unwrap();
        assert_eq!(switch.ports(), left);
    }
    // Flows without a timeout stay.
    assert_eq!(switch.add("in_port=16"), Err(ErrorCode::TableFull));
}

#[test]
fn what_was_used_or_modified_lately_stays() {
    let mut switch = Switch::new(limited(3, true));
    let start =
        ["in_port=1,idle_timeout=20", "in_port=2,hard_timeout=22", "in_port=3,idle_timeout=24"];
    switch.add_all(&start);
    switch.sleep(5);
    let matching = text::parse_match("in_port=1", &|_| None).unwrap();
    let bridge = switch.ofproto.bridge(switch.id).unwrap();
    let used = bridge.tables.find(base::TableId(0), &matching, 0x8000).unwrap();
    switch.ofproto.rules.get(used).unwrap().carried.saw(switch.now);
    switch.send(FlowModCommand::Modify, "in_port=2,actions=output:1").unwrap();
    switch.add_all(&["in_port=4,idle_timeout=30"]);
    assert_eq!(switch.ports(), [1, 2, 4]);
    switch.add_all(&["in_port=5"]);
    assert_eq!(switch.ports(), [2, 4, 5]);
}

#[test]
fn the_largest_group_gives_way_first() {
    let groups = vec![NamedBits::parse("NXM_OF_IN_PORT[0..3]").unwrap()];
    let fair = TableConfig { groups, ..limited(4, true) };
    let mut switch = Switch::new(fair);
    // 17 and 33 are of one group with 1.
    let start =
        ["in_port=2,idle_timeout=1", "in_port=1,idle_timeout=9", "in_port=17,idle_timeout=8"];
    switch.add_all(&start);
    switch.add_all(&["in_port=33,idle_timeout=7", "in_port=3"]);
    assert_eq!(switch.ports(), [1, 2, 3, 17]);
    // Without groups time alone decides; a smaller limit is kept to at once.
    switch.configure(limited(4, true));
    switch.add_all(&["in_port=4"]);
    assert_eq!(switch.ports(), [1, 3, 4, 17]);
    switch.configure(limited(3, true));
    assert_eq!(switch.ports(), [1, 3, 4]);
    switch.configure(limited(1, true));
    assert_eq!(switch.ports(), [3, 4], "what has no timeout stays beyond the limit");
}

#[test]
fn controllers_hear_of_it_and_a_transaction_takes_it_back() {
    let mut switch = Switch::new(limited(1, true));
    switch.add_all(&["in_port=1,idle_timeout=5,send_flow_rem"]);
    let transaction = switch.ofproto.begin();
    switch.add_all(&["in_port=2,idle_timeout=5"]);
    switch.ofproto.rollback(transaction);
    assert_eq!((switch.ports(), switch.ofproto.take_events()), (vec![1], vec![]));
    switch.add_all(&["in_port=2"]);
    let events = switch.ofproto.take_events();
    assert!(
        matches!(events[..], [Event::FlowRemoved { reason: RemovedReason::Eviction, .. }]),
        "{events:?}"
    );
    assert_eq!(switch.ports(), [2]);
}
