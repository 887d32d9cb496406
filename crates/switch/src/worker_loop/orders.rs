//! A worker's commands, and the resulting events.

use super::{OUTBOX_PACKETS, Picker, Run, send_all};
use crate::handlers::Answering;
use crate::latency::stamps_of;
use crate::worker_messages::{Credit, Stopped, WorkerCommand, WorkerEvent};
use crate::worker_report::Iterations;
use base::{Instant, PortNo};
use datapath::{Outbox, WorkerStats};
use flow::{FlowCommand, FlowStats};
use std::sync::mpsc;

/// Flow commands executed before the worker receives again, unless it received more packets last, whose misses
/// are being answered: a purge of all flows sends them by the hundred thousand. Each takes a microsecond or two.
pub(super) const COMMANDS_PER_ITERATION: usize = 256;

impl Run {
    /// Executes commands, a bounded number of those that concern flows, after an iteration that received so many
    /// packets. Returns whether to continue.
    pub(super) fn obey(&mut self, now: Instant, received: u64, out: &mut Outbox) -> bool {
        while let Ok(commands) = self.urgent.try_recv() {
            commands.into_iter().for_each(|command| self.carry_out(now, command, out));
        }
        let mut left = COMMANDS_PER_ITERATION.max(received as usize);
        loop {
            while left > 0
                && let Some(command) = self.taken.next()
            {
                left -= 1;
                self.carry_out(now, command, out);
            }
            self.record_answered();
            self.has_commands = left == 0;
            if self.has_commands {
                return true;
            }
            match self.inbox.try_recv() {
                Ok(WorkerCommand::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
                Ok(WorkerCommand::Flow(command)) => {
                    self.commands += 1;
                    left -= 1;
                    self.carry_out(now, command, out);
                }
                Ok(WorkerCommand::Flows(commands)) => self.taken = commands.into_iter(),
                Ok(WorkerCommand::AddTx(port, tx)) => drop(self.ports.tx.insert(port, tx)),
                Ok(WorkerCommand::AddRx(slot)) => {
                    self.ports.add_rx(slot, &mut self.waiter);
                    self.publish();
                }
                Ok(WorkerCommand::TakeRx(port, queue, to)) => {
                    if let Some(slot) = self.ports.take_rx(port, queue, &mut self.waiter)
                        && let Err(mpsc::SendError(slot)) = to.send(slot)
                    {
                        self.ports.add_rx(slot, &mut self.waiter);
                    }
                }
                Ok(WorkerCommand::SleepMax(most)) => self.pmd_sleep.set_longest(most),
                Ok(WorkerCommand::RemovePort(port, _done)) => {
                    self.worker.remove_port(now, port, out);
                    self.remove_port(port, out);
                }
                Ok(WorkerCommand::Trace(order)) => self.tracing = order.map(Picker::new),
                Ok(WorkerCommand::Configure(config)) => self.worker.configure(config),
                Ok(WorkerCommand::CacheMemory(room)) => {
                    let _ = self.events.send(WorkerEvent::Spent(self.worker.take(room)));
                }
                Ok(WorkerCommand::Credit(credits)) => self.credit(now, &credits),
                Ok(WorkerCommand::OfferAgain) => self.worker.offer_again(),
                Ok(WorkerCommand::Iterate(done)) => self.iterated = Some(done),
                Ok(WorkerCommand::ClearStats) => {
                    *self.worker.stats_mut() = WorkerStats::default();
                    (self.iterations, self.since, self.asked) = (Iterations::default(), now, None);
                    self.metrics.clear();
                    self.publish();
                }
            }
        }
    }

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
        if out.packets() >= OUTBOX_PACKETS {
            send_all(worker, &mut ports.tx, out);
        }
    }

    /// Answers its own misses, sends what is left to send, and leaves the statistics that the control thread does
    /// not know.
    pub(super) fn finish(mut self, now: Instant, out: &mut Outbox) -> Stopped {
        while self.answering.as_ref().is_some_and(Answering::has_misses) {
            self.answer_own(out);
        }
        self.flush(out);
        let lost = self.worker.abandon_misses();
        Stopped { lost, slots: self.ports.rx, flows: Some(self.worker.end(now)) }
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
