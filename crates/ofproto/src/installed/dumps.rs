//! Requests for statistics and their answers per worker, and deleted flows, and what changed ones counted for before,
//! until their last statistics arrive.

use super::Installed;
use crate::links::Links;
use base::{Instant, WorkerId};
use classifier::{PartedMap, Queue};
use flow::{FlowDump, FlowId, FlowStats};
use hashbrown::HashMap;
use std::collections::VecDeque;
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

    /// Stores a flow's new total. Returns the increase, and the links for which these packets count: those that the
    /// flow had before its first change that the worker has not reported yet, or its own.
    pub fn account(&mut self, id: FlowId, total: FlowStats) -> Option<(FlowStats, &Arc<Links>)> {
        let (delta, own) = match self.slots.slot(id) {
            Some(slot) => {
                let place = self.slots.at_mut(slot)?;
                let delta = total.since(&place.stats());
                place.set_stats(&total);
                (delta, self.links.get(place.links))
            }
            None => {
                let dying = self.dumps.dying.get_mut(&id)?;
                let delta = total.since(&dying.stats);
                dying.stats = total;
                (delta, Some(&dying.links))
            }
        };
        let before = self.dumps.before.get(&id).and_then(VecDeque::front);
        Some((delta, before.or(own)?))
    }

    /// Stores a page of a worker's dump. `credit` receives the increases with the links for which they count.
    pub fn account_page(
        &mut self,
        page: &FlowDump,
        mut credit: impl FnMut(&Arc<Links>, &FlowStats),
    ) {
        for &(id, total) in &page.marked {
            self.credit_increase(id, total, &mut credit);
            self.dumps.pass_mark(id);
        }
        for &(id, total) in page.flows.iter().chain(&page.gone) {
            self.credit_increase(id, total, &mut credit);
        }
        page.gone.iter().for_each(|(id, _)| self.forget(*id));
    }

    fn credit_increase(
        &mut self,
        id: FlowId,
        total: FlowStats,
        credit: &mut impl FnMut(&Arc<Links>, &FlowStats),
    ) {
        if let Some((delta, links)) = self.account(id, total)
            && delta.packets > 0
        {
            credit(links, &delta);
        }
    }

    /// How many requests each of this many workers had been sent so far.
    pub fn requests(&self, workers: u16) -> Requests {
        let sent = |worker| self.dumps.workers.get(&worker).map_or(0, |answers| answers.asked);
        Requests((0..workers).map(|worker| sent(WorkerId(worker))).collect())
    }

    /// What the workers have answered since then.
    pub fn answers_since(&self, before: &Requests) -> Since {
        let mut all = Since::Answered;
        for (worker, sent) in before.0.iter().enumerate() {
            let answers = self.dumps.workers.get(&WorkerId(worker as u16));
            let (asked, answered) = answers.map_or((0, 0), |it| (it.asked, it.answered));
            if asked <= *sent {
                return Since::Unasked;
            }
            if answered <= *sent {
                all = Since::Asked;
            }
        }
        all
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

/// Per worker, the number of requests sent to it at some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Requests(Box<[u64]>);

/// What the workers have done since some time: what they processed before it is accounted when all have answered a
/// later request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Since {
    /// Some worker was not asked.
    Unasked,
    /// All were asked, and some have not answered.
    Asked,
    /// All have answered.
    Answered,
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
    /// The links that flows had before changes that their workers have not reported yet, the oldest first.
    before: PartedMap<FlowId, VecDeque<Arc<Links>>>,
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

    /// A flow gets other links. Its worker is told to mark what it carried with these.
    pub fn await_mark(&mut self, id: FlowId, links: Arc<Links>) {
        self.before.or_default(id).push_back(links);
    }

    /// A worker has reported a change of a flow.
    fn pass_mark(&mut self, id: FlowId) {
        let Some(before) = self.before.get_mut(&id) else { return };
        before.pop_front();
        if before.is_empty() {
            self.before.remove(&id);
        }
    }

    /// Whether packets may still be reported for other links than those of installed flows.
    pub fn has_former(&self) -> bool {
        !self.dying.is_empty() || !self.before.is_empty()
    }

    /// The number of deleted flows that may still be reported.
    #[cfg(test)]
    pub fn dying_count(&self) -> usize {
        self.dying.len()
    }

    /// A worker has reported a flow for the last time.
    pub fn forget(&mut self, id: FlowId) {
        self.dying.remove(&id);
        self.before.remove(&id);
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
                self.before.remove(id);
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
        let Dumps { dying, before, .. } = self;
        self.workers.retain(|worker, answers| {
            let stays = worker.0 < workers;
            if !stays {
                while let Some((_, id)) = answers.deleted.pop() {
                    dying.remove(&id);
                    before.remove(&id);
                }
            }
            stays
        });
    }
}
