//! A paused packet has the same outcome as one that is not paused.

use crate::{BridgeConfig, BridgeId, Config, Event, Ofproto, Outbox, PortDevice, PortSpec};
use base::{Instant, MacAddr, PortNo, WorkerId};
use flow::{Action, CtState, FlowCommand, FlowKey, Frame, Upcall, UpcallKind};
use openflow::message::{FlowModCommand, Message, PacketIn, PacketInFormat, Version};
use openflow::text::{parse_flow, parse_group};
use openflow::{DecodeOptions, EncodeOptions, ErrorCode, decode, encode};

const NOW: Instant = Instant::from_millis(5000);

struct Switch {
    ofproto: Ofproto,
    bridges: [BridgeId; 2],
    /// Packets sent, and other outcomes.
    seen: Vec<String>,
    pauses: usize,
    version: Version,
}

impl Switch {
    /// Ports 1 to 9, port 8 a patch to a second bridge, whose port 9 is the other end; and the
    /// second's ports 11 and 12.
    fn new(flows: [&str; 2], version: Version) -> Self {
        let mut ofproto = Ofproto::new(Config::default()).of_run(77);
        let bridges = ["br0", "br1"]
            .map(|name| ofproto.add_bridge(BridgeConfig::new(name, MacAddr::ZERO), NOW));
        let mut add = |bridge, number: u32, device| {
            let mut spec = PortSpec::new(format!("p{number}"), MacAddr::ZERO, device);
            spec.requested = Some(base::OfPort(number as u16));
            ofproto.add_port(bridge, spec, NOW).unwrap();
        };
        for number in 1..=7 {
            add(bridges[0], number, PortDevice::Datapath(PortNo(number)));
        }
        add(bridges[0], 8, PortDevice::Patch { peer: "p9".into() });
        add(bridges[1], 9, PortDevice::Patch { peer: "p8".into() });
        for number in 11..=12 {
            add(bridges[1], number, PortDevice::Datapath(PortNo(number)));
        }
        let select = parse_group(
            "group_id=1,type=select,bucket=output:5",
            openflow::message::GroupCommand::Add,
            &|_| None,
        );
        ofproto.group_mod(bridges[0], &select.unwrap(), NOW).unwrap();
        for (id, flows) in bridges.into_iter().zip(flows) {
            for flow in flows.lines().map(str::trim).filter(|line| !line.is_empty()) {
                let flow = flow.replace("pause", "controller(pause)");
                let flow_mod = parse_flow(&flow, FlowModCommand::Add, &|_| None).unwrap();
                ofproto.flow_mod(id, &flow_mod, NOW).unwrap();
            }
        }
        Switch { ofproto, bridges, seen: Vec::new(), pauses: 0, version }
    }

    fn upcall(&mut self, kind: UpcallKind, packet: &[u8], key: &FlowKey) {
        let packet = packet::Packet::from_bytes(packet);
        let (worker, key) = (WorkerId(0), Box::new(key.clone()));
        let upcall = Upcall { worker, kind, packet, key, received: NOW, queued: NOW, trace: None };
        let mut out = Outbox::default();
        self.ofproto.upcall(NOW, upcall, &mut out);
        self.carry_out(out);
    }

    /// Executes the datapath's commands.
    fn carry_out(&mut self, out: Outbox) {
        for (_, command) in out.commands {
            let FlowCommand::Execute(execute) = command else { continue };
            let (bytes, mut key) = (execute.packet.data().to_vec(), *execute.key);
            for action in execute.actions.iter() {
                match action {
                    Action::Output(port) => self.seen.push(format!("output {}", port.0)),
                    Action::Controller(to) => {
                        self.pauses += 1;
                        self.upcall(UpcallKind::Controller(*to), &bytes, &key);
                    }
                    Action::Recirc(id) => {
                        let mut again = key.clone();
                        again.set_recirc_id(*id);
                        self.upcall(UpcallKind::Miss, &bytes, &again);
                    }
                    Action::Hash { algorithm, basis } => {
                        let hash = algorithm.hash(&key, *basis);
                        key.set(flow::Field::DpHash, hash.into());
                    }
                    Action::Ct(ct) => {
                        self.seen.push(format!("track in {} {}", ct.zone, ct.commit));
                        key.set_ct_state(CtState::TRK | CtState::NEW);
                        key.set_ct_zone(ct.zone);
                    }
                    other => self.seen.push(format!("{other:?}")),
                }
            }
        }
        for event in self.ofproto.take_events() {
            if let Event::PacketIn { packet_in, .. } = event {
                self.resume(*packet_in);
            }
        }
    }

    /// The controller returns a packet over the wire.
    fn resume(&mut self, packet_in: PacketIn) {
        let format = PacketInFormat::Nxt2;
        let options = EncodeOptions { packet_in_format: format, ..EncodeOptions::default() };
        let bytes = encode(self.version, 0, &Message::PacketIn(packet_in), &options).concat();
        let Ok((_, Message::PacketIn(packet_in))) =
            decode(self.version, &bytes, &DecodeOptions::default())
        else {
            panic!("no packet-in")
        };
        let mut out = Outbox::default();
        self.ofproto.resume(&packet_in, NOW, &mut out).unwrap();
        self.carry_out(out);
    }

    fn send(&mut self) -> Vec<String> {
        let bytes = wire::text::parse("192.168.0.1>192.168.0.2 icmp-echo").unwrap();
        let frame = Frame::parse(packet::Packet::from_bytes(&bytes), PortNo(1)).unwrap();
        self.upcall(UpcallKind::Miss, &bytes, &frame.key);
        std::mem::take(&mut self.seen)
    }
}

#[test]
fn pausing_changes_nothing() {
    let cases: &[[&str; 2]] = &[
        ["actions=2,pause", ""],
        ["actions=pause,2,pause,3,pause,4,pause", ""],
        [
            "in_port=1,actions=pause,2,pause,resubmit(,1),pause,7,pause
             table=1,in_port=1,actions=pause,3,pause,resubmit(,2),pause,6,pause
             table=2,in_port=1,actions=pause,4,pause,resubmit:55,pause
             table=2,in_port=55,actions=pause,5,pause",
            "",
        ],
        [
            "in_port=1,actions=1,pause,resubmit(,1),pause,2
             table=1,actions=write_actions(set_field:1->reg3,output:3)",
            "",
        ],
        [
            "in_port=1,actions=pause,2,pause,write_metadata:1/1,goto_table:1
             table=1,in_port=1,metadata=1,actions=pause,3,pause,write_metadata:2/2,goto_table:2
             table=2,in_port=1,metadata=3,actions=pause,4",
            "",
        ],
        [
            "actions=pause,set_field:3->reg1,pause,push:NXM_NX_REG1[],pause,load:0->NXM_NX_REG1[],\
             pause,pop:NXM_NX_REG2[0..31],pause,output:NXM_NX_REG2[0..15]",
            "",
        ],
        [
            "in_port=1,actions=pause,2,resubmit(,1),pause,4
             table=1,in_port=1,actions=pause,3,pause,8,pause,5",
            "in_port=9,actions=pause,11,pause,12",
        ],
        [
            "actions=set_field:1->reg1,clone(set_field:5->reg1,pause,resubmit(,1)),resubmit(,1)
          table=1,reg1=5,actions=2
          table=1,reg1=1,actions=3",
            "",
        ],
        ["actions=pause,group:1,pause,2", ""],
        [
            "actions=pause,ct(table=1,zone=4),3
          table=1,ct_state=+trk,actions=pause,resubmit(,2)
          table=2,ct_state=+new+trk,actions=ct(commit),2",
            "",
        ],
    ];
    for version in [Version::V10, Version::V13, Version::V15] {
        for [first, second] in cases {
            let without = |flows: &str| {
                let flows = flows.replace("pause,", "").replace(",pause", "");
                flows.replace("actions=pause", "actions=drop")
            };
            let (first_only, second_only) = (without(first), without(second));
            let mut plain = Switch::new([&first_only, &second_only], version);
            let mut paused = Switch::new([first, second], version);
            let (mut expect, mut got) = (plain.send(), paused.send());
            // A paused copy follows those that are not paused.
            expect.sort();
            got.sort();
            assert_eq!(got, expect, "{version:?} {first}");
            assert_eq!(plain.pauses, 0);
            let pauses = first.matches("pause").count() + second.matches("pause").count();
            assert_eq!(paused.pauses, pauses, "{first}");
            let packets = |switch: &Switch| -> Vec<u64> {
                let flows = switch.ofproto.flows_and_hidden(switch.bridges[0], NOW);
                flows.iter().map(|flow| flow.packets).collect()
            };
            assert_eq!(packets(&paused), packets(&plain), "{first}");
        }
    }
}

#[test]
fn what_another_run_gave_out_is_stale() {
    let mut switch = Switch::new(["actions=pause,2", ""], Version::V13);
    let bytes = wire::text::parse("192.168.0.1>192.168.0.2 icmp-echo").unwrap();
    let frame = Frame::parse(packet::Packet::from_bytes(&bytes), PortNo(1)).unwrap();
    let state = crate::recirc::Frozen {
        bridge: switch.bridges[0],
        table: base::TableId(0),
        device: PortNo(1),
        pipeline: FlowKey::new(),
        stack: Vec::new(),
        action_set: Vec::new(),
        conntracked: false,
        mirrored: 0,
        rest: Vec::new(),
        userdata: Vec::new(),
    };
    let continuation = switch.ofproto.continuation(&state);
    let of_bridge = |bridge| openflow::message::Continuation { bridge, ..continuation.clone() };
    let packet_in = |continuation| PacketIn {
        data: frame.packet.data().to_vec(),
        total_len: 0,
        reason: 1,
        table: None,
        cookie: 0,
        metadata: flow::Match::any(),
        userdata: Vec::new(),
        continuation,
    };
    let bridge = continuation.bridge;
    let cases = [
        (Some(bridge), Ok(())),
        (Some(bridge + 5), Err(ErrorCode::ContinuationStale)),
        (Some(bridge ^ 1 << 70), Err(ErrorCode::ContinuationStale)),
        (Some(bridge | 1 << 40), Err(ErrorCode::ContinuationStale)),
        (None, Err(ErrorCode::ContinuationStale)),
    ];
    for (bridge, expect) in cases {
        let packet_in = packet_in(bridge.map(|bridge| Box::new(of_bridge(bridge))));
        let got = switch.ofproto.resume(&packet_in, NOW, &mut Outbox::default());
        assert_eq!(got.map_err(|error| error.code), expect, "{bridge:?}");
    }
}
