//! Changes of connections, for watchers.
//!
//! While a watcher is registered, each change is added to the list of the thread that created the
//! connection, whichever thread makes the change. So changes are in order, even if one thread ends
//! a connection that another is still inserting. A full list drops changes and counts them.

use crate::counters::Event;
use crate::management::entry::Entry;
use crate::record::Record;
use base::Instant;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The maximum number of changes in each thread's list.
const WAITING_MAX: usize = 8192;

/// A change of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The time of the change.
    pub at: Instant,
    /// The kind of change.
    pub what: What,
    /// The connection at that time.
    pub entry: Entry,
}

/// The kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The connection was created.
    New,
    /// The connection was answered, or its TCP state, mark or label changed.
    Updated,
    /// The connection ended, for this reason: [`Event::Expired`], [`Event::Replaced`],
    /// [`Event::Flushed`], [`Event::EvictedClosed`], [`Event::EvictedUnanswered`] or
    /// [`Event::EvictedAnswered`].
    Destroyed(Event),
}

impl What {
    /// `new`, `updated` or `destroyed`.
    pub fn name(self) -> &'static str {
        match self {
            What::New => "new",
            What::Updated => "updated",
            What::Destroyed(_) => "destroyed",
        }
    }
}

/// The changes since the last call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// The changes in the order of time.
    pub changes: Vec<Change>,
    /// The number of changes that were dropped since the last call.
    pub lost: u64,
}

/// The list of one thread's changes.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    changes: VecDeque<Change>,
    lost: u64,
}

impl Waiting {
    /// Adds a change. The first thread to add one of a connection adds [`What::New`] before it.
    pub fn note(&self, record: &Record<'_>, what: What, now: Instant) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.claim_report() {
            queue.push(record, What::New, now);
        }
        if what != What::New {
            queue.push(record, what, now);
        }
    }

    /// Moves all changes to `fetched`.
    pub fn fetch(&self, fetched: &mut Changes) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.changes.extend(queue.changes.drain(..));
        fetched.lost += std::mem::take(&mut queue.lost);
    }
}

impl Queue {
    fn push(&mut self, record: &Record<'_>, what: What, now: Instant) {
        if self.changes.len() >= WAITING_MAX {
            self.lost += 1;
            return;
        }
        // Threads' clocks differ a little.
        let at = self.changes.back().map_or(now, |last| last.at.max(now));
        self.changes.push_back(Change { at, what, entry: Entry::of(record, None, now) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::protocols::connection::Protocol;
    use crate::protocols::query::Exchange;
    use crate::record::{Birth, State};
    use table::atomic::AtomicU64;

    /// A thread may end a connection whose creation another thread has not reported yet.
    #[test]
    fn an_end_comes_after_a_beginning_that_was_not_told_yet() {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        let record = Record::v4(&words);
        let protocol = Protocol::Other(Exchange::Single);
        let state = State::new(&protocol, None, None).unreported(true);
        let birth = Birth { shard: 0, start: Instant::ZERO };
        record.begin_words([[1, 2], [3, 4]], &protocol, state, birth);
        record.start_living(1000);
        let waiting = Waiting::default();
        waiting.note(&record, What::Destroyed(Event::Flushed), Instant::ZERO);
        waiting.note(&record, What::New, Instant::ZERO);
        let mut fetched = Changes::default();
        waiting.fetch(&mut fetched);
        let told: Vec<What> = fetched.changes.into_iter().map(|change| change.what).collect();
        assert_eq!(told, [What::New, What::Destroyed(Event::Flushed)]);
    }
}
