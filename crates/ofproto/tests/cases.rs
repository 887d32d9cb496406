//! Runs `testdata/ofproto/*.toml`: bridges with their ports, flows and learned addresses, and the expected
//! traces and megaflows, as Open vSwitch 3.1 prints them.

#[path = "support/bridges.rs"]
mod bridges;

use base::{Instant, PortNo, RecircId, WorkerId};
use bridges::BridgeCase;
use flow::{Action, CtState, FlowCommand, FlowKey, Frame, Upcall, UpcallKind, VlanLimit};
use ofproto::{BridgeId, Config, Features, Ofproto, Outbox, TraceRequest, text};
use openflow::message::PacketOut;
use packet::Packet;
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Whether datapath actions add the outer headers of tunnels, or the device does.
    #[serde(default = "yes")]
    push_pop: bool,
    bridge: Vec<BridgeCase>,
    #[serde(default)]
    trace: Vec<TraceCase>,
    #[serde(default)]
    packet: Vec<PacketCase>,
    #[serde(default)]
    packet_out: Vec<PacketOutCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceCase {
    bridge: String,
    flow: String,
    #[serde(default)]
    ct_next: Vec<String>,
    #[serde(default)]
    names: bool,
    /// Compare only the datapath actions.
    #[serde(default)]
    without_flow: bool,
    expect: String,
}

/// Packets in sequence; addresses are learned.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketCase {
    device: u32,
    /// In the form of `wire::text`, or its bytes as `0x` and hexadecimal digits.
    packet: String,
    /// `other_config:vlan-limit`; left out, the default.
    #[serde(default = "default_vlan_limit")]
    vlan_limit: u32,
    #[serde(default)]
    recirc: u32,
    ct_state: Option<String>,
    /// The megaflow without its statistics: `KEY, actions:ACTIONS`.
    megaflow: String,
}

/// A UDP packet that a controller sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketOutCase {
    /// The name of a port of the first bridge, or a number.
    in_port: String,
    actions: String,
    /// The actions of the datapath.
    expect: String,
    /// Its actions for the packet that recirculates.
    later: String,
}

fn yes() -> bool {
    true
}

fn default_vlan_limit() -> u32 {
    base::limits::VLAN_LIMIT
}

struct World {
    ofproto: Ofproto,
    now: Instant,
}

fn hexadecimal(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn ct_state(text: &str) -> CtState {
    let bit = |name: &str| CtState::NAMES.iter().find(|(_, other)| *other == name).unwrap().0;
    text.split('|').map(bit).collect()
}

impl World {
    fn new(case: &Case) -> World {
        let features = Features { tunnels: case.push_pop, ..Features::default() };
        let ofproto = Ofproto::new(Config::default()).with_features(features);
        let mut world = World { ofproto, now: Instant::from_millis(1000) };
        for bridge in &case.bridge {
            bridge.add_to(&mut world.ofproto, world.now);
        }
        world
    }

    fn id(&self, name: &str) -> BridgeId {
        self.ofproto.bridges().named(name).unwrap().id
    }

    fn trace(&mut self, case: &TraceCase) -> String {
        let id = self.id(&case.bridge);
        let mut request = TraceRequest::new(id, self.key(case));
        request.ct_next = case.ct_next.iter().map(|state| ct_state(state)).collect();
        request.names = case.names;
        let trace = self.ofproto.trace(self.now, &request, &mut ofproto::Outbox::default());
        if !case.without_flow {
            return trace;
        }
        let is_flow = |line: &&str| line.starts_with("Flow: ") || line.starts_with("Final flow: ");
        let lines: Vec<&str> = trace.lines().filter(|line| !is_flow(line)).collect();
        lines.join("\n").trim_start().replace("\n\nMegaflow", "\nMegaflow")
    }

    /// The key of a packet, with the port number of a bridge or of the datapath.
    fn key(&self, case: &TraceCase) -> FlowKey {
        let id = self.id(&case.bridge);
        if case.flow.contains('(') {
            let (mut key, _) = text::parse_flow(&case.flow, &|_| None)
                .unwrap_or_else(|error| panic!("{}: {error}", case.flow));
            let (_, port) = self.ofproto.bridges().of_packet(&key).unwrap();
            key.set_in_port_raw(port.0.into());
            return key;
        }
        let ports = |name: &str| self.ofproto.port_number(id, name);
        let matching = openflow::text::parse_match(&case.flow, &ports)
            .unwrap_or_else(|error| panic!("{}: {error}", case.flow));
        matching.key().clone()
    }

    /// A packet-out. Returns the actions of its packet, and those of the packet that recirculates, which is no longer
    /// what the controller says.
    fn send(&mut self, case: &Case, sent: &PacketOutCase) -> [String; 2] {
        let id = self.id(&case.bridge[0].name);
        let ports = |name: &str| self.ofproto.port_number(id, name);
        let in_port = openflow::text::parse_match(&format!("in_port={}", sent.in_port), &ports);
        let packet_out = PacketOut {
            buffer_id: None,
            metadata: in_port.unwrap_or_else(|error| panic!("{}: {error}", sent.in_port)),
            actions: openflow::text::parse_actions(&sent.actions, &ports)
                .unwrap_or_else(|error| panic!("{}: {error}", sent.actions)),
            data: wire::text::parse("10.0.0.1:1>10.0.0.2:2 udp").unwrap(),
        };
        let mut out = Outbox::default();
        self.ofproto.packet_out(id, &packet_out, self.now, &mut out).unwrap();
        let Some((_, FlowCommand::Execute(first))) = out.commands.pop() else {
            panic!("{}: nothing is sent", sent.actions)
        };
        let Some(&Action::Recirc(recirc)) = first.actions.last() else {
            panic!("{}: {:?}", sent.actions, first.actions)
        };
        let mut key = first.key.clone();
        key.set_recirc_id(recirc);
        key.set_ct_state(ct_state("new|trk"));
        let upcall = self.upcall(UpcallKind::Miss, first.packet, key.clone());
        self.ofproto.upcall(self.now, upcall, &mut out);
        let Some((_, FlowCommand::Execute(second))) = out.commands.pop() else {
            panic!("{}: the second pass is not answered", sent.actions)
        };
        let told =
            |actions: &[Action]| text::format_actions(actions, &key, text::PortNames::default());
        [told(&first.actions), told(&second.actions)]
    }

    fn upcall(&self, kind: UpcallKind, packet: Packet, key: Box<FlowKey>) -> Upcall {
        let (worker, received) = (WorkerId(0), self.now);
        Upcall { worker, kind, packet, key, received, queued: received, trace: None }
    }

    /// An upcall for a packet; returns the installed megaflow.
    fn miss(&mut self, case: &PacketCase) -> String {
        let bytes = match case.packet.strip_prefix("0x") {
            Some(digits) => hexadecimal(digits),
            None => wire::text::parse(&case.packet)
                .unwrap_or_else(|error| panic!("{}: {error}", case.packet)),
        };
        let (packet, port) = (Packet::from_bytes(&bytes), PortNo(case.device));
        let frame = Frame::parse_within(packet, port, VlanLimit::new(case.vlan_limit)).unwrap();
        let mut key: FlowKey = frame.key.clone();
        key.set_recirc_id(RecircId(case.recirc));
        if let Some(state) = &case.ct_state {
            key.set_ct_state(ct_state(state));
        }
        let upcall = self.upcall(UpcallKind::Miss, frame.packet, Box::new(key));
        let mut out = Outbox::default();
        self.ofproto.revalidate(self.now, &mut out);
        out.commands.clear();
        self.ofproto.upcall(self.now, upcall, &mut out);
        let put = out.commands.iter().find_map(|(_, command)| command.to_put());
        let put = put.unwrap_or_else(|| panic!("{}: no megaflow was put", case.packet));
        let key = put.matching.key();
        let names = text::PortNames::default();
        let flow = text::format_flow(key, put.matching.mask(), false, names);
        format!("{flow}, actions:{}", text::format_actions(&put.actions, key, names))
    }
}

#[test]
fn packets_are_treated_as_open_vswitch_treats_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ofproto");
    let mut failures = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Case = toml::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        for trace in &case.trace {
            count += 1;
            let got = World::new(&case).trace(trace);
            if got.trim() != trace.expect.trim() {
                failures.push(format!("{file}: got\n{got}\nnot\n{}", trace.expect));
            }
        }
        for sent in &case.packet_out {
            count += 1;
            let got = World::new(&case).send(&case, sent);
            if got != [&*sent.expect, &*sent.later] {
                let PacketOutCase { in_port, actions, expect, later } = sent;
                failures.push(format!(
                    "{file}: in_port={in_port}, {actions}: got {got:?}, not {expect}, {later}"
                ));
            }
        }
        let mut world = World::new(&case);
        for packet in &case.packet {
            count += 1;
            let got = world.miss(packet);
            if got != packet.megaflow {
                let (sent, expect) = (&packet.packet, &packet.megaflow);
                failures.push(format!("{file}: {sent}: got\n{got}\nnot\n{expect}"));
            }
        }
    }
    assert!(count > 0);
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}
