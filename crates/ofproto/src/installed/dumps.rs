//! Requests for statistics and their answers per worker, and deleted flows until their last statistics
//! arrive.

use super::Installed;
use crate::links::Links;
use base::{Instant, WorkerId};
use classifier::{PartedMap, Queue};
use flow::{FlowDump, FlowId, FlowStats};
use hashbrown::HashMap;
use std::sync::Arc;

impl Installed {
    /// Notes a request for a dump. False if the last one is not answered yet.
    pub fn ask_dump(&mut self, worker: WorkerId) -> bool {
        self.dumps.ask(worker)
    }

    /// The time up to which the statistics of this many workers are complete.
    pub fn collected(&self, workers: u16) -> Instant {
        self.dumps.collected(workers)
    }

    /// Stores a flow's new total. Returns the increase, and the flow's links.
    pub fn account(&mut self, id: FlowId, total: FlowStats) -> Option<(FlowStats, &Arc<Links>)> {
        if let Some(slot) = self.slots.slot(id) {
            let place = self.slots.at_mut(slot)?;
            let delta = total.since(&place.stats());
            place.set_stats(&total);
            let links = place.links;
            return Some((delta, self.links.get(links)?));
        }
        let dying = self.dumps.dying(id)?;
        let delta = total.since(&dying.stats);
        dying.stats = total;
        Some((delta, &dying.links))
    }

    /// Stores a page of a worker's dump. `credit` receives the increases with the flows' links.
    pub fn account_page(
        &mut self,
        page: &FlowDump,
        mut credit: impl FnMut(&Arc<Links>, &FlowStats),
    ) {
        for &(id, total) in page.flows.iter().chain(&page.gone) {
            if let Some((delta, links)) = self.account(id, total)
                && delta.packets > 0
            {
                credit(links, &delta);
            }
        }
        page.gone.iter().for_each(|(id, _)| self.forget(*id));
    }

    /// A worker has reported a flow for the last time.
    pub fn forget(&mut self, id: FlowId) {
        self.dumps.forget(id);
    }

    /// A worker's dump, begun at this time, was read to its end: flows deleted before it was requested will
    /// not be reported again.
    pub fn end_dump(&mut self, worker: WorkerId, at: Instant) {
        self.dumps.end(worker, at);
    }

    /// Forgets at most `most` deleted flows that will not be reported again, or of all deleted flows.
    /// Returns whether there are more.
    pub fn forget_deleted(&mut self, most: usize, all: bool) -> bool {
        self.dumps.forget_some(most, all)
    }

    /// The number of deleted flows that may still be reported.
    #[cfg(test)]
    pub fn dying(&self) -> usize {
        self.dumps.dying_count()
    }
}

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
        // Flows that were reported already need not be kept: two go for each that comes.
        for _ in 0..2 {
            if answers.deleted.front().is_none_or(|(_, id)| self.dying.contains_key(id)) {
                break;
            }
            answers.deleted.pop();
        }
        answers.deleted.push((answers.asked, id));
        self.dying.insert(id, dying);
    }

    /// A deleted flow whose statistics may still arrive.
    pub fn dying(&mut self, id: FlowId) -> Option<&mut Dying> {
        self.dying.get_mut(&id)
    }

    /// The number of deleted flows that may still be reported.
    #[cfg(test)]
    pub fn dying_count(&self) -> usize {
        self.dying.len()
    }

    /// A worker has reported a flow for the last time.
    pub fn forget(&mut self, id: FlowId) {
        self.dying.remove(&id);
    }

    /// A worker has answered: flows deleted before the request will not be reported again, and
    /// [`Self::forget_some`] forgets them.
    pub fn end(&mut self, worker: WorkerId, at: Instant) {
        let answers = self.workers.entry(worker).or_default();
        answers.answered = answers.answered.max(answers.asked.min(answers.answered + 1));
        answers.collected = answers.collected.max(at);
    }

    /// Forgets at most `most` deleted flows that will not be reported again, or of all deleted flows.
    /// Returns whether there are more.
    pub fn forget_some(&mut self, most: usize, all: bool) -> bool {
        let mut left = most;
        for answers in self.workers.values_mut() {
            while let Some((asked, id)) = answers.deleted.front()
                && (all || *asked < answers.answered)
            {
                if left == 0 {
                    return true;
                }
                left -= 1;
                self.dying.remove(id);
                answers.deleted.pop();
            }
        }
        false
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
