//! A switch whose control side answers at once, for tests of workers with whole tables in which the
//! interleaving does not matter.

use base::{Instant, PortNo, WorkerId};
use conntrack::{Config, Conntrack, Entry, Filter};
use datapath::{Observer, Outbox, UpcallQueue, Worker, WorkerConfig, WorkerStats};
use flow::{FlowCommand, FlowId, FlowStats, Upcall};
use ofproto::Ofproto;
use packet::{Batch, Packet};
use std::sync::Arc;

/// One worker with its bridges and connections.
pub struct Settled {
    /// The bridges.
    pub ofproto: Ofproto,
    /// The worker.
    pub worker: Worker,
    /// Its connections.
    pub conntrack: Arc<Conntrack>,
    /// The flows that were installed, changed or deleted since the reader took them.
    pub changed: Vec<FlowId>,
    upcalls: Arc<UpcallQueue>,
    out: Outbox,
    orders: ofproto::Outbox,
}

/// The observable state of a switch, besides the packets that it sent.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Statistics of the installed flows that were hit since the last call, and of deleted flows.
    pub flows: Vec<(FlowId, FlowStats)>,
    /// The connections.
    pub connections: Vec<Entry>,
    /// The worker's counters. The hits of all caches are summed, so that they do not depend on which cache is
    /// used.
    pub stats: WorkerStats,
}

impl Settled {
    /// Creates a switch with these bridges.
    ///
    /// # Errors
    /// Connection tracking has no slot for another thread.
    pub fn new(
        ofproto: Ofproto,
        config: WorkerConfig,
        seed: u64,
    ) -> Result<Settled, conntrack::Error> {
        let conntrack = Arc::new(Conntrack::new(seed, Config::default()));
        let upcalls = Arc::new(UpcallQueue::new());
        let tracker = conntrack.tracker()?;
        let worker = Worker::new(WorkerId(0), tracker, Arc::clone(&upcalls), config, seed);
        let (out, orders) = (Outbox::new(), ofproto::Outbox::default());
        let changed = Vec::new();
        Ok(Settled { ofproto, worker, conntrack, changed, upcalls, out, orders })
    }

    /// Receives frames on a port, in batches with the lengths in `parts`, and answers the misses after the
    /// last batch. The worker reports its steps to `observer`. Returns the sent packets with their ports,
    /// sorted.
    pub fn receive(
        &mut self,
        now: Instant,
        port: PortNo,
        frames: &[Vec<u8>],
        parts: &[usize],
        observer: &mut impl Observer,
    ) -> Vec<(PortNo, Vec<u8>)> {
        let mut frames = frames.iter();
        for &part in parts {
            let mut batch: Batch =
                frames.by_ref().take(part).map(|bytes| Packet::from_bytes(bytes)).collect();
            self.worker.receive_timed(now, port, &mut batch, &mut self.out, observer);
        }
        debug_assert_eq!(frames.len(), 0, "parts of all frames");
        let (mut sent, mut waiting) = (Vec::new(), Vec::<Upcall>::new());
        loop {
            for (port, batch) in self.out.batches_mut() {
                sent.extend(batch.drain(..).map(|packet| (port, packet.data().to_vec())));
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
                if let FlowCommand::Delete(id) = command {
                    self.changed.push(id);
                }
                self.changed.extend(command.to_put().map(|put| put.id));
                self.worker.command(now, command, &mut self.out);
            }
        }
        self.out.wake_control = false;
        sent.sort();
        sent
    }

    /// Runs the timers of the worker and of connection tracking.
    pub fn tick(&mut self, now: Instant) {
        self.worker.tick_alone();
        self.conntrack.tick(now);
    }

    /// Returns the observable state.
    pub fn state(&mut self, now: Instant) -> State {
        self.worker.command(now, FlowCommand::Collect, &mut self.out);
        while self.worker.is_dumping() {
            self.worker.continue_dump(&mut self.out);
        }
        let mut flows: Vec<_> =
            self.out.dumps.drain(..).flat_map(|dump| [dump.flows, dump.gone]).flatten().collect();
        flows.sort_by_key(|(id, _)| *id);
        let mut connections: Vec<_> = self.conntrack.entries(now, &Filter::default()).collect();
        connections.sort_by_key(|entry| (entry.zone.0, entry.original));
        let mut stats = self.worker.stats().clone();
        stats.exact_hits += std::mem::take(&mut stats.megaflow_hits);
        (stats.subtables, stats.unified_hits) = (0, 0);
        State { flows, connections, stats }
    }
}
