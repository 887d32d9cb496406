//! What happens to connections, for those who watch.
//!
//! While a watcher is there, what happens to a connection is noted in the list of the thread that made
//! it, whichever thread does it: so it is told in order, though one thread may end what another has only begun to put
//! in. What is not fetched in time is lost, and counted.

use crate::counters::Event;
use crate::entry::Entry;
use crate::record::Record;
use base::Instant;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Changes that wait for each thread; more are lost.
const WAITING_MAX: usize = 8192;

/// Something that happened to a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// What.
    pub what: What,
    /// The connection as it was then.
    pub entry: Entry,
}

/// What happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It was made.
    New,
    /// It was answered, its TCP state became another, or its mark or label did.
    Updated,
    /// It is gone, for this reason: [`Event::Expired`], [`Event::Replaced`], [`Event::Flushed`],
    /// [`Event::EvictedClosed`], [`Event::EvictedUnanswered`] or [`Event::EvictedAnswered`].
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

/// What was fetched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Changes in the order of their time.
    pub changes: Vec<Change>,
    /// How many were lost since the last time.
    pub lost: u64,
}

/// Changes of the connections that a thread made, which wait to be fetched.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    changes: VecDeque<Change>,
    lost: u64,
}

impl Waiting {
    /// Notes what happened to a connection; that it is new before all else, by the thread that comes first.
    pub fn note(&self, record: &Record<'_>, what: What, now: Instant) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.tell() {
            queue.push(record, What::New, now);
        }
        if what != What::New {
            queue.push(record, what, now);
        }
    }

    /// Moves all to `fetched`.
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
        // Threads' clocks lie a little apart.
        let at = self.changes.back().map_or(now, |last| last.at.max(now));
        self.changes.push_back(Change { at, what, entry: Entry::of(record, None, now) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::connection::Protocol;
    use crate::query::Exchange;
    use crate::record::{Birth, State};
    use table::atomic::AtomicU64;

    /// A thread may end a connection that another one has inserted and not told of yet.
    #[test]
    fn an_end_comes_after_a_beginning_that_was_not_told_yet() {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        let record = Record::v4(&words);
        let protocol = Protocol::Other(Exchange::Single);
        let state = State::new(&protocol, None, None).untold(true);
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
