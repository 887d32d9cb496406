//! A worker's loop: receive from its queues, let the datapath decide, send.
//!
//! A sleeping worker waits in one system call for all its ports and the control thread, and uses no processor
//! time without packets. A polling worker has a processor of its own and sleeps at most as long as
//! `pmd-sleep-max` permits.
//!
//! Open vSwitch's commands report cycles; here they are nanoseconds of the monotonic clock.

mod account;
mod orders;

use super::balance::Load;
use super::expiry::expiry_budget;
use super::handlers::Answering;
use super::metrics::{BatchSizes, Metrics};
use super::pmd_sleep::PmdSleep;
use super::tracing::{Arrival, Picker};
use super::usage::{INTERVAL, Usage};
use super::worker_messages::{Stopped, WorkerCommand, WorkerEvent, WorkerMode};
use super::worker_ports::{Ports, RxqTimer, send_all};
use super::worker_report::{Iterations, WorkerReport};
use base::Instant;
use datapath::{Outbox, Worker};
use flow::{FlowCommand, Stamps};
use packet::Batch;
use port_linux::{Waiter, affinity};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// Longest sleep of a sleeping worker, so that it maintains its tables.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// How long a sleeping worker keeps polling queues that cannot wake it after one of them had packets, and the
/// interval at which it polls them afterwards.
const LOOK_ON: Duration = Duration::from_micros(200);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long a worker that answers its own misses does so before it receives again: a port's queue holds the
/// packets that arrive meanwhile.
const ANSWERING_MAX: Duration = Duration::from_micros(100);
/// Packets in the outbox that are sent before the next batch is received, or the next answer executed. A flood
/// makes a packet for each port: sent at once, they neither wait for those of the others nor need memory.
const OUTBOX_PACKETS: usize = 256;
/// Batches received from one queue before the next one's turn.
const BATCHES_PER_TURN: usize = 4;

/// The initial state of a worker's thread.
pub struct Start {
    /// The generation of workers that it belongs to.
    pub generation: u32,
    /// Whether it sleeps or polls.
    pub mode: WorkerMode,
    /// Its datapath worker.
    pub worker: Worker,
    /// The descriptors for which it sleeps.
    pub waiter: Waiter,
    /// Its commands.
    pub inbox: mpsc::Receiver<WorkerCommand>,
    /// Commands that it executes before all others.
    pub urgent: mpsc::Receiver<Vec<FlowCommand>>,
    /// The channel for its events.
    pub events: UnboundedSender<WorkerEvent>,
    /// Its published report.
    pub published: Arc<Mutex<WorkerReport>>,
    /// Metrics of its iterations.
    pub metrics: Arc<Metrics>,
    /// Answers its misses, if it does that itself.
    pub answering: Option<Answering>,
}

/// Works until it is stopped or the control thread is gone.
pub fn run(start: Start) -> Stopped {
    Run::new(start).run()
}

/// The state of a worker's thread.
struct Run {
    generation: u32,
    mode: WorkerMode,
    worker: Worker,
    waiter: Waiter,
    inbox: mpsc::Receiver<WorkerCommand>,
    urgent: mpsc::Receiver<Vec<FlowCommand>>,
    events: UnboundedSender<WorkerEvent>,
    published: Arc<Mutex<WorkerReport>>,
    metrics: Arc<Metrics>,
    answering: Option<Answering>,
    /// Batch sizes of the current iteration, and the upcalls before it, if metrics are on.
    sizes: BatchSizes,
    asked: Option<u64>,
    ports: Ports,
    iterations: Iterations,
    /// Since when iterations and counters are counted.
    since: Instant,
    /// Busy time.
    busy: Usage,
    /// The load of its last complete interval.
    last: Load,
    /// The sleeps of a polling worker.
    pmd_sleep: PmdSleep,
    /// Selects the packets to trace.
    tracing: Option<Picker>,
    /// Times of the upcalls whose answers are being executed, to be recorded.
    answered: Vec<Stamps>,
    /// Number of executed flow commands.
    commands: u64,
    /// Flow commands that were taken from the inbox and are still to be executed.
    taken: std::vec::IntoIter<FlowCommand>,
    /// Whether more commands may wait than this iteration executed.
    has_commands: bool,
    /// Notified at the end of this iteration.
    iterated: Option<mpsc::Sender<()>>,
}

impl Run {
    fn new(start: Start) -> Run {
        let Start {
            generation,
            mode,
            worker,
            waiter,
            inbox,
            urgent,
            events,
            published,
            metrics,
            answering,
        } = start;
        Run {
            generation,
            mode,
            worker,
            waiter,
            inbox,
            urgent,
            events,
            published,
            metrics,
            answering,
            sizes: BatchSizes::default(),
            asked: None,
            ports: Ports::default(),
            iterations: Iterations::default(),
            since: clock::now(),
            busy: Usage::default(),
            last: Load::default(),
            pmd_sleep: PmdSleep::default(),
            tracing: None,
            answered: Vec::new(),
            commands: 0,
            taken: Vec::new().into_iter(),
            has_commands: false,
            iterated: None,
        }
    }

    fn run(mut self) -> Stopped {
        if let WorkerMode::Polling { cpu, pretends: false, .. } = self.mode {
            if let Err(error) = affinity::pin_to_cpu(cpu) {
                log::warn!(target: "dpif_netdev", "cannot pin a worker to CPU {cpu}: {error}");
            }
            // If this fails, sleeps only take longer.
            let _ = affinity::sleep_precisely();
        }
        let (mut out, mut batch) = (Outbox::new(), Batch::new());
        let mut now = clock::now();
        let (mut ticked, mut received_at, mut interval) = (now, now, now);
        let mut received = 0;
        loop {
            if !self.obey(now, received, &mut out) {
                return self.finish(now, &mut out);
            }
            let sending_from;
            (received, sending_from) = self.receive_all(now, &mut batch, &mut out);
            self.answer_own(&mut out);
            self.worker.continue_dump(&mut out);
            self.flush(&mut out);
            self.offer();
            if !self.mode.waits() {
                self.worker.expire(now, expiry_budget(received));
            }
            let worked = clock::now();
            self.iterations.all += 1;
            if received > 0 {
                self.ports.share_out((worked - sending_from).as_nanos() as u64, received);
                self.count_busy((worked - now).as_nanos() as u64);
                received_at = worked;
            }
            self.keep_turn(now, worked, received);
            if worked - interval >= INTERVAL {
                self.end_interval(worked - interval);
                interval = worked;
            }
            if worked - ticked >= SLEEP_MAX {
                ticked = worked;
                self.answering.iter_mut().for_each(Answering::tick);
                if let Some(wanted) = self.worker.tick() {
                    let (generation, id) = (self.generation, self.worker.id());
                    let _ = self.events.send(WorkerEvent::NeedsCacheMemory(generation, id, wanted));
                }
                self.publish();
            }
            // The counters are published before the waiting thread is notified.
            self.iterated.take().inspect(|_| self.publish());
            let before = if received > 0 { worked } else { now };
            now = self.rest(received, before, worked, received_at);
        }
    }

    fn count_busy(&mut self, ns: u64) {
        self.worker.stats_mut().busy_ns += ns;
        self.iterations.busy += 1;
        self.busy.add(ns);
    }

    /// Sleeps if the worker is idle. `idle_since` is when its work ended. Returns the time after the sleep.
    fn rest(
        &mut self,
        received: u64,
        idle_since: Instant,
        now: Instant,
        received_at: Instant,
    ) -> Instant {
        let has_misses = self.answering.as_ref().is_some_and(Answering::has_misses);
        let is_busy = received > 0 || self.worker.is_dumping() || has_misses;
        let rested = if self.has_commands || self.mode.waits() && is_busy {
            None
        } else if self.mode.waits() {
            self.publish();
            self.patience(now - received_at).map(|patience| self.wait(patience))
        } else {
            // Published at the end of a burst, so that readers need not wait a second.
            if received == 0 && idle_since <= received_at {
                self.publish();
            }
            let most = self.ports.rx.iter().map(|slot| slot.packets).max();
            self.pmd_sleep.next(most.unwrap_or(0)).map(std::thread::sleep)
        };
        let after = if rested.is_some() { clock::now() } else { now };
        let slept_ns = if rested.is_some() { (after - now).as_nanos() as u64 } else { 0 };
        self.iterations.slept += u64::from(slept_ns > 0);
        self.iterations.slept_ns += slept_ns;
        // A polling worker's sleep is counted separately; a sleeping worker's is its idle time.
        let slept_ns = if self.mode.waits() { 0 } else { slept_ns };
        let idle_ns = (after - idle_since).as_nanos() as u64;
        self.worker.stats_mut().idle_ns += idle_ns.saturating_sub(slept_ns);
        after
    }

    /// Returns how long a sleeping worker may wait; `None` if it must poll again at once, because a queue
    /// that cannot wake it had packets a moment ago.
    fn patience(&self, idle_for: Duration) -> Option<Duration> {
        match self.ports.quiet_for() {
            None => Some(SLEEP_MAX),
            Some(Duration::ZERO) if idle_for < LOOK_ON => None,
            Some(quiet) => Some(quiet.clamp(LOOK_AGAIN, SLEEP_MAX)),
        }
    }

    fn wait(&mut self, patience: Duration) {
        if let Err(error) = self.waiter.wait(Some(patience)) {
            // Only an invalid descriptor can cause this; a pause avoids a busy loop.
            vlog::limited!(
                (1, 5), clock::now(), target: "dpif_netdev", log::Level::Error,
                "worker cannot wait: {error}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Answers the worker's own misses for a bounded time, if it does that itself.
    fn answer_own(&mut self, out: &mut Outbox) {
        let Some(mut answering) = self.answering.take_if(|it| it.has_misses()) else { return };
        let began = clock::now();
        let mut now = began;
        while now - began < ANSWERING_MAX && answering.has_misses() {
            answering.answer();
            now = clock::now();
            for command in answering.answers.drain(..) {
                self.carry_out(now, command, out);
            }
            self.record_answered();
        }
        self.answering = Some(answering);
    }

    /// Receives from each queue in turn. Returns the number of packets, and since when time belongs to no
    /// queue: sending after that is shared by all.
    fn receive_all(&mut self, now: Instant, batch: &mut Batch, out: &mut Outbox) -> (u64, Instant) {
        let (mut received, mut timer) = (0, RxqTimer::new(now));
        let may_rest = !self.mode.waits();
        for place in 0..self.ports.rx.len() {
            let slot = &mut self.ports.rx[place];
            slot.packets = 0;
            if may_rest && slot.is_at_rest(now) {
                continue;
            }
            // Polling an empty queue without a system call costs less than reading the clock.
            let is_dear = slot.rx.wake_fd().is_some();
            if is_dear {
                timer.end(&mut self.ports.rx, clock::now);
            }
            self.receive_from(now, (place, &mut timer), batch, out);
            let slot = &mut self.ports.rx[place];
            received += slot.packets;
            if slot.packets == 0 && is_dear {
                timer.since = clock::now();
                if may_rest {
                    slot.rest(timer.since);
                }
            }
        }
        // With a single receive queue, all time belongs to it, so the clock need not be read.
        if timer.queue.is_some_and(|place| self.ports.rx[place].packets < received) {
            timer.end(&mut self.ports.rx, clock::now);
        }
        if !self.ports.failed.is_empty() {
            for (port, opening, error) in std::mem::take(&mut self.ports.failed) {
                self.ports.forget_rx(port, &mut self.waiter);
                let _ = self.events.send(WorkerEvent::PortFailed(port, opening, error));
            }
        }
        (received, timer.since)
    }

    /// Receives from one queue.
    fn receive_from(
        &mut self,
        now: Instant,
        (place, timer): (usize, &mut RxqTimer),
        batch: &mut Batch,
        out: &mut Outbox,
    ) {
        let Run { ports, worker, tracing, events, sizes, asked: kept, .. } = self;
        let Ports { rx, tx, failed } = ports;
        for _ in 0..BATCHES_PER_TURN {
            let asked = tracing.as_ref().map(|_| clock::now());
            let slot = &mut rx[place];
            if let Err(error) = slot.rx.receive(worker.pool(), batch) {
                failed.push((slot.port, slot.opening, error));
            }
            let full = batch.is_full();
            slot.packets += batch.len() as u64;
            sizes.0[batch.len()] += u32::from(kept.is_some());
            if batch.is_empty() {
                break;
            }
            let (port, queue) = (slot.port, slot.queue);
            timer.begin(place, rx, clock::now);
            match tracing.as_mut().zip(asked) {
                None => worker.receive(now, port, batch, out),
                Some((picker, asked)) => {
                    let arrival = Arrival { port, queue, asked };
                    picker.receive(now, arrival, batch, worker, (tx, out), |traced| {
                        let _ = events.send(WorkerEvent::Traced(traced));
                    });
                }
            }
            if out.packets() >= OUTBOX_PACKETS {
                send_all(worker, tx, out);
            }
            if !full {
                break;
            }
        }
    }

    /// Sends the packets in the outbox.
    fn flush(&mut self, out: &mut Outbox) {
        send_all(&mut self.worker, &mut self.ports.tx, out);
        for dump in out.dumps.drain(..) {
            let _ = self.events.send(WorkerEvent::Dump(self.generation, dump));
        }
        if std::mem::take(&mut out.wake_control) {
            let _ = self.events.send(WorkerEvent::Upcalls);
        }
    }
}

#[cfg(test)]
mod tests;
