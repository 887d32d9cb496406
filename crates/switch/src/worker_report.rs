//! What a worker's thread tells of itself: its counters, its iterations, its time.

use super::balance::Load;
use super::usage::{INTERVALS, Usage};
use base::{Instant, PortNo};
use datapath::WorkerStats;

/// How often a worker went round its loop, and how often it slept there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iterations {
    /// Iterations in all.
    pub all: u64,
    /// Iterations in which packets came.
    pub busy: u64,
    /// Iterations in which it slept.
    pub slept: u64,
    /// How long it slept, in nanoseconds.
    pub slept_ns: u64,
}

/// A worker's report, at most a second old.
#[derive(Clone, Debug, Default)]
pub struct WorkerReport {
    /// The datapath's counters.
    pub stats: WorkerStats,
    /// The loop's counters.
    pub iterations: Iterations,
    /// Since when both count.
    pub since: Instant,
    /// How long it was busy.
    pub busy: Usage,
    /// Its last whole interval.
    pub last: Load,
    /// The queues that it polls.
    pub queues: Vec<QueueReport>,
}

/// A queue that a worker polls.
#[derive(Clone, Debug)]
pub struct QueueReport {
    /// The port.
    pub port: PortNo,
    /// Its number.
    pub queue: u16,
    /// How long the worker was busy with it.
    pub usage: Usage,
}

impl WorkerReport {
    /// How long so many intervals are, as far as the last one tells.
    pub fn intervals_ns(&self, intervals: usize) -> u64 {
        self.last.total_ns * intervals.min(INTERVALS) as u64
    }
}
