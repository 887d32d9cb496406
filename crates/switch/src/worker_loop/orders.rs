//! Commands about a worker's flows and ports, and the resulting events.

use super::Run;
use crate::handlers::Answering;
use crate::latency::stamps_of;
use crate::offload::Credit;
use crate::worker_thread::{Stopped, WorkerEvent};
use base::{Instant, PortNo};
use datapath::Outbox;
use flow::{FlowCommand, FlowStats};

impl Run {
    pub(super) fn carry_out(&mut self, now: Instant, command: FlowCommand, out: &mut Outbox) {
        let Run { worker, ports, tracing, events, answered, .. } = self;
        answered.extend(stamps_of(&command));
        match (command, tracing) {
            (FlowCommand::Execute(asked), Some(picker)) if let Some(id) = asked.trace => {
                let traced = picker.execute(now, (id, asked), worker, (&mut ports.tx, out));
                let _ = events.send(WorkerEvent::Traced(traced));
            }
            (command, _) => worker.command(now, command, out),
        }
    }

    /// Answers its own misses, reports the statistics that the control thread does not know, and sends what is
    /// left to send.
    pub(super) fn finish(mut self, now: Instant, out: &mut Outbox) -> Stopped {
        while self.answering.as_ref().is_some_and(Answering::has_misses) {
            self.answer_own(out);
        }
        self.worker.command(now, FlowCommand::Collect, out);
        while self.worker.is_dumping() {
            self.worker.continue_dump(out);
        }
        self.flush(out);
        Stopped { lost: self.worker.abandon_misses(), slots: self.ports.rx }
    }

    /// Records the latency of the upcalls whose answers were executed.
    pub(super) fn record_answered(&mut self) {
        self.metrics.latency.installed(&mut self.answered);
    }

    pub(super) fn remove_port(&mut self, port: PortNo, out: &mut Outbox) {
        self.ports.forget_rx(port, &mut self.waiter);
        self.ports.tx.remove(&port);
        out.remove_port(port);
    }

    /// Credits flows with packets that a device forwarded.
    pub(super) fn credit(&mut self, now: Instant, credits: &[Credit]) {
        for Credit { flow, traffic, tcp_flags, .. } in credits {
            let stats = FlowStats {
                packets: traffic.packets,
                bytes: traffic.bytes,
                used: Some(now),
                tcp_flags: *tcp_flags,
            };
            self.worker.credit_offloaded(now, *flow, stats);
        }
    }

    /// Offers connections to a device, if offload is enabled.
    pub(super) fn offer(&mut self) {
        if let Some(offers) = self.worker.take_offers() {
            let _ = self.events.send(WorkerEvent::Offers(self.generation, self.commands, offers));
        }
    }
}
