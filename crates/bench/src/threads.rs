//! Threads that track packets concurrently, and their durations.

use super::BenchError;
use ::conntrack::{Conntrack, Tracker};
use base::Instant;
use port_linux::affinity;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::Duration;

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The time from the start of all threads until the end of the last, in nanoseconds.
    pub elapsed_ns: u64,
    /// Packets tracked by all threads.
    pub packets: u64,
    /// Threads.
    pub threads: u16,
    /// The sum of the threads' durations, in nanoseconds.
    pub own_ns: u64,
    /// Their processor time; on a shared machine, this is the relevant figure.
    pub processor_ns: u64,
}

impl Run {
    /// Returns the sum of two runs.
    pub fn and(&self, other: &Run) -> Run {
        Run {
            elapsed_ns: self.elapsed_ns + other.elapsed_ns,
            packets: self.packets + other.packets,
            threads: self.threads,
            own_ns: self.own_ns + other.own_ns,
            processor_ns: self.processor_ns + other.processor_ns,
        }
    }

    /// The time of one thread for one of its packets.
    pub fn ns_per_packet(&self) -> f64 {
        self.elapsed_ns as f64 * f64::from(self.threads) / self.packets as f64
    }

    /// Processor time of a packet.
    pub fn processor_ns_per_packet(&self) -> f64 {
        self.processor_ns as f64 / self.packets as f64
    }

    /// Of all threads together.
    pub fn packets_per_second(&self) -> f64 {
        self.packets as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }
}

/// The barrier before the start.
#[derive(Debug)]
pub struct Start {
    barrier: Barrier,
    /// The start of the first thread and the end of the last one. The threads read the clock themselves: if
    /// all cores are busy, a thread that waits for them wakes up late.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    /// Why a thread could not be pinned to its processor.
    refused: OnceLock<io::Error>,
}

impl Start {
    /// Waits for the others; the time counts from here.
    pub fn wait(&self) -> Begun {
        self.barrier.wait();
        let begun = Begun { at: clock::now(), processor: clock::thread_time() };
        self.first_ns.fetch_min(begun.at.as_nanos(), Ordering::Relaxed);
        begun
    }
}

/// The begin of a thread's work.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    at: Instant,
    processor: Duration,
}

impl Begun {
    /// Records this many tracked packets.
    pub fn ended(self, packets: u64) -> Worked {
        let processor = clock::thread_time() - self.processor;
        let at = clock::now();
        Worked { packets, at, own: at - self.at, processor }
    }
}

/// The result of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Worked {
    packets: u64,
    at: Instant,
    own: Duration,
    processor: Duration,
}

/// Runs the work on the threads with these numbers, which start together. Each is pinned to one of these
/// processors, if there are any. The work gets its thread's tracker, its number and the barrier, and returns
/// its counters.
pub fn on_threads(
    conntrack: &Arc<Conntrack>,
    numbers: Range<u16>,
    cpus: &[usize],
    work: impl Fn(&mut Tracker, u16, &Start) -> Worked + Sync,
) -> Result<Run, BenchError> {
    let threads = numbers.len() as u16;
    let trackers = numbers.clone().map(|_| conntrack.tracker());
    let trackers: Vec<Tracker> = trackers.collect::<Result<_, _>>()?;
    let start = Start {
        barrier: Barrier::new(threads.into()),
        first_ns: AtomicU64::new(u64::MAX),
        last_ns: AtomicU64::new(0),
        refused: OnceLock::new(),
    };
    let (work, start) = (&work, &start);
    let all = thread::scope(|scope| {
        let run = move |mut tracker: Tracker, number: u16| {
            let cpu = usize::from(number).checked_rem(cpus.len()).and_then(|at| cpus.get(at));
            if let Some(Err(error)) = cpu.map(|&cpu| affinity::pin_to_cpu(cpu)) {
                let _ = start.refused.set(error);
            }
            let worked = work(&mut tracker, number, start);
            start.last_ns.fetch_max(worked.at.as_nanos(), Ordering::Relaxed);
            worked
        };
        let numbered = trackers.into_iter().zip(numbers);
        let running: Vec<_> =
            numbered.map(|(tracker, number)| scope.spawn(move || run(tracker, number))).collect();
        running.into_iter().map(|thread| thread.join()).collect::<Result<Vec<Worked>, _>>()
    });
    let all = all.map_err(|_| BenchError::WrongWork("a thread ended by a panic".into()))?;
    if let Some(error) = start.refused.get() {
        return Err(BenchError::WrongWork(format!("a thread can't have its processor: {error}")));
    }
    let (first, last) = (&start.first_ns, &start.last_ns);
    let sum = |of: fn(&Worked) -> u64| all.iter().map(of).sum();
    Ok(Run {
        elapsed_ns: last.load(Ordering::Relaxed).saturating_sub(first.load(Ordering::Relaxed)),
        packets: sum(|it| it.packets),
        threads,
        own_ns: sum(|it| it.own.as_nanos() as u64),
        processor_ns: sum(|it| it.processor.as_nanos() as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::conntrack::Config;

    const RUN: Run =
        Run { elapsed_ns: 1000, packets: 200, threads: 2, own_ns: 1800, processor_ns: 1600 };

    #[test]
    fn times_are_by_thread_and_rates_of_all() {
        let times = (RUN.ns_per_packet(), RUN.processor_ns_per_packet(), RUN.packets_per_second());
        assert_eq!(times, (10.0, 8.0, 200e6));
    }

    #[test]
    fn each_number_has_a_thread_that_is_counted() {
        let conntrack = Arc::new(Conntrack::new(1, Config::default()));
        let work = |_: &mut Tracker, number: u16, start: &Start| {
            let begun = start.wait();
            thread::sleep(Duration::from_millis(2));
            begun.ended(number.into())
        };
        let run = on_threads(&conntrack, 3..6, &[], work).unwrap();
        assert_eq!((run.packets, run.threads), (3 + 4 + 5, 3));
        assert!(run.own_ns >= 6_000_000 && run.elapsed_ns >= 2_000_000, "{run:?}");
        assert!(run.processor_ns < run.own_ns, "{run:?}");
    }
}
