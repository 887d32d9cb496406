//! Records by number, in memory that is never given back while the slab lives.
//!
//! A record is a row of atomic words, so that a thread that comes too late reads old or new words but
//! never foreign memory. That it does not take a new record for an old one is the epochs' doing:
//! an id that was [retired](Slab::retire) is handed out again only after every guard that could
//! have met it is over.
//!
//! Each thread has a [`Spare`]: ids that it may hand out, and ids that it retired and that wait.
//! Threads meet only to exchange them by the batch. Ids that were never used before come by the piece,
//! which grows with the slab to a whole large page: threads that fill new memory at the same time
//! then neither touch a page first both at once, nor fetch ahead what the other is writing.
//!
//! A guard that is not dropped keeps all ids waiting that are retired after it began. So that the slab
//! does not grow for as long, [no more than so many](Slab::set_waiting_max) wait before an id that was
//! never used is refused.

use crate::Id;
use crate::atomic::{AtomicU64, Mutex, Ordering, lock};
use crate::chunks::{CHUNK, Chunks};
use crate::epochs::{Epochs, Stamp};
use crate::prefetch::prefetch;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Ids that are exchanged at once.
#[cfg(not(loom))]
const BATCH: usize = 64;
#[cfg(loom)]
const BATCH: usize = 1;
/// Batches that may wait before a thread asks, at the others' cost, whether they waited long enough.
#[cfg(not(loom))]
const PATIENCE: usize = 4;
#[cfg(loom)]
const PATIENCE: usize = 1;
/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// The largest piece of ids that were never used before: with 16 words, a page of 2 MiB.
#[cfg(not(any(loom, miri)))]
const PIECE_MAX: u32 = 1 << 14;
#[cfg(miri)]
const PIECE_MAX: u32 = 1 << 6;
#[cfg(loom)]
const PIECE_MAX: u32 = 1;
/// A piece begins at a multiple of its size, so that it lies in the one chunk that is made for it.
const _: () = assert!(PIECE_MAX as usize <= CHUNK && PIECE_MIN <= PIECE_MAX);
/// The smallest: a processor that goes along one thread's records fetches some lines behind them, which
/// another thread is writing where its piece begins there. With pieces of 64, two threads with a thousand
/// connections each took up to 40% longer for a packet than one alone.
#[cfg(not(any(loom, miri)))]
const PIECE_MIN: u32 = 1 << 10;
#[cfg(miri)]
const PIECE_MIN: u32 = 1 << 6;
#[cfg(loom)]
const PIECE_MIN: u32 = 1;
/// Above that, a piece is no more than this part of all ids that were handed out before: of ids taken at
/// random most have then been used.
const PIECE_PART: u32 = 16;
/// How many ids before its turn a record is fetched.
const AHEAD: usize = 4;
/// A thread that has this many gives some away.
const TOO_MANY: usize = 4 * BATCH;

/// The largest id is below this: the top bit is the caller's, and the wheel has a few.
const LIMIT: u32 = (1 << 31) - (1 << 16);

/// Records of `WORDS` atomic words each.
pub struct Slab<const WORDS: usize> {
    records: Chunks<WORDS>,
    capacity: u32,
    stock: Arc<Mutex<Stock>>,
    waiting: Arc<Waiting>,
    epochs: Arc<Epochs>,
}

/// How many ids wait, of all threads, and may; those that a thread retired since its last batch are not
/// counted. Only numbers, by which nothing is ordered, and so none of the model checker's.
struct Waiting {
    ids: std::sync::atomic::AtomicU32,
    max: std::sync::atomic::AtomicU32,
}

/// What no thread has.
struct Stock {
    /// Ids from here on were never handed out.
    fresh: u32,
    free: Vec<Vec<Id>>,
    /// What threads that have gone had left of their pieces.
    pieces: Vec<Range<Id>>,
    /// What threads that have gone had waiting.
    waiting: Vec<(Stamp, Vec<Id>)>,
}

/// One thread's ids.
pub struct Spare {
    free: Vec<Id>,
    /// What is left of its piece.
    piece: Range<Id>,
    retired: Vec<Id>,
    waiting: VecDeque<(Stamp, Vec<Id>)>,
    /// Emptied batches, to be filled again.
    empty: Vec<Vec<Id>>,
    stock: Arc<Mutex<Stock>>,
    all_waiting: Arc<Waiting>,
    epochs: Arc<Epochs>,
}

impl<const WORDS: usize> Slab<WORDS> {
    /// An empty slab that will never have more than `capacity` ids, those included that threads keep:
    /// allow each some 600 that wait to be used again, and a piece, of a sixteenth of all, but 1,024 to 16,384.
    #[must_use]
    pub fn new(epochs: Arc<Epochs>, capacity: u32) -> Self {
        // Zero is no id, so that a word of zeros can mean "none".
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

    /// Sets how many ids may wait, about, before none is handed out that was never used before; at first
    /// any number. Allow for those that are retired under one guard.
    pub fn set_waiting_max(&self, ids: u32) {
        self.waiting.max.store(ids, Ordering::Relaxed);
    }

    /// Whether more ids wait than may.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.waiting.ids.load(Ordering::Relaxed) > self.waiting.max.load(Ordering::Relaxed)
    }

    /// A thread's ids: none yet.
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

    /// An id that no other thread has. Its record holds what its last owner left, or zeros. `None` where all
    /// are taken, or [too many wait](Self::is_behind).
    #[inline]
    pub fn take(&self, spare: &mut Spare) -> Option<Id> {
        if spare.free.is_empty() {
            self.refill(spare);
        }
        let id = spare.free.pop();
        // Where ids are used again, they lie all over: what will be written soon had better come
        // now.
        if let Some(ahead) = spare.free.len().checked_sub(AHEAD) {
            self.prefetch(spare.free[ahead]);
        }
        id
    }

    /// Gives up an id that others may have seen. Nothing may lead to it any more, except what
    /// readers already hold.
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

    /// Gives back an id that was taken and that no other thread has seen.
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
    /// If no id of its neighbourhood was ever handed out.
    #[inline]
    #[must_use]
    pub fn words(&self, id: Id) -> &[AtomicU64; WORDS] {
        self.records.at(id as usize)
    }

    /// Begins to fetch the record into the cache.
    #[inline]
    pub fn prefetch(&self, id: Id) {
        for line in self.words(id).chunks(LINE_WORDS) {
            prefetch(&line[0]);
        }
    }

    /// The record with this id, of which the first cache line and that with the number `other` begin
    /// to be fetched.
    ///
    /// # Panics
    ///
    /// As [`words`](Self::words).
    #[inline(always)]
    #[must_use]
    pub fn fetch(&self, id: Id, other: usize) -> &[AtomicU64; WORDS] {
        let words = self.words(id);
        prefetch(&words[0]);
        // Where that is the same line, a second request is cheaper than a wrong guess.
        words.get(other * LINE_WORDS).into_iter().for_each(prefetch);
        words
    }

    /// Bytes of memory for records. What was never used of it may not be backed by real memory.
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

    /// A piece of ids that were never used before; an empty one where there are none.
    fn cut_piece(&self, stock: &mut Stock) -> Range<Id> {
        let start = stock.fresh;
        let part = (start / PIECE_PART).clamp(PIECE_MIN, PIECE_MAX);
        // So that pieces of the largest size begin where pages do.
        let size = 1 << part.ilog2();
        let end = ((start / size + 1) * size).min(self.capacity);
        if start < end && self.records.make(start as usize) {
            stock.fresh = end;
        }
        start..stock.fresh
    }
}

impl Spare {
    /// Breaks a batch off its piece; whether anything is left of that. The lowest is taken first:
    /// records that are made one after the other lie beside each other.
    fn break_piece(&mut self) -> bool {
        let end = self.piece.end.min(self.piece.start.saturating_add(BATCH as u32));
        self.free.extend((self.piece.start..end).rev());
        self.piece.start = end;
        !self.free.is_empty()
    }

    /// What was retired up to now begins to wait.
    fn seal(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let empty = self.empty.pop().unwrap_or_else(|| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(&mut self.retired, empty);
        self.all_waiting.ids.fetch_add(batch.len() as u32, Ordering::Relaxed);
        self.waiting.push_back((self.epochs.stamp(), batch));
    }

    /// What has waited long enough can be handed out; where that can't be told without the others,
    /// they are asked or not.
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

    /// Gives away what is too much.
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
            // The ones at the bottom were not used for the longest time.
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
