//! The cases of connection tracking (`testdata/conntrack/*.toml`) through the whole datapath. The flow tables
//! track each packet and match on all its connection fields. The unified cache is on, tiny or off; one
//! worker, or two that take turns.

#[path = "support/case_tables.rs"]
mod case_tables;
#[path = "../../conntrack/tests/support/mod.rs"]
mod support;

use base::Instant;
use case_tables::{CaseTables, CaseWorker};
use conntrack::{Config, Conntrack};
use datapath::WorkerConfig;
use flow::{CtAction, Frame};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::case::{Device, run_all};

/// A switch whose flow tables track packets.
struct Switch<'a> {
    conntrack: Arc<Conntrack>,
    workers: RefCell<Workers>,
    /// Packets that hit the unified caches of all switches.
    cached: &'a AtomicU64,
}

/// Workers that take turns, and their flow tables.
struct Workers {
    workers: Vec<CaseWorker>,
    turn: usize,
    tables: CaseTables,
}

impl<'a> Switch<'a> {
    fn new(config: Config, workers: u16, caches: WorkerConfig, cached: &'a AtomicU64) -> Self {
        let conntrack = Arc::new(Conntrack::new(7, config));
        let workers = (0..workers).map(|id| CaseWorker::new(&conntrack, id, caches)).collect();
        let workers = Workers { workers, turn: 0, tables: CaseTables::default() };
        Switch { workers: RefCell::new(workers), conntrack, cached }
    }
}

impl Deref for Switch<'_> {
    type Target = Conntrack;

    fn deref(&self) -> &Conntrack {
        &self.conntrack
    }
}

impl Device for Switch<'_> {
    fn track(&self, now: Instant, action: &CtAction, frame: &mut Frame) -> Vec<Frame> {
        let before = frame.packet.data().to_vec();
        let Workers { workers, turn, tables } = &mut *self.workers.borrow_mut();
        *turn = (*turn + 1) % workers.len();
        let sent = tables.send(&mut workers[*turn], now, action, frame);
        support::case::put_back(sent, frame, &before)
    }
}

impl Drop for Switch<'_> {
    fn drop(&mut self) {
        let hits = |it: &CaseWorker| it.bench.worker.stats().unified_hits;
        let hits = self.workers.get_mut().workers.iter().map(hits).sum();
        self.cached.fetch_add(hits, Ordering::Relaxed);
    }
}

/// Runs all cases. Returns the number of packets that hit the unified caches.
fn run(workers: u16, unified_entries: usize) -> u64 {
    let caches = WorkerConfig { unified_entries, exact_insert_inverse: 1, ..Default::default() };
    let cached = AtomicU64::new(0);
    run_all(|config| Switch::new(config, workers, caches, &cached));
    cached.into_inner()
}

#[test]
fn without_the_unified_cache() {
    assert_eq!(run(1, 0), 0);
}

#[test]
fn with_the_unified_cache() {
    let cached = run(1, 1 << 12);
    assert!(cached > 50, "{cached}");
}

#[test]
fn with_a_unified_cache_of_a_few_entries() {
    let cached = run(1, 4);
    assert!(cached > 30, "{cached}");
}

#[test]
fn on_two_workers_in_turn() {
    let cached = run(2, 1 << 12);
    assert!(cached > 10, "{cached}");
}
