//! Receive queues and the workers that poll them.
//!
//! A queue moves between workers together with its waiting packets: nothing is lost or reordered by a
//! reassignment. Adding or removing a port does not move the queues of others, unless a queue is pinned and
//! its worker becomes isolated.

use super::Switch;
use super::assignment::{Assignment, Core, Queue, assign, crosses_nodes};
use super::balance;
use super::device_kind::DeviceKind;
use super::devices::Devices;
use super::rxq_places::RxqPlace;
use super::usage::INTERVALS;
use super::worker_messages::{WorkerCommand, WorkerMode};
use super::worker_ports::RxSlot;
use super::worker_thread::WorkerThread;
use base::{PortNo, WorkerId};
use control::{Isolation, QueueOptions, RxqAssign, SleepMax};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::time::Duration;

/// How long a worker may take to return a queue.
const HAND_OVER_TIME: Duration = Duration::from_secs(1);

/// Returns a worker as a target of queues.
fn core(worker: &WorkerThread) -> Core {
    match worker.mode {
        WorkerMode::Sleeping => Core { cpu: None, numa: 0 },
        WorkerMode::Polling { cpu, numa, .. } => {
            Core { cpu: Some(u16::try_from(cpu).unwrap_or(u16::MAX)), numa }
        }
    }
}

impl Devices {
    /// Returns whether a worker is isolated: it polls only pinned queues.
    pub fn is_isolated(&self, worker: WorkerId) -> bool {
        self.rxqs.is_isolated(worker)
    }

    /// Assigns the queues of a port that was just opened.
    pub(super) fn hand_out(&mut self, slots: Vec<RxSlot>, workers: &[WorkerThread]) {
        self.give_out(slots, workers, true);
    }

    /// Assigns the queues of all ports again, together with `slots`, which come from workers that have ended.
    pub(super) fn hand_out_anew(&mut self, slots: Vec<RxSlot>, workers: &[WorkerThread]) {
        self.give_out(slots, workers, false);
    }

    /// Sets the assignment algorithm. Returns whether that is a change.
    fn set_way(&mut self, way: RxqAssign, isolation: Isolation) -> bool {
        let changed = (way, isolation) != (self.rxqs.way, self.rxqs.isolation);
        (self.rxqs.way, self.rxqs.isolation) = (way, isolation);
        changed
    }

    /// Pins the queues of a port to processors. Returns whether that is a change.
    pub(super) fn pin(&mut self, number: PortNo, affinity: &BTreeMap<u16, u16>) -> bool {
        let Some(device) = self.get_mut(number) else { return false };
        let mut changed = false;
        for (queue, place) in (0u16..).zip(&mut device.queues) {
            let pinned = affinity.get(&queue).copied();
            changed |= pinned != place.pinned;
            place.pinned = pinned;
        }
        changed
    }

    /// Returns an error if not all queues of the port are polled.
    pub fn unpolled(&self, number: PortNo) -> Option<String> {
        let device = self.get(number)?;
        let unpolled = (0..).zip(&device.queues).find(|(_, place)| place.worker.is_none());
        let (queue, _): (u16, _) = unpolled?;
        Some(format!(
            "{}: no worker may poll receive queue {queue}: all of them serve pinned queues only \
             (pmd-rxq-affinity, pmd-rxq-isolate)",
            device.name
        ))
    }

    /// Returns all queues, in order, with their workers. With `stay`, queues keep their workers.
    fn list(&self, workers: &[WorkerThread], stay: bool) -> Vec<Queue> {
        let mut busy = HashMap::new();
        for worker in workers {
            for queue in worker.report().queues {
                busy.insert((queue.port, queue.queue), queue.usage.sum_ns(INTERVALS));
            }
        }
        let mut queues = Vec::new();
        for (port, device) in self.iter() {
            for (queue, place) in (0..).zip(&device.queues) {
                queues.push(Queue {
                    port,
                    queue,
                    numa: device.numa,
                    busy_ns: busy.get(&(port, queue)).copied().unwrap_or(0),
                    pinned: place.pinned,
                    is_slow: device.kind.is_dummy() && device.kind != DeviceKind::DummyPmd,
                    stays: place.worker.filter(|_| stay).map(|worker| usize::from(worker.0)),
                });
            }
        }
        queues
    }

    fn give_out(&mut self, slots: Vec<RxSlot>, workers: &[WorkerThread], stay: bool) {
        let cores: Vec<Core> = workers.iter().map(core).collect();
        let queues = self.list(workers, stay);
        let found = assign(&cores, &queues, self.rxqs.way, self.rxqs.isolation);
        self.log_assignment(&cores, &queues, &found);
        let mut on_the_way: HashMap<(PortNo, u16), RxSlot> = std::mem::take(&mut self.rxqs.idle)
            .into_iter()
            .chain(slots)
            .map(|slot| ((slot.port, slot.queue), slot))
            .collect();
        // All queues that move leave their workers before the first is added to another, so that the workers
        // are waited for once.
        let (to, from) = mpsc::channel();
        let mut expected = 0;
        for (queue, worker) in queues.iter().zip(&found.workers) {
            let worker = worker.map(|worker| WorkerId(worker as u16));
            let Some(place) = self.place_mut(queue) else { continue };
            if let Some(present) = place.worker.filter(|present| Some(*present) != worker)
                && let Some(present) = workers.get(usize::from(present.0))
            {
                present.send(WorkerCommand::TakeRx(queue.port, queue.queue, to.clone()));
                expected += 1;
            }
        }
        drop(to);
        for _ in 0..expected {
            let Ok(slot) = from.recv_timeout(HAND_OVER_TIME) else {
                log::warn!(target: "dpif_netdev", "a worker is slow to hand over its queues");
                break;
            };
            on_the_way.insert((slot.port, slot.queue), slot);
        }
        for (queue, worker) in queues.iter().zip(&found.workers) {
            let Some(slot) = on_the_way.remove(&(queue.port, queue.queue)) else { continue };
            let Some(place) = self.place_mut(queue) else { continue };
            place.worker = worker.map(|worker| WorkerId(worker as u16));
            match worker.and_then(|worker| workers.get(worker)) {
                Some(worker) => worker.send(WorkerCommand::AddRx(slot)),
                None => self.rxqs.idle.push(slot),
            }
        }
        self.rxqs.isolated = found.isolated;
    }

    fn place_mut(&mut self, queue: &Queue) -> Option<&mut RxqPlace> {
        self.get_mut(queue.port)?.queues.get_mut(usize::from(queue.queue))
    }

    /// Logs the assignment in Open vSwitch's words; nothing with a single sleeping worker.
    fn log_assignment(&self, cores: &[Core], queues: &[Queue], found: &Assignment) {
        let name = |queue: &Queue| self.get(queue.port).map_or("?", |d| d.name.as_str()).to_owned();
        for queue in found.unpinned.iter().filter_map(|place| queues.get(*place)) {
            let (name, number, cpu) = (name(queue), queue.queue, queue.pinned.unwrap_or_default());
            log::warn!(
                target: "dpif_netdev",
                "Core {cpu:2} cannot be pinned with port '{name}' rx queue {number}. Use \
                 pmd-cpu-mask to enable a pmd on core {cpu}. An alternative core will be assigned."
            );
        }
        if queues.is_empty() || cores.iter().all(|core| core.cpu.is_none()) {
            return;
        }
        let way = self.rxqs.way;
        log::info!(
            target: "dpif_netdev",
            "Performing pmd to rx queue assignment using {} algorithm.", way.name()
        );
        for (queue, worker) in queues.iter().zip(&found.workers) {
            let (name, number) = (name(queue), queue.queue);
            let measured = match way {
                RxqAssign::RoundRobin => String::new(),
                _ => format!(" (measured processing cycles {})", queue.busy_ns),
            };
            match worker.and_then(|worker| cores.get(worker)) {
                Some(Core { cpu: Some(cpu), numa }) => {
                    let how = match queue.pinned == Some(*cpu) {
                        true => "is pinned with",
                        false => "assigned",
                    };
                    if queue.pinned != Some(*cpu) && queue.numa != *numa {
                        log::info!(
                            target: "dpif_netdev",
                            "There's no available (non-isolated) pmd thread on numa node {}. Port \
                             '{name}' rx queue {number} will be assigned to a pmd on numa node \
                             {numa}. This may lead to reduced performance.",
                            queue.numa
                        );
                    }
                    log::info!(
                        target: "dpif_netdev",
                        "Core {cpu:2} on numa node {numa} {how} port '{name}' rx queue \
                         {number}{measured}."
                    );
                }
                Some(_) => {}
                None => log::warn!(
                    target: "dpif_netdev",
                    "No non-isolated pmd on any numa available for port '{name}' rx queue \
                     {number}{measured}. This rx queue will not be polled."
                ),
            }
        }
    }
}

impl Switch {
    /// Reassigns the queues of all ports.
    pub fn rebalance(&mut self) {
        self.devices.hand_out_anew(Vec::new(), &self.workers);
        self.balancer.reset();
    }

    /// Applies the assignment algorithm and the maximum sleep.
    pub(super) fn set_queue_options(&mut self, options: &QueueOptions) {
        if self.devices.set_way(options.assign, options.isolation) {
            log::info!(
                target: "dpif_netdev",
                "Rxq to PMD assignment mode changed to: '{}'.", options.assign.name()
            );
            self.rebalance();
        }
        self.set_sleeps(&options.sleep_max);
    }

    pub(super) fn set_sleeps(&self, sleeps: &SleepMax) {
        for worker in &self.workers {
            if let WorkerMode::Polling { cpu, .. } = worker.mode {
                let us = sleeps.of_core(u16::try_from(cpu).unwrap_or(u16::MAX));
                worker.send(WorkerCommand::SleepMax(Duration::from_micros(us.into())));
            }
        }
    }

    /// Reassigns queues if automatic balancing is due and would even out the load. Called periodically.
    pub(super) fn balance_queues(&mut self) {
        let settings = self.desired.options.queues.auto_balance;
        if !settings.enabled {
            self.balancer.reset();
            return;
        }
        let reports: Vec<_> = self.workers.iter().map(WorkerThread::report).collect();
        for (index, report) in reports.iter().enumerate() {
            let isolated = self.devices.rxqs.is_isolated(WorkerId(index as u16));
            self.balancer.observe(index, report.last, settings, isolated);
        }
        if !self.balancer.is_due(clock::now(), settings) {
            return;
        }
        let rxqs = &self.devices.rxqs;
        let queues = self.devices.list(&self.workers, false);
        let place = |queue: &Queue| {
            let device = self.devices.get(queue.port)?;
            device.queues.get(usize::from(queue.queue))?.worker.map(|worker| usize::from(worker.0))
        };
        let current = Assignment {
            workers: queues.iter().map(place).collect(),
            isolated: rxqs.isolated.clone(),
            unpinned: Vec::new(),
        };
        if !self.balancer.has_hope(rxqs.way, &current) {
            return;
        }
        log::debug!(target: "dpif_netdev", "PMD auto load balance performing dry run.");
        let cores: Vec<Core> = self.workers.iter().map(core).collect();
        let next = assign(&cores, &queues, rxqs.way, rxqs.isolation);
        if crosses_nodes(&next, &cores, &queues) {
            log::debug!(
                target: "dpif_netdev",
                "PMD auto load balance detected cross-numa polling with multiple numa nodes. Unable \
                 to accurately estimate."
            );
            return;
        }
        let worker_ns: Vec<u64> =
            reports.iter().map(|report| report.intervals_ns(INTERVALS)).collect();
        if balance::is_worthwhile(&current, &next, &queues, &worker_ns, settings) {
            log::info!(
                target: "dpif_netdev",
                "PMD auto load balance dry run. Requesting datapath reconfigure."
            );
            self.rebalance();
        }
    }
}
