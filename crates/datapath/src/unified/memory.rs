//! The memory that a unified cache lies in. Much of it takes long to prepare, for the system gives pages
//! when they are first written: 64 MiB some 25 ms, in which a worker's queues would run over. So a worker
//! asks for it, and goes on with what it has until another thread has prepared it.

use super::entry::{Entry, Rest, Second};
use super::tags::Tags;
use table::Array;

/// Places for entries.
#[derive(Default)]
pub struct CacheMemory {
    pub(super) entries: Array<Entry>,
    /// What few entries have, in the same places.
    pub(super) rest: Array<Rest>,
    /// What hardly any has.
    pub(super) seconds: Array<Second>,
    /// Of the same places again.
    pub(super) tags: Tags,
}

/// How much room a worker asks for.
#[must_use = "a worker asks once, and waits"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheMemoryRequest {
    entries: usize,
}

impl CacheMemory {
    /// So many empty places; `pause` is called before each piece of them.
    pub(super) fn new(entries: usize, pause: &mut dyn FnMut()) -> CacheMemory {
        CacheMemory {
            entries: Array::filled(Entry::EMPTY, entries, pause),
            rest: Array::filled(Rest::EMPTY, entries, pause),
            seconds: Array::filled(Second::NONE, entries, pause),
            tags: Tags::empty(entries, pause),
        }
    }
}

impl CacheMemoryRequest {
    pub(super) fn new(entries: usize) -> CacheMemoryRequest {
        CacheMemoryRequest { entries }
    }

    /// Prepares it, on a thread for which no packet waits; `pause` is called before each piece of it.
    #[must_use]
    pub fn prepare(self, mut pause: impl FnMut()) -> CacheMemory {
        CacheMemory::new(self.entries, &mut pause)
    }
}

impl std::fmt::Debug for CacheMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheMemory").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}
