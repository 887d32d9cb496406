//! Buckets of seven entries, one cache line each, and the chains that a full one grows.
//!
//! The first word of a bucket is its control word: lock, version and overflow link.
//!
//! ```text
//!  63                32 31            1   0
//! +--------------------+---------------+---+
//! | overflow, 0: none  | version       | L |      L: a writer is at it
//! +--------------------+---------------+---+
//! | hash               | id, 0: no entry   |  x 7
//! +--------------------+-------------------+
//! ```
//!
//! A reader takes no lock. An entry that it finds is right, since the reader checks the record
//! itself. An entry that it misses may have been moved meanwhile, so after a miss it reads the
//! control word again and repeats the search if the word changed. The version counts the moves of
//! entries.
//!
//! Only the first bucket of a chain has a lock, which covers the others.

mod overflow;
mod scan;

pub(crate) use overflow::Overflow;

use crate::Id;
use crate::atomic::{AtomicU64, Ordering, pause};

/// Words of a bucket.
pub(crate) const WORDS: usize = 8;
/// A bucket.
pub(crate) type Bucket = [AtomicU64; WORDS];

const LOCKED: u64 = 1;
const VERSION_STEP: u64 = 2;
const VERSION: u64 = 0xffff_fffe;

/// An entry: a hash and an id. It is never zero, since no id is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u64);

impl Entry {
    #[inline]
    pub fn new(hash: u32, id: Id) -> Self {
        debug_assert!(id != 0);
        Entry(u64::from(hash) << 32 | u64::from(id))
    }

    #[inline]
    pub fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub fn id(self) -> Id {
        self.0 as u32
    }

    /// Whether the entry in this word has this hash; a free word may have it too.
    #[cfg(any(test, not(target_arch = "x86_64"), miri, loom))]
    pub fn is_at(word: &AtomicU64, hash: u32) -> bool {
        Entry(word.load(Ordering::Acquire)).hash() == hash
    }

    #[inline]
    fn read(word: &AtomicU64) -> Option<Entry> {
        let word = word.load(Ordering::Acquire);
        (word != 0).then_some(Entry(word))
    }
}

/// Whether a bucket with this control word has no overflow and no writer.
#[inline]
pub(crate) fn is_alone(control: u64) -> bool {
    control >> 32 == 0 && control & LOCKED == 0
}

/// The result of searching one bucket for a hash, without lock and overflow.
pub(crate) enum First {
    Found(Id),
    /// No entry has the hash.
    Nowhere,
    /// An entry had the hash but was removed meanwhile.
    Gone,
}

/// Returns the first entry of a bucket with this hash, which must not be zero, since free words are
/// zero.
#[inline(always)]
pub(crate) fn first_with(bucket: &Bucket, hash: u32) -> First {
    let places = scan::places(bucket, hash);
    if places == 0 {
        return First::Nowhere;
    }
    let entry = Entry(bucket[places.trailing_zeros() as usize % WORDS].load(Ordering::Acquire));
    if entry.hash() == hash { First::Found(entry.id()) } else { First::Gone }
}

/// The result of searching a chain without its lock.
pub(crate) enum Look {
    Found(Id),
    /// The chain did not have the entry at any time during the search.
    Missed,
    /// Entries may have moved during the search.
    Disturbed,
}

/// Searches for an entry with this hash for which `is_it` returns true, without a lock.
#[inline]
pub(crate) fn find(
    first: &Bucket,
    overflow: &Overflow,
    hash: u32,
    is_it: &mut impl FnMut(Id) -> bool,
) -> Look {
    let control = first[0].load(Ordering::Acquire);
    let mut bucket = first;
    let mut link = control >> 32;
    loop {
        for word in &bucket[1..] {
            let entry = Entry(word.load(Ordering::Acquire));
            if entry.hash() == hash && entry.id() != 0 && is_it(entry.id()) {
                return Look::Found(entry.id());
            }
        }
        if link == 0 {
            break;
        }
        bucket = overflow.bucket(link);
        link = bucket[0].load(Ordering::Acquire) >> 32;
    }
    let is_undisturbed = control & LOCKED == 0 && first[0].load(Ordering::Relaxed) == control;
    if is_undisturbed { Look::Missed } else { Look::Disturbed }
}

/// Appends the ids of a chain to `ids`, without a lock. Returns false, with nothing appended, if
/// entries may have moved meanwhile.
pub(crate) fn append(first: &Bucket, overflow: &Overflow, ids: &mut Vec<Id>) -> bool {
    let before = ids.len();
    let control = first[0].load(Ordering::Acquire);
    let mut bucket = first;
    let mut link = control >> 32;
    loop {
        ids.extend(bucket[1..].iter().filter_map(Entry::read).map(Entry::id));
        if link == 0 {
            break;
        }
        bucket = overflow.bucket(link);
        link = bucket[0].load(Ordering::Acquire) >> 32;
    }
    let is_undisturbed = control & LOCKED == 0 && first[0].load(Ordering::Relaxed) == control;
    if !is_undisturbed {
        ids.truncate(before);
    }
    is_undisturbed
}

/// The lock of a chain, released when dropped.
pub(crate) struct Chain<'a> {
    first: &'a Bucket,
    /// The control word to store on release.
    control: u64,
    overflow: &'a Overflow,
    /// The reader number of the thread.
    thread: usize,
}

impl<'a> Chain<'a> {
    /// Waits for the lock of the chain that begins at `first`.
    #[inline]
    pub fn lock(first: &'a Bucket, overflow: &'a Overflow, thread: usize) -> Self {
        let mut turn = 0;
        loop {
            let control = first[0].load(Ordering::Relaxed);
            if control & LOCKED == 0 {
                let locked = control | LOCKED;
                let success = Ordering::Acquire;
                if first[0].compare_exchange(control, locked, success, Ordering::Relaxed).is_ok() {
                    return Chain { first, control, overflow, thread };
                }
            }
            pause(&mut turn);
        }
    }

    /// Adds an entry in a free word, unless `is_rival` is true for an entry of the same hash.
    #[inline]
    pub fn put(&mut self, entry: Entry, mut is_rival: impl FnMut(Id) -> bool) -> Result<(), Id> {
        let mut hole = None;
        let mut bucket = self.first;
        let mut link = self.control >> 32;
        loop {
            for word in &bucket[1..] {
                let there = Entry(word.load(Ordering::Relaxed));
                if there.0 == 0 {
                    hole = hole.or(Some(word));
                } else if there.hash() == entry.hash() && is_rival(there.id()) {
                    return Err(there.id());
                }
            }
            if link == 0 {
                break;
            }
            bucket = self.overflow.bucket(link);
            link = bucket[0].load(Ordering::Relaxed) >> 32;
        }
        match hole {
            Some(hole) => hole.store(entry.0, Ordering::Release),
            None => self.put_beyond(entry),
        }
        Ok(())
    }

    /// Copies the entries for which `moves` is true to `other`, an empty chain.
    pub fn copy_to(&self, other: &mut Chain<'_>, moves: impl Fn(u32) -> bool) {
        let mut holes = other.first[1..].iter();
        self.each_word(|word| {
            let entry = Entry(word.load(Ordering::Relaxed));
            if entry.0 != 0 && moves(entry.hash()) {
                match holes.next() {
                    Some(hole) => hole.store(entry.0, Ordering::Release),
                    None => {
                        let _ = other.put(entry, |_| false);
                    }
                }
            }
        });
    }

    /// Visits the words of the chain in order.
    #[inline]
    fn each_word(&self, mut show: impl FnMut(&'a AtomicU64)) {
        let mut bucket = self.first;
        let mut link = self.control >> 32;
        loop {
            bucket[1..].iter().for_each(&mut show);
            if link == 0 {
                return;
            }
            bucket = self.overflow.bucket(link);
            link = bucket[0].load(Ordering::Relaxed) >> 32;
        }
    }

    /// The first free word outside the bucket `but`.
    fn hole_outside(&self, but: &Bucket) -> Option<&'a AtomicU64> {
        let but = but.as_ptr_range();
        let mut hole = None;
        self.each_word(|word| {
            let is_hole = word.load(Ordering::Relaxed) == 0 && !but.contains(&&raw const *word);
            if hole.is_none() && is_hole {
                hole = Some(word);
            }
        });
        hole
    }

    /// Adds an entry in a new overflow bucket.
    #[cold]
    fn put_beyond(&mut self, entry: Entry) {
        let link = self.overflow.take(self.thread);
        let bucket = self.overflow.bucket(link);
        bucket[0].store(self.control & !(VERSION | LOCKED), Ordering::Relaxed);
        bucket[1].store(entry.0, Ordering::Release);
        self.control = link << 32 | self.control & VERSION;
    }

    /// Removes the entries for which `moves` is true, which another chain has already.
    pub fn move_out(&mut self, moves: impl Fn(u32) -> bool) {
        self.next_version();
        self.take_out(|entry| moves(entry.hash()));
    }

    /// Removes the entries for which `goes` is true. Returns their number.
    #[inline]
    pub fn take_out(&mut self, mut goes: impl FnMut(Entry) -> bool) -> usize {
        let mut taken = 0;
        self.each_word(|word| {
            let entry = Entry(word.load(Ordering::Relaxed));
            if entry.0 != 0 && goes(entry) {
                word.store(0, Ordering::Release);
                taken += 1;
            }
        });
        if taken > 0 && self.control >> 32 != 0 {
            self.shorten();
        }
        taken
    }

    /// Moves entries of the second bucket into free words, and frees the bucket if it is empty;
    /// then the next.
    #[cold]
    fn shorten(&mut self) {
        self.next_version();
        while self.control >> 32 != 0 {
            let link = self.control >> 32;
            let second = self.overflow.bucket(link);
            for word in &second[1..] {
                let entry = Entry(word.load(Ordering::Relaxed));
                if entry.0 == 0 {
                    continue;
                }
                let Some(hole) = self.hole_outside(second) else { return };
                hole.store(entry.0, Ordering::Release);
                word.store(0, Ordering::Release);
            }
            let next = second[0].load(Ordering::Relaxed) & !(VERSION | LOCKED);
            self.control = next | self.control & VERSION;
            self.overflow.give(self.thread, link);
        }
    }
}

impl Chain<'_> {
    fn next_version(&mut self) {
        self.control = self.control & !VERSION | self.control.wrapping_add(VERSION_STEP) & VERSION;
    }
}

impl Drop for Chain<'_> {
    #[inline]
    fn drop(&mut self) {
        self.first[0].store(self.control & !LOCKED, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
