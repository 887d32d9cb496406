//! Latency of upcalls: always-on histograms of each stage of the slow path, by packet class and handler.
//!
//! An upcall collects its times on its way ([`Stamps`]). The clock is read once per batch: when the worker
//! queues the first of a burst, and when the handler has taken and translated a batch. The worker that
//! executes the answers records them into its own recorder. A reader merges the recorders of all workers.
//!
//! The same points are USDT probes of the provider `tidegate`: `upcall_queued(worker, class, ns)` with the time
//! since the packet was received, `upcall_taken(worker, class, handler, waited_ns)`, `upcall_translated(class, handler, ns)` and `upcall_installed(class, handler, ns)`, the last
//! with the time since the packet was received. A probe without a tracer is one `nop`.

mod json;
mod report;
mod spread;

use base::{Instant, WorkerId};
use flow::{FlowCommand, Stamps, Upcall, UpcallClass};
pub use spread::{Spread, Summary};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of packet classes.
const CLASSES: usize = UpcallClass::ALL.len();

/// A stage of an upcall, between two of its times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// From receipt by the worker to execution of the answer: "RTT".
    Total,
    /// From receipt until a handler takes it: "K-2-OVS".
    ToHandler,
    /// From there until the worker executes the answer: "OVS-2-K".
    FromHandler,
    /// From receipt until it is queued.
    Queueing,
    /// In the queue.
    Waiting,
    /// From the queue until its batch is translated.
    Translating,
    /// From there until the worker has installed the flow and executed the packet, together with its batch.
    Installing,
}

impl Stage {
    /// All stages, in the order of reports.
    pub const ALL: [Stage; 7] = [
        Stage::Total,
        Stage::ToHandler,
        Stage::FromHandler,
        Stage::Queueing,
        Stage::Waiting,
        Stage::Translating,
        Stage::Installing,
    ];

    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Total => "rtt",
            Stage::ToHandler => "to_handler",
            Stage::FromHandler => "from_handler",
            Stage::Queueing => "received_to_queued",
            Stage::Waiting => "queued_to_taken",
            Stage::Translating => "taken_to_translated",
            Stage::Installing => "translated_to_installed",
        }
    }

    /// Returns its duration, in nanoseconds.
    fn ns(self, at: &Stamps, installed: Instant) -> u64 {
        let (from, to) = match self {
            Stage::Total => (at.received, installed),
            Stage::ToHandler => (at.received, at.taken),
            Stage::FromHandler => (at.taken, installed),
            Stage::Queueing => (at.received, at.queued),
            Stage::Waiting => (at.queued, at.taken),
            Stage::Translating => (at.taken, at.translated),
            Stage::Installing => (at.translated, installed),
        };
        // The clocks of two threads may differ by a few nanoseconds; a negative time becomes zero.
        to.as_nanos().saturating_sub(from.as_nanos())
    }
}

/// The stages of one packet class.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stages([Spread; Stage::ALL.len()]);

impl Stages {
    /// Returns one stage.
    pub fn of(&self, stage: Stage) -> &Spread {
        &self.0[stage as usize]
    }

    /// Records this many upcalls with the same times.
    fn record(&mut self, stamps: &Stamps, installed: Instant, upcalls: u64) {
        for stage in Stage::ALL {
            self.0[stage as usize].record_ns(stage.ns(stamps, installed), upcalls);
        }
    }

    fn merge(&mut self, other: &Stages) {
        for (to, from) in self.0.iter_mut().zip(&other.0) {
            to.merge(from);
        }
    }
}

/// Stages of one handler by class, allocated with the first packet of a class.
type ByClass = [Option<Box<Stages>>; CLASSES];

/// Records the upcalls whose answers one worker executed. Clones share the records.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Vec<ByClass>>>);

impl Recorder {
    /// Records upcalls whose answers are executed now, and empties `batch`.
    pub fn installed(&self, batch: &mut Vec<Stamps>) {
        if !batch.is_empty() {
            self.record(batch, clock::now());
            batch.clear();
        }
    }

    /// Records upcalls whose answers were executed at `installed`. Most of a batch have the same times.
    pub fn record(&self, batch: &[Stamps], installed: Instant) {
        let mut handlers = lock(&self.0);
        for same in batch.chunk_by(|one, next| one == next) {
            let stamps = &same[0];
            let (class, handler) = (stamps.class as usize, usize::from(stamps.handler));
            let total = Stage::Total.ns(stamps, installed);
            for _ in same {
                probe::probe!(tidegate, upcall_installed, class, handler, total);
            }
            if handlers.len() <= handler {
                handlers.resize_with(handler + 1, ByClass::default);
            }
            let stages = handlers[handler][class].get_or_insert_default();
            stages.record(stamps, installed, same.len() as u64);
        }
    }
}

/// The upcall latencies of a switch.
#[derive(Debug, Default)]
pub struct Latency {
    /// By worker number; a worker's recorder outlives its thread.
    recorders: Mutex<Vec<Recorder>>,
    /// Number of upcalls that a handler took at once, by its number.
    batches: Mutex<Vec<Spread>>,
}

impl Latency {
    /// Returns the recorder of a worker.
    pub fn recorder(&self, worker: WorkerId) -> Recorder {
        let mut recorders = lock(&self.recorders);
        let number = usize::from(worker.0);
        if recorders.len() <= number {
            recorders.resize_with(number + 1, Recorder::default);
        }
        recorders[number].clone()
    }

    /// Records that a handler took this many upcalls at once.
    pub fn batch(&self, handler: u16, upcalls: usize) {
        let mut batches = lock(&self.batches);
        let handler = usize::from(handler);
        if batches.len() <= handler {
            batches.resize_with(handler + 1, Spread::default);
        }
        batches[handler].record(upcalls as u64);
    }

    /// Resets everything.
    pub fn clear(&self) {
        lock(&self.recorders).iter().for_each(|recorder| lock(&recorder.0).clear());
        lock(&self.batches).clear();
    }

    /// Returns what was recorded so far.
    pub fn read(&self) -> Report {
        let mut report = Report { batches: lock(&self.batches).clone(), ..Report::default() };
        for recorder in lock(&self.recorders).iter() {
            for (number, classes) in lock(&recorder.0).iter().enumerate() {
                if report.handlers.len() <= number {
                    report.handlers.resize_with(number + 1, Default::default);
                }
                for (to, from) in report.handlers[number].iter_mut().zip(classes) {
                    if let Some(from) = from {
                        to.merge(from);
                    }
                }
            }
        }
        report
    }
}

/// A snapshot of [`Latency`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By handler and class.
    handlers: Vec<[Stages; CLASSES]>,
    batches: Vec<Spread>,
}

impl Report {
    /// Returns the stages of one packet class or of all, and of one handler or of all.
    pub fn stages(&self, class: Option<UpcallClass>, handler: Option<usize>) -> Stages {
        let mut sum = Stages::default();
        let handlers = self.handlers.iter().enumerate();
        for (_, classes) in handlers.filter(|(at, _)| handler.is_none_or(|it| it == *at)) {
            let wanted = |one: &UpcallClass| class.is_none_or(|it| it == *one);
            for one in UpcallClass::ALL.into_iter().filter(wanted) {
                sum.merge(&classes[one as usize]);
            }
        }
        sum
    }

    /// Returns the distribution of batch sizes.
    pub fn batch_sizes(&self) -> Spread {
        let mut sum = Spread::default();
        self.batches.iter().for_each(|one| sum.merge(one));
        sum
    }
}

/// Called for an upcall that a worker is about to queue.
pub fn queued(upcall: &Upcall) {
    let (worker, class) =
        (u64::from(upcall.worker.0), UpcallClass::of(upcall.key.eth_type()) as u64);
    let ns = upcall.queued.as_nanos().saturating_sub(upcall.received.as_nanos());
    probe::probe!(tidegate, upcall_queued, worker, class, ns);
}

/// Returns the times of an upcall that a handler took at `now`; they are attached to the answer.
pub fn taken(upcall: &Upcall, handler: u16, now: Instant) -> Stamps {
    let stamps = upcall.taken(handler, now);
    let (worker, class) = (u64::from(upcall.worker.0), stamps.class as u64);
    let waited = (now - upcall.queued).as_nanos() as u64;
    probe::probe!(tidegate, upcall_taken, worker, class, u64::from(handler), waited);
    stamps
}

/// Attaches the times to the commands that answer an upcall.
pub fn stamp(stamps: Stamps, answers: &mut [(WorkerId, FlowCommand)]) {
    for (_, command) in answers {
        if let FlowCommand::Execute(asked) = command {
            asked.stamps = Some(stamps);
        }
    }
}

/// Adds the time of translation to the commands that answer a batch.
pub fn translated(answers: &mut [(WorkerId, FlowCommand)], now: Instant) {
    for (_, command) in answers {
        if let FlowCommand::Execute(asked) = command
            && let Some(stamps) = &mut asked.stamps
        {
            stamps.translated = now;
            let ns = now.as_nanos().saturating_sub(stamps.taken.as_nanos());
            let (class, handler) = (stamps.class as u64, u64::from(stamps.handler));
            probe::probe!(tidegate, upcall_translated, class, handler, ns);
        }
    }
}

/// Returns the times that a command carries, if it answers an upcall.
pub fn stamps_of(command: &FlowCommand) -> Option<Stamps> {
    match command {
        FlowCommand::Execute(asked) => asked.stamps,
        FlowCommand::Put(_)
        | FlowCommand::Delete(_)
        | FlowCommand::Mark(_)
        | FlowCommand::Collect => None,
    }
}

/// The counters are consistent after a panic, so a poisoned lock may be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
