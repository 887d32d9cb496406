//! Waiting for statistics that are newer than the request.

use super::Switch;
use base::WorkerId;

/// An action to run when every worker has sent its flow statistics.
pub struct WhenFresh {
    /// Answers that each worker still has to send.
    missing: Vec<(WorkerId, u8)>,
    run: Box<dyn FnOnce(&mut Switch)>,
}

impl Switch {
    /// Requests statistics from all workers, and calls `run` when they have answered. A worker may be
    /// answering an earlier request, so two answers are awaited: the second is newer than this call.
    pub fn when_fresh(&mut self, run: impl FnOnce(&mut Switch) + 'static) {
        let missing = self.workers.iter().map(|worker| (worker.id, 2)).collect();
        self.fresh.push(WhenFresh { missing, run: Box::new(run) });
        self.collect_fresh();
    }

    fn collect_fresh(&mut self) {
        self.outbox.reads_devices = true;
        self.ofproto.collect(&mut self.outbox);
    }

    /// Counts an answer of a worker, or marks that the worker is gone.
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
            self.collect_fresh();
        }
    }
}
