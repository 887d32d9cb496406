//! Handlers, which answer misses beside the control thread (`n-handler-threads`), and revalidators
//! (`n-revalidator-threads`).
//!
//! Both use the snapshot that the control thread publishes. Answers go directly to the worker that sent the
//! upcall. The control thread receives only what changes its state (learned addresses, and packets from which
//! `learn` adds flows) and the misses of ports that the snapshot does not have yet. Without handler threads each
//! worker answers its own misses ([`Answering`]).

use super::secret::secret;
use super::slow_path_threads::{STACK_BYTES, SlowPath};
use super::worker_messages::{Outlet, WorkerEvent};
use super::{flow_log, latency};
use base::WorkerId;
use datapath::UpcallQueue;
use flow::{FlowCommand, Upcall};
use latency::Latency;
use ofproto::{After, Handler, Revalidator};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use table::{Notice, WakeUp};
use tokio::sync::mpsc::UnboundedSender;

/// Upcalls that a handler translates before it installs their flows.
const BATCH: usize = 64;
/// The same for a worker that answers its own misses, which reads the clock after each batch.
const OWN_BATCH: usize = 8;
/// Longest sleep of an idle thread.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long handlers wait for the control thread to catch up.
const PAUSE: Duration = Duration::from_micros(200);

/// State that handlers and the control thread share.
pub struct HandlerShared {
    /// The upcall queue.
    pub upcalls: Arc<UpcallQueue>,
    /// The channel for events to the control thread.
    events: UnboundedSender<WorkerEvent>,
    /// Latencies of upcalls.
    latency: Arc<Latency>,
    /// The name of the datapath in the log.
    datapath: &'static str,
    /// Whether flows are being restored; misses are then dropped.
    is_restoring: AtomicBool,
    /// Whether the control thread was notified and has not looked yet.
    notice: Notice,
    /// Wakes revalidators when megaflows need revalidation.
    pub revalidation: WakeUp,
    has_revalidators: bool,
    /// Whether the control thread waits for the end of revalidation.
    is_revalidation_awaited: AtomicBool,
    is_ending: AtomicBool,
}

impl HandlerShared {
    /// State for handlers that are to be started.
    pub fn new(
        slow: SlowPath,
        events: &UnboundedSender<WorkerEvent>,
        latency: &Arc<Latency>,
        datapath: &'static str,
    ) -> Arc<HandlerShared> {
        Arc::new(HandlerShared {
            upcalls: Arc::new(UpcallQueue::answered_by(slow.answers, secret())),
            events: events.clone(),
            latency: Arc::clone(latency),
            datapath,
            is_restoring: AtomicBool::new(true),
            notice: Notice::default(),
            revalidation: WakeUp::default(),
            has_revalidators: slow.revalidators > 0,
            is_revalidation_awaited: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
        })
    }

    /// Makes handlers drop misses while flows are restored, or answer them.
    pub fn set_restoring(&self, is_restoring: bool) {
        self.is_restoring.store(is_restoring, Ordering::Relaxed);
    }

    /// Called before the control thread looks at what handlers left to it: later events notify it again.
    pub fn look(&self) {
        self.notice.look();
    }

    /// Requests an event when a revalidator has no more to do. The next check for remaining work must follow
    /// this call.
    pub fn await_revalidation(&self) {
        self.is_revalidation_awaited.store(true, Ordering::SeqCst);
    }

    /// Notifies the control thread that a revalidator has no more to do, if it waits for that.
    fn end_revalidation(&self) {
        if self.is_revalidation_awaited.swap(false, Ordering::SeqCst) {
            let _ = self.events.send(WorkerEvent::Answered);
        }
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Wakes revalidators, and notifies the control thread unless it was notified already.
    fn tell(&self, after: After) {
        let mut is_due = after.wake_owner;
        if after.wake_revalidators && self.has_revalidators {
            self.revalidation.ring();
        } else {
            is_due |= after.wake_revalidators;
        }
        if is_due && self.notice.post() {
            let _ = self.events.send(WorkerEvent::Answered);
        }
    }
}

/// The work of a handler, on a thread of its own or on a worker's.
struct HandlerWork {
    number: u16,
    handler: Handler,
    shared: Arc<HandlerShared>,
    batch: Vec<Upcall>,
}

impl HandlerWork {
    /// Translates a batch of misses; [`Handler::install`] must follow. Returns whether there were any.
    fn translate(&mut self, most: usize) -> bool {
        let HandlerWork { number, handler, shared, batch } = self;
        shared.upcalls.pop_for(*number, most, batch);
        if batch.is_empty() {
            return false;
        }
        shared.latency.batch(*number, batch.len());
        if shared.is_restoring.load(Ordering::Relaxed) {
            batch.drain(..).for_each(|upcall| handler.refuse(upcall));
            return true;
        }
        let taken = clock::now();
        for upcall in batch.drain(..) {
            flow_log::upcall(shared.datapath, &upcall);
            let stamps = latency::taken(&upcall, *number, taken);
            // Only the control thread may answer this one. If its queue is full, a packet is dropped and
            // counted there.
            if let Some(upcall) = handler.translate(taken, upcall, Some(stamps)) {
                let (is_queued, dropped) = shared.upcalls.pass_on(upcall);
                if is_queued {
                    let _ = shared.events.send(WorkerEvent::Upcalls);
                }
                dropped.into_iter().for_each(|upcall| handler.refuse(upcall));
            }
        }
        true
    }
}

/// Answers a worker's misses on its own thread.
pub struct Answering {
    work: HandlerWork,
    /// The answers to the last batch, for the worker to execute.
    pub answers: Vec<FlowCommand>,
}

impl Answering {
    /// Answers the misses of this worker.
    pub fn new(worker: WorkerId, handler: Handler, shared: Arc<HandlerShared>) -> Answering {
        let work = HandlerWork { number: worker.0, handler, shared, batch: Vec::new() };
        Answering { work, answers: Vec::new() }
    }

    /// Releases an old snapshot. Called periodically.
    pub fn tick(&mut self) {
        self.work.handler.refresh();
    }

    /// Returns whether the worker has misses that may be answered now.
    pub fn has_misses(&self) -> bool {
        let HandlerWork { number, shared, handler, .. } = &self.work;
        !shared.upcalls.is_empty_for(*number) && !handler.is_to_wait()
    }

    /// Answers a batch of misses.
    pub fn answer(&mut self) {
        if self.work.translate(OWN_BATCH) {
            let answers = &mut self.answers;
            let datapath = self.work.shared.datapath;
            let now = clock::now();
            let own = WorkerId(self.work.number);
            let after = self.work.handler.install(now, |commands| {
                latency::translated(commands, now);
                flow_log::commands(datapath, commands, None);
                // The control thread's queue may have dropped another worker's miss. That worker gives up
                // waiting for the answer (`Worker::tick`).
                let commands = commands.drain(..).filter(|(worker, _)| *worker == own);
                answers.extend(commands.map(|(_, command)| command));
            });
            self.work.shared.tell(after);
        }
    }
}

/// The threads of handlers and revalidators. They end when it is dropped.
pub struct Threads {
    shared: Arc<HandlerShared>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts handlers and revalidators for these workers.
    pub fn start(
        shared: Arc<HandlerShared>,
        handlers: Vec<Handler>,
        revalidators: Vec<Revalidator>,
        workers: &[Outlet],
    ) -> std::io::Result<Threads> {
        let mut all = Threads { shared, threads: Vec::new() };
        for (number, handler) in (0..).zip(handlers) {
            let shared = Arc::clone(&all.shared);
            let work = HandlerWork { number, handler, shared, batch: Vec::with_capacity(BATCH) };
            let workers = workers.to_vec();
            all.spawn(format!("handler{number}"), move || handle(work, &workers))?;
        }
        for (number, revalidator) in revalidators.into_iter().enumerate() {
            let (shared, workers) = (Arc::clone(&all.shared), workers.to_vec());
            let run = move || revalidate(revalidator, &shared, &workers);
            all.spawn(format!("revalidator{number}"), run)?;
        }
        Ok(all)
    }

    fn spawn(&mut self, name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.threads
            .push(std::thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(run)?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        self.shared.upcalls.wake();
        self.shared.revalidation.ring();
        for thread in self.threads.drain(..) {
            // A panic was printed to stderr already.
            let _ = thread.join();
        }
    }
}

/// The loop of a handler's thread.
fn handle(mut work: HandlerWork, workers: &[Outlet]) {
    let shared = Arc::clone(&work.shared);
    while !shared.is_ending() {
        if !work.translate(BATCH) {
            work.handler.refresh();
            shared.upcalls.wait(work.number, PATIENCE);
            continue;
        }
        let now = clock::now();
        let after = work.handler.install(now, |commands| {
            latency::translated(commands, now);
            flow_log::commands(shared.datapath, commands, None);
            deliver(commands, workers);
        });
        workers.iter().filter(|worker| worker.take_put()).for_each(Outlet::wake);
        shared.tell(after);
        while work.handler.is_to_wait() && !shared.is_ending() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The loop of a revalidator's thread.
fn revalidate(mut revalidator: Revalidator, shared: &HandlerShared, workers: &[Outlet]) {
    let mut heard = 0;
    while !shared.is_ending() {
        let more = revalidator.revalidate(clock::now(), |commands| {
            flow_log::commands(shared.datapath, commands, None);
            deliver(commands, workers);
        });
        workers.iter().filter(|worker| worker.take_put()).for_each(Outlet::wake);
        if !more {
            revalidator.refresh();
            shared.end_revalidation();
            shared.revalidation.wait(&mut heard, PATIENCE);
        }
    }
}

/// Queues commands for their workers, in order.
fn deliver(commands: &mut Vec<(WorkerId, FlowCommand)>, workers: &[Outlet]) {
    for (number, outlet) in workers.iter().enumerate() {
        let is_its = |(worker, _): &mut (WorkerId, FlowCommand)| usize::from(worker.0) == number;
        let own: Vec<FlowCommand> = match workers.len() {
            1 => commands.drain(..).map(|(_, command)| command).collect(),
            _ => commands.extract_if(.., is_its).map(|(_, command)| command).collect(),
        };
        if !own.is_empty() {
            outlet.put(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Instant;
    use datapath::Answers;
    use flow::{Action, DropReason, Execute, FlowKey, UpcallKind};
    use ofproto::{Config, Ofproto};

    #[test]
    fn misses_are_dropped_and_counted_while_flows_are_restored() {
        let slow = SlowPath { answers: Answers::Workers(1), revalidators: 0 };
        let (events, _inbox) = tokio::sync::mpsc::unbounded_channel();
        let shared = HandlerShared::new(slow, &events, &Arc::default(), "system@ovs-system");
        let handler = Ofproto::new(Config::default()).handler();
        let mut answering = Answering::new(WorkerId(0), handler, Arc::clone(&shared));
        let (worker, kind, key) = (WorkerId(0), UpcallKind::Miss, FlowKey::new());
        let reserved = shared.upcalls.reserve(Instant::ZERO, worker, &kind, &key).unwrap();
        let packet = packet::Packet::from_bytes(&[0; 60]);
        let (received, queued) = (Instant::ZERO, Instant::ZERO);
        let key = Box::new(key);
        let upcall = Upcall { worker, kind, packet, key, received, queued, trace: None };
        shared.upcalls.push(&reserved, upcall);
        answering.answer();
        let [FlowCommand::Execute(execute)] = &answering.answers[..] else {
            panic!("{:?}", answering.answers)
        };
        let Execute { actions, .. } = execute;
        assert_eq!(actions[..], [Action::Drop(DropReason::UpcallQueueFull)]);
    }
}
