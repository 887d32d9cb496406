//! Groups: modification, translation and counters.

use crate::test_bridge::TestBridge;
use crate::{BridgeConfig, Config, Outbox, TraceRequest};
use base::{MacAddr, PortNo, RecircId, WorkerId};
use flow::{Field, FlowKey, FlowStats, Frame, Upcall, UpcallKind};
use openflow::ErrorCode;
use openflow::message::{BucketPlace, FlowModCommand, GROUP_ALL, GroupCommand};
use openflow::text::{format_group, parse_group, parse_match};

const PING: &str = "10.0.0.1>10.0.0.9 icmp-echo";

/// Ports 1 to 4, of which 4 is down.
fn bridge() -> TestBridge {
    let config = BridgeConfig::new("br0", MacAddr::ZERO);
    let mut switch = TestBridge::configured(Config::default(), config).with_ports(3);
    let mut down = TestBridge::port(4);
    down.up = false;
    switch.ofproto.add_port(switch.id, down, switch.now).unwrap();
    switch
}

fn group(switch: &mut TestBridge, command: GroupCommand, text: &str) -> Result<(), ErrorCode> {
    let group_mod = parse_group(text, command, &|_| None).unwrap();
    switch.ofproto.group_mod(switch.id, &group_mod, switch.now).map_err(|error| error.code)
}

fn groups(switch: &TestBridge) -> Vec<String> {
    switch.ofproto.group_descs(switch.id, GROUP_ALL).iter().map(format_group).collect()
}

/// The datapath's actions for a packet.
fn trace(switch: &mut TestBridge, packet: &str) -> String {
    let key = parse_match(packet, &|_| None).unwrap().key().clone();
    let text = switch.ofproto.trace(
        switch.now,
        &TraceRequest::new(switch.id, key),
        &mut Outbox::default(),
    );
    text.rsplit_once("Datapath actions: ").unwrap().1.to_owned()
}

#[test]
fn groups_are_added_changed_and_deleted() {
    use GroupCommand as C;
    let mut switch = bridge();
    let two = "group_id=1,type=all,bucket=bucket_id:0,actions=output:1,\
               bucket=bucket_id:1,actions=output:2";
    let cases: &[(GroupCommand, &str, Result<(), ErrorCode>)] = &[
        (C::Add, two, Ok(())),
        (C::Add, two, Err(ErrorCode::GroupExists)),
        (C::Modify, "group_id=2,type=all", Err(ErrorCode::GroupUnknown)),
        (C::AddOrModify, "group_id=2,type=all", Ok(())),
        (
            C::InsertBucket(BucketPlace::Last),
            "group_id=1,bucket=bucket_id:1,output:3",
            Err(ErrorCode::GroupBucketExists),
        ),
        (
            C::InsertBucket(BucketPlace::Id(9)),
            "group_id=1,bucket=bucket_id:5,output:3",
            Err(ErrorCode::GroupUnknownBucket),
        ),
        (C::InsertBucket(BucketPlace::Id(0)), "group_id=1,bucket=bucket_id:5,output:3", Ok(())),
        (C::InsertBucket(BucketPlace::First), "group_id=1,bucket=bucket_id:6,output:1", Ok(())),
        (C::RemoveBucket(BucketPlace::Id(1)), "group_id=1", Ok(())),
        (C::RemoveBucket(BucketPlace::Id(1)), "group_id=1", Err(ErrorCode::GroupUnknownBucket)),
        (C::RemoveBucket(BucketPlace::First), "group_id=1", Ok(())),
    ];
    for (command, text, expect) in cases {
        assert_eq!(group(&mut switch, *command, text), *expect, "{command:?} {text}");
    }
    let expect = [
        "group_id=1,type=all,bucket=bucket_id:0,actions=output:1,bucket=bucket_id:5,actions=output:3",
        "group_id=2,type=all",
    ];
    assert_eq!(groups(&switch), expect);
    group(&mut switch, C::Delete, "group_id=7").unwrap();
    group(&mut switch, C::Delete, "group_id=all").unwrap();
    assert_eq!(groups(&switch), [] as [&str; 0]);
}

#[test]
fn flows_send_to_groups_that_are_there_and_go_with_them() {
    let mut switch = bridge();
    assert_eq!(
        switch.send(FlowModCommand::Add, "tcp,actions=group:1"),
        Err(ErrorCode::ActionBadOutGroup)
    );
    assert_eq!(
        switch.send(FlowModCommand::Add, "actions=write_actions(group:1)"),
        Err(ErrorCode::ActionBadOutGroup)
    );
    group(&mut switch, GroupCommand::Add, "group_id=1,type=all,bucket=output:1").unwrap();
    group(&mut switch, GroupCommand::Add, "group_id=2,type=all,bucket=output:1").unwrap();
    for flow in ["tcp,actions=group:1", "udp,actions=clone(group:1),group:2", "arp,actions=normal"]
    {
        switch.send(FlowModCommand::Add, flow).unwrap();
    }
    let references = |switch: &TestBridge| -> Vec<u32> {
        let stats = switch.ofproto.group_stats(switch.id, GROUP_ALL, switch.now);
        stats.iter().map(|stats| stats.references).collect()
    };
    assert_eq!(references(&switch), [2, 1]);
    // A flow with other actions does not count any more.
    switch.send(FlowModCommand::Add, "tcp,actions=group:2").unwrap();
    assert_eq!(references(&switch), [1, 2]);
    let transaction = switch.ofproto.begin();
    group(&mut switch, GroupCommand::Delete, "group_id=2").unwrap();
    assert_eq!((switch.ofproto.rules().len(), groups(&switch).len()), (2, 1));
    switch.ofproto.rollback(transaction);
    assert_eq!((switch.ofproto.rules().len(), references(&switch)), (4, vec![1, 2]));
    group(&mut switch, GroupCommand::Delete, "group_id=1").unwrap();
    assert_eq!((switch.ofproto.rules().len(), references(&switch)), (3, vec![1]));
}

#[test]
fn buckets_are_carried_out_as_the_group_says() {
    let mut switch = bridge();
    for text in [
        "group_id=1,type=all,bucket=set_field:192.168.3.90->ip_src,group:2,bucket=output:3",
        "group_id=2,type=all,bucket=output:2",
        "group_id=3,type=indirect,bucket=output:2",
        "group_id=4,type=ff,bucket=watch_port:4,output:4,bucket=watch_group:5,output:2",
        "group_id=5,type=ff,bucket=watch_port:3,output:3",
        "group_id=6,type=ff,bucket=watch_port:4,output:4",
        "group_id=7,type=select,bucket=output:2,bucket=output:3",
        "group_id=8,type=all,bucket=resubmit(,9),bucket=output:3",
        "group_id=9,type=select,selection_method=hash,fields(ip_dst),bucket=weight:0,output:2,\
         bucket=output:3",
        "group_id=10,type=all,bucket=group:10,output:1",
        "group_id=11,type=all,bucket=group:99,bucket=output:2",
    ] {
        group(&mut switch, GroupCommand::Add, text).unwrap();
    }
    switch.send(FlowModCommand::Add, "table=9,actions=load:5->NXM_NX_REG0[],exit").unwrap();
    let cases = [
        ("group:1", "set(ipv4(src=192.168.3.90)),2,set(ipv4(src=192.168.0.1)),3"),
        ("group:1,output:2", "set(ipv4(src=192.168.3.90)),2,set(ipv4(src=192.168.0.1)),3,2"),
        ("write_actions(output:3,group:3)", "2"),
        ("group:4", "2"),
        ("group:6,output:3", "3"),
        ("output:3,group:7,output:2", "3,hash(sym_l4(0)),recirc(0x1)"),
        ("write_actions(group:7)", "hash(sym_l4(0)),recirc(0x2)"),
        ("clone(group:7),output:2", "hash(sym_l4(0)),recirc(0x2),2"),
        // An error that ends a bucket ends only that bucket.
        ("group:8,output:2", "3,2"),
        ("group:9", "3"),
        ("group:10", "drop"),
        ("group:11,output:3", "2,3"),
    ];
    for (actions, expect) in cases {
        switch.send(FlowModCommand::Add, &format!("table=0,actions={actions}")).unwrap();
        let got = trace(&mut switch, "in_port=1,ip,nw_src=192.168.0.1,nw_dst=10.0.0.1,nw_proto=1");
        let got = got.lines().next().unwrap_or_default();
        assert_eq!(got, expect, "{actions}");
    }
}

/// After hashing, a packet takes the bucket of its hash, and continues behind the group.
#[test]
fn a_hashed_packet_takes_one_bucket_and_goes_on() {
    let mut switch = bridge();
    group(
        &mut switch,
        GroupCommand::Add,
        "group_id=7,type=select,bucket=output:2,bucket=watch_port:4,output:3",
    )
    .unwrap();
    switch.send(FlowModCommand::Add, "actions=load:7->NXM_NX_REG1[],group:7,resubmit(,3)").unwrap();
    switch.send(FlowModCommand::Add, "table=3,reg1=7,actions=output:3").unwrap();
    assert_eq!(trace(&mut switch, "in_port=1,ip,nw_src=1.2.3.4"), "hash(sym_l4(0)),recirc(0x1)");
    let miss = |switch: &mut TestBridge, recirc: u32, hash: u32| {
        let bytes = wire::text::parse(PING).unwrap();
        let packet = packet::Packet::from_bytes(&bytes);
        let frame = Frame::parse(packet, PortNo(1)).unwrap();
        let mut key: FlowKey = frame.key;
        key.set_recirc_id(RecircId(recirc));
        key.set(Field::DpHash, hash.into());
        let (worker, received) = (WorkerId(0), switch.now);
        let (kind, packet) = (UpcallKind::Miss, frame.packet);
        let mut out = Outbox::default();
        let key = Box::new(key);
        let upcall =
            Upcall { worker, kind, packet, key, received, queued: switch.now, trace: None };
        switch.ofproto.upcall(switch.now, upcall, &mut out);
        let put = out.commands.iter().find_map(|(_, command)| command.to_put());
        let put = put.expect("a megaflow");
        let actions =
            crate::text::format_actions(&put.actions, put.matching.key(), Default::default());
        (actions, put.matching.mask().get(Field::DpHash))
    };
    assert_eq!(miss(&mut switch, 0, 0), ("hash(sym_l4(0)),recirc(0x1)".into(), 0));
    // Whatever the hash, the bucket of the down port is not used.
    for hash in 1..=16 {
        assert_eq!(miss(&mut switch, 1, hash), ("2,3".into(), 0xf), "{hash}");
    }
    let stats = switch.ofproto.group_stats(switch.id, 7, switch.now);
    let (packets, bytes) = (stats[0].packets, stats[0].bytes);
    assert_eq!((packets, &stats[0].buckets[..]), (16, &[(16, bytes), (0, 0)][..]));
}

#[test]
fn a_changed_group_begins_to_count_anew() {
    let mut switch = bridge();
    group(&mut switch, GroupCommand::Add, "group_id=1,type=all,bucket=output:1,bucket=output:2")
        .unwrap();
    let more = FlowStats { packets: 3, bytes: 300, used: None, tcp_flags: 0 };
    let bridge = switch.ofproto.bridges.get(switch.id).unwrap();
    bridge.groups.get(1).unwrap().count(None, &more, switch.now);
    let packets =
        |switch: &TestBridge| switch.ofproto.group_stats(switch.id, 1, switch.now)[0].packets;
    assert_eq!(packets(&switch), 3);
    group(&mut switch, GroupCommand::Modify, "group_id=1,type=all,bucket=output:3").unwrap();
    assert_eq!(packets(&switch), 0);
}
