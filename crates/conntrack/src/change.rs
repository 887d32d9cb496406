//! What happens to connections, for whoever watches.
//!
//! While somebody watches, each thread notes what it does in a list of its own and hands it over with
//! each batch. What is not fetched in time is lost, and counted; packets never wait.

use crate::counters::Event;
use crate::entry::Entry;
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

/// A thread's changes that wait to be fetched.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    changes: VecDeque<Change>,
    lost: u64,
}

impl Waiting {
    /// Adds changes, as many as there is room for.
    pub fn add(&self, changes: &mut Vec<Change>) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = WAITING_MAX.saturating_sub(queue.changes.len()).min(changes.len());
        queue.lost += (changes.len() - room) as u64;
        queue.changes.extend(changes.drain(..room));
        changes.clear();
    }

    /// Moves all to `fetched`.
    pub fn fetch(&self, fetched: &mut Changes) {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fetched.changes.extend(queue.changes.drain(..));
        fetched.lost += std::mem::take(&mut queue.lost);
    }
}
