//! Whole switches that differ only in their unified cache: the tables of `testdata/ofproto/*.toml` treat
//! a long random sequence of packets alike with the cache on, tiny and off. A worker with a cache splits a
//! batch into runs, which the worker without one receives as separate batches.

#[path = "../../ofproto/tests/support/bridges.rs"]
mod bridges;
#[path = "../../datapath/tests/support/parts.rs"]
mod parts;
#[path = "../../datapath/tests/support/traffic.rs"]
mod traffic;
#[expect(dead_code, reason = "this traffic has no tunnels")]
#[path = "../../datapath/tests/support/tunnels.rs"]
mod tunnels;

use base::{Instant, PortNo};
use bridges::BridgeCase;
use datapath::WorkerConfig;
use ofproto::{Config, Ofproto};
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

fn switch(case: &Case, unified_entries: usize, now: Instant) -> Settled {
    let config =
        WorkerConfig { unified_entries, unified_insert_inverse: 1, ..WorkerConfig::default() };
    let mut ofproto = Ofproto::new(Config::default());
    case.bridge.iter().for_each(|bridge| bridge.add_to(&mut ofproto, now));
    Settled::new(ofproto, config, 9).unwrap()
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
