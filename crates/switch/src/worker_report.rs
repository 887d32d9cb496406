//! A worker's report: its counters, its iterations, its busy time.

use super::balance::Load;
use super::usage::{INTERVALS, Usage};
use base::{Instant, PortNo};
use datapath::WorkerStats;

/// Counters of a worker's loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iterations {
    /// All iterations.
    pub all: u64,
    /// Iterations that received packets.
    pub busy: u64,
    /// Iterations with a sleep.
    pub slept: u64,
    /// Time of these sleeps, in nanoseconds.
    pub slept_ns: u64,
}

/// A worker's report, at most a second old.
#[derive(Clone, Debug, Default)]
pub struct WorkerReport {
    /// The datapath's counters.
    pub stats: WorkerStats,
    /// The loop's counters.
    pub iterations: Iterations,
    /// Since when both are counted.
    pub since: Instant,
    /// Busy time.
    pub busy: Usage,
    /// The load of its last complete interval.
    pub last: Load,
    /// Its receive queues.
    pub queues: Vec<QueueReport>,
}

/// A receive queue in a report.
#[derive(Clone, Debug)]
pub struct QueueReport {
    /// The port.
    pub port: PortNo,
    /// Its number.
    pub queue: u16,
    /// Time that the worker spent on it.
    pub usage: Usage,
}

impl WorkerReport {
    /// Returns the length of this many intervals, estimated from the last one.
    pub fn intervals_ns(&self, intervals: usize) -> u64 {
        self.last.total_ns * intervals.min(INTERVALS) as u64
    }
}
