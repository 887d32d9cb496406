//! What `pmd-perf-metrics` keeps of a polling worker: histograms of its turns, the last thousand of
//! them, the last thousand milliseconds, and warnings of turns that took too long
//! (ovs: `lib/dpif-netdev-perf.c`).
//!
//! Cycles are nanoseconds. Two columns stay empty: a worker does not translate misses itself, so that
//! upcalls take none of its cycles, and how full a virtual machine's queue is, no driver tells.

mod histogram;
mod text;

use crate::latency::Recorder;
use base::limits::BATCH_SIZE;
pub use histogram::Histogram;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
pub use text::{write_histograms, write_milliseconds, write_turns};
use vlog::RateLimit;

/// Turns and milliseconds that are kept (ovs: `HISTORY_LEN`).
pub const HISTORY: usize = 1000;

static LIMIT: RateLimit = RateLimit::new(600, 600);

/// A worker's metrics: it adds a turn, others read. Off, a turn costs one look at a flag.
#[derive(Debug, Default)]
pub struct Metrics {
    is_on: AtomicBool,
    /// The times of the worker's upcalls, which are always kept.
    pub latency: Recorder,
    kept: Mutex<Kept>,
}

/// A turn of a worker's loop, or all turns of a millisecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// The turn's number, or the millisecond.
    pub at: u64,
    /// Turns.
    pub turns: u64,
    /// Nanoseconds.
    pub ns: u64,
    /// Of these, in turns in which packets came.
    pub busy_ns: u64,
    /// Packets received.
    pub packets: u64,
    /// Batches received.
    pub batches: u64,
    /// Packets that no flow matched.
    pub upcalls: u64,
}

/// How many batches of each size a turn received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchSizes(pub [u32; BATCH_SIZE + 1]);

/// What is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Kept {
    /// Cycles a turn.
    pub cycles: Histogram,
    /// Packets a turn.
    pub packets: Histogram,
    /// Cycles a packet, of turns in which some came.
    pub cycles_per_packet: Histogram,
    /// Packets a batch.
    pub packets_per_batch: Histogram,
    /// How full virtual machines' queues were: nothing tells.
    pub queue_fill: Histogram,
    /// Upcalls a turn.
    pub upcalls: Histogram,
    /// Cycles an upcall: none of the worker's.
    pub cycles_per_upcall: Histogram,
    /// All whole milliseconds.
    pub totals: Sample,
    /// The last turns, the oldest first.
    pub turns: VecDeque<Sample>,
    /// The last milliseconds, the oldest first.
    pub milliseconds: VecDeque<Sample>,
    /// The millisecond that runs.
    running: Sample,
    count: u64,
    log: LogSettings,
    due: Option<Due>,
}

/// When turns are logged (`dpif-netdev/pmd-perf-log-set`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// Whether they are.
    pub is_on: bool,
    /// Turns before a suspicious one that are logged with it.
    pub before: usize,
    /// Turns after it.
    pub after: usize,
    /// A suspicious turn in what is to be logged makes that longer.
    pub extends: bool,
    /// A turn that takes longer is suspicious, in microseconds.
    pub longest_us: u32,
    /// So full a queue makes a turn suspicious. No driver tells.
    pub queue_full: u32,
}

/// A suspicious turn that is to be logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    turn: Sample,
    /// The first turn to be logged with it, and the one after the last.
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
            turns: VecDeque::new(),
            milliseconds: VecDeque::new(),
            running: Sample::default(),
            count: 0,
            log: LogSettings::default(),
            due: None,
        }
    }
}

impl Metrics {
    /// Metrics whose upcalls are recorded there.
    pub fn recording(latency: Recorder) -> Metrics {
        Metrics { latency, ..Metrics::default() }
    }

    /// Whether turns are kept.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Keeps turns from now on, or does not.
    pub fn set_on(&self, is_on: bool) {
        if self.is_on.swap(is_on, Relaxed) != is_on {
            self.clear();
        }
    }

    /// When turns are logged from now on.
    pub fn set_log(&self, log: LogSettings) {
        self.lock().log = log;
    }

    /// Adds a turn of the worker; `ms` is the time now.
    pub fn add(&self, ms: u64, turn: Sample, sizes: &BatchSizes) {
        let log = self.lock().add(ms, turn, sizes);
        for line in log {
            if LIMIT.admits("pmd_perf", log::Level::Warn, clock::now()) {
                log::warn!(target: "pmd_perf", "{line}");
            }
        }
    }

    /// Forgets everything but the settings.
    pub fn clear(&self) {
        let mut kept = self.lock();
        *kept = Kept { log: kept.log, ..Kept::default() };
    }

    /// What is kept now.
    pub fn kept(&self) -> Kept {
        self.lock().clone()
    }

    /// A thread that panicked while it held the lock left plain data behind, which is still good.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sample {
    fn add(&mut self, turn: &Sample) {
        self.turns += turn.turns;
        self.ns += turn.ns;
        self.busy_ns += turn.busy_ns;
        self.packets += turn.packets;
        self.batches += turn.batches;
        self.upcalls += turn.upcalls;
    }
}

impl Kept {
    /// Adds a turn; gives what is to be logged.
    fn add(&mut self, ms: u64, turn: Sample, sizes: &BatchSizes) -> Vec<String> {
        let turn = Sample { at: self.count, turns: 1, ..turn };
        self.count += 1;
        self.cycles.add(turn.ns);
        self.packets.add(turn.packets);
        if let Some(each) = turn.ns.checked_div(turn.packets) {
            self.cycles_per_packet.add(each);
        }
        self.upcalls.add(turn.upcalls);
        // A queue that had nothing gave no batch.
        for (size, &count) in sizes.0.iter().enumerate().skip(1).filter(|(_, count)| **count > 0) {
            self.packets_per_batch.add_times(size as u64, u64::from(count));
        }
        if self.running.at != ms {
            if self.running.turns > 0 {
                self.totals.add(&self.running);
                push(&mut self.milliseconds, self.running);
            }
            self.running = Sample { at: ms, ..Sample::default() };
        }
        self.running.add(&turn);
        push(&mut self.turns, turn);
        self.watch(turn)
    }

    /// Looks whether the turn took too long, and whether it is the last to be logged with one that
    /// did.
    fn watch(&mut self, turn: Sample) -> Vec<String> {
        let mut log = Vec::new();
        if !self.log.is_on {
            self.due = None;
            return log;
        }
        let LogSettings { before, after, extends, longest_us, .. } = self.log;
        if turn.ns > u64::from(longest_us) * 1000 {
            let end = turn.at + after as u64 + 1;
            match &mut self.due {
                None => {
                    let kept_from = self.turns.front().map_or(turn.at, |turn| turn.at);
                    let begin = turn.at.saturating_sub(before as u64).max(kept_from);
                    self.due = Some(Due { turn, begin, end });
                }
                Some(due) if extends => {
                    log.push(suspicious(&due.turn));
                    // Never more than is kept.
                    (due.turn, due.end) = (turn, end.min(due.begin + HISTORY as u64 - 1));
                }
                Some(_) => {}
            }
        }
        if let Some(due) = self.due.take_if(|due| turn.at + 1 >= due.end) {
            log.push(suspicious(&due.turn));
            let mut around = "Neighborhood of suspicious iteration:\n".to_owned();
            write_turns(&mut around, self, (turn.at + 1 - due.begin) as usize);
            log.push(around);
        }
        log
    }
}

fn suspicious(turn: &Sample) -> String {
    let (at, us) = (turn.at, turn.ns / 1000);
    format!("Suspicious iteration (Excessive total cycles): iter={at} duration={us} us")
}

/// Adds the newest; the oldest goes where there are enough.
fn push(history: &mut VecDeque<Sample>, sample: Sample) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(sample);
}

#[cfg(test)]
mod tests;
