//! Metrics of a polling worker (`pmd-perf-metrics`): histograms of its iterations, the last thousand
//! iterations, the last thousand milliseconds, and warnings of iterations that took too long (ovs:
//! `lib/dpif-netdev-perf.c`).
//!
//! Cycles are nanoseconds. Two columns are always empty: a worker does not translate misses itself, so
//! upcalls take none of its cycles, and no driver reports how full a virtual machine's queue is.

mod histogram;
mod text;

use crate::latency::Recorder;
use base::limits::BATCH_SIZE;
pub use histogram::Histogram;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
pub use text::{write_histograms, write_iterations, write_milliseconds};
use vlog::RateLimit;

/// Iterations and milliseconds that are kept (ovs: `HISTORY_LEN`).
pub const HISTORY: usize = 1000;

static LIMIT: RateLimit = RateLimit::new(600, 600);

/// A worker's metrics, which it writes and other threads read. If disabled, an iteration costs one test of a
/// flag.
#[derive(Debug, Default)]
pub struct Metrics {
    is_on: AtomicBool,
    /// Latencies of the worker's upcalls, which are always recorded.
    pub latency: Recorder,
    kept: Mutex<Kept>,
}

/// One iteration of a worker's loop, or all iterations in a millisecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// The number of the iteration, or the millisecond.
    pub at: u64,
    /// Iterations.
    pub iterations: u64,
    /// Nanoseconds.
    pub ns: u64,
    /// Nanoseconds in iterations that received packets.
    pub busy_ns: u64,
    /// Packets received.
    pub packets: u64,
    /// Batches received.
    pub batches: u64,
    /// Packets that missed all flows.
    pub upcalls: u64,
}

/// Number of batches of each size in an iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchSizes(pub [u32; BATCH_SIZE + 1]);

/// The recorded metrics.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Cycles per iteration.
    pub cycles: Histogram,
    /// Packets per iteration.
    pub packets: Histogram,
    /// Cycles per packet, in iterations that received packets.
    pub cycles_per_packet: Histogram,
    /// Packets per batch.
    pub packets_per_batch: Histogram,
    /// Fill level of virtual machines' queues: always empty.
    pub queue_fill: Histogram,
    /// Upcalls per iteration.
    pub upcalls: Histogram,
    /// Cycles per upcall: always zero.
    pub cycles_per_upcall: Histogram,
    /// Totals of all complete milliseconds.
    pub totals: Sample,
    /// The last iterations, oldest first.
    pub iterations: VecDeque<Sample>,
    /// The last milliseconds, oldest first.
    pub milliseconds: VecDeque<Sample>,
    /// The current millisecond.
    running: Sample,
    count: u64,
    log: LogSettings,
    due: Option<Due>,
}

/// When iterations are logged (`dpif-netdev/pmd-perf-log-set`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// Whether logging is enabled.
    pub is_on: bool,
    /// Iterations before a suspicious one that are logged with it.
    pub before: usize,
    /// Iterations after it.
    pub after: usize,
    /// Whether another suspicious iteration in the logged range extends the range.
    pub extends: bool,
    /// Longer iterations are suspicious, in microseconds.
    pub longest_us: u32,
    /// Queue fill level above which an iteration is suspicious. No driver reports it.
    pub queue_full: u32,
}

/// A suspicious iteration that will be logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    iteration: Sample,
    /// The first iteration to log, and the one after the last.
    begin: u64,
    end: u64,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            is_on: false,
            before: 5,
            after: 5,
            extends: false,
            longest_us: 250,
            queue_full: 128,
        }
    }
}

impl Default for BatchSizes {
    fn default() -> Self {
        BatchSizes([0; BATCH_SIZE + 1])
    }
}

impl Default for Kept {
    fn default() -> Self {
        Kept {
            // The ranges are Open vSwitch's.
            cycles: Histogram::logarithmic(500, 24_000_000),
            packets: Histogram::logarithmic(0, 1000),
            cycles_per_packet: Histogram::linear(100, 30_000),
            packets_per_batch: Histogram::linear(0, 32),
            queue_fill: Histogram::logarithmic(0, 512),
            upcalls: Histogram::linear(0, 30),
            cycles_per_upcall: Histogram::logarithmic(1000, 1_000_000),
            totals: Sample::default(),
            iterations: VecDeque::new(),
            milliseconds: VecDeque::new(),
            running: Sample::default(),
            count: 0,
            log: LogSettings::default(),
            due: None,
        }
    }
}

impl Metrics {
    /// Metrics whose upcall latencies go to this recorder.
    pub fn recording(latency: Recorder) -> Metrics {
        Metrics { latency, ..Metrics::default() }
    }

    /// Returns whether iterations are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Enables or disables recording.
    pub fn set_on(&self, is_on: bool) {
        if self.is_on.swap(is_on, Relaxed) != is_on {
            self.clear();
        }
    }

    /// Sets when iterations are logged.
    pub fn set_log(&self, log: LogSettings) {
        self.lock().log = log;
    }

    /// Adds an iteration; `ms` is the current time.
    pub fn add(&self, ms: u64, iteration: Sample, sizes: &BatchSizes) {
        let log = self.lock().add(ms, iteration, sizes);
        for line in log {
            if LIMIT.admits("pmd_perf", log::Level::Warn, clock::now()) {
                log::warn!(target: "pmd_perf", "{line}");
            }
        }
    }

    /// Resets everything except the settings.
    pub fn clear(&self) {
        let mut kept = self.lock();
        *kept = Kept { log: kept.log, ..Kept::default() };
    }

    /// Returns the current metrics.
    pub fn kept(&self) -> Kept {
        self.lock().clone()
    }

    /// The data is consistent after a panic, so a poisoned lock may be used.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sample {
    fn add(&mut self, iteration: &Sample) {
        self.iterations += iteration.iterations;
        self.ns += iteration.ns;
        self.busy_ns += iteration.busy_ns;
        self.packets += iteration.packets;
        self.batches += iteration.batches;
        self.upcalls += iteration.upcalls;
    }
}

impl Kept {
    /// Adds an iteration. Returns the lines to log.
    fn add(&mut self, ms: u64, iteration: Sample, sizes: &BatchSizes) -> Vec<String> {
        let iteration = Sample { at: self.count, iterations: 1, ..iteration };
        self.count += 1;
        self.cycles.add(iteration.ns);
        self.packets.add(iteration.packets);
        if let Some(each) = iteration.ns.checked_div(iteration.packets) {
            self.cycles_per_packet.add(each);
        }
        self.upcalls.add(iteration.upcalls);
        // An empty queue yields no batch.
        for (size, &count) in sizes.0.iter().enumerate().skip(1).filter(|(_, count)| **count > 0) {
            self.packets_per_batch.add_times(size as u64, u64::from(count));
        }
        if self.running.at != ms {
            if self.running.iterations > 0 {
                self.totals.add(&self.running);
                push(&mut self.milliseconds, self.running);
            }
            self.running = Sample { at: ms, ..Sample::default() };
        }
        self.running.add(&iteration);
        push(&mut self.iterations, iteration);
        self.watch(iteration)
    }

    /// Checks whether the iteration took too long, and whether it ends the range to log. Returns the lines to
    /// log.
    fn watch(&mut self, iteration: Sample) -> Vec<String> {
        let mut log = Vec::new();
        if !self.log.is_on {
            self.due = None;
            return log;
        }
        let LogSettings { before, after, extends, longest_us, .. } = self.log;
        if iteration.ns > u64::from(longest_us) * 1000 {
            let end = iteration.at + after as u64 + 1;
            match &mut self.due {
                None => {
                    let kept_from =
                        self.iterations.front().map_or(iteration.at, |iteration| iteration.at);
                    let begin = iteration.at.saturating_sub(before as u64).max(kept_from);
                    self.due = Some(Due { iteration, begin, end });
                }
                Some(due) if extends => {
                    log.push(suspicious(&due.iteration));
                    // Never more than is kept.
                    (due.iteration, due.end) = (iteration, end.min(due.begin + HISTORY as u64 - 1));
                }
                Some(_) => {}
            }
        }
        if let Some(due) = self.due.take_if(|due| iteration.at + 1 >= due.end) {
            log.push(suspicious(&due.iteration));
            let mut around = "Neighborhood of suspicious iteration:\n".to_owned();
            write_iterations(&mut around, self, (iteration.at + 1 - due.begin) as usize);
            log.push(around);
        }
        log
    }
}

fn suspicious(iteration: &Sample) -> String {
    let (at, us) = (iteration.at, iteration.ns / 1000);
    format!("Suspicious iteration (Excessive total cycles): iter={at} duration={us} us")
}

/// Adds the newest sample, and removes the oldest if the history is full.
fn push(history: &mut VecDeque<Sample>, sample: Sample) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(sample);
}

#[cfg(test)]
mod tests;
