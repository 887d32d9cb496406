//! Waiting for statistics that are no older than the question.

use super::Switch;
use base::WorkerId;

/// Something to be done when every worker has told what its flows have carried until now.
pub struct WhenFresh {
    /// Answers still to come from each worker.
    missing: Vec<(WorkerId, u8)>,
    run: Box<dyn FnOnce(&mut Switch)>,
}

impl Switch {
    /// Asks all workers for statistics, and does `run` when they have answered. A worker may
    /// have been asked before, and its next answer be older than the question: two answers are
    /// awaited, the second of which can't be.
    pub fn when_fresh(&mut self, run: impl FnOnce(&mut Switch) + 'static) {
        let missing = self.workers.iter().map(|worker| (worker.id, 2)).collect();
        self.fresh.push(WhenFresh { missing, run: Box::new(run) });
        self.sweep_offload();
        self.ofproto.collect(&mut self.outbox);
    }

    /// A worker has answered, or is gone and never will.
    pub fn worker_answered(&mut self, worker: WorkerId) {
        let mut waiting = std::mem::take(&mut self.fresh);
        for entry in waiting.iter_mut().flat_map(|waiting| &mut waiting.missing) {
            if entry.0 == worker {
                entry.1 = entry.1.saturating_sub(1);
            }
        }
        let is_over = |waiting: &WhenFresh| waiting.missing.iter().all(|(_, count)| *count == 0);
        let (over, still): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_over);
        self.fresh = still;
        for done in over {
            (done.run)(self);
        }
        if !self.fresh.is_empty() {
            self.ofproto.collect(&mut self.outbox);
        }
    }
}
