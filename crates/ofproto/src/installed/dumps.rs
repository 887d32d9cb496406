//! How often workers were asked what their flows have carried, and flows that were deleted, until
//! their last statistics are known.

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
    /// Since when it has told of every packet that came before.
    collected: Instant,
    /// Flows that it was told to delete, each with how many answers it had been asked for.
    deleted: Queue<(u64, FlowId)>,
}

/// All workers' answers.
#[derive(Debug, Default)]
pub(super) struct Dumps {
    workers: HashMap<WorkerId, Answers>,
    dying: PartedMap<FlowId, Dying>,
}

impl Dumps {
    /// A worker is being asked. Not asked again before it answers.
    pub fn ask(&mut self, worker: WorkerId) -> bool {
        let answers = self.workers.entry(worker).or_default();
        let is_idle = answers.asked == answers.answered;
        answers.asked += u64::from(is_idle);
        is_idle
    }

    /// A worker is told to delete a flow.
    pub fn delete(&mut self, worker: WorkerId, id: FlowId, dying: Dying) {
        let answers = self.workers.entry(worker).or_default();
        // Those that the worker has told of already need not be remembered.
        while answers.deleted.front().is_some_and(|(_, id)| !self.dying.contains_key(id)) {
            answers.deleted.pop();
        }
        answers.deleted.push((answers.asked, id));
        self.dying.insert(id, dying);
    }

    /// A flow that was deleted and may still be told of.
    pub fn dying(&mut self, id: FlowId) -> Option<&mut Dying> {
        self.dying.get_mut(&id)
    }

    /// A worker has told of a flow for the last time.
    pub fn forget(&mut self, id: FlowId) {
        self.dying.remove(&id);
    }

    /// A worker has answered: flows deleted before it was asked will not be told of again.
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

    /// Until when all of this many workers have told of every packet.
    pub fn collected(&self, workers: u16) -> Instant {
        let each = (0..workers).map(WorkerId).map(|worker| self.workers.get(&worker));
        each.map(|answers| answers.map_or(Instant::ZERO, |it| it.collected))
            .min()
            .unwrap_or_default()
    }

    /// Forgets workers that are no more.
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
