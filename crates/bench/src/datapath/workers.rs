//! Several workers together, compared with one of them alone.
//!
//! Each is a thread on its own processor with its own ports, flows and packets; they share the connection
//! table, as the switch's workers do.

use super::{DatapathArgs, Station, WARM_PART};
use crate::measured::{Counted, Measured, Played};
use crate::progress::Progress;
use crate::{BenchError, Outcome};
use ::conntrack::Conntrack;
use load::in_memory::Stages;
use port_linux::affinity;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A task for a worker.
#[derive(Clone, Copy)]
enum Task {
    /// Forward packets.
    Play(Duration),
    /// Forward packets and measure the time of each stage.
    LookAtStages,
}

/// The answer of a worker.
enum Done {
    /// It is ready.
    Prepared,
    Played(Played),
    Stages(Stages, usize),
}

/// A worker's thread and the channels to it.
struct WorkerHandle {
    cpu: usize,
    tasks: Sender<Task>,
    answers: Receiver<Result<Done, BenchError>>,
}

impl WorkerHandle {
    fn send(&self, task: Task) {
        // A thread that ended has stored its error.
        let _ = self.tasks.send(task);
    }

    fn receive(&self) -> Result<Done, BenchError> {
        let ended = || BenchError::WrongWork("a worker's thread ended".into());
        self.answers.recv().map_err(|_| ended())?
    }

    fn played(&self) -> Result<Played, BenchError> {
        match self.receive()? {
            Done::Played(played) => Ok(played),
            Done::Prepared | Done::Stages(..) => {
                Err(BenchError::WrongWork("a worker did something else".into()))
            }
        }
    }
}

/// Measures worker 0 alone, then all of them.
pub fn run(
    args: &DatapathArgs,
    time: Duration,
    conntrack: &Arc<Conntrack>,
) -> Result<Outcome, BenchError> {
    let cpus = affinity::allowed_cpus().unwrap_or_default();
    let wanted = usize::from(args.workers);
    if cpus.len() < wanted {
        let wrong =
            format!("{wanted} workers want as many processors, and {} may be used", cpus.len());
        return Err(BenchError::WrongWork(wrong));
    }
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (number, &cpu) in (0..args.workers).zip(&cpus) {
            let (tasks, inbox) = channel();
            let (outbox, answers) = channel();
            scope.spawn(move || work(args, number, cpu, conntrack, &inbox, &outbox));
            workers.push(WorkerHandle { cpu, tasks, answers });
        }
        for worker in &workers {
            worker.receive()?;
        }
        measure(args, time, conntrack, &workers)
    })
}

fn measure(
    args: &DatapathArgs,
    time: Duration,
    conntrack: &Conntrack,
    workers: &[WorkerHandle],
) -> Result<Outcome, BenchError> {
    let [first, ..] = workers else { return Err(BenchError::WrongWork("no workers".into())) };
    let all = |time: Duration| -> Result<Vec<Played>, BenchError> {
        workers.iter().for_each(|worker| worker.send(Task::Play(time)));
        workers.iter().map(WorkerHandle::played).collect()
    };
    let _ = all(time / WARM_PART)?;
    let progress = Progress::start("forwarding", 2);
    first.send(Task::Play(time));
    let alone = first.played()?;
    progress.advance(1);
    let together = all(time)?;
    drop(progress);
    first.send(Task::LookAtStages);
    let Done::Stages(stages, flows) = first.receive()? else {
        return Err(BenchError::WrongWork("a worker did something else".into()));
    };
    let connections = conntrack.connections();
    let measured = Measured { played: alone, connections, flows, stages };
    let cpus: Vec<usize> = workers.iter().map(|worker| worker.cpu).collect();
    Ok(report(args, &measured, &together, &cpus))
}

/// The thread of a worker: prepares, and executes tasks until the channel is closed.
fn work(
    args: &DatapathArgs,
    number: u16,
    cpu: usize,
    conntrack: &Arc<Conntrack>,
    tasks: &Receiver<Task>,
    answers: &Sender<Result<Done, BenchError>>,
) {
    let prepared = affinity::pin_to_cpu(cpu)
        .map_err(|error| BenchError::WrongWork(format!("processor {cpu}: {error}")))
        .and_then(|()| Station::prepare(args, number, conntrack));
    let mut station = match prepared {
        Ok(station) => station,
        Err(error) => return drop(answers.send(Err(error))),
    };
    let _ = answers.send(Ok(Done::Prepared));
    while let Ok(task) = tasks.recv() {
        let Station { switch, cables, .. } = &mut station;
        let done = match task {
            Task::LookAtStages => Stages::measure(switch, cables)
                .map(|stages| Done::Stages(stages, switch.flow_count()))
                .map_err(BenchError::from),
            Task::Play(time) => station.play(time, None).map(Done::Played),
        };
        if answers.send(done).is_err() {
            return;
        }
    }
}

/// Returns the sum of all.
fn sum(together: &[Played]) -> Counted {
    let of = |part: fn(&Counted) -> u64| together.iter().map(|it| part(&it.counted)).sum();
    Counted {
        packets: of(|it| it.packets),
        sent: of(|it| it.sent),
        dropped: of(|it| it.dropped),
        misses: of(|it| it.misses),
    }
}

fn report(args: &DatapathArgs, alone: &Measured, together: &[Played], cpus: &[usize]) -> Outcome {
    let one = &alone.played;
    let rate: f64 = together.iter().map(Played::rate).sum();
    let ratio = rate / one.rate();
    let processor_rate: f64 = together.iter().map(Played::processor_rate).sum();
    let Counted { packets, sent, dropped, misses } = sum(together);
    let workers = together.len();
    let mut text = format!(
        "{:.2} million packets per second by {workers} workers, {ratio:.2} times that of one\n",
        rate / 1e6
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{packets} packets received, {sent} sent, {dropped} dropped, {misses} missed; \
         {} connections",
        alone.connections
    );
    let mut describe = |name: &str, played: &Played| {
        let rate = played.rate();
        let (mpps, ns) = (rate / 1e6, 1e9 / rate);
        let _ = writeln!(text, "  {name:18}{mpps:7.2} million per second, {ns:.1} ns per packet");
    };
    describe("worker 0 alone", one);
    for (number, (played, cpu)) in together.iter().zip(cpus).enumerate() {
        describe(&format!("worker {number}, CPU {cpu}"), played);
    }
    alone.write_stages(&mut text);
    let longest = together.iter().map(|it| it.elapsed).max().unwrap_or_default();
    let processor = together.iter().map(|it| it.processor).sum();
    let total =
        Played { elapsed: longest, processor, counted: Counted { packets, sent, dropped, misses } };
    let mut json = total.json();
    alone.describe(args.port, &mut json);
    // Only the workers' own time counts: nanoseconds per packet are those of the worker that processed it.
    json["packets_per_second"] = json!(rate);
    json["ns_per_packet"] = json!(workers as f64 * 1e9 / rate);
    json["workers"] = json!(workers);
    json["one_worker"] = one.json();
    json["ratio"] = json!(ratio);
    json["processor_ratio"] = json!(processor_rate / one.processor_rate());
    let per_worker = together.iter().zip(cpus).map(|(played, &cpu)| {
        let mut each = played.json();
        each["cpu"] = json!(cpu);
        each
    });
    json["per_worker"] = per_worker.collect();
    Outcome { text, json }
}
