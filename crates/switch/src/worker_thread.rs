//! A worker's thread, as the control thread holds it. [`super::worker_loop`] is its code.

use super::handlers::Answering;
use super::latency::{self, Recorder};
use super::metrics::Metrics;
use super::secret::secret;
use super::slow_path_threads::STACK_BYTES;
use super::worker_loop::{self, Start};
use super::worker_messages::{Outlet, Stopped, WorkerCommand, WorkerEvent, WorkerMode};
use super::worker_report::WorkerReport;
use base::WorkerId;
use conntrack::Conntrack;
use datapath::{CacheMemoryRequest, UpcallQueue, Worker, WorkerConfig, WorkerStats};
use flow::FlowCommand;
use port::PortError;
use port_linux::{Waiter, Waker, affinity};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

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

/// A running worker.
pub struct WorkerThread {
    /// Its number.
    pub id: WorkerId,
    /// Whether it sleeps or polls.
    pub mode: WorkerMode,
    commands: mpsc::Sender<WorkerCommand>,
    urgent: mpsc::Sender<Vec<FlowCommand>>,
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
        let (urgent, urgent_inbox) = mpsc::channel();
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
                    urgent: urgent_inbox,
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
        let thread = Some(thread);
        Ok(WorkerThread { id, mode, commands, urgent, waker, report, metrics, thread })
    }

    /// Sends a command to the worker.
    pub fn send(&self, command: WorkerCommand) {
        // A worker that has ended needs no commands.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    /// Returns an outlet for other threads.
    pub fn outlet(&self) -> Outlet {
        Outlet::new(self.commands.clone(), self.urgent.clone(), self.waker.clone())
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
