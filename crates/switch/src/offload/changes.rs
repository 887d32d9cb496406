//! Flow changes that workers may not have seen yet: an offer made before one of its flows changed must not be
//! installed afterwards.

use base::WorkerId;
use flow::{FlowCommand, FlowId, OffloadOffer};
use std::collections::{BTreeMap, VecDeque};

/// Number of changes that are kept. Older offers are refused.
const REMEMBERED: usize = 4096;

/// The commands sent to workers.
#[derive(Debug, Default)]
pub struct Changes {
    /// Number of commands sent to each worker.
    sent: BTreeMap<WorkerId, u64>,
    /// The last commands that changed flows, with their numbers at their workers.
    recent: VecDeque<(WorkerId, u64, FlowId)>,
    /// The number up to which a worker's changes were discarded.
    forgotten: BTreeMap<WorkerId, u64>,
    /// The highest flow id that was put.
    highest: Option<FlowId>,
    /// Whether handlers also put flows, which are not seen here: a put may then change an existing flow.
    handlers_put: bool,
}

impl Changes {
    /// No commands yet. `handlers_put` is whether handlers also put flows.
    pub fn new(handlers_put: bool) -> Changes {
        Changes { handlers_put, ..Changes::default() }
    }

    /// Counts a command to a worker. Returns the flow that it changes or deletes.
    pub fn note(&mut self, worker: WorkerId, command: &FlowCommand) -> Option<FlowId> {
        let sent = self.sent.entry(worker).or_default();
        *sent += 1;
        let put = match command {
            FlowCommand::Put(put) => Some(put.id),
            FlowCommand::Execute(asked) => asked.flow.as_ref().map(|flow| flow.id),
            FlowCommand::Delete(_) | FlowCommand::Mark(_) | FlowCommand::Collect => None,
        };
        let changed = match (command, put) {
            (FlowCommand::Delete(id) | FlowCommand::Mark(id), _) => *id,
            (_, Some(id)) if self.handlers_put || self.highest.is_some_and(|it| id <= it) => id,
            (_, Some(id)) => {
                self.highest = Some(id);
                return None;
            }
            (_, None) => return None,
        };
        if self.recent.len() == REMEMBERED
            && let Some((worker, number, _)) = self.recent.pop_front()
        {
            self.forgotten.insert(worker, number);
        }
        self.recent.push_back((worker, *sent, changed));
        Some(changed)
    }

    /// Returns whether no flow of an offer changed after its worker had received `seen` commands.
    pub fn are_none_since(&self, seen: u64, offer: &OffloadOffer) -> bool {
        if self.forgotten.get(&offer.worker).is_some_and(|&number| number > seen) {
            return false;
        }
        let of_worker = self.recent.iter().rev().filter(|it| it.0 == offer.worker);
        let mut later = of_worker.take_while(|it| it.1 > seen);
        !later.any(|it| offer.flows.contains(&it.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::table::tests::offer;
    use flow::{FlowPut, Match};
    use std::sync::Arc;

    fn put(id: u64) -> FlowCommand {
        let actions = Arc::new([]);
        FlowCommand::Put(Box::new(FlowPut { id: FlowId(id), matching: Match::any(), actions }))
    }

    fn delete(id: u64) -> FlowCommand {
        FlowCommand::Delete(FlowId(id))
    }

    const WORKER: WorkerId = WorkerId(0);
    const OTHER: WorkerId = WorkerId(1);

    #[test]
    fn an_offer_holds_until_one_of_its_flows_changes() {
        let mut changes = Changes::default();
        assert_eq!(changes.note(WORKER, &put(1)), None);
        assert_eq!(changes.note(WORKER, &put(2)), None);
        let offer = offer(1, &[1, 2]);
        assert!(changes.are_none_since(0, &offer));
        assert_eq!(changes.note(WORKER, &put(3)), None, "a new flow changes none");
        assert_eq!(changes.note(WORKER, &FlowCommand::Collect), None);
        assert_eq!(changes.note(OTHER, &delete(7)), Some(FlowId(7)));
        assert!(changes.are_none_since(2, &offer));
        assert_eq!(changes.note(WORKER, &put(2)), Some(FlowId(2)));
        assert!(!changes.are_none_since(2, &offer) && !changes.are_none_since(4, &offer));
        assert!(changes.are_none_since(5, &offer), "the worker knew of it");
        assert_eq!(changes.note(WORKER, &delete(1)), Some(FlowId(1)));
        assert!(!changes.are_none_since(5, &offer));
    }

    #[test]
    fn a_flow_that_a_handler_put_may_be_changed_by_the_first_put_that_is_heard_of() {
        let mut changes = Changes::new(true);
        assert_eq!(changes.note(WORKER, &put(2)), Some(FlowId(2)));
        assert!(!changes.are_none_since(0, &offer(1, &[2])));
    }

    #[test]
    fn an_offer_that_is_older_than_what_is_remembered_is_refused() {
        let mut changes = Changes::default();
        changes.note(WORKER, &delete(100));
        let offer = offer(1, &[1]);
        assert!(changes.are_none_since(0, &offer));
        for _ in 0..REMEMBERED {
            changes.note(WORKER, &delete(100));
        }
        assert!(!changes.are_none_since(0, &offer));
        assert!(changes.are_none_since(1, &offer));
    }
}
