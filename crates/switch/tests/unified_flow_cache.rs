//! Whole switches that differ only in their unified flow cache: the tables of `testdata/ofproto/*.toml` treat
//! a long random sequence of packets alike with the cache on, tiny and off. A worker with a cache splits a
//! batch into runs, which the worker without one receives as separate batches.

#[path = "../../datapath/tests/support/parts.rs"]
mod parts;
#[path = "../../datapath/tests/support/traffic.rs"]
mod traffic;
#[expect(dead_code, reason = "this traffic has no tunnels")]
#[path = "../../datapath/tests/support/tunnels.rs"]
mod tunnels;

use base::{Instant, MacAddr, OfPort, PortNo};
use datapath::WorkerConfig;
use ofproto::{BridgeConfig, Config, FailMode, Ofproto, PortDevice, PortSpec, VlanMode};
use openflow::message::FlowModCommand;
use parts::Parts;
use serde::Deserialize;
use sim::Settled;
use std::path::Path;
use std::time::Duration;
use traffic::{Sent, Traffic};

/// The switch of a case.
#[derive(Deserialize)]
struct Case {
    bridge: Vec<BridgeCase>,
}

#[derive(Deserialize)]
struct BridgeCase {
    name: String,
    flows: Option<String>,
    port: Vec<PortCase>,
    #[serde(default)]
    macs: Vec<String>,
}

#[derive(Deserialize)]
struct PortCase {
    name: String,
    device: Option<u32>,
    peer: Option<String>,
    #[serde(default)]
    local: bool,
    vlan: Option<String>,
}

fn vlan_mode(text: &str) -> VlanMode {
    let mut words = text.split([' ', ',']);
    let mode = words.next().unwrap_or_default();
    let numbers: Vec<u16> = words.filter_map(|word| word.parse().ok()).collect();
    let tag = numbers.first().copied().unwrap_or_default();
    let rest = numbers.get(1..).unwrap_or_default().to_vec();
    match mode {
        "access" => VlanMode::Access(tag),
        "native-tagged" => VlanMode::NativeTagged { tag, trunks: rest },
        "native-untagged" => VlanMode::NativeUntagged { tag, trunks: rest },
        "dot1q-tunnel" => VlanMode::Dot1qTunnel { tag, cvlans: rest, ethertype: 0x88a8 },
        _ => VlanMode::Trunk { trunks: numbers },
    }
}

fn switch(case: &Case, unified_entries: usize, now: Instant) -> Settled {
    let config =
        WorkerConfig { unified_entries, unified_insert_inverse: 1, ..WorkerConfig::default() };
    let mut ofproto = Ofproto::new(Config::default());
    case.bridge.iter().for_each(|bridge| add_bridge(&mut ofproto, bridge, now));
    Settled::new(ofproto, config, 9).unwrap()
}

fn add_bridge(ofproto: &mut Ofproto, case: &BridgeCase, now: Instant) {
    let mut config = BridgeConfig::new(&case.name, MacAddr([2, 0, 0, 0, 9, 9]));
    if case.flows.is_some() {
        config.fail_mode = FailMode::Secure;
    }
    let id = ofproto.add_bridge(config, now);
    for port in &case.port {
        let device = match port.device {
            Some(number) => PortDevice::Datapath(PortNo(number)),
            None => PortDevice::Patch { peer: port.peer.clone().unwrap_or_default() },
        };
        let mut spec = PortSpec::new(&port.name, MacAddr([2, 0, 0, 0, 9, 8]), device);
        spec.is_local = port.local;
        spec.vlan = port.vlan.as_deref().map(vlan_mode).unwrap_or_default();
        ofproto.add_port(id, spec, now).unwrap();
    }
    let flows = case.flows.iter().flat_map(|flows| flows.lines());
    for line in flows.filter(|line| !line.trim().is_empty()) {
        let ports = |name: &str| ofproto.port_number(id, name);
        let flow_mod = openflow::text::parse_flow(line, FlowModCommand::Add, &ports).unwrap();
        ofproto.flow_mod(id, &flow_mod, now).unwrap();
    }
    for line in &case.macs {
        let words: Vec<&str> = line.split(' ').collect();
        let (vlan, port) = (words[0].parse().unwrap(), OfPort(words[2].parse().unwrap()));
        ofproto.learn_mac(id, vlan, words[1].parse().unwrap(), port, now);
    }
}

/// A switch with a cache, and the same without one.
struct Pair {
    switch: Settled,
    twin: Settled,
}

impl Pair {
    fn new(case: &Case, unified_entries: usize, now: Instant) -> Pair {
        Pair { switch: switch(case, unified_entries, now), twin: switch(case, 0, now) }
    }

    /// Returns the output of both.
    fn receive(
        &mut self,
        now: Instant,
        port: PortNo,
        packets: &[Vec<u8>],
        place: &str,
    ) -> Vec<(PortNo, Vec<u8>)> {
        let mut parts = Parts::default();
        let seen = self.switch.receive(now, port, packets, &[packets.len()], &mut parts);
        let sent = self.twin.receive(now, port, packets, &parts.0, &mut ());
        assert_eq!(seen, sent, "{place}, as {:?}", parts.0);
        sent
    }

    fn compare_states(&mut self, now: Instant, place: &str) {
        let (seen, expect) = (self.switch.state(now), self.twin.state(now));
        assert_eq!(seen.stats, expect.stats, "{place}");
        assert_eq!(difference(&seen.flows, &expect.flows), None, "{place}");
        assert_eq!(difference(&seen.connections, &expect.connections), None, "{place}");
    }
}

fn check(file: &str, case: &Case, seed: u64) -> f64 {
    let devices: Vec<u32> =
        case.bridge.iter().flat_map(|it| &it.port).filter_map(|port| port.device).collect();
    let mut now = Instant::from_millis(1000);
    let mut pairs = [1 << 16, 4].map(|entries| Pair::new(case, entries, now));
    let mut traffic = Traffic::new(seed);
    for step in 0..500 {
        let advance = if traffic.random().u32(0..100) == 0 { 40_000 } else { 20 };
        now = now + Duration::from_millis(traffic.random().u64(0..advance));
        let first = traffic.next(0);
        let count = traffic.random().usize(1..8);
        let packets: Vec<_> =
            std::iter::once(first.bytes).chain((1..count).map(|_| traffic.next(0).bytes)).collect();
        // Packets arrive where others left, so that they are replies.
        let device = PortNo(devices[first.port as usize % devices.len()]);
        let tick = traffic.random().u32(0..40) == 0;
        for (i, pair) in pairs.iter_mut().enumerate() {
            let place = format!("{file}, seed {seed}, step {step}, pair {i}");
            let sent = pair.receive(now, device, &packets, &place);
            if tick {
                pair.switch.tick(now);
                pair.twin.tick(now);
            }
            if step % 50 == 0 {
                pair.compare_states(now, &place);
            }
            if i > 0 {
                continue;
            }
            for (port, bytes) in sent {
                if let Some(index) = devices.iter().position(|&device| device == port.0) {
                    traffic.saw(&Sent { port: index as u32, bytes });
                }
            }
        }
    }
    let stats = pairs[0].switch.worker.stats();
    stats.unified_hits as f64 / (stats.exact_hits + stats.megaflow_hits) as f64
}

/// Returns the first elements in which two lists differ.
fn difference<'a, T: PartialEq>(seen: &'a [T], expect: &'a [T]) -> Option<(&'a T, &'a T)> {
    assert_eq!(seen.len(), expect.len());
    seen.iter().zip(expect).find(|(seen, expect)| seen != expect)
}

#[test]
fn tables_do_the_same_with_and_without_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ofproto");
    let (mut cases, mut share) = (0, 0.0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Case = toml::from_str(&text).unwrap();
        for seed in 0..2 {
            share += check(&path.display().to_string(), &case, seed);
            cases += 1;
        }
    }
    assert!(cases > 20 && share / f64::from(cases) > 0.1, "{cases} cases, {share} in all");
}
