//! Threads that insert, find, remove and flush concurrently, on real processors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use table::{Epochs, Id, Insert, Links, Quota, Slab, Wheel, Zones};

const ZONES: u16 = 4;
const KEYS: u64 = if cfg!(miri) { 30 } else { 2000 };
/// The capacity in records, and the number of connections. Under Miri the duration depends on the capacity.
const RECORDS: u32 = if cfg!(miri) { 4000 } else { 50_000 };
const PLACES: u32 = if cfg!(miri) { 200 } else { 20_000 };

/// Words of a record: its key, its state, its index, the link of the wheel.
const KEY: usize = 0;
const STATE: usize = 1;
const INDEX: usize = 2;
const LINK: usize = 3;
/// The content of a record that no thread holds.
const DEAD: u64 = 0;
const ALIVE: u64 = 1;

struct Table {
    epochs: Arc<Epochs>,
    slab: Slab<4>,
    zones: Zones,
    quota: Arc<Quota>,
    wheel: Wheel,
    /// Found records with a content that is not allowed.
    wrong: AtomicUsize,
}

impl Links for Table {
    fn link(&self, id: Id) -> &AtomicU64 {
        &self.slab.words(id)[LINK]
    }
}

/// The two hashes of a key: a connection with NAT is found under both.
fn hashes(key: u64) -> [u32; 2] {
    [0u64, 1].map(|side| ((key << 1 | side).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
}

/// One of the threads.
struct Thread<'a> {
    table: &'a Table,
    reader: table::Reader,
    spare: table::Spare,
    share: table::Share,
    random: fastrand::Rng,
}

impl<'a> Thread<'a> {
    fn new(table: &'a Table, seed: u64) -> Self {
        Thread {
            table,
            reader: table.epochs.reader().unwrap(),
            spare: table.slab.spare(),
            share: table.quota.share(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    fn word(&self, id: Id, word: usize) -> &'a AtomicU64 {
        &self.table.slab.words(id)[word]
    }

    fn is_key(&self, id: Id, key: u64) -> bool {
        let state = self.word(id, STATE).load(Ordering::Acquire);
        state == ALIVE && self.word(id, KEY).load(Ordering::Relaxed) == key
    }

    /// Deletes a record, unless another thread did.
    fn end(&mut self, guard: &table::Guard<'_>, id: Id) -> bool {
        let state = self.word(id, STATE);
        if state.compare_exchange(ALIVE, DEAD, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let number = self.word(id, INDEX).load(Ordering::Relaxed) as u32;
        let index = self.table.zones.index(number).unwrap();
        for hash in hashes(self.word(id, KEY).load(Ordering::Relaxed)) {
            index.remove(guard, hash, id);
        }
        index.left(guard);
        self.table.wheel.disarm(self.table, id);
        self.share.give();
        self.table.slab.retire(&mut self.spare, id);
        true
    }

    fn insert(&mut self, guard: &table::Guard<'_>, zone: u16, key: u64) {
        if !self.share.take() {
            return;
        }
        // While a reader is preempted, records that were retired since are not reused.
        let Some(id) = self.table.slab.take(&mut self.spare) else {
            self.share.give();
            return;
        };
        self.word(id, KEY).store(key, Ordering::Relaxed);
        self.word(id, STATE).store(ALIVE, Ordering::Relaxed);
        loop {
            let index = self.table.zones.get_or_make(guard, zone).unwrap();
            self.word(id, INDEX).store(u64::from(index.number()), Ordering::Relaxed);
            let [original, reply] = hashes(key);
            match index.insert(guard, original, id, |id| self.is_key(id, key)) {
                Insert::Detached => continue,
                Insert::Rival(_) => {
                    self.word(id, STATE).store(DEAD, Ordering::Relaxed);
                    self.share.give();
                    self.table.slab.put_back(&mut self.spare, id);
                }
                Insert::Done => {
                    index.joined(guard);
                    let now = base::Instant::from_millis(1);
                    self.table.wheel.arm(self.table, id, now, now);
                    if index.insert(guard, reply, id, |_| false) == Insert::Detached {
                        self.end(guard, id);
                    }
                    // It may have been flushed, drained and deleted between the two.
                    if self.word(id, STATE).load(Ordering::Acquire) == DEAD {
                        index.remove(guard, reply, id);
                        self.table.wheel.disarm(self.table, id);
                    }
                }
            }
            return;
        }
    }

    fn find(&self, guard: &table::Guard<'_>, zone: u16, key: u64) -> Option<Id> {
        let index = self.table.zones.get(guard, zone)?;
        let side = usize::from(key.is_multiple_of(3));
        let id = index.find(hashes(key)[side], |id| self.is_key(id, key))?;
        // From now on, it stays the record of this key as long as the guard lives.
        let is_right = self.word(id, KEY).load(Ordering::Relaxed) == key
            && self.word(id, INDEX).load(Ordering::Relaxed) == u64::from(index.number())
            && index.zone() == zone;
        if !is_right {
            self.table.wrong.fetch_add(1, Ordering::Relaxed);
        }
        Some(id)
    }

    fn drain(&mut self, guard: &table::Guard<'_>, budget: usize) -> bool {
        self.table.zones.drain(guard, budget, |_, id| {
            self.end(guard, id);
        })
    }

    fn turns(&mut self, turns: usize) {
        let mut reader = std::mem::replace(&mut self.reader, self.table.epochs.reader().unwrap());
        for _ in 0..turns {
            let guard = reader.enter();
            for _ in 0..32 {
                let zone = self.random.u16(..ZONES);
                let key = self.random.u64(..KEYS) << 2 | u64::from(zone);
                match self.random.u8(..16) {
                    0..6 => self.insert(&guard, zone, key),
                    6..10 => {
                        if let Some(id) = self.find(&guard, zone, key) {
                            self.end(&guard, id);
                        }
                    }
                    _ => {
                        self.find(&guard, zone, key);
                    }
                }
            }
            match self.random.u16(..1000) {
                0 => {
                    self.table.zones.detach(self.random.u16(..ZONES));
                }
                1..100 => {
                    self.drain(&guard, 100);
                }
                100..110 => {
                    let zone = self.random.u16(..ZONES);
                    let Some(index) = self.table.zones.get(&guard, zone) else { continue };
                    let mut cursor = Some(0);
                    while let Some(at) = cursor {
                        cursor = index.walk(at, 16, |id| {
                            let key = self.word(id, KEY).load(Ordering::Relaxed);
                            if key & 3 != u64::from(zone) {
                                self.table.wrong.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                }
                _ => {}
            }
        }
    }
}

fn stress(threads: u64, turns: usize) {
    let epochs = Epochs::new();
    let table = Table {
        slab: Slab::new(Arc::clone(&epochs), RECORDS),
        zones: Zones::new(Arc::clone(&epochs)),
        epochs,
        quota: Quota::new(PLACES),
        wheel: Wheel::new(),
        wrong: AtomicUsize::new(0),
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|seed| {
                let table = &table;
                scope.spawn(move || Thread::new(table, seed).turns(turns))
            })
            .collect();
        // Turns the wheel, which ends some of what is due.
        let ticker = scope.spawn(|| {
            let mut thread = Thread::new(&table, 99);
            let mut reader = table.epochs.reader().unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let guard = reader.enter();
                let mut due = Vec::new();
                let now = base::Instant::from_millis(1000);
                table.wheel.advance(&table, now, 64, |id| {
                    due.push(id);
                    None
                });
                due.into_iter().for_each(|id| {
                    thread.end(&guard, id);
                });
                drop(guard);
                thread::yield_now();
            }
        });
        let ends: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        // Also when one of them failed; otherwise the test would never end.
        is_over.store(true, Ordering::Relaxed);
        ticker.join().unwrap();
        ends.into_iter().for_each(|end| end.unwrap());
    });
    assert_eq!(table.wrong.load(Ordering::Relaxed), 0);
    check_what_is_left(&table);
}

/// At the end, the counters agree with each other and with the entries found, and after a flush nothing is
/// left.
fn check_what_is_left(table: &Table) {
    let mut thread = Thread::new(table, 0);
    let mut reader = table.epochs.reader().unwrap();
    while thread.drain(&reader.enter(), 1000) {}
    let mut connections = 0;
    for zone in 0..ZONES {
        let guard = reader.enter();
        let Some(index) = table.zones.get(&guard, zone) else { continue };
        let keys = (0..KEYS).map(|key| key << 2 | u64::from(zone));
        let found = keys.filter(|&key| thread.find(&guard, zone, key).is_some()).count() as u32;
        assert_eq!((index.connections(), index.len()), (found, 2 * found), "zone {zone}");
        connections += found;
    }
    assert_eq!(table.quota.used(), connections);
    table.zones.detach_all();
    while thread.drain(&reader.enter(), 1000) {}
    assert_eq!(table.quota.used(), 0);
    assert_eq!(table.wheel.armed(), 0);
    assert_eq!(table.wrong.load(Ordering::Relaxed), 0);
}

#[test]
fn many_threads_do_everything_at_once() {
    let (threads, turns) = if cfg!(miri) { (3, 4) } else { (4, 3000) };
    stress(threads, turns);
}
