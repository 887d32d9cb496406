use super::*;
use crate::BridgeId;
use crate::test_bridge::{NOW, TestBridge};
use base::{MacAddr, OfPort, PortNo, RecircId, WorkerId};
use flow::{Action, ControllerAction, DropReason, FlowId, Frame, UpcallKind};
use hashbrown::HashMap;
use openflow::message::FlowModCommand;
use packet::Packet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bridge with three ports whose flows match TCP ports.
fn bridge() -> (Ofproto, BridgeId) {
    let TestBridge { mut ofproto, id, .. } = TestBridge::new().with_ports(3);
    change(&mut ofproto, id, FlowModCommand::Add, "priority=1,actions=resubmit(,1)");
    (ofproto, id)
}

fn change(ofproto: &mut Ofproto, id: BridgeId, command: FlowModCommand, text: &str) {
    let flow_mod = openflow::text::parse_flow(text, command, &|_| None).unwrap();
    ofproto.flow_mod(id, &flow_mod, NOW).unwrap();
    ofproto.publish();
}

fn upcall(device: u32, packet: &str) -> Upcall {
    let bytes = wire::text::parse(packet).unwrap();
    let Frame { packet, key, .. } =
        Frame::parse(Packet::from_bytes(&bytes), PortNo(device)).unwrap();
    let (worker, kind, received) = (WorkerId(0), UpcallKind::Miss, NOW);
    let key = Box::new(key);
    Upcall { worker, kind, packet, key, received, queued: received, trace: None }
}

/// The flows of a worker after these commands.
fn carried_out(commands: Vec<(WorkerId, FlowCommand)>) -> HashMap<FlowId, Arc<[Action]>> {
    let mut flows = HashMap::new();
    for (_, command) in commands {
        if let Some(put) = command.to_put() {
            flows.insert(put.id, put.actions);
        }
        match command {
            FlowCommand::Delete(id) => assert!(flows.remove(&id).is_some(), "{id:?} is deleted"),
            FlowCommand::Put(_)
            | FlowCommand::Execute(_)
            | FlowCommand::Mark(_)
            | FlowCommand::Collect => {}
        }
    }
    flows
}

#[test]
fn a_refused_miss_is_answered_with_a_drop_and_counts_for_no_flow() {
    let (mut ofproto, id) = bridge();
    change(&mut ofproto, id, FlowModCommand::Add, "table=1,tcp,actions=output:2");
    let mut handler = ofproto.handler();
    let packet = "10.0.0.1:1000>10.0.0.2:80 S";
    handler.refuse(upcall(1, packet));
    let to = ControllerAction {
        reason: 1,
        recirc_id: RecircId(1),
        rule_cookie: 0,
        controller_id: 0,
        max_len: 0,
        pauses: false,
    };
    handler.refuse(Upcall { kind: UpcallKind::Controller(to), ..upcall(1, packet) });
    let mut commands = Vec::new();
    handler.install(NOW, |all| commands.append(all));
    let [(WorkerId(0), FlowCommand::Execute(execute))] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!(execute.key, upcall(1, packet).key);
    assert_eq!(execute.actions[..], [Action::Drop(DropReason::UpcallQueueFull)]);
    ofproto.apply_credits(NOW);
    assert_eq!(ofproto.table_stats(id)[0].matched, 0);
}

#[test]
fn a_worker_has_what_the_tables_say_whatever_threads_did() {
    let (mut ofproto, id) = bridge();
    ofproto.set_revalidates(false);
    let commands: Mutex<Vec<(WorkerId, FlowCommand)>> = Mutex::default();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (commands, is_over) = (&commands, &is_over);
        let send = move |more: &mut Vec<(WorkerId, FlowCommand)>| {
            commands.lock().unwrap().append(more);
        };
        let handlers: Vec<_> = (0..2u32)
            .map(|thread| {
                let mut handler = ofproto.handler();
                threads.spawn(move || {
                    for n in 0..600u32 {
                        for m in 0..3 {
                            let port = (n * 7 + m * 3 + thread) % 40;
                            let packet = format!("10.0.0.1:1000>10.0.0.2:{port} S");
                            let refused = handler.translate(NOW, upcall(1 + m, &packet), None);
                            assert!(refused.is_none());
                        }
                        handler.install(NOW, send);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let mut revalidator = ofproto.revalidator();
            threads.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    revalidator.revalidate(NOW, send);
                    std::thread::yield_now();
                }
            });
        }
        for n in 0..400u32 {
            let (port, out) = (n * 13 % 40, 1 + n % 3);
            let text = format!("table=1,priority=5,tcp,tp_dst={port},actions=output:{out}");
            change(&mut ofproto, id, FlowModCommand::Add, &text);
            if n % 5 == 0 {
                let gone = format!("table=1,tcp,tp_dst={}", n * 3 % 40);
                change(&mut ofproto, id, FlowModCommand::Delete, &gone);
            }
        }
        handlers.into_iter().for_each(|handler| handler.join().unwrap());
        while ofproto.needs_revalidation() {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let has = carried_out(commands.into_inner().unwrap());
    let megaflows = ofproto.megaflows();
    assert!(!megaflows.is_empty());
    assert_eq!(has.len(), megaflows.len());
    for flow in megaflows {
        assert_eq!(has.get(&flow.id), Some(&flow.actions), "{:?}", flow.matching);
        let expect = ofproto.translate(NOW, &flow.key, Notes::Off).actions;
        assert_eq!(*flow.actions, *expect, "{:?}", flow.matching);
    }
    // Each packet counts once for each flow that it hit.
    ofproto.apply_credits(NOW);
    let first = ofproto.table_stats(id)[0].matched;
    assert_eq!(first, 2 * 600 * 3);
}

#[test]
fn what_only_the_owner_may_answer_is_given_back_and_what_it_must_know_is_urgent() {
    let (mut ofproto, id) = bridge();
    let add = FlowModCommand::Add;
    change(&mut ofproto, id, add, "table=1,priority=5,tcp,tp_dst=1,actions=learn(table=2),2");
    change(&mut ofproto, id, add, "table=1,priority=5,tcp,tp_dst=2,actions=NORMAL");
    change(&mut ofproto, id, add, "table=1,priority=5,tcp,tp_dst=3,actions=2");
    let mut handler = ofproto.handler();
    let mut answer = |ofproto: &mut Ofproto, port: u16| {
        let packet = format!("10.0.0.1:1000>10.0.0.2:{port} S");
        let refused = handler.translate(NOW, upcall(1, &packet), None).is_some();
        let mut has_flow = None;
        let after = handler.install(NOW, |commands| {
            has_flow = commands.first().map(|(_, command)| command.to_put().is_some());
        });
        if after.wake_owner {
            ofproto.apply_credits(NOW);
            ofproto.publish();
        }
        (refused, has_flow, after.wake_owner)
    };
    assert_eq!(answer(&mut ofproto, 1), (true, None, false), "teaches a flow");
    assert_eq!(answer(&mut ofproto, 2), (false, Some(true), true), "teaches an address");
    assert_eq!(ofproto.macs(id).unwrap().len(), 1);
    assert_eq!(
        answer(&mut ofproto, 2),
        (false, Some(false), false),
        "the address is known, the flow is there"
    );
    assert_eq!(answer(&mut ofproto, 3), (false, Some(true), false), "changes nothing");
    assert_eq!(
        ofproto.bridge(id).unwrap().port_of(0, MacAddr([2, 0, 0, 0, 0, 1])),
        Some(OfPort(1))
    );
    // A translation from before a change is revalidated.
    let old = handler.translate(NOW, upcall(3, "10.0.0.1:1>10.0.0.2:3 S"), None);
    assert!(old.is_none());
    change(&mut ofproto, id, add, "table=1,priority=5,tcp,tp_dst=3,actions=drop");
    let mut out = Outbox::default();
    while ofproto.needs_revalidation() {
        ofproto.revalidate(NOW, &mut out);
    }
    let mut commands = std::mem::take(&mut out.commands);
    let after = handler.install(NOW, |more| commands.append(more));
    assert!(after.wake_revalidators);
    ofproto.revalidate(NOW, &mut out);
    commands.append(&mut out.commands);
    let has = carried_out(commands);
    let is_new = |flow: &&crate::DatapathFlow| flow.key.in_port() == PortNo(3);
    let flow = ofproto.megaflows().iter().find(is_new).cloned().unwrap();
    assert!(flow.actions.is_empty() && has[&flow.id].is_empty(), "{flow:?}");
}

#[test]
fn a_port_that_sends_before_the_snapshot_has_it_is_answered_by_the_owner() {
    let TestBridge { mut ofproto, id, .. } = TestBridge::new().with_ports(1);
    change(&mut ofproto, id, FlowModCommand::Add, "actions=1");
    let (mut handler, packet) = (ofproto.handler(), "10.0.0.1:1>10.0.0.2:3 S");
    let device = crate::PortDevice::Datapath(PortNo(2));
    ofproto.add_port(id, crate::PortSpec::new("late", MacAddr::ZERO, device), NOW).unwrap();
    // The owner knows the port, and has not published it.
    let early = handler.translate(NOW, upcall(2, packet), None).expect("is the owner's");
    let mut out = Outbox::default();
    ofproto.upcall(NOW, early, &mut out);
    let [(_, FlowCommand::Execute(execute))] = &out.commands[..] else {
        panic!("{:?}", out.commands)
    };
    assert_eq!(execute.actions[..], [Action::Output(PortNo(1))]);
    assert!(handler.translate(NOW, upcall(2, packet), None).is_none(), "now it is published");
}
