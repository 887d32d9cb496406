//! Handlers: what answers misses beside the control thread (`n-handler-threads`), and revalidators
//! (`n-revalidator-threads`).
//!
//! Both work on the snapshot that the control thread publishes. Answers go straight to the worker that
//! asked. The control thread hears only of what changes its state: addresses learned, packets that teach
//! flows. Without threads each worker answers its own misses ([`Answering`]).

use super::slow_path::SlowPath;
use super::worker_thread::{Outlet, WorkerEvent};
use super::{flow_log, latency};
use base::WorkerId;
use datapath::UpcallQueue;
use flow::{FlowCommand, Upcall};
use latency::Latency;
use ofproto::{After, Handler, Revalidator};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;

/// Upcalls that a handler translates before it installs their flows.
const BATCH: usize = 64;
/// The same for a worker that answers its own, which looks at the clock after each batch.
const OWN_BATCH: usize = 8;
/// How long a thread without work sleeps at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long handlers wait for a control thread that is behind.
const PAUSE: Duration = Duration::from_micros(200);

/// What handlers share with the control thread.
pub struct Common {
    /// Where misses wait.
    pub upcalls: Arc<UpcallQueue>,
    /// Where the control thread is told of what it has to do.
    events: UnboundedSender<WorkerEvent>,
    /// How long upcalls take.
    latency: Arc<Latency>,
    /// The name of the datapath in the log.
    datapath: &'static str,
    /// While flows are restored, misses are dropped.
    is_restoring: AtomicBool,
    /// The control thread was told, and has not looked yet.
    is_told: AtomicBool,
    /// Megaflows are to be revalidated; told to revalidators.
    pub revalidation: Bell,
    has_revalidators: bool,
    is_ending: AtomicBool,
}

/// Wakes threads that have nothing to do.
#[derive(Default)]
pub struct Bell {
    rings: Mutex<u64>,
    rung: Condvar,
}

impl Bell {
    /// Wakes all.
    pub fn ring(&self) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.rung.notify_all();
    }

    /// Waits until it is rung after the ring that was heard last.
    fn wait(&self, heard: &mut u64) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let is_silent = |rings: &mut u64| *rings == *heard;
        let waited = self.rung.wait_timeout_while(rings, PATIENCE, is_silent);
        *heard = *waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Common {
    /// For handlers that do not run yet.
    pub fn new(
        slow: SlowPath,
        events: &UnboundedSender<WorkerEvent>,
        latency: &Arc<Latency>,
        datapath: &'static str,
    ) -> Arc<Common> {
        Arc::new(Common {
            upcalls: Arc::new(UpcallQueue::answered_by(slow.answers)),
            events: events.clone(),
            latency: Arc::clone(latency),
            datapath,
            is_restoring: AtomicBool::new(true),
            is_told: AtomicBool::new(false),
            revalidation: Bell::default(),
            has_revalidators: slow.revalidators > 0,
            is_ending: AtomicBool::new(false),
        })
    }

    /// Has handlers drop misses while flows are restored, or answer them.
    pub fn set_restoring(&self, is_restoring: bool) {
        self.is_restoring.store(is_restoring, Ordering::Relaxed);
    }

    /// The control thread is about to look at what handlers left to it: it is told of what comes after.
    pub fn look(&self) {
        self.is_told.store(false, Ordering::Release);
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Tells the control thread, unless it has been told, and revalidators.
    fn tell(&self, after: After) {
        let mut is_due = after.wake_owner;
        if after.wake_revalidators && self.has_revalidators {
            self.revalidation.ring();
        } else {
            is_due |= after.wake_revalidators;
        }
        if is_due && !self.is_told.swap(true, Ordering::AcqRel) {
            let _ = self.events.send(WorkerEvent::Answered);
        }
    }
}

/// A handler at work, on a thread of its own or on a worker's.
struct Desk {
    number: u16,
    handler: Handler,
    common: Arc<Common>,
    batch: Vec<Upcall>,
}

impl Desk {
    /// Translates a batch of misses; [`Handler::install`] is to follow. Says whether there were any.
    fn translate(&mut self, most: usize) -> bool {
        let Desk { number, handler, common, batch } = self;
        common.upcalls.pop_for(*number, most, batch);
        if batch.is_empty() {
            return false;
        }
        common.latency.batch(*number, batch.len());
        if common.is_restoring.load(Ordering::Relaxed) {
            batch.clear();
            return true;
        }
        let taken = clock::now();
        for upcall in batch.drain(..) {
            flow_log::upcall(common.datapath, &upcall);
            let stamps = latency::taken(&upcall, *number, taken);
            let stamp = |_: &Upcall| Some(latency::with_translated(stamps, clock::now()));
            // What only the control thread may answer; where its list is full, the packet is lost, and
            // counted there.
            if let Some(upcall) = handler.translate(taken, upcall, stamp)
                && common.upcalls.pass_on(upcall).is_ok()
            {
                let _ = common.events.send(WorkerEvent::Upcalls);
            }
        }
        true
    }
}

/// Answers the misses of the worker whose thread it is on.
pub struct Answering {
    desk: Desk,
    /// The answers to the last batch, to be carried out by the worker.
    pub answers: Vec<FlowCommand>,
}

impl Answering {
    /// For this worker.
    pub fn new(worker: WorkerId, handler: Handler, common: Arc<Common>) -> Answering {
        let desk = Desk { number: worker.0, handler, common, batch: Vec::new() };
        Answering { desk, answers: Vec::new() }
    }

    /// Lets go of what is only in an old snapshot; now and then.
    pub fn tick(&mut self) {
        self.desk.handler.refresh();
    }

    /// Whether the worker has misses that may be answered now.
    pub fn has_misses(&self) -> bool {
        let Desk { number, common, handler, .. } = &self.desk;
        !common.upcalls.is_empty_for(*number) && !handler.is_to_wait()
    }

    /// Answers some misses.
    pub fn answer(&mut self) {
        if self.desk.translate(OWN_BATCH) {
            let answers = &mut self.answers;
            let after = self.desk.handler.install(clock::now(), |commands| {
                flow_log::answers(commands);
                answers.extend(commands.drain(..).map(|(_, command)| command));
            });
            self.desk.common.tell(after);
        }
    }
}

/// The threads, as the control thread holds them. They end when it is dropped.
pub struct Threads {
    common: Arc<Common>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts handlers and revalidators for these workers.
    pub fn start(
        common: Arc<Common>,
        handlers: Vec<Handler>,
        revalidators: Vec<Revalidator>,
        workers: &[Outlet],
    ) -> std::io::Result<Threads> {
        let mut all = Threads { common, threads: Vec::new() };
        for (number, handler) in (0..).zip(handlers) {
            let common = Arc::clone(&all.common);
            let desk = Desk { number, handler, common, batch: Vec::with_capacity(BATCH) };
            let workers = workers.to_vec();
            all.spawn(format!("handler{number}"), move || handle(desk, &workers))?;
        }
        for (number, revalidator) in revalidators.into_iter().enumerate() {
            let (common, workers) = (Arc::clone(&all.common), workers.to_vec());
            let run = move || revalidate(revalidator, &common, &workers);
            all.spawn(format!("revalidator{number}"), run)?;
        }
        Ok(all)
    }

    fn spawn(&mut self, name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name).spawn(run)?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.common.is_ending.store(true, Ordering::Release);
        self.common.upcalls.wake();
        self.common.revalidation.ring();
        for thread in self.threads.drain(..) {
            // One that panicked has said so on stderr already.
            let _ = thread.join();
        }
    }
}

/// A handler's thread.
fn handle(mut desk: Desk, workers: &[Outlet]) {
    let common = Arc::clone(&desk.common);
    while !common.is_ending() {
        if !desk.translate(BATCH) {
            desk.handler.refresh();
            common.upcalls.wait(desk.number, PATIENCE);
            continue;
        }
        let after = desk.handler.install(clock::now(), |commands| {
            flow_log::answers(commands);
            deliver(commands, workers);
        });
        workers.iter().filter(|worker| worker.take_put()).for_each(Outlet::wake);
        common.tell(after);
        while desk.handler.is_to_wait() && !common.is_ending() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A revalidator's thread.
fn revalidate(mut revalidator: Revalidator, common: &Common, workers: &[Outlet]) {
    let mut heard = 0;
    while !common.is_ending() {
        let more = revalidator.revalidate(clock::now(), |commands| deliver(commands, workers));
        workers.iter().filter(|worker| worker.take_put()).for_each(Outlet::wake);
        if !more {
            revalidator.refresh();
            common.revalidation.wait(&mut heard);
        }
    }
}

/// Puts commands into the inboxes of their workers, in order.
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
