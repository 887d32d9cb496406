//! Records by number, in memory that is not freed while the slab lives.
//!
//! A record is a row of atomic words, so a late thread reads old or new words, but never foreign
//! memory. The epochs prevent it from taking a new record for an old one: a [retired](Slab::retire)
//! id is handed out again only after every guard that could have met it is dropped.
//!
//! Each thread has a [`Spare`]: ids that it may hand out, and retired ids that wait. Threads
//! exchange these only in batches. Unused ids are taken in pieces, which grow with the slab up to a
//! large page, so that threads that fill new memory at the same time neither touch the same page
//! first nor prefetch lines that the other writes.
//!
//! A guard that is never dropped keeps all ids waiting that are retired after it began. To bound
//! the slab meanwhile, an unused id is refused while [too many](Slab::set_waiting_max) wait.
//! never used is refused.

use crate::Id;
use crate::atomic::{AtomicU64, Mutex, Ordering, lock};
use crate::chunks::{CHUNK, Chunks};
use crate::epochs::{Epochs, Stamp};
use crate::prefetch::prefetch;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The number of ids in an exchanged batch.
#[cfg(not(loom))]
const BATCH: usize = 64;
#[cfg(loom)]
const BATCH: usize = 1;
/// The number of waiting batches from which a thread asks the epochs to advance, which costs other
/// threads.
#[cfg(not(loom))]
const PATIENCE: usize = 4;
#[cfg(loom)]
const PATIENCE: usize = 1;
/// The number of words in a cache line.
const LINE_WORDS: usize = 8;
/// The largest piece of unused ids: with 16 words per record, a page of 2 MiB.
#[cfg(not(any(loom, miri)))]
const PIECE_MAX: u32 = 1 << 14;
#[cfg(miri)]
const PIECE_MAX: u32 = 1 << 6;
#[cfg(loom)]
const PIECE_MAX: u32 = 1;
/// A piece begins at a multiple of its size, so that it is within one chunk.
const _: () = assert!(PIECE_MAX as usize <= CHUNK && PIECE_MIN <= PIECE_MAX);
/// The smallest piece. A processor prefetches some lines beyond the end of a piece, which another
/// thread may be writing if its piece begins there. With pieces of 64, two threads with a thousand
/// connections each took up to 40% longer per packet than one alone.
#[cfg(not(any(loom, miri)))]
const PIECE_MIN: u32 = 1 << 10;
#[cfg(miri)]
const PIECE_MIN: u32 = 1 << 6;
#[cfg(loom)]
const PIECE_MIN: u32 = 1;
/// Above the minimum, a piece is at most this fraction of all ids handed out before, so that most
/// ids are in use when they are taken at random.
const PIECE_PART: u32 = 16;
/// The prefetch distance in ids.
const AHEAD: usize = 4;
/// The number of free ids from which a thread returns a batch.
const TOO_MANY: usize = 4 * BATCH;

/// A bound on ids: the top bit is the caller's, and the wheel reserves a few numbers.
const LIMIT: u32 = (1 << 31) - (1 << 16);

/// Records of `WORDS` atomic words each.
pub struct Slab<const WORDS: usize> {
    records: Chunks<WORDS>,
    capacity: u32,
    stock: Arc<Mutex<Stock>>,
    waiting: Arc<Waiting>,
    epochs: Arc<Epochs>,
}

/// The number of waiting ids of all threads, and its maximum. Ids that a thread retired since its
/// last batch are not counted. These numbers order nothing, so the model checker does not track
/// them.
struct Waiting {
    ids: std::sync::atomic::AtomicU32,
    max: std::sync::atomic::AtomicU32,
}

/// The ids that no thread has.
struct Stock {
    /// The first id that was never handed out.
    fresh: u32,
    free: Vec<Vec<Id>>,
    /// The rests of pieces of ended threads.
    pieces: Vec<Range<Id>>,
    /// The waiting ids of ended threads.
    waiting: Vec<(Stamp, Vec<Id>)>,
}

/// One thread's ids.
pub struct Spare {
    free: Vec<Id>,
    /// The rest of the thread's piece.
    piece: Range<Id>,
    retired: Vec<Id>,
    waiting: VecDeque<(Stamp, Vec<Id>)>,
    /// Empty batches for reuse.
    empty: Vec<Vec<Id>>,
    stock: Arc<Mutex<Stock>>,
    all_waiting: Arc<Waiting>,
    epochs: Arc<Epochs>,
}

impl<const WORDS: usize> Slab<WORDS> {
    /// An empty slab of at most `capacity` ids. That includes the ids that each thread keeps: about
    /// 600 that wait for reuse, and a piece of a sixteenth of all, between 1,024 and 16,384.
    #[must_use]
    pub fn new(epochs: Arc<Epochs>, capacity: u32) -> Self {
        // Zero is not an id, so that a zero word can mean "none".
        let capacity = capacity.min(LIMIT - 1) + 1;
        let stock = Stock { fresh: 1, free: Vec::new(), pieces: Vec::new(), waiting: Vec::new() };
        Slab {
            records: Chunks::new(capacity as usize),
            capacity,
            stock: Arc::new(Mutex::new(stock)),
            waiting: Arc::new(Waiting { ids: 0.into(), max: u32::MAX.into() }),
            epochs,
        }
    }

    /// Sets the approximate number of waiting ids from which no unused id is handed out; unlimited
    /// by default. It must allow for all ids that are retired under one guard.
    pub fn set_waiting_max(&self, ids: u32) {
        self.waiting.max.store(ids, Ordering::Relaxed);
    }

    /// Whether more ids wait than the maximum.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.waiting.ids.load(Ordering::Relaxed) > self.waiting.max.load(Ordering::Relaxed)
    }

    /// A new thread's ids: none yet.
    #[must_use]
    pub fn spare(&self) -> Spare {
        Spare {
            free: Vec::with_capacity(TOO_MANY + BATCH),
            piece: 0..0,
            retired: Vec::with_capacity(BATCH),
            waiting: VecDeque::with_capacity(16),
            empty: Vec::with_capacity(16),
            stock: Arc::clone(&self.stock),
            all_waiting: Arc::clone(&self.waiting),
            epochs: Arc::clone(&self.epochs),
        }
    }

    /// Returns an id that no other thread has. Its record has the words of its last owner, or
    /// zeros. `None` if all are taken, or [too many wait](Self::is_behind).
    #[inline]
    pub fn take(&self, spare: &mut Spare) -> Option<Id> {
        if spare.free.is_empty() {
            self.refill(spare);
        }
        let id = spare.free.pop();
        // Reused ids are scattered in memory, so the record of a later one is prefetched for its
        // write.
        if let Some(ahead) = spare.free.len().checked_sub(AHEAD) {
            self.prefetch(spare.free[ahead]);
        }
        id
    }

    /// Retires an id that other threads may have seen. Only readers with a guard may still have it.
    #[inline]
    pub fn retire(&self, spare: &mut Spare, id: Id) {
        debug_assert!(id != 0 && id < self.capacity);
        spare.retired.push(id);
        if spare.retired.len() >= BATCH {
            spare.seal();
            let asks = spare.waiting.len() >= PATIENCE;
            spare.reclaim(asks);
        }
    }

    /// Returns an id that was taken and that no other thread has seen.
    #[inline]
    pub fn put_back(&self, spare: &mut Spare, id: Id) {
        debug_assert!(id != 0 && id < self.capacity);
        spare.free.push(id);
        spare.shed();
    }

    /// The record with this id.
    ///
    /// # Panics
    ///
    /// If no id of its chunk was ever handed out.
    #[inline]
    #[must_use]
    pub fn words(&self, id: Id) -> &[AtomicU64; WORDS] {
        self.records.at(id as usize)
    }

    /// Prefetches a record.
    #[inline]
    pub fn prefetch(&self, id: Id) {
        for line in self.words(id).chunks(LINE_WORDS) {
            prefetch(&line[0]);
        }
    }

    /// Returns a record, and prefetches its first cache line and the line `other`.
    ///
    /// # Panics
    ///
    /// As [`words`](Self::words).
    #[inline(always)]
    #[must_use]
    pub fn fetch(&self, id: Id, other: usize) -> &[AtomicU64; WORDS] {
        let words = self.words(id);
        prefetch(&words[0]);
        // If that is the same line, a second prefetch is cheaper than a wrong branch.
        words.get(other * LINE_WORDS).into_iter().for_each(prefetch);
        words
    }

    /// The size of all records in bytes. The system may back only the used part.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.records.bytes()
    }

    #[cold]
    fn refill(&self, spare: &mut Spare) {
        spare.seal();
        spare.reclaim(true);
        if !spare.free.is_empty() {
            return;
        }
        let is_behind = self.is_behind();
        if !is_behind && spare.break_piece() {
            return;
        }
        let mut stock = lock(&self.stock);
        if let Some(batch) = stock.free.pop() {
            spare.free.extend_from_slice(&batch);
            spare.keep_empty(batch);
            return;
        }
        let passed = |(stamp, _): &(Stamp, _)| self.epochs.passed(*stamp);
        if let Some(at) = stock.waiting.iter().position(passed) {
            let (_, batch) = stock.waiting.swap_remove(at);
            self.waiting.ids.fetch_sub(batch.len() as u32, Ordering::Relaxed);
            spare.free.extend_from_slice(&batch);
            return;
        }
        if is_behind {
            return;
        }
        spare.piece = stock.pieces.pop().unwrap_or_else(|| self.cut_piece(&mut stock));
        spare.break_piece();
    }

    /// Takes a piece of unused ids; empty if there are none.
    fn cut_piece(&self, stock: &mut Stock) -> Range<Id> {
        let start = stock.fresh;
        let part = (start / PIECE_PART).clamp(PIECE_MIN, PIECE_MAX);
        // A power of two, so that the largest pieces begin at page boundaries.
        let size = 1 << part.ilog2();
        let end = ((start / size + 1) * size).min(self.capacity);
        if start < end && self.records.make(start as usize) {
            stock.fresh = end;
        }
        start..stock.fresh
    }
}

impl Spare {
    /// Takes a batch from the piece. Returns whether there was one. The lowest ids are taken first,
    /// so that successive records are adjacent.
    fn break_piece(&mut self) -> bool {
        let end = self.piece.end.min(self.piece.start.saturating_add(BATCH as u32));
        self.free.extend((self.piece.start..end).rev());
        self.piece.start = end;
        !self.free.is_empty()
    }

    /// Makes the ids retired so far a waiting batch.
    fn seal(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let empty = self.empty.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(&mut self.retired, empty);
        self.all_waiting.ids.fetch_add(batch.len() as u32, Ordering::Relaxed);
        self.waiting.push_back((self.epochs.stamp(), batch));
    }

    /// Makes batches available that have waited long enough. `asks` allows asking the other
    /// threads.
    fn reclaim(&mut self, asks: bool) {
        while let Some((_, batch)) = self.waiting.pop_front_if(|(stamp, _)| match asks {
            true => self.epochs.passed(*stamp),
            false => self.epochs.has_surely_passed(*stamp),
        }) {
            self.all_waiting.ids.fetch_sub(batch.len() as u32, Ordering::Relaxed);
            self.free.extend_from_slice(&batch);
            self.keep_empty(batch);
            self.shed();
        }
    }

    /// Returns excess ids to the stock.
    #[inline]
    fn shed(&mut self) {
        if self.free.len() >= TOO_MANY {
            self.shed_half();
        }
    }

    #[cold]
    fn shed_half(&mut self) {
        let mut stock = lock(&self.stock);
        while self.free.len() > TOO_MANY / 2 {
            let mut batch = self.empty.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
            // The ids at the bottom have been unused for the longest time.
            batch.extend(self.free.drain(..BATCH));
            stock.free.push(batch);
        }
    }

    fn keep_empty(&mut self, mut batch: Vec<Id>) {
        if self.empty.len() < self.empty.capacity() {
            batch.clear();
            self.empty.push(batch);
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.seal();
        let mut stock = lock(&self.stock);
        stock.waiting.extend(self.waiting.drain(..));
        if !self.free.is_empty() {
            stock.free.push(std::mem::take(&mut self.free));
        }
        if !self.piece.is_empty() {
            stock.pieces.push(self.piece.clone());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
