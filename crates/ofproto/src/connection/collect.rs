//! Which statistics were asked of the workers, and which have come.

use base::WorkerId;
use flow::FlowCommand;
use std::collections::BTreeMap;

/// Counts [`FlowCommand::Collect`]s and their answers. Each worker answers in order, so that two
/// numbers a worker say which are outstanding.
#[derive(Debug, Default)]
pub(super) struct Collects {
    workers: BTreeMap<WorkerId, Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: u64,
    answered: u64,
}

/// How many answers must have come from which worker.
#[derive(Debug)]
pub(super) struct Ticket(Vec<(WorkerId, u64)>);

impl Collects {
    /// Asks all workers for their statistics, behind what waits to be sent.
    pub fn ask(&self, workers: u16, commands: &mut Vec<(WorkerId, FlowCommand)>) -> Ticket {
        let mut awaited = Vec::new();
        for worker in (0..workers).map(WorkerId) {
            commands.push((worker, FlowCommand::Collect));
            let sent = self.workers.get(&worker).map_or(0, |counts| counts.sent);
            awaited.push((worker, sent + count(commands, worker)));
        }
        Ticket(awaited)
    }

    /// Commands have gone to the workers.
    pub fn sent(&mut self, commands: &[(WorkerId, FlowCommand)]) {
        for (worker, command) in commands {
            if matches!(command, FlowCommand::Collect) {
                self.workers.entry(*worker).or_default().sent += 1;
            }
        }
    }

    /// A worker has answered.
    pub fn answered(&mut self, worker: WorkerId) {
        self.workers.entry(worker).or_default().answered += 1;
    }

    /// A worker will not answer what it was asked.
    pub fn forget(&mut self, worker: WorkerId) {
        if let Some(counts) = self.workers.get_mut(&worker) {
            counts.answered = counts.sent;
        }
    }

    /// Whether all that were asked have answered.
    pub fn is_answered(&self, ticket: &Ticket) -> bool {
        let answered = |worker| self.workers.get(worker).map_or(0, |counts| counts.answered);
        ticket.0.iter().all(|(worker, awaited)| answered(worker) >= *awaited)
    }
}

fn count(commands: &[(WorkerId, FlowCommand)], worker: WorkerId) -> u64 {
    let asks = |(to, command): &&(WorkerId, FlowCommand)| {
        *to == worker && matches!(command, FlowCommand::Collect)
    };
    commands.iter().filter(asks).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_to_later_questions_count() {
        let mut collects = Collects::default();
        let [a, b] = [WorkerId(0), WorkerId(1)];
        // One is on its way already, another waits to be sent.
        collects.sent(&[(a, FlowCommand::Collect)]);
        let mut commands = vec![(a, FlowCommand::Collect)];
        let ticket = collects.ask(2, &mut commands);
        assert_eq!(commands.len(), 3);
        collects.sent(&commands);
        for (worker, done) in [(a, false), (b, false), (a, false), (a, true)] {
            collects.answered(worker);
            assert_eq!(collects.is_answered(&ticket), done);
        }
        commands.clear();
        let ticket = collects.ask(2, &mut commands);
        collects.sent(&commands);
        collects.answered(a);
        assert!(!collects.is_answered(&ticket));
        collects.forget(b);
        assert!(collects.is_answered(&ticket));
    }
}
