//! What the control thread and workers tell each other.

use super::tracing::{Order, Traced};
use super::worker_ports::RxSlot;
use base::{PortNo, WorkerId};
use datapath::{CacheMemory, CacheMemoryRequest, LastFlows, WorkerConfig};
use flow::{FlowCommand, FlowDump, FlowId, OffloadOffer, OffloadTraffic};
use port::{PortError, TxQueue};
use port_linux::Waker;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

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
    /// State machines of protocols have something to report.
    Monitors,
    /// The guest behind a port, by its name, came, went or did something wrong.
    GuestChanged(String),
    /// A worker, with its generation, needs memory for its unified cache.
    NeedsCacheMemory(u32, WorkerId, CacheMemoryRequest),
    /// Memory that is no longer needed, to be freed by another thread because that takes long.
    Spent(CacheMemory),
}

/// Traffic with which a worker credits a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The worker.
    pub worker: WorkerId,
    /// Its flow.
    pub flow: FlowId,
    /// The traffic.
    pub traffic: OffloadTraffic,
    /// The flags that all forwarded TCP segments have.
    pub tcp_flags: u16,
}

/// Sends commands to a worker from threads other than the control thread.
pub struct Outlet {
    commands: mpsc::Sender<WorkerCommand>,
    urgent: mpsc::Sender<Vec<FlowCommand>>,
    waker: Waker,
    has_put: Cell<bool>,
}

impl Clone for Outlet {
    fn clone(&self) -> Self {
        let (commands, urgent) = (self.commands.clone(), self.urgent.clone());
        Outlet { commands, urgent, waker: self.waker.clone(), has_put: Cell::new(false) }
    }
}

impl Outlet {
    /// An outlet of the worker with these channels.
    pub fn new(
        commands: mpsc::Sender<WorkerCommand>,
        urgent: mpsc::Sender<Vec<FlowCommand>>,
        waker: Waker,
    ) -> Outlet {
        Outlet { commands, urgent, waker, has_put: Cell::new(false) }
    }

    /// Queues commands that the worker executes before all that wait: frames of protocols, whose delay a peer takes
    /// for a lost link. The worker must be woken.
    pub fn put_urgent(&self, commands: Vec<FlowCommand>) {
        // A worker that has ended needs no commands.
        let _ = self.urgent.send(commands);
    }

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
