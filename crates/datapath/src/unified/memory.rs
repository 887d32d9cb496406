//! The memory of a unified cache. Preparing a large one takes long, since the system allocates pages
//! upon the first write: 64 MiB take some 25 ms, in which a worker's queues would overflow. So a worker
//! requests it, and continues with its current memory until another thread has prepared it.

use super::entry::{Entry, Rest, Second};
use super::tags::Tags;
use table::Array;

/// Memory for entries.
#[derive(Default)]
pub struct CacheMemory {
    pub(super) entries: Array<Entry>,
    /// Fields that few entries have, at the same places.
    pub(super) rest: Array<Rest>,
    /// Fields that hardly any entry has.
    pub(super) seconds: Array<Second>,
    /// Tags, at the same places.
    pub(super) tags: Tags,
}

/// A worker's request for memory.
#[must_use = "a worker asks once, and waits"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheMemoryRequest {
    entries: usize,
}

impl CacheMemory {
    /// This many empty places; calls `pause` before each chunk.
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

    /// Prepares the memory, on a thread that no packet waits for; calls `pause` before each chunk.
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
