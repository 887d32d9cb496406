//! The rig of the datapath as a whole: a worker, its connections, its queue of misses and its output.
//!
//! Unit tests of this crate include it too; there, `datapath` is the crate itself. Each program uses a part of it.

#![allow(dead_code)]

use base::{Instant, PortNo, WorkerId};
use conntrack::{Config, Conntrack, Entry, Filter};
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{Action, Execute, FlowCommand, FlowId, FlowPut, Match, Upcall};
use packet::{Batch, Packet};
use std::sync::Arc;

pub struct Bench {
    pub conntrack: Arc<Conntrack>,
    pub upcalls: Arc<UpcallQueue>,
    pub worker: Worker,
    pub out: Outbox,
    pub now: Instant,
}

impl Bench {
    /// A worker without flows, and connections of its own.
    pub fn new(config: WorkerConfig) -> Bench {
        Bench::with(&Arc::new(Conntrack::new(1, Config::default())), 0, config)
    }

    /// A worker without flows; others may have the same connections.
    pub fn with(conntrack: &Arc<Conntrack>, id: u16, config: WorkerConfig) -> Bench {
        Bench::seeded(conntrack, id, config, 7)
    }

    /// [`Bench::with`] a seed of the worker's random numbers.
    pub fn seeded(conntrack: &Arc<Conntrack>, id: u16, config: WorkerConfig, seed: u64) -> Bench {
        let upcalls = Arc::new(UpcallQueue::new());
        let tracker = conntrack.tracker().expect("so few threads are not too many");
        Bench {
            conntrack: Arc::clone(conntrack),
            worker: Worker::new(WorkerId(id), tracker, Arc::clone(&upcalls), config, seed),
            upcalls,
            out: Outbox::new(),
            now: Instant::from_millis(1000),
        }
    }

    pub fn command(&mut self, command: FlowCommand) {
        self.worker.command(self.now, command, &mut self.out);
    }

    pub fn put(&mut self, id: u64, matching: Match, actions: impl Into<Arc<[Action]>>) {
        let put = FlowPut { id: FlowId(id), matching, actions: actions.into() };
        self.command(FlowCommand::Put(Box::new(put)));
    }

    /// Installs flows with the numbers from 1 on.
    pub fn put_all(&mut self, flows: impl IntoIterator<Item = (Match, Vec<Action>)>) {
        for (id, (matching, actions)) in (1..).zip(flows) {
            self.put(id, matching, actions);
        }
    }

    pub fn delete(&mut self, id: u64) {
        self.command(FlowCommand::Delete(FlowId(id)));
    }

    /// Receives a batch.
    pub fn receive(&mut self, port: u32, packets: impl IntoIterator<Item = Packet>) {
        let mut batch: Batch = packets.into_iter().collect();
        self.worker.receive(self.now, PortNo(port), &mut batch, &mut self.out);
        assert!(batch.is_empty());
    }

    /// Receives a batch of packets as text.
    pub fn send(&mut self, port: u32, texts: &[&str]) {
        let parsed = |text: &&str| {
            let bytes = wire::text::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            Packet::from_bytes(&bytes)
        };
        self.receive(port, texts.iter().map(parsed));
    }

    /// The output since the last call.
    pub fn take_sent(&mut self) -> Vec<(PortNo, Packet)> {
        let mut sent = Vec::new();
        for (port, packets) in self.out.batches_mut() {
            sent.extend(packets.drain(..).map(|packet| (port, packet)));
        }
        sent
    }

    /// The output since the last call, as bytes.
    pub fn sent_bytes(&mut self) -> Vec<(PortNo, Vec<u8>)> {
        self.take_sent().into_iter().map(|(port, it)| (port, it.data().to_vec())).collect()
    }

    /// The output since the last call, as text.
    pub fn sent(&mut self) -> Vec<(u32, String)> {
        let text = |it: Packet| wire::text::describe(it.data()).unwrap_or_default();
        self.take_sent().into_iter().map(|(port, it)| (port.0, text(it))).collect()
    }

    /// The misses since the last call.
    pub fn misses(&mut self) -> Vec<Upcall> {
        let mut upcalls = Vec::new();
        self.upcalls.pop(usize::MAX, &mut upcalls);
        upcalls
    }

    /// Answers a miss. No flow is installed.
    pub fn answer(&mut self, upcall: Upcall, actions: impl Into<Arc<[Action]>>) {
        let Upcall { packet, key, trace, .. } = upcall;
        let actions = actions.into();
        self.command(FlowCommand::Execute(Execute {
            packet,
            key,
            actions,
            flow: None,
            trace,
            stamps: None,
        }));
    }

    /// The packets of each flow, those of deleted flows included.
    pub fn dump(&mut self) -> Vec<(u64, u64)> {
        self.command(FlowCommand::Collect);
        let dump = self.out.dumps.pop().expect("a dump was asked for");
        dump.flows.iter().chain(&dump.gone).map(|(id, stats)| (id.0, stats.packets)).collect()
    }

    /// The connections.
    pub fn entries(&self) -> Vec<Entry> {
        self.conntrack.entries(self.now, &Filter::default()).collect()
    }
}
