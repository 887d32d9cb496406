//! Processing of the workers' events in the control thread.

use super::flow_log;
use super::worker_messages::WorkerEvent;
use super::worker_thread::WorkerThread;
use super::{Shared, Switch};
use std::future::poll_fn;
use std::rc::Rc;

/// Processes the workers' events and the misses in their queue, as long as there are workers.
pub async fn serve_workers(shared: Shared) {
    let inbox = Rc::clone(&shared.borrow().inbox);
    while let Some(event) = poll_fn(|context| inbox.borrow_mut().poll_recv(context)).await {
        shared.borrow_mut().worker_event(event);
        loop {
            let more = {
                let mut switch = shared.borrow_mut();
                let more = switch.answer_upcalls(clock::now());
                switch.settle();
                more
            };
            // Sockets and timers get their turn between the batches of a storm.
            tokio::task::yield_now().await;
            if !more {
                break;
            }
        }
    }
}

impl Switch {
    /// Processes an event of a worker.
    fn worker_event(&mut self, event: WorkerEvent) {
        let now = clock::now();
        match event {
            WorkerEvent::Upcalls => return,
            WorkerEvent::Answered => self.catch_up(),
            WorkerEvent::Spent(room) => return drop(room),
            WorkerEvent::NeedsCacheMemory(generation, id, wanted) => {
                let asks =
                    |worker: &&WorkerThread| worker.id == id && generation == self.generation;
                if let Some(worker) = self.workers.iter().find(asks) {
                    worker.prepare(wanted);
                }
                return;
            }
            // Flows of replaced workers have been removed already.
            WorkerEvent::Dump(generation, _) if generation != self.generation => return,
            WorkerEvent::Offers(generation, seen, offers) => {
                if generation == self.generation {
                    self.offered(seen, offers);
                }
                return;
            }
            WorkerEvent::Traced(traced) => {
                self.traces.add(*traced);
                return;
            }
            WorkerEvent::Dump(_, dump) => {
                let (worker, at, is_last) = (dump.worker, dump.at, dump.is_last);
                self.ofproto.dump(now, dump);
                if is_last && flow_log::is_dump_told(self.uses_ufid) {
                    let datapath = self.settings.dummy.datapath_name();
                    flow_log::dumped(datapath, worker, &self.ofproto, now);
                }
                if is_last {
                    self.flow_gauge.sample(self.ofproto.megaflow_counters().current);
                    self.flow_gauge.dump_ms = (clock::now() - at).as_millis() as u64;
                    self.with_sessions(|sessions, switch| sessions.dumped(worker, switch));
                    self.worker_answered(worker);
                }
            }
            // The port was closed, and its number may belong to another one by now.
            WorkerEvent::PortFailed(port, opening, _) if !self.devices.is_open(port, opening) => {
                return;
            }
            WorkerEvent::Monitors => self.monitors_changed(),
            WorkerEvent::GuestChanged(name) => self.guest_changed(&name),
            WorkerEvent::PortFailed(port, _, error) => {
                log::warn!(target: "dpif_netdev", "port {port}: {error}");
                self.port_failed(port);
            }
        }
        self.settle();
    }
}
