//! Replacing the workers, when the configuration asks for others.

use super::Switch;
use super::worker_thread::{self, WorkerCommand, WorkerMode, WorkerThread};
use base::WorkerId;
use datapath::WorkerConfig;
use port::PortError;
use std::sync::Arc;

impl Switch {
    /// Replaces the workers. Their flows are removed; packets install new ones.
    pub(super) fn start_workers(
        &mut self,
        modes: &[WorkerMode],
        config: WorkerConfig,
    ) -> Result<(), PortError> {
        self.stop_handlers(modes.len());
        let mut slots = Vec::new();
        for worker in std::mem::take(&mut self.workers) {
            let id = worker.id;
            slots.extend(worker.stop());
            self.with_sessions(|sessions, switch| sessions.worker_gone(id, switch));
            self.worker_answered(id);
            self.worker_answered(id);
        }
        // The old workers' flows and pending commands are discarded.
        self.generation += 1;
        self.offload_anew();
        self.outbox.commands.clear();
        self.ofproto.set_config(ofproto::Config { workers: 0, ..self.ofproto.config().clone() });
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
        let workers = modes.len() as u16;
        self.ofproto.set_config(ofproto::Config { workers, ..self.ofproto.config().clone() });
        for (port, error) in self.devices.attach_all(slots, &self.workers) {
            log::error!(target: "dpif_netdev", "port {port}: {error}");
        }
        self.balancer.reset();
        self.start_handlers_or(|switch| switch.start_workers(modes, config))
    }
}
