//! Runs `testdata/ofproto/*.toml`: bridges with their ports, flows and learned addresses, and what
//! must become of packets: traces and megaflows as Open vSwitch 3.1 prints them.

use base::{Instant, MacAddr, OfPort, PortNo, RecircId, WorkerId};
use flow::{CtState, FlowCommand, FlowKey, Frame, Upcall, UpcallKind, VlanLimit};
use ofproto::{
    BridgeConfig, BridgeId, Config, FailMode, Ofproto, Outbox, PortDevice, PortSpec, PriorityTags,
    TraceRequest, VlanMode, text,
};
use openflow::message::FlowModCommand;
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    bridge: Vec<BridgeCase>,
    #[serde(default)]
    trace: Vec<TraceCase>,
    #[serde(default)]
    packet: Vec<PacketCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BridgeCase {
    name: String,
    /// Flows in `ovs-ofctl`'s syntax, one a line; left out, a learning switch.
    flows: Option<String>,
    port: Vec<PortCase>,
    /// `VLAN MAC PORT`
    #[serde(default)]
    macs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PortCase {
    name: String,
    /// The datapath's number; left out for a patch port.
    device: Option<u32>,
    peer: Option<String>,
    #[serde(default)]
    local: bool,
    /// `access 10`, `trunk 10,20`, `native-tagged 10 20`, `native-untagged 10 20`,
    /// `dot1q-tunnel 100`; left out, a trunk of all.
    vlan: Option<String>,
    #[serde(default)]
    priority_tags: bool,
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
    expect: String,
}

/// Packets come in one after the other; addresses are learned.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketCase {
    device: u32,
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

fn default_vlan_limit() -> u32 {
    base::limits::VLAN_LIMIT
}

struct World {
    ofproto: Ofproto,
    now: Instant,
}

fn numbers(text: &str) -> Vec<u16> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
}

fn vlan_mode(text: &str) -> VlanMode {
    let mut words = text.split(' ');
    let mode = words.next().unwrap();
    let first = words.next().unwrap_or("");
    let rest = numbers(words.next().unwrap_or(""));
    let tag = || first.parse().unwrap();
    match mode {
        "access" => VlanMode::Access(tag()),
        "trunk" => VlanMode::Trunk { trunks: numbers(first) },
        "native-tagged" => VlanMode::NativeTagged { tag: tag(), trunks: rest },
        "native-untagged" => VlanMode::NativeUntagged { tag: tag(), trunks: rest },
        "dot1q-tunnel" => VlanMode::Dot1qTunnel { tag: tag(), cvlans: rest, ethertype: 0x88a8 },
        other => panic!("no VLAN mode {other}"),
    }
}

fn ct_state(text: &str) -> CtState {
    let bit = |name: &str| CtState::NAMES.iter().find(|(_, other)| *other == name).unwrap().0;
    text.split('|').map(bit).collect()
}

impl World {
    fn new(case: &Case) -> World {
        let mut world =
            World { ofproto: Ofproto::new(Config::default()), now: Instant::from_millis(1000) };
        for bridge in &case.bridge {
            world.add_bridge(bridge);
        }
        world
    }

    fn add_bridge(&mut self, case: &BridgeCase) {
        let (ofproto, now) = (&mut self.ofproto, self.now);
        let mut config = BridgeConfig::new(&case.name, MacAddr([2, 0, 0, 0, 9, 9]));
        if case.flows.is_some() {
            config.fail_mode = FailMode::Secure;
        }
        let id = ofproto.add_bridge(config, now);
        for port in &case.port {
            let device = match port.device {
                Some(number) => PortDevice::Datapath(PortNo(number)),
                None => PortDevice::Patch { peer: port.peer.clone().unwrap() },
            };
            let mut spec = PortSpec::new(&port.name, MacAddr([2, 0, 0, 0, 9, 8]), device);
            spec.is_local = port.local;
            spec.vlan = port.vlan.as_deref().map(vlan_mode).unwrap_or_default();
            if port.priority_tags {
                spec.priority_tags = PriorityTags::Always;
            }
            ofproto.add_port(id, spec, now).unwrap();
        }
        for line in case.flows.iter().flat_map(|flows| flows.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let ports = |name: &str| ofproto.port_number(id, name);
            let flow_mod = openflow::text::parse_flow(line, FlowModCommand::Add, &ports);
            let flow_mod = flow_mod.unwrap_or_else(|error| panic!("{line}: {error}"));
            ofproto.flow_mod(id, &flow_mod, now).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        for line in &case.macs {
            let words: Vec<&str> = line.split(' ').collect();
            let port = OfPort(words[2].parse().unwrap());
            let mac: MacAddr = words[1].parse().unwrap();
            ofproto.learn_mac(id, words[0].parse().unwrap(), mac, port, now);
        }
    }

    fn id(&self, name: &str) -> BridgeId {
        self.ofproto.bridges().named(name).unwrap().id
    }

    fn trace(&mut self, case: &TraceCase) -> String {
        let id = self.id(&case.bridge);
        let ports = |name: &str| self.ofproto.port_number(id, name);
        let matching = openflow::text::parse_match(&case.flow, &ports)
            .unwrap_or_else(|error| panic!("{}: {error}", case.flow));
        let mut request = TraceRequest::new(id, matching.key().clone());
        request.ct_next = case.ct_next.iter().map(|state| ct_state(state)).collect();
        request.names = case.names;
        self.ofproto.trace(self.now, &request)
    }

    /// Sends a packet up; gives the megaflow that answers.
    fn miss(&mut self, case: &PacketCase) -> String {
        let bytes = wire::text::parse(&case.packet)
            .unwrap_or_else(|error| panic!("{}: {error}", case.packet));
        let (packet, port) = (packet::Packet::from_bytes(&bytes), PortNo(case.device));
        let frame = Frame::parse_within(packet, port, VlanLimit::new(case.vlan_limit)).unwrap();
        let mut key: FlowKey = frame.key.clone();
        key.set_recirc_id(RecircId(case.recirc));
        if let Some(state) = &case.ct_state {
            key.set_ct_state(ct_state(state));
        }
        let upcall = Upcall {
            worker: WorkerId(0),
            kind: UpcallKind::Miss,
            packet: frame.packet,
            key,
            received: self.now,
            queued: self.now,
            trace: None,
        };
        let mut out = Outbox::default();
        self.ofproto.revalidate(self.now, &mut out);
        out.commands.clear();
        self.ofproto.upcall(self.now, upcall, &mut out);
        let put = out.commands.iter().find_map(|(_, command)| match command {
            FlowCommand::Put(put) => Some(put),
            _ => None,
        });
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
