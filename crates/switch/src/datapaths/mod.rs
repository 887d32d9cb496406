//! Further datapaths, created by `dpctl/add-dp`: ports and flows that commands add, without bridges and
//! OpenFlow (ovs: `lib/dpctl.c`, `lib/dpif-netdev.c`).
//!
//! Each has its own workers, connections and port numbers. Packets that match no flow are dropped, because
//! misses are not answered. Commands wait for its workers, at most a second.

mod own;
mod ports;
mod view;

pub use ports::PortRequest;
pub use view::View;

use super::devices::Devices;
use super::latency::Latency;
use super::secret::secret;
use super::worker_thread::{Shared, WorkerThread};
use super::{Dummy, Switch};
use crate::worker_messages::{WorkerCommand, WorkerEvent, WorkerMode};
use base::{PortNo, WorkerId};
use conntrack::{Config as ConntrackConfig, Conntrack};
use datapath::{UpcallQueue, WorkerConfig, WorkerStats};
use flow::{Action, Execute, FlowCommand, FlowDump, FlowId, FlowKey, FlowPut, Mask, Upcall};
use ofproto::DatapathFlow;
use port::PortError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long a command waits for the workers' flow statistics.
const COLLECT_TIME: Duration = Duration::from_secs(1);
/// Misses that are dropped at once.
const MISSES_AT_ONCE: usize = 256;

/// The further datapaths, by name with type, such as `dummy@dp0`.
pub type Datapaths = BTreeMap<String, Datapath>;

/// The default type of a datapath's ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Devices of the system.
    Netdev,
    /// Dummy ports.
    Dummy,
}

impl Class {
    /// Parses `netdev@NAME` or `dummy@NAME`; without a type it is a kernel datapath, which does not exist.
    ///
    /// # Errors
    /// The datapath is not possible here, in Open vSwitch's words.
    pub fn of(name: &str, dummy: Dummy) -> Result<Class, &'static str> {
        match name.split_once('@') {
            Some(("netdev", _)) => Ok(Class::Netdev),
            Some(("dummy", _)) if dummy.is_enabled() => Ok(Class::Dummy),
            None | Some(("system", _)) => Err("No such file or directory"),
            Some(_) => Err("Address family not supported by protocol"),
        }
    }
}

/// A datapath.
pub struct Datapath {
    class: Class,
    devices: Devices,
    /// The requests for its ports, by number.
    requests: BTreeMap<PortNo, PortRequest>,
    workers: Vec<WorkerThread>,
    conntrack: Arc<Conntrack>,
    upcalls: Arc<UpcallQueue>,
    latency: Latency,
    events: UnboundedReceiver<WorkerEvent>,
    sender: UnboundedSender<WorkerEvent>,
    /// The flows of each worker.
    flows: BTreeMap<FlowId, DatapathFlow>,
    last_flow: u64,
    generation: u32,
    /// Workers that have sent all statistics since the last [`Datapath::collect`] started.
    collected: BTreeSet<WorkerId>,
}

impl Datapath {
    /// An empty datapath with one sleeping worker.
    pub fn new(class: Class) -> Result<Datapath, PortError> {
        let (sender, events) = unbounded_channel();
        let mut datapath = Datapath {
            class,
            devices: Devices::new()?,
            requests: BTreeMap::new(),
            workers: Vec::new(),
            conntrack: Arc::new(Conntrack::new(secret(), ConntrackConfig::default())),
            upcalls: Arc::default(),
            latency: Latency::default(),
            events,
            sender,
            flows: BTreeMap::new(),
            last_flow: 0,
            generation: 0,
            collected: BTreeSet::new(),
        };
        datapath.start_workers(&[WorkerMode::Sleeping])?;
        Ok(datapath)
    }

    /// Replaces the workers. Each gets all flows.
    fn start_workers(&mut self, modes: &[WorkerMode]) -> Result<(), PortError> {
        let mut slots = Vec::new();
        for worker in std::mem::take(&mut self.workers) {
            slots.extend(worker.stop().slots);
        }
        self.generation += 1;
        for (index, mode) in modes.iter().enumerate() {
            let id = WorkerId(index as u16);
            let shared = Shared {
                conntrack: Arc::clone(&self.conntrack),
                upcalls: Arc::clone(&self.upcalls),
                events: self.sender.clone(),
                latency: self.latency.recorder(id),
                answering: None,
            };
            let config = WorkerConfig::default();
            self.workers.push(WorkerThread::start(id, self.generation, *mode, config, shared)?);
        }
        for (port, error) in self.devices.attach_all(slots, &self.workers) {
            log::error!(target: "dpif_netdev", "port {port}: {error}");
        }
        let flows = std::mem::take(&mut self.flows);
        for flow in flows.into_values().filter(|flow| flow.worker == WorkerId(0)) {
            self.insert(&flow.key, flow.matching.mask(), &flow.actions);
        }
        Ok(())
    }

    /// Adds a flow to every worker. It must not exist.
    pub fn insert(&mut self, key: &FlowKey, mask: &Mask, actions: &Arc<[Action]>) {
        for worker in &self.workers {
            self.last_flow += 1;
            let id = FlowId(self.last_flow);
            let (actions, now) = (Arc::clone(actions), clock::now());
            let flow = DatapathFlow::by_hand(id, worker.id, (key, mask), actions, now);
            put(worker, &flow);
            self.flows.insert(id, flow);
        }
    }

    /// Replaces the actions of a flow.
    pub fn change(&mut self, id: FlowId, actions: &Arc<[Action]>) {
        let Some(flow) = self.flows.get_mut(&id) else { return };
        flow.actions = Arc::clone(actions);
        if let Some(worker) = self.workers.get(usize::from(flow.worker.0)) {
            put(worker, flow);
        }
    }

    /// Deletes a flow.
    pub fn delete(&mut self, id: FlowId) {
        let worker = self.flows.remove(&id).map(|flow| usize::from(flow.worker.0));
        if let Some(worker) = worker.and_then(|index| self.workers.get(index)) {
            worker.send(WorkerCommand::Flow(FlowCommand::Delete(id)));
        }
    }

    /// Deletes all flows.
    pub fn delete_all(&mut self) {
        let ids: Vec<FlowId> = self.flows.keys().copied().collect();
        ids.into_iter().for_each(|id| self.delete(id));
    }

    /// Returns all flows, with the last statistics of their workers.
    pub fn flows(&self) -> impl Iterator<Item = &DatapathFlow> {
        self.flows.values()
    }

    /// Returns its ports.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns its ports for queries and changes.
    pub fn devices_mut(&mut self) -> &mut Devices {
        &mut self.devices
    }

    /// Returns the passes with a matching flow, the misses that were answered, and the dropped ones.
    pub fn lookups(&self) -> [u64; 3] {
        let mut stats = WorkerStats::default();
        self.workers.iter().for_each(|worker| stats.add(&worker.stats()));
        [stats.exact_hits + stats.megaflow_hits, 0, stats.misses + stats.lost]
    }

    /// Collects the workers' flow statistics, and waits for them.
    pub fn collect(&mut self) {
        self.collected.clear();
        let began = Instant::now();
        for worker in &self.workers {
            worker.send(WorkerCommand::Flow(FlowCommand::Collect));
        }
        while self.collected.len() < self.workers.len() {
            let left = COLLECT_TIME.saturating_sub(began.elapsed());
            let (done, all) = mpsc::channel();
            self.workers.iter().for_each(|it| it.send(WorkerCommand::Iterate(done.clone())));
            drop(done);
            // No message is sent: the channel closes when the last worker has run an iteration.
            if left.is_zero() || all.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                log::warn!(target: "dpif_netdev", "a worker is slow to tell of its flows");
                return;
            }
            self.iterate();
        }
    }

    /// Processes the workers' events, and drops the packets that no flow matched.
    pub fn iterate(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.hear(event);
        }
        let mut misses = Vec::new();
        self.upcalls.pop(MISSES_AT_ONCE, &mut misses);
        for Upcall { worker, packet, key, .. } in misses {
            let actions = Arc::from([]);
            let execute = Execute { packet, key, actions, flow: None, trace: None, stamps: None };
            if let Some(worker) = self.workers.get(usize::from(worker.0)) {
                worker.send(WorkerCommand::Flow(FlowCommand::Execute(execute)));
            }
        }
    }

    fn hear(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Dump(generation, dump) if generation == self.generation => self.dump(dump),
            WorkerEvent::NeedsCacheMemory(generation, id, wanted)
                if generation == self.generation =>
            {
                if let Some(worker) = self.workers.get(usize::from(id.0)) {
                    worker.prepare(wanted);
                }
            }
            WorkerEvent::PortFailed(port, opening, error)
                if self.devices.is_open(port, opening) =>
            {
                log::warn!(target: "dpif_netdev", "port {port}: {error}");
                self.close(port);
            }
            // There is no offload, trace or handler here.
            _ => {}
        }
    }

    fn dump(&mut self, dump: FlowDump) {
        for (id, stats) in dump.flows {
            if let Some(flow) = self.flows.get_mut(&id) {
                flow.stats = stats;
            }
        }
        if dump.is_last {
            self.collected.insert(dump.worker);
        }
    }
}

/// Sends a flow to a worker.
fn put(worker: &WorkerThread, flow: &DatapathFlow) {
    let (matching, actions) = (flow.matching.clone(), Arc::clone(&flow.actions));
    let put = FlowPut { id: flow.id, matching, actions };
    worker.send(WorkerCommand::Flow(FlowCommand::Put(Box::new(put))));
}

impl Switch {
    /// Returns the further datapaths.
    pub fn datapaths(&self) -> &Datapaths {
        &self.datapaths
    }

    /// Returns the further datapaths for changes.
    pub fn datapaths_mut(&mut self) -> &mut Datapaths {
        &mut self.datapaths
    }

    /// Periodic work of the further datapaths.
    pub(super) fn turn_datapaths(&mut self) {
        for datapath in self.datapaths.values_mut() {
            datapath.iterate();
            let _ = datapath.conntrack.tick(clock::now());
        }
    }
}
