//! A worker's thread as the control side holds it. What it does is told in
//! [`super::worker_loop`].

use super::handlers::Answering;
use super::latency::Recorder;
use super::metrics::Metrics;
use super::offload::Credit;
use super::secret::secret;
use super::tracing::{Order, Traced};
use super::worker_loop::{self, Start};
use super::worker_ports::RxSlot;
use super::worker_report::WorkerReport;
use base::{PortNo, WorkerId};
use conntrack::Conntrack;
use datapath::{CacheMemory, CacheMemoryRequest, UpcallQueue, Worker, WorkerConfig, WorkerStats};
use flow::{FlowCommand, FlowDump, OffloadOffer};
use port::{PortError, TxQueue};
use port_linux::{Waiter, Waker, affinity};
use std::cell::Cell;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// How a worker's thread spends its time when nothing comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkerMode {
    /// Waits in the kernel.
    Sleeping,
    /// Polls for ever, pinned to this processor.
    Polling {
        /// The processor.
        cpu: usize,
        /// Its node of memory.
        numa: u16,
        /// For tests: runs where it likes, and waits in the kernel all the same.
        pretends: bool,
    },
}

impl WorkerMode {
    /// Whether it waits in the kernel when nothing comes.
    pub fn waits(self) -> bool {
        matches!(self, WorkerMode::Sleeping | WorkerMode::Polling { pretends: true, .. })
    }
}

/// What the control side tells a worker's thread.
pub enum WorkerCommand {
    /// Something for the datapath.
    Flow(FlowCommand),
    /// The same, in order.
    Flows(Vec<FlowCommand>),
    /// Send packets for a port through this queue.
    AddTx(PortNo, Box<dyn TxQueue>),
    /// Receive packets from this queue.
    AddRx(RxSlot),
    /// Give a queue of a port away.
    TakeRx(PortNo, u16, mpsc::Sender<RxSlot>),
    /// Polling workers: sleep at most this long between two looks when little comes; zero never.
    SleepMax(Duration),
    /// Neither send to nor receive from a port any more; its queues are closed when the sender is
    /// dropped.
    RemovePort(PortNo, mpsc::Sender<()>),
    /// Other settings.
    Configure(WorkerConfig),
    /// Write the steps of some packets down; of none any more.
    Trace(Option<Arc<Order>>),
    /// Count packets that a device forwarded against flows.
    Credit(Vec<Credit>),
    /// Offer all connections to a device anew.
    OfferAgain,
    /// Room for the unified flow cache, which was asked for.
    CacheMemory(CacheMemory),
    /// Forget the counters.
    ClearStats,
    /// Go round once and report; then the sender is dropped.
    Turn(mpsc::Sender<()>),
    /// End.
    Stop,
}

/// What a worker's thread tells the control side.
#[derive(Debug)]
pub enum WorkerEvent {
    /// Misses wait in the queue for the control thread.
    Upcalls,
    /// Handlers have answered packets that teach something, or left flows to be looked at again.
    Answered,
    /// Statistics of flows, from workers started in this generation.
    Dump(u32, FlowDump),
    /// What became of a packet.
    Traced(Box<Traced>),
    /// Connections for a device, from a worker started in this generation that had got so many commands
    /// for flows.
    Offers(u32, u64, Vec<OffloadOffer>),
    /// The device of a port, opened so, failed; it is received from no longer.
    PortFailed(PortNo, u64, PortError),
    /// A worker started in this generation has use for so much room in its unified flow cache.
    NeedsCacheMemory(u32, WorkerId, CacheMemoryRequest),
    /// Room that is not needed any more; freeing it takes long, too.
    Spent(CacheMemory),
}

/// What workers share.
pub struct Shared {
    /// Connections.
    pub conntrack: Arc<Conntrack>,
    /// Misses.
    pub upcalls: Arc<UpcallQueue>,
    /// Where they tell what happens.
    pub events: UnboundedSender<WorkerEvent>,
    /// Where the times of its upcalls are recorded.
    pub latency: Recorder,
    /// What answers its own misses, if it does that itself.
    pub answering: Option<Answering>,
}

/// Where a worker is told something, for threads beside the control thread.
pub struct Outlet {
    commands: mpsc::Sender<WorkerCommand>,
    waker: Waker,
    has_put: Cell<bool>,
}

impl Clone for Outlet {
    fn clone(&self) -> Self {
        let (commands, waker) = (self.commands.clone(), self.waker.clone());
        Outlet { commands, waker, has_put: Cell::new(false) }
    }
}

impl Outlet {
    /// Puts commands into the worker's inbox. It sees them when it is woken, or in its next turn.
    pub fn put(&self, commands: Vec<FlowCommand>) {
        // A worker that has ended has no use for it.
        let _ = self.commands.send(WorkerCommand::Flows(commands));
        self.has_put.set(true);
    }

    /// Whether anything was put there since the last call.
    pub fn take_put(&self) -> bool {
        self.has_put.take()
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// A running worker, as the control side holds it.
pub struct WorkerThread {
    /// Its number.
    pub id: WorkerId,
    /// How it spends its time.
    pub mode: WorkerMode,
    commands: mpsc::Sender<WorkerCommand>,
    waker: Waker,
    report: Arc<Mutex<WorkerReport>>,
    metrics: Arc<Metrics>,
    thread: Option<std::thread::JoinHandle<Vec<RxSlot>>>,
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
        let Shared { conntrack, upcalls, events, latency, answering } = shared;
        let waiter = Waiter::new()?;
        let waker = waiter.waker();
        let (commands, inbox) = mpsc::channel();
        let since = clock::now();
        let report = Arc::new(Mutex::new(WorkerReport { since, ..WorkerReport::default() }));
        let published = Arc::clone(&report);
        let metrics = Arc::new(Metrics::recording(latency));
        let kept = Arc::clone(&metrics);
        let tracker = conntrack.tracker().map_err(|error| PortError::Invalid {
            device: format!("worker {id}"),
            reason: error.to_string(),
        })?;
        let mut worker = Worker::new(id, tracker, upcalls, config, secret());
        worker.set_clock(clock::now);
        let name = match mode {
            WorkerMode::Sleeping => format!("worker{id}"),
            WorkerMode::Polling { cpu, .. } => format!("pmd-c{cpu:02}/id:{id}"),
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || {
                worker_loop::run(Start {
                    generation,
                    mode,
                    worker,
                    waiter,
                    inbox,
                    events,
                    published,
                    metrics: kept,
                    answering,
                })
            })
            .map_err(|source| PortError::System {
                device: format!("worker {id}"),
                what: "start a thread",
                source,
            })?;
        Ok(WorkerThread { id, mode, commands, waker, report, metrics, thread: Some(thread) })
    }

    /// Tells the worker something.
    pub fn send(&self, command: WorkerCommand) {
        // A worker that has ended has no use for it.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// Where other threads tell it something.
    pub fn outlet(&self) -> Outlet {
        let (commands, waker) = (self.commands.clone(), self.waker.clone());
        Outlet { commands, waker, has_put: Cell::new(false) }
    }

    /// Prepares room for the worker, on a thread that no other waits for.
    pub fn prepare(&self, wanted: CacheMemoryRequest) {
        let (commands, waker) = (self.commands.clone(), self.waker.clone());
        let prepare = move || {
            // At another priority it holds a worker up that shares its processor.
            let _ = affinity::give_way();
            // A thread that does not rest keeps a processor until the system's next tick, 4 ms and more,
            // whatever its priority.
            let room = wanted.prepare(|| std::thread::sleep(Duration::from_millis(1)));
            let _ = commands.send(WorkerCommand::CacheMemory(room));
            waker.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("room".to_owned()).spawn(prepare) {
            log::warn!(target: "dpif_netdev", "worker {}: its cache stays as it is: {error}", self.id);
        }
    }

    /// The worker's counters, at most a second old.
    pub fn stats(&self) -> WorkerStats {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).stats.clone()
    }

    /// All that the worker tells of itself, at most a second old.
    pub fn report(&self) -> WorkerReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is kept of the worker's iterations, where that is wanted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Ends the worker and gives back the queues that it polled, with the packets that wait in
    /// them.
    pub fn stop(mut self) -> Vec<RxSlot> {
        self.end()
    }

    fn end(&mut self) -> Vec<RxSlot> {
        self.send(WorkerCommand::Stop);
        // A worker that panicked has said so on stderr already.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        drop(self.end());
    }
}
