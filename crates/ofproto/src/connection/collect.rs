//! Whether the workers have told what their flows carried, since they were asked.

use crate::{Ofproto, Outbox};
use base::WorkerId;
use std::collections::BTreeMap;

/// Counts answers. A worker is asked by [`Ofproto::collect`] only, and not again before it has
/// answered: so at most one answer is on its way, and it may be older than the question of now.
#[derive(Debug, Default)]
pub(super) struct Collects {
    answered: BTreeMap<WorkerId, u64>,
}

/// What is waited for.
#[derive(Debug)]
pub(super) struct Ticket {
    /// How many answers must have come from which worker.
    awaited: Vec<(WorkerId, u64)>,
    /// How often workers had gone. When more go, their successors know nothing of the question.
    workers_lost: u64,
}

impl Collects {
    /// Asks all workers for what their flows have carried.
    pub fn ask(&self, core: &mut Ofproto, out: &mut Outbox) -> Ticket {
        let before = out.commands.len();
        core.collect(out);
        let asked: Vec<WorkerId> =
            out.commands.iter().skip(before).map(|(worker, _)| *worker).collect();
        let workers = (0..core.config().workers).map(WorkerId);
        let awaited = workers.map(|worker| {
            // A worker that could not be asked has an older question to answer first.
            let answers = if asked.contains(&worker) { 1 } else { 2 };
            (worker, self.answers_of(worker) + answers)
        });
        Ticket { awaited: awaited.collect(), workers_lost: core.workers_lost() }
    }

    /// A worker has answered.
    pub fn answered(&mut self, worker: WorkerId) {
        *self.answered.entry(worker).or_default() += 1;
    }

    /// A worker will not answer what it was asked: it is not waited for any more.
    pub fn forget(&mut self, worker: WorkerId) {
        *self.answered.entry(worker).or_default() += 2;
    }

    /// Whether this worker must answer (once more).
    pub fn awaits(&self, ticket: &Ticket, worker: WorkerId) -> bool {
        ticket
            .awaited
            .iter()
            .any(|(asked, awaited)| *asked == worker && self.answers_of(worker) < *awaited)
    }

    /// Whether all workers have answered, or will not.
    pub fn is_answered(&self, ticket: &Ticket, core: &Ofproto) -> bool {
        let mut awaited = ticket.awaited.iter();
        ticket.workers_lost != core.workers_lost()
            || awaited.all(|(worker, awaited)| self.answers_of(*worker) >= *awaited)
    }

    fn answers_of(&self, worker: WorkerId) -> u64 {
        self.answered.get(&worker).copied().unwrap_or_default()
    }
}
