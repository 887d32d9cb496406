//! The rig of the slow path: a worker, and a control side that answers its misses at once.

use super::bench::Bench;
use super::policy::Policy;
use super::traffic::Sent;
use base::{Instant, PortNo};
use conntrack::{Config, Conntrack, CtFlush, Entry};
use datapath::{Observer, WorkerConfig, WorkerStats};
use flow::{Action, Execute, FlowCommand, FlowId, FlowKey, FlowStats, Match, Upcall, UpcallKind};
use packet::{Batch, Checksum, Packet};
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Switch {
    bench: Bench,
    pub policy: Policy,
    flows: BTreeMap<u64, Flow>,
    next: u64,
}

struct Flow {
    matching: Match,
    key: FlowKey,
    actions: Arc<[Action]>,
}

/// The visible effects of a batch.
#[derive(PartialEq, Debug)]
pub struct Seen {
    pub sent: Vec<Sent>,
    pub asked: Vec<String>,
    pub stats: WorkerStats,
}

/// The visible state of a switch.
#[derive(PartialEq, Debug)]
pub struct State {
    pub flows: Vec<(FlowId, FlowStats)>,
    pub connections: Vec<Entry>,
    pub counters: String,
}

impl Switch {
    pub fn new(policy: Policy, config: WorkerConfig) -> Switch {
        // The connection table is full, not limited, full after a while, or full for one zone.
        let connections_max = [40, 100_000, 300, 100_000][(policy.seed % 4) as usize];
        let limits = Config { connections_max, ..Config::default() };
        let conntrack = Arc::new(Conntrack::new(policy.seed, limits));
        if policy.seed % 4 == 3 {
            conntrack.set_zone_limit(Some(base::Zone(2)), 10);
        }
        let seed = policy.seed ^ 0x1234_5678_9abc_def1;
        let bench = Bench::seeded(&conntrack, 0, config, seed);
        Switch { bench, policy, flows: BTreeMap::new(), next: 0 }
    }

    /// Receives a batch and answers its upcalls, while the steps of all packets are recorded.
    pub fn receive_telling(
        &mut self,
        now: Instant,
        port: u32,
        packets: &[Vec<u8>],
        observer: &mut impl Observer,
    ) -> Seen {
        self.receive_parts(now, port, packets, &[packets.len()], observer)
    }

    fn answer_all(&mut self, observer: &mut impl Observer) -> Seen {
        let (mut sent, mut asked) = (Vec::new(), Vec::new());
        loop {
            let output = self.bench.sent_bytes().into_iter();
            sent.extend(output.map(|(port, bytes)| Sent { port: port.0, bytes }));
            let waiting = self.bench.misses();
            if waiting.is_empty() {
                break;
            }
            for upcall in waiting {
                asked.push(format!(
                    "{:?} {:?} {:?}",
                    upcall.kind,
                    upcall.key,
                    upcall.packet.data()
                ));
                if upcall.kind == UpcallKind::Miss {
                    self.answer(upcall, observer);
                }
            }
        }
        self.bench.out.wake_control = false;
        sent.sort();
        // The two caches together answer what one of them would alone.
        let mut stats = self.bench.worker.stats().clone();
        stats.exact_hits += std::mem::take(&mut stats.megaflow_hits);
        (stats.subtables, stats.unified_hits) = (0, 0);
        Seen { sent, asked, stats }
    }

    /// Receives a batch in parts, and answers the upcalls of all parts at the end.
    pub fn receive_parts(
        &mut self,
        now: Instant,
        port: u32,
        packets: &[Vec<u8>],
        parts: &[usize],
        observer: &mut impl Observer,
    ) -> Seen {
        self.bench.now = now;
        let mut rest = packets;
        for &part in parts {
            let (packets, behind) = rest.split_at(part);
            rest = behind;
            let mut batch: Batch = packets.iter().map(|bytes| arrived(bytes)).collect();
            let Bench { worker, out, .. } = &mut self.bench;
            worker.receive_timed(now, PortNo(port), &mut batch, out, observer);
        }
        assert!(rest.is_empty(), "{parts:?} of {}", packets.len());
        self.answer_all(observer)
    }

    fn answer(&mut self, upcall: Upcall, observer: &mut impl Observer) {
        let (matching, actions) = self.policy.translate(&upcall.key);
        if !self.flows.values().any(|flow| flow.matching == matching) {
            self.next += 1;
            let key = (*upcall.key).clone();
            self.put(self.next, Flow { matching, key, actions: Arc::clone(&actions) });
        }
        let Upcall { packet, key, trace, .. } = upcall;
        let execute = Execute { packet, key, actions, flow: None, trace, stamps: None };
        let Bench { worker, out, now, .. } = &mut self.bench;
        worker.execute(*now, execute, out, observer);
    }

    fn put(&mut self, id: u64, flow: Flow) {
        self.bench.put(id, flow.matching.clone(), Arc::clone(&flow.actions));
        self.flows.insert(id, flow);
    }

    /// Returns the share of passes that hit the unified cache.
    pub fn unified_share(&self) -> f64 {
        let stats = self.bench.worker.stats();
        stats.unified_hits as f64 / (stats.exact_hits + stats.megaflow_hits) as f64
    }

    /// Changes the rules of a class of packets: flows are changed or deleted.
    pub fn change(&mut self, now: Instant, class: usize) {
        self.bench.now = now;
        self.policy.classes[class] += 1;
        let ids: Vec<u64> = self.flows.keys().copied().collect();
        for id in ids {
            let Flow { matching, key, actions } = &self.flows[&id];
            let (new, steps) = self.policy.translate(key);
            if new != *matching {
                self.flows.remove(&id);
                self.bench.delete(id);
            } else if steps != *actions {
                let key = key.clone();
                self.put(id, Flow { matching: new, key, actions: steps });
            }
        }
    }

    /// Replaces a flow by an equal one with another number.
    pub fn renumber(&mut self, now: Instant, nth: usize) {
        self.bench.now = now;
        let Some(&id) = self.flows.keys().nth(nth % self.flows.len().max(1)) else { return };
        if let Some(flow) = self.flows.remove(&id) {
            self.next += 1;
            self.put(self.next, flow);
        }
    }

    pub fn flush(&self, now: Instant, zone: u16) {
        let _ = self.bench.conntrack.flush(now, &CtFlush::zone(base::Zone(zone)));
    }

    pub fn tick(&mut self, now: Instant) {
        self.bench.worker.tick_alone();
        while self.bench.conntrack.tick(now) > 0 {}
    }

    pub fn state(&mut self, now: Instant) -> State {
        self.bench.now = now;
        self.bench.command(FlowCommand::Collect);
        let mut flows: Vec<_> = self
            .bench
            .out
            .dumps
            .drain(..)
            .flat_map(|dump| [dump.flows, dump.gone])
            .flatten()
            .collect();
        flows.sort_by_key(|(id, _)| *id);
        let mut connections = self.bench.entries();
        connections.sort_by_key(|entry| (entry.zone.0, entry.original));
        State { flows, connections, counters: format!("{:?}", self.bench.conntrack.counters()) }
    }
}

/// Returns a packet as a port receives it: some have a partial checksum, as from guests.
fn arrived(bytes: &[u8]) -> Packet {
    let mut packet = Packet::from_bytes(bytes);
    if bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 4 == 0 {
        packet.offload.checksum = Checksum::Partial;
    }
    packet
}
