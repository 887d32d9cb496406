//! A worker's thread: receives from its ports, lets the datapath decide, sends.
//!
//! A sleeping worker waits in one system call for any of its ports or for the control side, and
//! uses no processor time when nothing comes. A polling worker has a processor of its own and
//! never waits.

use crate::clock;
use base::{Instant, PortNo, WorkerId};
use conntrack::Conntrack;
use datapath::{Outbox, UpcallQueue, Worker, WorkerConfig, WorkerStats};
use flow::{DropReason, FlowCommand, FlowDump};
use packet::Batch;
use port::{PortError, RxQueue, TxQueue};
use port_linux::{Waiter, Waker, affinity};
use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// How long a sleeping worker sleeps at most, so that its tables are kept in order.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Batches received from one port before the others get their turn.
const BATCHES_PER_TURN: usize = 4;

/// How a worker's thread spends its time when nothing comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkerMode {
    /// Waits in the kernel.
    Sleeping,
    /// Polls for ever, pinned to this processor.
    Polling {
        /// The processor.
        cpu: usize,
    },
}

/// What the control side tells a worker's thread.
pub enum WorkerCommand {
    /// Something for the datapath.
    Flow(FlowCommand),
    /// Send packets for a port through this queue.
    AddTx(PortNo, Box<dyn TxQueue>),
    /// Receive a port's packets from this queue.
    AddRx(PortNo, Box<dyn RxQueue>),
    /// Neither send to nor receive from a port any more; its queues are closed when the sender is
    /// dropped.
    RemovePort(PortNo, mpsc::Sender<()>),
    /// Other settings.
    Configure(WorkerConfig),
    /// Forget the counters.
    ClearStats,
    /// End.
    Stop,
}

/// What a worker's thread tells the control side.
#[derive(Debug)]
pub enum WorkerEvent {
    /// Misses wait in the queue.
    Upcalls,
    /// Statistics of flows, from workers started in this generation.
    Dump(u32, FlowDump),
    /// A port's device failed; it is received from no longer.
    PortFailed(PortNo, PortError),
}

/// What workers share.
pub struct Shared {
    /// Connections.
    pub conntrack: Arc<Conntrack>,
    /// Misses.
    pub upcalls: Arc<UpcallQueue>,
    /// Where they tell what happens.
    pub events: UnboundedSender<WorkerEvent>,
}

/// A running worker, as the control side holds it.
pub struct WorkerThread {
    /// Its number.
    pub id: WorkerId,
    /// How it spends its time.
    pub mode: WorkerMode,
    commands: mpsc::Sender<WorkerCommand>,
    waker: Waker,
    stats: Arc<Mutex<WorkerStats>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl WorkerThread {
    /// Starts a worker.
    pub fn start(
        id: WorkerId,
        generation: u32,
        mode: WorkerMode,
        config: WorkerConfig,
        shared: Shared,
    ) -> Result<Self, PortError> {
        let Shared { conntrack, upcalls, events } = shared;
        let waiter = Waiter::new()?;
        let waker = waiter.waker();
        let (commands, inbox) = mpsc::channel();
        let stats = Arc::new(Mutex::new(WorkerStats::default()));
        let published = Arc::clone(&stats);
        let tracker = conntrack.tracker().map_err(|error| PortError::Invalid {
            device: format!("worker {id}"),
            reason: error.to_string(),
        })?;
        let worker = Worker::new(id, tracker, upcalls, config, fastrand::u64(..));
        let name = match mode {
            WorkerMode::Sleeping => format!("worker{id}"),
            WorkerMode::Polling { cpu } => format!("pmd-c{cpu:02}/id:{id}"),
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                let ports = Ports::new();
                Run { generation, mode, worker, waiter, inbox, events, published, ports }.run();
            })
            .map_err(|source| PortError::System {
                device: format!("worker {id}"),
                what: "start a thread",
                source,
            })?;
        Ok(WorkerThread { id, mode, commands, waker, stats, thread: Some(thread) })
    }

    /// Tells the worker something.
    pub fn send(&self, command: WorkerCommand) {
        // A worker that has ended has no use for it.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// The worker's counters, at most a second old.
    pub fn stats(&self) -> WorkerStats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.send(WorkerCommand::Stop);
        if let Some(thread) = self.thread.take() {
            // A worker that panicked has said so on stderr already.
            let _ = thread.join();
        }
    }
}

/// The ports that one worker serves.
struct Ports {
    rx: Vec<(PortNo, Box<dyn RxQueue>)>,
    tx: HashMap<PortNo, Box<dyn TxQueue>>,
    failed: Vec<(PortNo, PortError)>,
}

impl Ports {
    fn new() -> Self {
        Ports { rx: Vec::new(), tx: HashMap::new(), failed: Vec::new() }
    }
}

/// The thread's state.
struct Run {
    generation: u32,
    mode: WorkerMode,
    worker: Worker,
    waiter: Waiter,
    inbox: mpsc::Receiver<WorkerCommand>,
    events: UnboundedSender<WorkerEvent>,
    published: Arc<Mutex<WorkerStats>>,
    ports: Ports,
}

impl Run {
    fn run(mut self) {
        if let WorkerMode::Polling { cpu } = self.mode
            && let Err(error) = affinity::pin_to_cpu(cpu)
        {
            log::warn!(target: "dpif_netdev", "cannot pin a worker to CPU {cpu}: {error}");
        }
        let (mut out, mut batch) = (Outbox::new(), Batch::new());
        let mut now = clock::now();
        let mut ticked = now;
        loop {
            if !self.obey(now, &mut out) {
                return;
            }
            let received = self.receive_all(now, &mut batch, &mut out);
            self.flush(&mut out);
            let worked = clock::now();
            let stats = self.worker.stats_mut();
            if received {
                stats.busy_ns += (worked - now).as_nanos() as u64
            };
            now = worked;
            if now - ticked >= SLEEP_MAX {
                ticked = now;
                self.worker.tick();
                self.publish();
            }
            if !received {
                now = self.rest(now);
            }
        }
    }

    /// Waits for something to do, where the worker may wait. Gives the time after.
    fn rest(&mut self, since: Instant) -> Instant {
        self.publish();
        if self.mode == WorkerMode::Sleeping
            && let Err(error) = self.waiter.wait(Some(SLEEP_MAX))
        {
            // Nothing but a wrong descriptor can fail here; better slow than spinning.
            log::error!(target: "dpif_netdev", "worker cannot wait: {error}");
            std::thread::sleep(Duration::from_millis(10));
        }
        let now = clock::now();
        self.worker.stats_mut().idle_ns += (now - since).as_nanos() as u64;
        now
    }

    /// Carries out what the control side asked; says whether to go on.
    fn obey(&mut self, now: Instant, out: &mut Outbox) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(WorkerCommand::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
                Ok(WorkerCommand::Flow(command)) => self.worker.command(now, command, out),
                Ok(WorkerCommand::AddTx(port, tx)) => drop(self.ports.tx.insert(port, tx)),
                Ok(WorkerCommand::AddRx(port, rx)) => self.add_rx(port, rx),
                Ok(WorkerCommand::RemovePort(port, _done)) => self.remove_port(port, out),
                Ok(WorkerCommand::Configure(config)) => self.worker.configure(config),
                Ok(WorkerCommand::ClearStats) => {
                    *self.worker.stats_mut() = WorkerStats::default();
                    self.publish();
                }
            }
        }
    }

    fn add_rx(&mut self, port: PortNo, rx: Box<dyn RxQueue>) {
        if let Some(fd) = rx.wake_fd()
            && let Err(error) = self.waiter.watch(fd, u64::from(port.0))
        {
            log::error!(target: "dpif_netdev", "cannot watch port {port}: {error}");
        }
        self.ports.rx.push((port, rx));
    }

    fn remove_port(&mut self, port: PortNo, out: &mut Outbox) {
        self.forget_rx(port);
        self.ports.tx.remove(&port);
        out.remove_port(port);
    }

    fn forget_rx(&mut self, port: PortNo) {
        let waiter = &mut self.waiter;
        self.ports.rx.retain(|(known, rx)| {
            if *known == port
                && let Some(fd) = rx.wake_fd()
            {
                waiter.forget(fd);
            }
            *known != port
        });
    }

    /// Gives each port its turn; says whether anything came.
    fn receive_all(&mut self, now: Instant, batch: &mut Batch, out: &mut Outbox) -> bool {
        let mut any = false;
        let Ports { rx, failed, .. } = &mut self.ports;
        for (port, rx) in rx.iter_mut() {
            for _ in 0..BATCHES_PER_TURN {
                if let Err(error) = rx.receive(self.worker.pool(), batch) {
                    failed.push((*port, error));
                }
                let full = batch.is_full();
                any |= !batch.is_empty();
                self.worker.receive(now, *port, batch, out);
                if !full {
                    break;
                }
            }
        }
        for (port, error) in std::mem::take(failed) {
            self.forget_rx(port);
            let _ = self.events.send(WorkerEvent::PortFailed(port, error));
        }
        any
    }

    /// Sends all that lies in the outbox.
    fn flush(&mut self, out: &mut Outbox) {
        let mut batch = Batch::new();
        for (port, packets) in out.ports_mut() {
            let Some(tx) = self.ports.tx.get_mut(&port) else {
                for packet in packets.drain(..) {
                    self.worker.drop_packet(packet, DropReason::NoPort);
                }
                continue;
            };
            while !packets.is_empty() {
                let count = packets.len().min(batch.capacity());
                batch.extend(packets.drain(..count));
                let sent = tx.send(self.worker.pool(), &mut batch);
                let stats = self.worker.stats_mut();
                stats.sent += sent.packets;
                stats.sent_batches += u64::from(sent.packets > 0);
                stats.drops.count(DropReason::TxQueueFull, sent.dropped);
                stats.drops.count(DropReason::TxError, sent.errors);
            }
        }
        for dump in out.dumps.drain(..) {
            let _ = self.events.send(WorkerEvent::Dump(self.generation, dump));
        }
        if std::mem::take(&mut out.wake_control) {
            let _ = self.events.send(WorkerEvent::Upcalls);
        }
    }

    /// Lets the control side read the counters.
    fn publish(&self) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.clone_from(self.worker.stats());
    }
}
