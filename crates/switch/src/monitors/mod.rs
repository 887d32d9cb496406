//! Protocols that monitor ports: the control thread's part. It tells the machines' thread of ports and settings, and
//! applies what the machines report: whether groups may choose a port, and the database's columns.

mod thread;

use self::thread::{Place, Shared};
use super::Switch;
use super::interfaces::RunningInterface;
use super::port_monitor::PortMonitor;
use super::worker_messages::Outlet;
use super::worker_thread::WorkerThread;
use base::{OfPort, PortNo};
use flow::MonitorId;
use ofproto::BridgeId;
use protocols::{Monitor, Report, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Rounds for each step of a stopped clock, and those without a frame after which it is over: a frame may wait for a
/// worker to send it, for another to receive it, and for the answer to its miss.
const ROUNDS: usize = 16;
const IDLE_ROUNDS: usize = 3;

/// The monitored ports, as the control thread knows them.
#[derive(Default)]
pub struct Monitoring {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The number of the next monitor.
    next: u32,
    /// The interfaces by their monitors.
    names: BTreeMap<MonitorId, String>,
    /// Monitors that need their ports' counters, for ports of the datapath.
    counting: BTreeSet<(MonitorId, PortNo)>,
    /// Changes to be made when the ports are published.
    pending: Vec<Change>,
}

/// A change of the machines.
enum Change {
    Set(MonitorId, Settings, Place),
    Remove(MonitorId),
}

impl Monitoring {
    /// Calls `f` with all ports' machines.
    pub fn each(&self, f: impl FnMut(&Monitor)) {
        self.shared.lock().monitors.iter().for_each(f);
    }

    /// Overrides BFD ([`protocols::Monitors::force_bfd`]).
    pub fn force_bfd(&self, name: Option<&str>, forced: Option<bool>) -> bool {
        self.shared.lock().monitors.force_bfd(clock::now(), name, forced)
    }

    /// Makes the thread look at changed timers.
    fn wake(&self) {
        self.shared.lock().queue.wake_protocols();
    }

    /// Starts the thread with the first monitor, and ends it after the last one (ovs:
    /// `ofproto/ofproto-dpif-monitor.c`, `ofproto_dpif_monitor_port_update`).
    fn follow_thread(&mut self) {
        match (self.names.is_empty(), self.thread.is_some()) {
            (false, false) => {
                self.shared.lock().is_ending = false;
                match thread::start(&self.shared) {
                    Ok(thread) => self.thread = Some(thread),
                    Err(error) => log::error!(
                        target: "ofproto_dpif_monitor",
                        "cannot start the thread of BFD ({error}); there is none"
                    ),
                }
            }
            (true, true) => self.end_thread(),
            _ => {}
        }
    }

    fn end_thread(&mut self) {
        self.shared.lock().is_ending = true;
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was printed to stderr already.
            let _ = thread.join();
        }
    }
}

impl Drop for Monitoring {
    fn drop(&mut self) {
        self.end_thread();
    }
}

impl Switch {
    /// Tells the machines' thread of new workers.
    pub(super) fn monitor_by_new_workers(&mut self) {
        let outlets: Vec<Outlet> = self.workers.iter().map(WorkerThread::outlet).collect();
        let sender = self.ofproto.protocol_sender();
        let queue = Arc::clone(&self.handler_shared.upcalls);
        self.monitoring.shared.set_workers(sender, queue, outlets, self.events.clone());
    }

    /// Gives an interface a monitor if it needs one, before its port is described, or takes it away.
    pub(super) fn follow_protocols(&mut self, running: &mut RunningInterface) {
        let is_wanted = running.interface.bfd.is_some();
        match (is_wanted, running.monitor.id) {
            (true, None) => {
                let id = MonitorId(self.monitoring.next);
                self.monitoring.next += 1;
                self.monitoring.names.insert(id, running.interface.name.clone());
                let monitor = PortMonitor { id: Some(id), alive: false, ..PortMonitor::default() };
                running.monitor = monitor;
            }
            (false, Some(_)) => self.end_monitor(running),
            _ => {}
        }
    }

    /// Starts or configures the machines of an interface whose port has this number.
    pub(super) fn set_monitor(
        &mut self,
        running: &RunningInterface,
        bridge: BridgeId,
        port: OfPort,
    ) {
        let Some(id) = running.monitor.id else { return };
        let Some(found) = self.ofproto.bridge(bridge).and_then(|bridge| bridge.port(port)) else {
            return;
        };
        let interface = &running.interface;
        let (name, mac) = (interface.name.clone(), found.spec.mac);
        let settings = Settings { name, mac, bfd: interface.bfd.clone() };
        self.monitoring.counting.retain(|(counted, _)| *counted != id);
        let is_counting = |bfd: &protocols::bfd::Config| bfd.needs_count();
        if let Some(device) = found.datapath()
            && interface.bfd.as_ref().is_some_and(is_counting)
        {
            self.monitoring.counting.insert((id, device));
        }
        let place = Place { bridge, port, received: None };
        self.monitoring.pending.push(Change::Set(id, settings, place));
    }

    /// Ends an interface's machines.
    pub(super) fn end_monitor(&mut self, running: &mut RunningInterface) {
        if let Some(id) = std::mem::take(&mut running.monitor).id {
            self.monitoring.names.remove(&id);
            self.monitoring.counting.retain(|(counted, _)| *counted != id);
            self.monitoring.pending.push(Change::Remove(id));
        }
    }

    /// Applies changes of the machines, once the ports are published.
    pub(super) fn apply_monitor_changes(&mut self) {
        if self.monitoring.pending.is_empty() {
            return;
        }
        // A session that begins to look for traffic starts from the current counters.
        self.catch_up();
        let now = clock::now();
        let pending = std::mem::take(&mut self.monitoring.pending);
        let mut state = self.monitoring.shared.lock();
        for change in pending {
            match change {
                Change::Set(id, settings, place) => {
                    let received = state.places.get(&id).and_then(|place| place.received);
                    state.places.insert(id, Place { received, ..place });
                    state.count(now, id);
                    state.monitors.configure(now, id, settings);
                }
                Change::Remove(id) => {
                    state.places.remove(&id);
                    state.monitors.remove(id);
                }
            }
        }
        drop(state);
        self.monitoring.follow_thread();
        self.monitoring.wake();
        self.monitors_changed();
    }

    /// Applies what the machines report.
    pub(super) fn monitors_changed(&mut self) {
        let changes = self.monitoring.shared.take_changes();
        if changes.is_empty() {
            return;
        }
        for (id, Report { is_alive, bfd }) in changes {
            let name = self.monitoring.names.get(&id);
            let running = name.and_then(|name| self.configured.interfaces.get_mut(name));
            let Some(running) = running else { continue };
            let status = bfd.into_iter().map(|(key, value)| (key.to_owned(), value));
            running.monitor.bfd_status = status.collect();
            if running.monitor.alive != is_alive {
                running.monitor.alive = is_alive;
                let place = (running.bridge.clone(), running.state.clone());
                if let (bridge, Ok(number)) = place
                    && let Some(bridge) = self.bridge_id(&bridge)
                {
                    self.ofproto.set_port_alive(bridge, number, is_alive);
                }
            }
        }
        self.mark_stale();
        self.report();
    }

    /// Passes the counters of ports that need it to their machines. Called periodically: traffic is looked for in
    /// intervals of two seconds.
    pub(super) fn count_for_monitors(&mut self) {
        if self.monitoring.counting.is_empty() {
            return;
        }
        let devices = &mut self.devices;
        let counting = self.monitoring.counting.iter();
        let counted: Vec<(MonitorId, Option<u64>)> =
            counting.map(|(id, device)| (*id, devices.counters(*device)[0])).collect();
        let mut state = self.monitoring.shared.lock();
        for (id, received) in counted {
            if let Some(place) = state.places.get_mut(&id) {
                place.received = received;
            }
        }
    }

    /// Runs the machines on this thread until nothing is due, for a clock that a command advances.
    pub(super) fn run_monitors(&mut self) {
        if self.monitoring.names.is_empty() {
            return;
        }
        let mut idle = 0;
        for _ in 0..ROUNDS {
            self.count_for_monitors();
            self.catch_up();
            let has_worked = self.monitoring.shared.lock().step(clock::now()).has_worked;
            self.let_workers_turn();
            self.settle();
            idle = if has_worked { 0 } else { idle + 1 };
            if idle == IDLE_ROUNDS {
                break;
            }
        }
        self.monitors_changed();
    }
}
