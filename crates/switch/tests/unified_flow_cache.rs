//! Whole switches, bridges and all, that differ only in their unified flow cache: the tables of
//! `testdata/ofproto/*.toml` do the same to a long random run of packets with the cache on, tiny
//! and off.

#[path = "../../datapath/tests/support/traffic.rs"]
mod traffic;
#[expect(dead_code, reason = "this traffic has no tunnels")]
#[path = "../../datapath/tests/support/tunnels.rs"]
mod tunnels;

use base::{Instant, MacAddr, OfPort, PortNo, WorkerId};
use conntrack::{Config as Tracking, Conntrack, Filter};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig, WorkerStats};
use flow::{FlowCommand, Upcall};
use ofproto::{BridgeConfig, Config, FailMode, Ofproto, PortDevice, PortSpec, PortVlans};
use openflow::message::FlowModCommand;
use packet::{Batch, Packet};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use traffic::{Sent, Traffic};

/// Of a case only what its switch looks like.
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

struct Switch {
    ofproto: Ofproto,
    worker: Worker,
    conntrack: Arc<Conntrack>,
    upcalls: Arc<UpcallQueue>,
    out: Outbox,
    orders: ofproto::Outbox,
}

fn vlan_mode(text: &str) -> PortVlans {
    let mut words = text.split([' ', ',']);
    let mode = words.next().unwrap_or_default();
    let numbers: Vec<u16> = words.filter_map(|word| word.parse().ok()).collect();
    let tag = numbers.first().copied().unwrap_or_default();
    let rest = numbers.get(1..).unwrap_or_default().to_vec();
    match mode {
        "access" => PortVlans::Access(tag),
        "native-tagged" => PortVlans::NativeTagged { tag, trunks: rest },
        "native-untagged" => PortVlans::NativeUntagged { tag, trunks: rest },
        "dot1q-tunnel" => PortVlans::Tunnel { tag, inner: rest, tpid: 0x88a8 },
        _ => PortVlans::Trunk { trunks: numbers },
    }
}

impl Switch {
    fn new(case: &Case, unified_entries: usize, now: Instant) -> Switch {
        let conntrack = Arc::new(Conntrack::new(5, Tracking::default()));
        let upcalls = Arc::new(UpcallQueue::new());
        let config =
            WorkerConfig { unified_entries, unified_insert_inverse: 1, ..WorkerConfig::default() };
        let tracker = conntrack.tracker().unwrap();
        let worker = Worker::new(WorkerId(0), tracker, Arc::clone(&upcalls), config, 9);
        let mut ofproto = Ofproto::new(Config::default());
        case.bridge.iter().for_each(|bridge| add_bridge(&mut ofproto, bridge, now));
        let (out, orders) = (Outbox::new(), ofproto::Outbox::default());
        Switch { ofproto, worker, conntrack, upcalls, out, orders }
    }

    /// What is sent of a batch and its misses, in the order of ports and bytes.
    fn receive(&mut self, now: Instant, port: u32, packets: &[Vec<u8>]) -> Vec<Sent> {
        let mut batch: Batch = packets.iter().map(|bytes| Packet::from_bytes(bytes)).collect();
        self.worker.receive(now, PortNo(port), &mut batch, &mut self.out);
        let (mut sent, mut waiting) = (Vec::new(), Vec::<Upcall>::new());
        loop {
            for (port, batch) in self.out.batches_mut() {
                let packets = batch.drain(..);
                sent.extend(packets.map(|it| Sent { port: port.0, bytes: it.data().to_vec() }));
            }
            self.upcalls.pop(64, &mut waiting);
            if waiting.is_empty() {
                break;
            }
            for upcall in waiting.drain(..) {
                self.ofproto.upcall(now, upcall, &mut self.orders);
            }
            self.ofproto.revalidate(now, &mut self.orders);
            for (_, command) in self.orders.commands.drain(..) {
                self.worker.command(now, command, &mut self.out);
            }
        }
        self.out.wake_control = false;
        sent.sort();
        sent
    }

    /// Everything else that can be seen.
    fn state(&mut self, now: Instant) -> (String, String, WorkerStats) {
        self.worker.command(now, FlowCommand::Collect, &mut self.out);
        let mut flows: Vec<_> = self.out.dumps.drain(..).flat_map(|dump| dump.flows).collect();
        flows.sort_by_key(|(id, _)| *id);
        let mut connections: Vec<_> = self.conntrack.entries(now, &Filter::default()).collect();
        connections.sort_by_key(|entry| (entry.zone.0, entry.original));
        let mut stats = self.worker.stats().clone();
        stats.exact_hits += std::mem::take(&mut stats.megaflow_hits);
        (stats.subtables, stats.unified_hits) = (0, 0);
        (format!("{flows:?}"), format!("{connections:?}"), stats)
    }
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

fn check(file: &str, case: &Case, seed: u64) -> f64 {
    let devices: Vec<u32> =
        case.bridge.iter().flat_map(|it| &it.port).filter_map(|port| port.device).collect();
    let mut now = Instant::from_millis(1000);
    let mut switches = [0, 1 << 16, 4].map(|entries| Switch::new(case, entries, now));
    let mut traffic = Traffic::new(seed);
    for step in 0..500 {
        let advance = if traffic.random().u32(0..100) == 0 { 40_000 } else { 20 };
        now = now + Duration::from_millis(traffic.random().u64(0..advance));
        let first = traffic.next(0);
        let count = traffic.random().usize(1..8);
        let packets: Vec<_> =
            std::iter::once(first.bytes).chain((1..count).map(|_| traffic.next(0).bytes)).collect();
        // Packets come in where others went out, so that they are answers.
        let device = devices[first.port as usize % devices.len()];
        let tick = traffic.random().u32(0..40) == 0;
        let mut expect = None;
        for (i, switch) in switches.iter_mut().enumerate() {
            let sent = switch.receive(now, device, &packets);
            if tick {
                switch.worker.tick();
                switch.conntrack.tick(now);
            }
            let seen = (sent, (step % 50 == 0).then(|| switch.state(now)));
            let expect = expect.get_or_insert_with(|| seen.clone());
            let place = format!("{file}, seed {seed}, step {step}, switch {i}");
            assert_eq!(seen.0, expect.0, "{place}");
            if let (Some(seen), Some(expect)) = (&seen.1, &expect.1) {
                assert_eq!(seen.2, expect.2, "{place}");
                assert_eq!(difference(&seen.0, &expect.0), None, "{place}");
                assert_eq!(difference(&seen.1, &expect.1), None, "{place}");
            }
        }
        let (sent, _) = expect.unwrap_or_default();
        for Sent { port, bytes } in sent {
            if let Some(index) = devices.iter().position(|&device| device == port) {
                traffic.saw(&Sent { port: index as u32, bytes });
            }
        }
    }
    let stats = switches[1].worker.stats();
    stats.unified_hits as f64 / (stats.exact_hits + stats.megaflow_hits) as f64
}

/// Where two texts begin to differ, with what stands around there.
fn difference<'a>(seen: &'a str, expect: &'a str) -> Option<(&'a str, &'a str)> {
    let at = seen.bytes().zip(expect.bytes()).position(|(a, b)| a != b);
    let at = at.or((seen.len() != expect.len()).then(|| seen.len().min(expect.len())))?;
    let around = |text: &'a str| &text[at.saturating_sub(300)..text.len().min(at + 100)];
    Some((around(seen), around(expect)))
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
