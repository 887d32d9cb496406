//! Tracks whether all workers have sent statistics since a request arrived.

use crate::{Ofproto, Outbox};
use base::WorkerId;
use std::collections::BTreeMap;

/// Counts the workers' answers. Only [`Ofproto::collect`] requests statistics, and not again before the
/// answer: at most one answer is on its way, and it may belong to an earlier request.
#[derive(Debug, Default)]
pub(super) struct Collects {
    answered: BTreeMap<WorkerId, u64>,
}

/// The answers that a request waits for.
#[derive(Debug)]
pub(super) struct Ticket {
    /// Per worker, the number of answers after which the request can be served.
    awaited: Vec<(WorkerId, u64)>,
    /// The count of removed workers. A new worker has not received the request.
    workers_lost: u64,
}

impl Collects {
    /// Requests statistics from all workers.
    pub fn ask(&self, core: &mut Ofproto, out: &mut Outbox) -> Ticket {
        let before = out.commands.len();
        core.collect(out);
        out.reads_devices = true;
        let asked: Vec<WorkerId> =
            out.commands.iter().skip(before).map(|(worker, _)| *worker).collect();
        let workers = (0..core.config().workers).map(WorkerId);
        let awaited = workers.map(|worker| {
            // A worker that could not be asked answers an older request first.
            let answers = if asked.contains(&worker) { 1 } else { 2 };
            (worker, self.answers_of(worker) + answers)
        });
        Ticket { awaited: awaited.collect(), workers_lost: core.workers_lost() }
    }

    /// A worker has answered.
    pub fn answered(&mut self, worker: WorkerId) {
        *self.answered.entry(worker).or_default() += 1;
    }

    /// Stops waiting for a worker, which will not answer.
    pub fn forget(&mut self, worker: WorkerId) {
        *self.answered.entry(worker).or_default() += 2;
    }

    /// Whether an answer of this worker is outstanding.
    pub fn awaits(&self, ticket: &Ticket, worker: WorkerId) -> bool {
        ticket
            .awaited
            .iter()
            .any(|(asked, awaited)| *asked == worker && self.answers_of(worker) < *awaited)
    }

    /// Whether no answer is outstanding.
    pub fn is_answered(&self, ticket: &Ticket, core: &Ofproto) -> bool {
        let mut awaited = ticket.awaited.iter();
        ticket.workers_lost != core.workers_lost()
            || awaited.all(|(worker, awaited)| self.answers_of(*worker) >= *awaited)
    }

    fn answers_of(&self, worker: WorkerId) -> u64 {
        self.answered.get(&worker).copied().unwrap_or_default()
    }
}
