//! A worker with its receive queues and its pending commands.

use crate::defect::{Defect, Fault};
use base::{Instant, PortNo, WorkerId};
use conntrack::Tracker;
use datapath::{LastFlows, Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{DropReason, FlowCommand, FlowDump};
use packet::Batch;
use port::memory::{MemoryRx, MemoryTx};
use port::{MemoryPort, RxQueue, TxQueue};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A command of the control side to a worker.
#[derive(Debug)]
pub enum Order {
    /// A command about flows.
    Flow(FlowCommand),
    /// Adds a port, to which the worker may send.
    AddTx { device: PortNo, port: MemoryPort },
    /// The worker receives the packets of a port.
    AddRx { device: PortNo, port: MemoryPort },
    /// Removes a port.
    RemovePort(PortNo),
    /// Once the previous commands are executed, all installed flows are those of this version of the rules.
    Settled(usize),
}

/// The number of connections that a worker checks for expiry in an iteration.
const EXPIRED: usize = 4;

pub struct Member {
    pub worker: Worker,
    pub inbox: VecDeque<Order>,
    /// The version of the rules that it has applied.
    pub settled: usize,
    rx: Vec<(PortNo, MemoryRx)>,
    tx: BTreeMap<PortNo, MemoryTx>,
    out: Outbox,
    /// Packets that devices dropped.
    pub dropped: u64,
}

impl Member {
    pub fn new(
        id: WorkerId,
        tracker: Tracker,
        upcalls: Arc<UpcallQueue>,
        config: WorkerConfig,
        seed: u64,
    ) -> Member {
        let worker = Worker::new(id, tracker, upcalls, config, seed);
        let (rx, tx) = (Vec::new(), BTreeMap::new());
        Member {
            worker,
            inbox: VecDeque::new(),
            settled: 0,
            rx,
            tx,
            out: Outbox::new(),
            dropped: 0,
        }
    }

    /// Executes at most this many commands.
    pub fn obey(&mut self, now: Instant, most: usize) {
        for _ in 0..most {
            let Some(order) = self.inbox.pop_front() else { return };
            match order {
                Order::Flow(command) => self.worker.command(now, command, &mut self.out),
                Order::Settled(version) => self.settled = version,
                Order::AddTx { device, port } => drop(self.tx.insert(device, port.tx())),
                Order::AddRx { device, port } => self.rx.push((device, port.rx())),
                Order::RemovePort(device) => {
                    self.rx.retain(|(port, _)| *port != device);
                    self.tx.remove(&device);
                    self.worker.remove_port(now, device, &mut self.out);
                    self.out.remove_port(device);
                }
            }
        }
    }

    /// Receives a batch from each port and sends the resulting packets. Passes each batch to `tell` before it
    /// is processed.
    pub fn receive(
        &mut self,
        now: Instant,
        fault: &mut Fault,
        mut tell: impl FnMut(PortNo, &Batch),
    ) {
        let mut batch = Batch::new();
        for at in 0..self.rx.len() {
            let (port, rx) = &mut self.rx[at];
            // A memory port returns no errors.
            if rx.receive(self.worker.pool(), &mut batch).is_ok() && !batch.is_empty() {
                tell(*port, &batch);
                let port = *port;
                self.worker.receive(now, port, &mut batch, &mut self.out);
            }
        }
        self.worker.continue_dump(&mut self.out);
        self.send(fault);
        self.worker.expire(now, EXPIRED);
    }

    /// Executes the answers to its own misses and sends the resulting packets.
    pub fn carry_out(
        &mut self,
        now: Instant,
        commands: Vec<(WorkerId, FlowCommand)>,
        fault: &mut Fault,
    ) {
        for (_, command) in commands {
            self.worker.command(now, command, &mut self.out);
        }
        self.send(fault);
    }

    fn send(&mut self, fault: &mut Fault) {
        for (port, batch) in self.out.batches_mut() {
            let Some(tx) = self.tx.get_mut(&port) else {
                for packet in batch.drain(..) {
                    self.worker.drop_packet(packet, DropReason::NoPort);
                }
                continue;
            };
            if batch.len() > 1 && fault.strikes(Defect::SwapsPackets) {
                batch.swap(0, 1);
            }
            let sent = tx.send(self.worker.pool(), batch);
            self.worker.stats_mut().sent += sent.packets;
            self.dropped += sent.dropped;
        }
    }

    /// Sends what is left, and ends. Returns what it still has to tell of its flows, the pages that it told, and how
    /// many packets were lost, those that waited behind misses included.
    pub fn finish(mut self, now: Instant, fault: &mut Fault) -> (LastFlows, Vec<FlowDump>, u64) {
        self.send(fault);
        let abandoned = self.worker.abandon_misses().iter().map(|(_, count)| count).sum::<u64>();
        let lost = self.lost() + abandoned;
        let pages = self.take_news().0;
        (self.worker.end(now), pages, lost)
    }

    /// Packets that it lost, and that devices dropped.
    pub fn lost(&self) -> u64 {
        self.worker.stats().lost + self.dropped
    }

    /// Takes the pages of dumps, and returns whether the control side must be woken.
    pub fn take_news(&mut self) -> (Vec<FlowDump>, bool) {
        let dumps = std::mem::take(&mut self.out.dumps);
        (dumps, std::mem::take(&mut self.out.wake_control))
    }

    /// Returns whether the worker has no pending work.
    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty() && !self.worker.is_dumping()
    }

    /// Returns the number of passes that caused an upcall or lost the packet.
    pub fn asked(&self) -> u64 {
        let stats = self.worker.stats();
        stats.misses + stats.lost
    }
}
