//! A worker's thread, as the control thread holds it. [`super::worker_loop`] is its code.

use super::handlers::Answering;
use super::latency::{self, Recorder};
use super::metrics::Metrics;
use super::offload::Credit;
use super::secret::secret;
use super::slow_path::STACK_BYTES;
use super::tracing::{Order, Traced};
use super::worker_loop::{self, Start};
use super::worker_ports::RxSlot;
use super::worker_report::WorkerReport;
use base::{PortNo, WorkerId};
use conntrack::Conntrack;
use datapath::{
    CacheMemory, CacheMemoryRequest, LastFlows, UpcallQueue, Worker, WorkerConfig, WorkerStats,
};
use flow::{FlowCommand, FlowDump, OffloadOffer};
use port::{PortError, TxQueue};
use port_linux::{Waiter, Waker, affinity};
use std::cell::Cell;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// What a worker's thread does without packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkerMode {
    /// It sleeps in the kernel.
    Sleeping,
    /// It polls, pinned to this processor.
    Polling {
        /// The processor.
        cpu: usize,
        /// Its NUMA node.
        numa: u16,
        /// For tests: it is not pinned, and sleeps in the kernel all the same.
        pretends: bool,
    },
}

impl WorkerMode {
    /// Returns whether it sleeps in the kernel without packets.
    pub fn waits(self) -> bool {
        matches!(self, WorkerMode::Sleeping | WorkerMode::Polling { pretends: true, .. })
    }
}

/// A command to a worker's thread.
pub enum WorkerCommand {
    /// A command for the datapath.
    Flow(FlowCommand),
    /// Several of them, in order.
    Flows(Vec<FlowCommand>),
    /// Use this queue to send to the port.
    AddTx(PortNo, Box<dyn TxQueue>),
    /// Receive from this queue.
    AddRx(RxSlot),
    /// Stop receiving from this queue of the port, and return it.
    TakeRx(PortNo, u16, mpsc::Sender<RxSlot>),
    /// Maximum sleep of a polling worker under low load; zero disables sleep.
    SleepMax(Duration),
    /// Remove a port. Its queues are closed when the sender is dropped.
    RemovePort(PortNo, mpsc::Sender<()>),
    /// Apply these settings.
    Configure(WorkerConfig),
    /// Trace some packets, or none.
    Trace(Option<Arc<Order>>),
    /// Credit flows with packets that a device forwarded.
    Credit(Vec<Credit>),
    /// Offer all connections to a device again.
    OfferAgain,
    /// The memory for the unified cache that it requested.
    CacheMemory(CacheMemory),
    /// Reset the counters.
    ClearStats,
    /// Run one iteration and publish the counters; then drop the sender.
    Iterate(mpsc::Sender<()>),
    /// Stop.
    Stop,
}

/// An event of a worker's thread.
#[derive(Debug)]
pub enum WorkerEvent {
    /// Misses for the control thread are queued.
    Upcalls,
    /// Handlers queued effects for the control thread, or flows to revalidate.
    Answered,
    /// Flow statistics, with the worker's generation.
    Dump(u32, FlowDump),
    /// A traced packet.
    Traced(Box<Traced>),
    /// Connections to offload, with the worker's generation and the number of flow commands that it had
    /// received.
    Offers(u32, u64, Vec<OffloadOffer>),
    /// The device of a port failed and is no longer received from. The number is the port's opening.
    PortFailed(PortNo, u64, PortError),
    /// A worker, with its generation, needs memory for its unified cache.
    NeedsCacheMemory(u32, WorkerId, CacheMemoryRequest),
    /// Memory that is no longer needed, to be freed by another thread because that takes long.
    Spent(CacheMemory),
}

/// What a worker's thread shares with others.
pub struct Shared {
    /// Connection tracking.
    pub conntrack: Arc<Conntrack>,
    /// The upcall queue.
    pub upcalls: Arc<UpcallQueue>,
    /// The channel for events.
    pub events: UnboundedSender<WorkerEvent>,
    /// Records the times of upcalls that it answers.
    pub latency: Recorder,
    /// Answers its misses, if it does that itself.
    pub answering: Option<Answering>,
}

/// Sends commands to a worker from threads other than the control thread.
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
    /// Queues commands for the worker. It sees them when it is woken, or in its next iteration.
    pub fn put(&self, commands: Vec<FlowCommand>) {
        // A worker that has ended needs no commands.
        let _ = self.commands.send(WorkerCommand::Flows(commands));
        self.has_put.set(true);
    }

    /// Returns whether commands were queued since the last call.
    pub fn take_put(&self) -> bool {
        self.has_put.take()
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

/// What a stopped worker leaves.
#[derive(Default)]
pub struct Stopped {
    /// Its receive queues, with the packets in them.
    pub slots: Vec<RxSlot>,
    /// Packets that waited for an answer and are lost, by port.
    pub lost: Vec<(PortNo, u64)>,
    /// Its flows, with what it has not told of them. Earlier pages are events. To free them may take long.
    pub flows: Option<LastFlows>,
}

/// A running worker.
pub struct WorkerThread {
    /// Its number.
    pub id: WorkerId,
    /// Whether it sleeps or polls.
    pub mode: WorkerMode,
    commands: mpsc::Sender<WorkerCommand>,
    waker: Waker,
    report: Arc<Mutex<WorkerReport>>,
    metrics: Arc<Metrics>,
    thread: Option<std::thread::JoinHandle<Stopped>>,
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
        worker.set_on_queued(latency::queued);
        let name = match mode {
            WorkerMode::Sleeping => format!("worker{id}"),
            WorkerMode::Polling { cpu, .. } => format!("pmd-c{cpu:02}/id:{id}"),
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .stack_size(STACK_BYTES)
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

    /// Sends a command to the worker.
    pub fn send(&self, command: WorkerCommand) {
        // A worker that has ended needs no commands.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// Returns an outlet for other threads.
    pub fn outlet(&self) -> Outlet {
        let (commands, waker) = (self.commands.clone(), self.waker.clone());
        Outlet { commands, waker, has_put: Cell::new(false) }
    }

    /// Prepares memory for the worker's cache, on a thread of low priority.
    pub fn prepare(&self, wanted: CacheMemoryRequest) {
        let (commands, waker) = (self.commands.clone(), self.waker.clone());
        let prepare = move || {
            // At normal priority it would delay a worker on the same processor.
            let _ = affinity::give_way();
            // A thread that does not sleep keeps a processor until the next scheduler tick, 4 ms or more,
            // whatever its priority.
            let room = wanted.prepare(|| std::thread::sleep(Duration::from_millis(1)));
            let _ = commands.send(WorkerCommand::CacheMemory(room));
            waker.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("room".to_owned()).spawn(prepare) {
            log::warn!(target: "dpif_netdev", "worker {}: its cache stays as it is: {error}", self.id);
        }
    }

    /// Returns the worker's counters, at most a second old.
    pub fn stats(&self) -> WorkerStats {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).stats.clone()
    }

    /// Returns the worker's report, at most a second old.
    pub fn report(&self) -> WorkerReport {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the metrics of the worker's iterations.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Stops the worker after all commands before this one.
    pub fn stop(mut self) -> Stopped {
        self.end()
    }

    fn end(&mut self) -> Stopped {
        self.send(WorkerCommand::Stop);
        // The panic of a worker was printed to stderr already.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        drop(self.end());
    }
}
