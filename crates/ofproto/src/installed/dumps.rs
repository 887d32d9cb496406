//! Requests for statistics and their answers per worker, and deleted flows until their last statistics
//! arrive.

use super::Links;
use base::{Instant, WorkerId};
use classifier::{PartedMap, Queue};
use flow::{FlowId, FlowStats};
use hashbrown::HashMap;
use std::sync::Arc;

/// A flow that was deleted.
#[derive(Debug)]
pub(super) struct Dying {
    pub links: Arc<Links>,
    pub stats: FlowStats,
}

/// One worker's answers.
#[derive(Debug, Default)]
struct Answers {
    asked: u64,
    answered: u64,
    /// Statistics are complete up to this time.
    collected: Instant,
    /// Deleted flows, each with the number of requests sent at that time.
    deleted: Queue<(u64, FlowId)>,
}

/// All workers' answers.
#[derive(Debug, Default)]
pub(super) struct Dumps {
    workers: HashMap<WorkerId, Answers>,
    dying: PartedMap<FlowId, Dying>,
}

impl Dumps {
    /// Notes a request. False if the last one is not answered yet.
    pub fn ask(&mut self, worker: WorkerId) -> bool {
        let answers = self.workers.entry(worker).or_default();
        let is_idle = answers.asked == answers.answered;
        answers.asked += u64::from(is_idle);
        is_idle
    }

    /// Notes a deleted flow.
    pub fn delete(&mut self, worker: WorkerId, id: FlowId, dying: Dying) {
        let answers = self.workers.entry(worker).or_default();
        // Flows that were reported already need not be kept.
        while answers.deleted.front().is_some_and(|(_, id)| !self.dying.contains_key(id)) {
            answers.deleted.pop();
        }
        answers.deleted.push((answers.asked, id));
        self.dying.insert(id, dying);
    }

    /// A deleted flow whose statistics may still arrive.
    pub fn dying(&mut self, id: FlowId) -> Option<&mut Dying> {
        self.dying.get_mut(&id)
    }

    /// A worker has reported a flow for the last time.
    pub fn forget(&mut self, id: FlowId) {
        self.dying.remove(&id);
    }

    /// A worker has answered: flows deleted before the request will not be reported again.
    pub fn end(&mut self, worker: WorkerId, at: Instant) {
        let answers = self.workers.entry(worker).or_default();
        answers.answered = answers.answered.max(answers.asked.min(answers.answered + 1));
        answers.collected = answers.collected.max(at);
        while let Some((asked, id)) = answers.deleted.front()
            && *asked < answers.answered
        {
            self.dying.remove(id);
            answers.deleted.pop();
        }
    }

    /// The time up to which the statistics of this many workers are complete.
    pub fn collected(&self, workers: u16) -> Instant {
        let each = (0..workers).map(WorkerId).map(|worker| self.workers.get(&worker));
        each.map(|answers| answers.map_or(Instant::ZERO, |it| it.collected))
            .min()
            .unwrap_or_default()
    }

    /// Removes the state of removed workers.
    pub fn forget_from(&mut self, workers: u16) {
        let dying = &mut self.dying;
        self.workers.retain(|worker, answers| {
            let stays = worker.0 < workers;
            if !stays {
                while let Some((_, id)) = answers.deleted.pop() {
                    dying.remove(&id);
                }
            }
            stays
        });
    }
}
