//! How long upcalls take: always-on histograms of each stage of the slow path, per packet class and
//! handler.
//!
//! An upcall collects its times on its way ([`Stamps`]). The clock is read once for a batch: when the worker
//! queues the first of a burst, and when the handler has taken and translated what it takes at once. The worker
//! that carries out the answers records them at once, into a recorder of its own. A reader merges the
//! recorders of all workers.
//!
//! The same points are USDT probes of the provider `tidegate`: `upcall_taken(worker, class, handler,
//! waited_ns)`, `upcall_translated(class, handler, ns)` and `upcall_installed(class, handler, ns)`, the
//! last with the time since the packet was received. A probe to which no tracer is attached is one `nop`.

mod json;
mod report;
mod spread;

use base::{Instant, WorkerId};
use flow::{FlowCommand, Stamps, Upcall, UpcallClass};
pub use spread::{Spread, Summary};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The classes that are kept apart.
const CLASSES: usize = UpcallClass::ALL.len();

/// A part of an upcall's way, between two of its times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// From receipt by the worker until it has executed the answer: "RTT".
    Total,
    /// From receipt until a handler takes it: "K-2-OVS".
    ToHandler,
    /// From there until the worker executes the answer: "OVS-2-K".
    FromHandler,
    /// From receipt until it is in the queue.
    Queueing,
    /// In the queue.
    Waiting,
    /// From the queue until its batch is translated.
    Translating,
    /// From there until the worker has put the flow and executed the packet, and those of its batch.
    Installing,
}

impl Stage {
    /// All stages, in the order of a report.
    pub const ALL: [Stage; 7] = [
        Stage::Total,
        Stage::ToHandler,
        Stage::FromHandler,
        Stage::Queueing,
        Stage::Waiting,
        Stage::Translating,
        Stage::Installing,
    ];

    /// Its name in JSON.
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

    /// How long it took.
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
        // Of two threads' clocks, one may be behind by a few nanoseconds: no time passes then.
        to.as_nanos().saturating_sub(from.as_nanos())
    }
}

/// The stages of one class of packets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stages([Spread; Stage::ALL.len()]);

impl Stages {
    /// One stage.
    pub fn of(&self, stage: Stage) -> &Spread {
        &self.0[stage as usize]
    }

    /// Records so many upcalls that have the same times.
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

/// What one handler translated, by class; room is taken for a class when its first packet comes.
type ByClass = [Option<Box<Stages>>; CLASSES];

/// Records the upcalls whose answers one worker carried out. Copies share their records.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Vec<ByClass>>>);

impl Recorder {
    /// The answers with these times are carried out now, and recorded; there are none then.
    pub fn installed(&self, batch: &mut Vec<Stamps>) {
        if !batch.is_empty() {
            self.record(batch, clock::now());
            batch.clear();
        }
    }

    /// Records upcalls whose answers were carried out by a given time. Most of a batch have the same times.
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

/// The latencies of a switch.
#[derive(Debug, Default)]
pub struct Latency {
    /// By the workers' numbers; a worker's outlives its thread.
    recorders: Mutex<Vec<Recorder>>,
    /// How many upcalls a handler took at once, by its number.
    batches: Mutex<Vec<Spread>>,
}

impl Latency {
    /// The recorder of a worker.
    pub fn recorder(&self, worker: WorkerId) -> Recorder {
        let mut recorders = lock(&self.recorders);
        let number = usize::from(worker.0);
        if recorders.len() <= number {
            recorders.resize_with(number + 1, Recorder::default);
        }
        recorders[number].clone()
    }

    /// A handler took so many upcalls at once.
    pub fn batch(&self, handler: u16, upcalls: usize) {
        let mut batches = lock(&self.batches);
        let handler = usize::from(handler);
        if batches.len() <= handler {
            batches.resize_with(handler + 1, Spread::default);
        }
        batches[handler].record(upcalls as u64);
    }

    /// Forgets everything.
    pub fn clear(&self) {
        lock(&self.recorders).iter().for_each(|recorder| lock(&recorder.0).clear());
        lock(&self.batches).clear();
    }

    /// What was recorded until now.
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

/// A reading of [`Latency`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Of each handler, each class.
    handlers: Vec<[Stages; CLASSES]>,
    batches: Vec<Spread>,
}

impl Report {
    /// One class of packets, or all; of one handler, or of all.
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

    /// How many upcalls handlers took at once.
    pub fn batch_sizes(&self) -> Spread {
        let mut sum = Spread::default();
        self.batches.iter().for_each(|one| sum.merge(one));
        sum
    }
}

/// A handler took this upcall; its times go with the answer.
pub fn taken(upcall: &Upcall, handler: u16, now: Instant) -> Stamps {
    let stamps = Stamps::taken(upcall, handler, now);
    let (worker, class) = (u64::from(upcall.worker.0), stamps.class as u64);
    let waited = (now - upcall.queued).as_nanos() as u64;
    probe::probe!(tidegate, upcall_taken, worker, class, u64::from(handler), waited);
    stamps
}

/// These commands answer an upcall.
pub fn stamp(stamps: Stamps, answers: &mut [(WorkerId, FlowCommand)]) {
    for (_, command) in answers {
        if let FlowCommand::Execute(asked) = command {
            asked.stamps = Some(stamps);
        }
    }
}

/// The upcalls of a batch were translated, and these commands answer them.
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

/// The times that a command carries, if it answers an upcall.
pub fn stamps_of(command: &FlowCommand) -> Option<Stamps> {
    match command {
        FlowCommand::Execute(asked) => asked.stamps,
        FlowCommand::Put(_) | FlowCommand::Delete(_) | FlowCommand::Collect => None,
    }
}

/// A thread that panicked while it held the lock left plain counts behind, which are still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
