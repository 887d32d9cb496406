//! Replacing the workers, when the configuration asks for others.

use super::Switch;
use super::worker_messages::{Stopped, WorkerCommand, WorkerEvent, WorkerMode};
use super::worker_thread::{self, WorkerThread};
use base::WorkerId;
use datapath::{LastFlows, WorkerConfig};
use flow::FlowDump;
use port::PortError;
use std::rc::Rc;
use std::sync::Arc;

impl Switch {
    /// Replaces the workers. Packets install new flows. Before the old ones go, upcalls are answered, as in
    /// Open vSwitch (`ofproto/ofproto-dpif-upcall.c`, `udpif_stop_threads`). Their last statistics, which may be
    /// of millions of flows, are applied when the new ones forward.
    pub(super) fn start_workers(
        &mut self,
        modes: &[WorkerMode],
        config: WorkerConfig,
    ) -> Result<(), PortError> {
        self.stop_handlers();
        self.sweep_offload();
        self.send_commands();
        // All at once, so that packets wait for the slowest only.
        self.workers.iter().for_each(|worker| worker.send(WorkerCommand::Stop));
        let mut slots = Vec::new();
        let stopped: Vec<(WorkerId, Stopped)> =
            std::mem::take(&mut self.workers).into_iter().map(|it| (it.id, it.stop())).collect();
        let pages = self.last_pages();
        let mut gone = Vec::new();
        for (id, stopped) in stopped {
            slots.extend(stopped.slots);
            for (port, lost) in stopped.lost {
                *self.lost_before.entry(port).or_default() += lost;
            }
            gone.push((id, stopped.flows));
        }
        self.replace_upcall_queue(modes.len());
        // The old workers' flows and pending commands are discarded.
        self.generation += 1;
        self.offload_anew();
        self.outbox.commands.clear();
        self.ofproto.set_config(ofproto::Config { workers: 0, ..self.ofproto.config().clone() });
        let started = self.start_threads(modes, config);
        if started.is_ok() {
            let workers = modes.len() as u16;
            self.ofproto.set_config(ofproto::Config { workers, ..self.ofproto.config().clone() });
            for (port, error) in self.devices.attach_all(slots, &self.workers) {
                log::error!(target: "dpif_netdev", "port {port}: {error}");
            }
        }
        self.monitor_by_new_workers();
        let done = started.and_then(|()| {
            self.balancer.reset();
            self.start_handlers_or(|switch| switch.start_workers(modes, config))
        });
        self.apply_last_statistics(pages, gone);
        done
    }

    fn start_threads(
        &mut self,
        modes: &[WorkerMode],
        config: WorkerConfig,
    ) -> Result<(), PortError> {
        for (index, mode) in modes.iter().enumerate() {
            let conntrack = Arc::clone(&self.conntrack);
            let upcalls = Arc::clone(&self.handler_shared.upcalls);
            let id = WorkerId(index as u16);
            let events = self.events.clone();
            let latency = self.latency.recorder(id);
            let answering = self.answering(id);
            let shared = worker_thread::Shared { conntrack, upcalls, events, latency, answering };
            let worker = WorkerThread::start(id, self.generation, *mode, config, shared)?;
            worker.send(WorkerCommand::Trace(self.traces.order()));
            worker.metrics().set_log(self.turn_log);
            self.workers.push(worker);
        }
        Ok(())
    }

    /// Applies what stopped workers told last and what they have not told.
    fn apply_last_statistics(
        &mut self,
        pages: Vec<FlowDump>,
        gone: Vec<(WorkerId, Option<LastFlows>)>,
    ) {
        let now = clock::now();
        pages.iter().for_each(|page| self.ofproto.last_dump(now, page));
        let mut spent = Vec::new();
        for (id, flows) in gone {
            if let Some(mut flows) = flows {
                while let Some(page) = flows.next_page() {
                    self.ofproto.last_dump(now, &page);
                }
                spent.push(flows);
            }
            self.with_sessions(|sessions, switch| sessions.worker_gone(id, switch));
            self.worker_answered(id);
            self.worker_answered(id);
        }
        // To free the memory of millions of flows takes long. If no thread can be started, this one does it.
        let _ = std::thread::Builder::new().name("room".to_owned()).spawn(move || drop(spent));
    }

    /// Takes the statistics that stopped workers reported before. Other events stay in their order.
    fn last_pages(&mut self) -> Vec<FlowDump> {
        let inbox = Rc::clone(&self.inbox);
        let (mut dumps, mut others) = (Vec::new(), Vec::new());
        while let Ok(event) = inbox.borrow_mut().try_recv() {
            match event {
                WorkerEvent::Dump(generation, dump) if generation == self.generation => {
                    dumps.push(dump);
                }
                other => others.push(other),
            }
        }
        for event in others {
            // The other end is this switch's.
            let _ = self.events.send(event);
        }
        dumps
    }
}
