//! Whole switches that differ only in a device in front of one of them, the XDP program, to which it hands
//! connections: the tables of `testdata/ofproto/*.toml` treat a long random sequence of packets alike.

#[path = "../../ofproto/tests/support/bridges.rs"]
mod bridges;
#[path = "../../datapath/tests/support/traffic.rs"]
mod traffic;
#[expect(dead_code, reason = "this traffic has no tunnels")]
#[path = "../../datapath/tests/support/tunnels.rs"]
mod tunnels;

use base::{Instant, PortNo};
use bridges::BridgeCase;
use conntrack::Entry;
use datapath::WorkerConfig;
use flow::{Action, FlowId, FlowOffload, OffloadId, OffloadOffer, OffloadTraffic};
use offload_xdp::XdpOffload;
use ofproto::{Config, Ofproto};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use serde::Deserialize;
use sim::Settled;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use traffic::{Sent, Traffic};

const MTU: u32 = 9000;
/// The ports of the cases: numbers to the highest of moves.toml, and two others.
fn ports() -> impl Iterator<Item = u32> {
    (1..=35).chain([100, 6081])
}
const STEPS: u32 = 3000;

/// The switch of a case.
#[derive(Deserialize)]
struct Case {
    bridge: Vec<BridgeCase>,
}

fn switch(case: &Case, offers: bool, now: Instant) -> Settled {
    let config = WorkerConfig { offers, unified_insert_inverse: 1, ..WorkerConfig::default() };
    let mut ofproto = Ofproto::new(Config::default());
    case.bridge.iter().for_each(|bridge| bridge.add_to(&mut ofproto, now));
    let switch = Settled::new(ofproto, config, 9).unwrap();
    // A device that does not check windows takes segments outside them.
    switch.conntrack.set_check_tcp_windows(false);
    switch
}

/// A rule in the device.
struct Installed {
    offer: OffloadOffer,
    out: PortNo,
}

/// A switch behind the device.
struct Offloading<'a> {
    switch: Settled,
    device: &'a mut XdpOffload,
    rules: BTreeMap<OffloadId, Installed>,
    forwarded: u32,
}

impl Offloading<'_> {
    /// Receives a packet. Returns what left, with its ports, sorted.
    fn receive(&mut self, now: Instant, port: PortNo, packet: &[u8]) -> Vec<(PortNo, Vec<u8>)> {
        self.sweep(now);
        // The kernel runs the program on no shorter frames.
        if packet.len() >= 14 {
            let (is_forwarded, bytes) = self.device.try_frame(port, packet).unwrap();
            if is_forwarded {
                self.forwarded += 1;
                return vec![(self.credit(now).expect("a rule forwarded it"), bytes)];
            }
            assert_eq!(bytes, packet, "it is passed up as it came");
        }
        let sent = self.switch.receive(now, port, &[packet.to_vec()], &[1], &mut ());
        self.remove_changed();
        self.install(now);
        sent
    }

    /// Credits what the device forwarded. Returns the port that the last packet left by.
    fn credit(&mut self, now: Instant) -> Option<PortNo> {
        let mut left_by = None;
        for (id, rule) in &self.rules {
            let traffic = self.device.status(*id).traffic;
            if traffic.packets > 0 {
                assert_eq!(left_by.replace(rule.out), None, "one rule forwarded it");
                assert!(note(&self.switch, &rule.offer, now, traffic), "it was swept before");
            }
        }
        left_by
    }

    /// Removes the rules of connections that ended or changed, as the control thread does.
    fn sweep(&mut self, now: Instant) {
        let (device, switch) = (&mut *self.device, &self.switch);
        self.rules.retain(|id, rule| {
            let status = device.status(*id);
            let stays = note(switch, &rule.offer, now, status.traffic) && !status.is_ended;
            if !stays {
                device.remove(*id);
            }
            stays
        });
    }

    /// Removes the rules of flows that changed.
    fn remove_changed(&mut self) {
        let changed: Vec<FlowId> = std::mem::take(&mut self.switch.changed);
        let device = &mut *self.device;
        self.rules.retain(|id, rule| {
            let stays = !rule.offer.flows.iter().any(|flow| changed.contains(flow));
            if !stays {
                device.remove(*id);
            }
            stays
        });
    }

    /// Installs what the worker offers.
    fn install(&mut self, now: Instant) {
        for offer in self.switch.worker.take_offers().unwrap_or_default() {
            let Some(&Action::Output(out)) = offer.rule.actions.last() else { continue };
            let is_known = |it: &Installed| it.offer.rule.connection == offer.rule.connection;
            let connections = &self.switch.conntrack;
            let ended = |it| connections.with_offloaded(now, |all| all.check(it)).is_err();
            if self.rules.values().any(is_known) || offer.rule.connections().any(ended) {
                continue;
            }
            // The device does not expire rules here, since its clock is the kernel's.
            if let Ok(id) = self.device.install(&offer.rule, Duration::MAX) {
                for it in offer.rule.connections() {
                    connections.with_offloaded(now, |all| all.begin(it));
                }
                self.rules.insert(id, Installed { offer, out });
            }
        }
    }

    fn connections(&self, now: Instant) -> Vec<Entry> {
        connections(&self.switch, now)
    }
}

impl Drop for Offloading<'_> {
    fn drop(&mut self) {
        for id in self.rules.keys() {
            self.device.remove(*id);
        }
    }
}

fn note(switch: &Settled, offer: &OffloadOffer, now: Instant, traffic: OffloadTraffic) -> bool {
    let note = |it| switch.conntrack.with_offloaded(now, |all| all.note(it, traffic));
    offer.rule.connections().map(note).fold(true, |all, one| all & one)
}

fn connections(switch: &Settled, now: Instant) -> Vec<Entry> {
    let mut all: Vec<Entry> = switch.conntrack.entries(now, &Default::default()).collect();
    all.sort_by_key(|entry| (entry.zone.0, entry.original));
    all
}

/// Returns the first connections in which two lists differ.
fn difference<'a>(seen: &'a [Entry], expect: &'a [Entry]) -> Option<(&'a Entry, &'a Entry)> {
    assert_eq!(seen.len(), expect.len());
    seen.iter().zip(expect).find(|(seen, expect)| seen != expect)
}

/// Returns how many packets the device forwarded.
fn check(file: &str, case: &Case, device: &mut XdpOffload) -> u32 {
    let devices: Vec<u32> =
        case.bridge.iter().flat_map(|it| &it.port).filter_map(|port| port.device).collect();
    let mut now = Instant::from_millis(1000);
    let rules = BTreeMap::new();
    let mut ours = Offloading { switch: switch(case, true, now), device, rules, forwarded: 0 };
    let mut twin = switch(case, false, now);
    let mut traffic = Traffic::new(3);
    for step in 0..STEPS {
        let advance = if traffic.random().u32(0..200) == 0 { 40_000 } else { 20 };
        now = now + Duration::from_millis(traffic.random().u64(0..advance));
        let packet = traffic.next(0);
        // Packets arrive where others left, so that they are replies.
        let port = PortNo(devices[packet.port as usize % devices.len()]);
        let place = format!("{file}, step {step}, {:?}", wire::text::describe(&packet.bytes));
        let forwarded = ours.forwarded;
        let seen = ours.receive(now, port, &packet.bytes);
        let sent = twin.receive(now, port, &[packet.bytes], &[1], &mut ());
        assert_eq!(seen, sent, "{place}, by the device: {}", ours.forwarded > forwarded);
        if step % 40 == 0 {
            ours.switch.tick(now);
            twin.tick(now);
        }
        if step % 100 == 0 {
            ours.sweep(now);
            let (seen, expect) = (ours.connections(now), connections(&twin, now));
            assert_eq!(difference(&seen, &expect), None, "{place}");
        }
        for (port, bytes) in sent {
            if let Some(index) = devices.iter().position(|&device| device == port.0) {
                traffic.saw(&Sent { port: index as u32, bytes });
            }
        }
    }
    ours.forwarded
}

/// Returns the program on devices of a new namespace, or the reason why that is not possible.
fn device() -> Result<XdpOffload, String> {
    if !XdpOffload::is_built() {
        return Err("built without clang".to_owned());
    }
    // SAFETY: this thread, which ends with the test, has no descriptors or files that depend on its namespace.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|_| "network namespaces take more rights".to_owned())?;
    let mut device = XdpOffload::new(4096).map_err(|error| error.to_string())?;
    for nth in ports() {
        let ip = |line: String| {
            let ran = Command::new("ip").args(line.split(' ')).output();
            let ran = ran.ok().filter(|it| it.status.success());
            ran.ok_or_else(|| "ip does not make veths".to_owned())
        };
        ip(format!("link add name in{nth} type veth peer name out{nth}"))?;
        let said = ip(format!("-o link show in{nth}"))?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let ifindex = said.split(':').next().and_then(|index| index.parse().ok());
        let ifindex = ifindex.ok_or("ip does not tell a device's number")?;
        let place = (&*format!("in{nth}"), ifindex, MTU);
        device.add_port(PortNo(nth), place, true).map_err(|it| it.to_string())?;
    }
    Ok(device)
}

#[test]
fn tables_do_the_same_with_offload() {
    let run = || {
        let mut device = match device() {
            Ok(device) => device,
            Err(why) => {
                println!("\nSKIPPED: tables with offload: {why}");
                return;
            }
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ofproto");
        let mut forwarded = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let case: Case = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let file = path.file_stem().unwrap().to_string_lossy().into_owned();
            forwarded.insert(file.clone(), check(&file, &case, &mut device));
        }
        // Where nothing is tracked, nothing is offloaded; those with tracked connections are.
        println!("{forwarded:?}");
        for tracked in ["seed1", "seed2", "nat-dnat", "nat-snat-range"] {
            assert!(forwarded[tracked] > 50, "{tracked}: {forwarded:?}");
        }
    };
    std::thread::spawn(run).join().unwrap();
}
