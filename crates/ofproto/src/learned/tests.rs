use super::*;
use crate::test_bridge::TestBridge;
use base::WorkerId;
use flow::{FlowCommand, FlowDump, FlowId, UpcallKind};
use openflow::message::{FlowModCommand, FlowStatsRequest};
use openflow::text;

/// A bridge with ports 1, 2 and 3, and these flows.
fn bridge(flows: &[&str]) -> TestBridge {
    let mut switch = TestBridge::new().with_ports(3);
    flows.iter().for_each(|flow| switch.add(flow));
    switch
}

/// The actions for a packet from the port.
fn packet(switch: &mut TestBridge, port: u32, packet: &str) -> String {
    switch.upcall(port, packet, UpcallKind::Miss);
    let Some((_, FlowCommand::Execute(execute))) = switch.out.commands.pop() else {
        panic!("no packet was sent");
    };
    switch.out.commands.clear();
    crate::text::format_actions(&execute.actions, &execute.key, Default::default())
}

/// Megaflows changed or deleted by revalidation.
fn revalidate(switch: &mut TestBridge) -> Vec<String> {
    switch.revalidate();
    let short = |(_, command)| match command {
        FlowCommand::Put(put) => {
            let key = put.matching.key();
            crate::text::format_actions(&put.actions, key, Default::default())
        }
        FlowCommand::Delete(id) => format!("delete {}", id.0),
        other => format!("{other:?}"),
    };
    switch.out.commands.drain(..).map(short).collect()
}

/// The flows of the table, each with its packet count.
fn table(switch: &TestBridge, table: u8) -> Vec<String> {
    let request = FlowStatsRequest { table: Some(TableId(table)), ..FlowStatsRequest::default() };
    let flows = switch.ofproto.flows(switch.id, &request, switch.now);
    let describe = |it: &openflow::message::FlowStatsEntry| {
        let matching = text::format_match(&it.matching, None);
        let actions = text::format_actions(&it.actions, &it.matching);
        format!("{} {matching} {actions}", it.packets)
    };
    flows.iter().map(describe).collect()
}

/// A packet from address A to B, or back; ports 1000 and 80.
const A_TO_B: &str = "10.0.0.10:1000>10.0.0.11:80 S";
const B_TO_A: &str = "10.0.0.11:80>10.0.0.10:1000 S";
const FIN: &str = "10.0.0.10:1000>10.0.0.11:80 FA";

const MAC_LEARNING: [&str; 2] = [
    "actions=learn(table=1,hard_timeout=10,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],\
     output:NXM_OF_IN_PORT[]),resubmit(,1)",
    "table=1,priority=0,actions=FLOOD",
];

#[test]
fn a_learned_flow_carries_packets_until_it_is_no_longer_refreshed() {
    let mut switch = bridge(&MAC_LEARNING);
    assert_eq!(packet(&mut switch, 1, A_TO_B), "2,3");
    assert_eq!(packet(&mut switch, 2, B_TO_A), "1");
    // The first megaflow still learns, and sends to B's present port.
    assert_eq!(revalidate(&mut switch), ["2"]);
    let learned = |a: u64, b: u64, all: u64| {
        [
            format!("{a} dl_dst=02:00:00:00:00:0a output:1"),
            format!("{b} dl_dst=02:00:00:00:00:0b output:2"),
            format!("{all}  FLOOD"),
        ]
    };
    assert_eq!(table(&switch, 1), learned(1, 0, 1));
    switch.sleep(6);
    let stats = FlowStats { packets: 2, bytes: 120, used: Some(switch.now), tcp_flags: 0 };
    let (worker, at, flows) = (WorkerId(0), switch.now, vec![(FlowId(1), stats)]);
    let marked = vec![(FlowId(1), FlowStats::default())];
    let dump = FlowDump { worker, at, is_last: true, marked, flows, gone: Vec::new() };
    switch.ofproto.dump(switch.now, dump);
    switch.sleep(6);
    // No packet from B for 12 seconds; the last one from A was 6 seconds ago.
    let [of_a, _, all] = learned(1, 0, 1);
    assert_eq!(table(&switch, 1), [of_a, all]);
    switch.sleep(6);
    assert_eq!(table(&switch, 1), ["1  FLOOD"]);
}

#[test]
fn the_packet_that_teaches_a_flow_does_not_see_it() {
    let flows = [
        "actions=learn(table=1,priority=9,dl_type=0x800,nw_proto=6,NXM_OF_IP_SRC[],\
         load:7->NXM_NX_REG1[],output:NXM_OF_IN_PORT[]),load:2->NXM_NX_REG0[],\
         learn(table=1,priority=8,reg0=2,output:NXM_NX_REG0[0..15]),resubmit(3,1)",
        "table=1,priority=7,actions=drop",
    ];
    let mut switch = bridge(&flows);
    assert_eq!(packet(&mut switch, 1, A_TO_B), "drop");
    let flow = "tcp,nw_src=10.0.0.10 load:0x7->NXM_NX_REG1[],output:1";
    let counted = |of_flow: u64, of_drop: u64| {
        [format!("{of_flow} {flow}"), "0 reg0=0x2 output:2".into(), format!("{of_drop}  drop")]
    };
    assert_eq!(table(&switch, 1), counted(0, 1));
    // The next one does: the better one of the two sends it to where it came from, as seen from port 3.
    assert_eq!(packet(&mut switch, 1, A_TO_B), "drop");
    assert_eq!(table(&switch, 1), counted(1, 1));
    // A lookup before the flow was learned does not find it.
    let flow = "actions=learn(priority=40000,table=0,NXM_OF_ETH_SRC[],output:NXM_NX_REG5[0..15]),2";
    let mut switch = bridge(&[flow]);
    assert_eq!(packet(&mut switch, 1, A_TO_B), "2");
    assert_eq!(revalidate(&mut switch), ["drop"]);
}

#[test]
fn a_limit_is_kept_and_told() {
    let flows = [
        "actions=learn(table=1,cookie=5,limit=1,result_dst=reg0[0],NXM_OF_ETH_SRC[]),resubmit(,2)",
        "table=2,reg0=1,actions=2",
        "table=2,reg0=0,actions=3",
    ];
    let mut switch = bridge(&flows);
    assert_eq!(packet(&mut switch, 1, A_TO_B), "2");
    assert_eq!(revalidate(&mut switch), [""; 0]);
    assert_eq!(packet(&mut switch, 1, B_TO_A), "3");
    assert_eq!(table(&switch, 1), ["0 dl_src=02:00:00:00:00:0a drop"]);
    // When there is room again, the next packet of each address must miss.
    switch.send(FlowModCommand::Delete, "table=1,cookie=5/-1").unwrap();
    assert_eq!(revalidate(&mut switch), ["delete 1", "delete 2"]);
    assert_eq!(packet(&mut switch, 1, B_TO_A), "2");
}

#[test]
fn learned_flows_go_with_the_last_flow_that_teaches_them() {
    let flows = [
        "reg0=1,actions=learn(delete_learned,cookie=0x123)",
        "reg0=2,actions=learn(delete_learned,cookie=0x123)",
        "cookie=0x123,table=1,reg0=3,actions=learn(table=2,delete_learned,cookie=0x234)",
        "cookie=0x234,table=2,reg0=4,actions=drop",
        "cookie=0x123,table=2,reg0=5,actions=drop",
    ];
    let mut switch = bridge(&flows);
    let count = |switch: &TestBridge| [0, 1, 2].map(|number| table(switch, number).len());
    switch.send(FlowModCommand::DeleteStrict, "reg0=1").unwrap();
    assert_eq!(count(&switch), [1, 1, 2]);
    switch
        .send(FlowModCommand::Modify, "reg0=2,actions=1,learn(delete_learned,cookie=0x123)")
        .unwrap();
    assert_eq!(count(&switch), [1, 1, 2]);
    // After a rollback, no flow is gone.
    let transaction = switch.ofproto.begin();
    switch.send(FlowModCommand::Delete, "table=0").unwrap();
    assert_eq!(count(&switch), [0, 0, 1]);
    switch.ofproto.rollback(transaction);
    assert_eq!(count(&switch), [1, 1, 2]);
    // With the last teacher its flows are deleted, and those that these learned.
    switch.send(FlowModCommand::Delete, "table=0").unwrap();
    assert_eq!(count(&switch), [0, 0, 1]);
}

#[test]
fn a_fin_shortens_the_timeouts_of_its_flow() {
    let flow = "tcp,idle_timeout=60,actions=fin_timeout(idle_timeout=5,hard_timeout=70),2";
    let mut switch = bridge(&[flow]);
    packet(&mut switch, 1, A_TO_B);
    switch.sleep(50);
    assert_eq!(table(&switch, 0).len(), 1);
    packet(&mut switch, 1, FIN);
    switch.sleep(4);
    assert_eq!(table(&switch, 0).len(), 1);
    switch.sleep(1);
    assert_eq!(table(&switch, 0).len(), 0);
}

/// A flow on headers, learned from a packet without an Ethernet header, matches frames: neither the packet
/// itself nor later ones match it.
#[test]
fn a_packet_without_an_ethernet_header_teaches_flows_of_frames() {
    let flow = "packet_type=(1,0x800),actions=learn(table=1,eth_type=0x800,\
                output:NXM_OF_IN_PORT[]),resubmit(,1)";
    let mut switch = bridge(&[flow]);
    let mut key =
        text::parse_match("in_port=3,packet_type=(1,0x800)", &|_| None).unwrap().key().clone();
    key.set_eth_type(0x800);
    let request = crate::TraceRequest::new(switch.id, key);
    for _ in 0..2 {
        let trace = switch.ofproto.trace(switch.now, &request, &mut crate::Outbox::default());
        assert!(trace.contains("Datapath actions: drop"), "{trace}");
    }
}
