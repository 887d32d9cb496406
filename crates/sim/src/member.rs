//! A worker with its receive queues, and what is on its way to it.

use crate::defect::{Defect, Fault};
use base::{Instant, PortNo, WorkerId};
use conntrack::Tracker;
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig};
use flow::{DropReason, FlowCommand, FlowDump};
use packet::Batch;
use port::memory::{MemoryRx, MemoryTx};
use port::{MemoryPort, RxQueue, TxQueue};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the control side tells a worker.
#[derive(Debug)]
pub enum Order {
    /// A command about flows.
    Flow(FlowCommand),
    /// A port comes; its packets are received here if so it says.
    AddPort { device: PortNo, port: MemoryPort, receives: bool },
    /// A port goes.
    RemovePort(PortNo),
    /// All installed flows follow this version of the rules as soon as the orders before are done.
    Settled(usize),
}

/// Connections that a worker looks at in an iteration because their time may be over.
const EXPIRED: usize = 4;

pub struct Member {
    pub worker: Worker,
    pub inbox: VecDeque<Order>,
    /// The version of the rules that it has carried out.
    pub settled: usize,
    rx: Vec<(PortNo, MemoryRx)>,
    tx: BTreeMap<PortNo, MemoryTx>,
    out: Outbox,
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
        Member { worker, inbox: VecDeque::new(), settled: 0, rx, tx, out: Outbox::new() }
    }

    /// Executes at most this many orders.
    pub fn obey(&mut self, now: Instant, most: usize) {
        for _ in 0..most {
            let Some(order) = self.inbox.pop_front() else { return };
            match order {
                Order::Flow(command) => self.worker.command(now, command, &mut self.out),
                Order::Settled(version) => self.settled = version,
                Order::AddPort { device, port, receives } => {
                    self.tx.insert(device, port.tx());
                    if receives {
                        self.rx.push((device, port.rx()));
                    }
                }
                Order::RemovePort(device) => {
                    self.rx.retain(|(port, _)| *port != device);
                    self.tx.remove(&device);
                    self.worker.remove_port(now, device, &mut self.out);
                    self.out.remove_port(device);
                }
            }
        }
    }

    /// Receives a batch from each port, telling of it first, and sends what there is to send.
    pub fn receive(
        &mut self,
        now: Instant,
        fault: &mut Fault,
        mut tell: impl FnMut(PortNo, &Batch),
    ) {
        let mut batch = Batch::new();
        for at in 0..self.rx.len() {
            let (port, rx) = &mut self.rx[at];
            // A cable in memory has no error to give.
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

    /// Carries out answers to its own misses, and sends what there is to send.
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
        }
    }

    /// Pages of dumps, and whether the control side is to be woken.
    pub fn take_news(&mut self) -> (Vec<FlowDump>, bool) {
        let dumps = std::mem::take(&mut self.out.dumps);
        (dumps, std::mem::take(&mut self.out.wake_control))
    }

    /// Nothing waits to be done.
    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty() && !self.worker.is_dumping()
    }

    /// Passes of packets that went up or were lost.
    pub fn asked(&self) -> u64 {
        let stats = self.worker.stats();
        stats.misses + stats.lost
    }
}
