//! Interactions of threads, in every order that the memory model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p table --test models --target-dir target/loom`
//! runs them; `make test` does so too.
//!
//! In builds for the model checker an index starts with two buckets, every insert checks for growth, and ids
//! are exchanged one by one, so that few steps cover every case.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;
use table::atomic::{AtomicU64, Ordering};
use table::{
    Epochs, Id, Insert, Mailbox, Notice, Passages, Published, Reader, Slab, Spare, WakeUp, Zones,
};

/// Runs a model in all orders with at most this many involuntary changes of thread.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(run);
}

#[test]
fn what_a_reader_found_is_not_freed_under_it() {
    check_that_nothing_is_freed_under_a_reader(Epochs::new);
}

#[test]
fn what_a_reader_without_a_fence_of_its_own_found_is_not_freed_under_it() {
    check_that_nothing_is_freed_under_a_reader(Epochs::asymmetric);
}

fn check_that_nothing_is_freed_under_a_reader(epochs: fn() -> Arc<Epochs>) {
    // Stamps are internal to the crate, so a slab of one id stands for them.
    model(3, move || {
        let epochs = epochs();
        let slab = Arc::new(Slab::<1>::new(Arc::clone(&epochs), 1));
        let mut spare = slab.spare();
        let root = Arc::new(AtomicU64::new(0));
        let value = Arc::new(UnsafeCell::new(1));
        let id = slab.take(&mut spare).unwrap();
        root.store(u64::from(id), Ordering::Release);

        let mut reader = epochs.reader().unwrap();
        let reader = {
            let (root, value) = (Arc::clone(&root), Arc::clone(&value));
            thread::spawn(move || {
                for _ in 0..2 {
                    let _guard = reader.enter();
                    if root.load(Ordering::Acquire) != 0 {
                        // The checker fails if this meets the write below.
                        // SAFETY: the checker's cell has no safe read, and checks this one.
                        value.with(|value| assert_eq!(unsafe { *value }, 1));
                    }
                }
            })
        };
        root.store(0, Ordering::Relaxed);
        slab.retire(&mut spare, id);
        if slab.take(&mut spare).is_some() {
            // SAFETY: as above.
            value.with_mut(|value| unsafe { *value = 2 });
        }
        reader.join().unwrap();
        drop(spare);
        let mut other = slab.spare();
        let _ = slab.take(&mut other);
    });
}

#[test]
fn an_id_is_not_reused_while_a_reader_looks_at_its_record() {
    check_that_no_id_is_reused_under_a_reader(Epochs::new);
}

#[test]
fn an_id_is_not_reused_while_a_reader_without_a_fence_of_its_own_looks_at_its_record() {
    check_that_no_id_is_reused_under_a_reader(Epochs::asymmetric);
}

/// One thread's fence serves what the other took out before it.
#[test]
fn one_fence_serves_what_two_threads_took_out() {
    for epochs in [Epochs::new, Epochs::asymmetric] {
        model(2, move || {
            let epochs = epochs();
            let mut reader = epochs.reader().unwrap();
            let tables = [(); 2].map(|()| {
                let slab = Arc::new(Slab::<1>::new(Arc::clone(&epochs), 1));
                (slab, Arc::new(AtomicU64::new(0)))
            });
            let takers = tables.clone().map(|(slab, root)| {
                let mut spare = slab.spare();
                let id = slab.take(&mut spare).unwrap();
                slab.words(id)[0].store(7, Ordering::Relaxed);
                root.store(u64::from(id), Ordering::Release);
                move || {
                    root.store(0, Ordering::Relaxed);
                    slab.retire(&mut spare, id);
                    if let Some(id) = slab.take(&mut spare) {
                        slab.words(id)[0].store(8, Ordering::Relaxed);
                    }
                }
            });
            let [one, mut other] = takers;
            let mut one = one;
            let one = thread::spawn(move || one());
            let reader = thread::spawn(move || {
                let _guard = reader.enter();
                for (slab, root) in &tables {
                    let id = root.load(Ordering::Acquire) as Id;
                    assert!(id == 0 || slab.words(id)[0].load(Ordering::Relaxed) == 7);
                }
            });
            other();
            one.join().unwrap();
            reader.join().unwrap();
        });
    }
}

fn check_that_no_id_is_reused_under_a_reader(epochs: fn() -> Arc<Epochs>) {
    model(3, move || {
        let epochs = epochs();
        let slab = Arc::new(Slab::<1>::new(Arc::clone(&epochs), 2));
        let mut spare = slab.spare();
        let root = Arc::new(AtomicU64::new(0));
        let id = slab.take(&mut spare).unwrap();
        slab.words(id)[0].store(7, Ordering::Relaxed);
        root.store(u64::from(id), Ordering::Release);

        let mut reader = epochs.reader().unwrap();
        let reader = {
            let (root, slab) = (Arc::clone(&root), Arc::clone(&slab));
            thread::spawn(move || {
                let _guard = reader.enter();
                let id = root.load(Ordering::Acquire) as Id;
                if id != 0 {
                    assert_eq!(slab.words(id)[0].load(Ordering::Relaxed), 7);
                    assert_eq!(slab.words(id)[0].load(Ordering::Relaxed), 7);
                }
            })
        };
        root.store(0, Ordering::Relaxed);
        slab.retire(&mut spare, id);
        for _ in 0..2 {
            if let Some(id) = slab.take(&mut spare) {
                slab.words(id)[0].store(8, Ordering::Relaxed);
            }
        }
        reader.join().unwrap();
    });
}

/// A table of records of one word: their key.
struct Table {
    epochs: Arc<Epochs>,
    slab: Slab<1>,
    zones: Zones,
}

/// The context of a thread.
struct Thread {
    reader: Reader,
    spare: Spare,
    table: Arc<Table>,
}

impl Table {
    fn new() -> Arc<Table> {
        let epochs = Epochs::new();
        let slab = Slab::new(Arc::clone(&epochs), 30);
        Arc::new(Table { slab, zones: Zones::new(Arc::clone(&epochs)), epochs })
    }

    fn thread(self: &Arc<Self>) -> Thread {
        let reader = self.epochs.reader().unwrap();
        Thread { reader, spare: self.slab.spare(), table: Arc::clone(self) }
    }

    fn is_key(&self, id: Id, key: u64) -> bool {
        self.slab.words(id)[0].load(Ordering::Relaxed) == key
    }
}

impl Thread {
    fn insert(&mut self, zone: u16, key: u64, hash: u32) -> Result<Id, Id> {
        let guard = self.reader.enter();
        let id = self.table.slab.take(&mut self.spare).unwrap();
        self.table.slab.words(id)[0].store(key, Ordering::Relaxed);
        loop {
            let index = self.table.zones.get_or_make(&guard, zone).unwrap();
            match index.insert(&guard, hash, id, |id| self.table.is_key(id, key)) {
                Insert::Done => return Ok(id),
                Insert::Rival(rival) => {
                    self.table.slab.put_back(&mut self.spare, id);
                    return Err(rival);
                }
                Insert::Detached => thread::yield_now(),
            }
        }
    }

    fn find(&mut self, zone: u16, key: u64, hash: u32) -> Option<Id> {
        let guard = self.reader.enter();
        let found = self.table.zones.get(&guard, zone)?.find(hash, |id| self.table.is_key(id, key));
        if let Some(id) = found {
            assert!(self.table.is_key(id, key), "it stays what it is while the guard lasts");
        }
        found
    }

    /// Looks up as a packet does: computes the spot of the hash, calls `between`, and probes the spot.
    /// Returns the result and that of `between`.
    fn find_at<T>(
        &mut self,
        (zone, key, hash): (u16, u64, u32),
        between: impl FnOnce() -> T,
    ) -> (T, Option<Id>) {
        let guard = self.reader.enter();
        let index = self.table.zones.get(&guard, zone).expect("the zone has an index");
        let lookup = index.lookup();
        let spot = lookup.spot(hash);
        let happened = between();
        let slab = &self.table.slab;
        let is_key = |id| slab.fetch(id, 0)[0].load(Ordering::Relaxed) == key;
        // Returns one of the entries with the hash; a caller that wants another one searches for it.
        let found = lookup
            .find_at(spot, hash)
            .and_then(|id| if is_key(id) { Some(id) } else { index.find(hash, is_key) });
        assert!(found.is_none_or(is_key), "it stays what it is while the guard lasts");
        (happened, found)
    }

    fn remove(&mut self, zone: u16, key: u64, hash: u32) -> bool {
        let guard = self.reader.enter();
        let Some(index) = self.table.zones.get(&guard, zone) else { return false };
        let Some(id) = index.find(hash, |id| self.table.is_key(id, key)) else { return false };
        let was_there = index.remove(&guard, hash, id);
        if was_there {
            self.table.slab.retire(&mut self.spare, id);
        }
        was_there
    }

    /// Drains flushed zones as far as possible at present, and returns the keys that were in them.
    fn drain(&mut self) -> Vec<u64> {
        let mut keys = Vec::new();
        let guard = self.reader.enter();
        let Table { slab, zones, .. } = &*self.table;
        zones.drain(&guard, usize::MAX, |index, id| {
            assert!(index.is_detached());
            keys.push(slab.words(id)[0].load(Ordering::Relaxed));
            slab.retire(&mut self.spare, id);
        });
        keys
    }
}

#[test]
fn of_two_that_insert_the_same_one_wins() {
    model(3, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        // The index is there already.
        one.insert(0, 9, 1).unwrap();
        let second = thread::spawn(move || other.insert(0, 5, 0));
        let first = one.insert(0, 5, 0);
        let second = second.join().unwrap();
        match (first, second) {
            (Ok(id), Err(rival)) | (Err(rival), Ok(id)) => assert_eq!(id, rival),
            both => panic!("{both:?}"),
        }
        assert!(one.find(0, 5, 0).is_some() && one.find(0, 9, 1).is_some());
    });
}

#[test]
fn two_that_need_an_index_get_the_same_one() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        let second = thread::spawn(move || other.insert(0, 5, 0).unwrap());
        one.insert(0, 6, 1).unwrap();
        second.join().unwrap();
        assert!(one.find(0, 5, 0).is_some() && one.find(0, 6, 1).is_some());
    });
}

#[test]
fn what_is_there_is_found_while_its_bucket_is_split() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        // Hash 2 moves from bucket 0 to bucket 2 when that comes; hash 0 stays.
        one.insert(0, 10, 0).unwrap();
        let finder = thread::spawn(move || {
            assert!(other.find(0, 10, 0).is_some());
        });
        one.insert(0, 12, 2).unwrap();
        finder.join().unwrap();
        assert!(one.find(0, 10, 0).is_some() && one.find(0, 12, 2).is_some());
    });
}

#[test]
fn what_moves_in_a_split_is_found_all_the_time() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 12, 2).unwrap();
        let finder = thread::spawn(move || assert!(other.find(0, 12, 2).is_some()));
        one.insert(0, 11, 1).unwrap();
        finder.join().unwrap();
        assert!(one.find(0, 12, 2).is_some() && one.find(0, 11, 1).is_some());
    });
}

#[test]
fn a_walk_meets_what_stays_once_while_buckets_are_split() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 12, 2).unwrap();
        let walker = thread::spawn(move || {
            let (mut met, mut cursor) = (Vec::new(), Some(0));
            while let Some(at) = cursor {
                let guard = other.reader.enter();
                let index = other.table.zones.get(&guard, 0).expect("the zone has an index");
                cursor = index.walk(at, 1, |id| {
                    met.push(other.table.slab.words(id)[0].load(Ordering::Relaxed));
                });
            }
            met
        });
        // Two buckets more: hash 2 moves from bucket 0 to bucket 2.
        one.insert(0, 11, 1).unwrap();
        let mut met = walker.join().unwrap();
        met.retain(|&key| key != 11);
        assert_eq!(met, [12]);
    });
}

#[test]
fn what_moves_in_a_split_is_found_from_a_spot_taken_before() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 12, 2).unwrap();
        let finder = thread::spawn(move || {
            let (_, found) = other.find_at((0, 12, 2), thread::yield_now);
            assert!(found.is_some());
        });
        one.insert(0, 11, 1).unwrap();
        finder.join().unwrap();
        assert!(one.find_at((0, 12, 2), || ()).1.is_some());
        assert!(one.find_at((0, 11, 1), || ()).1.is_some());
    });
}

#[test]
fn what_was_inserted_before_a_look_is_found_from_a_spot_taken_before_that() {
    model(3, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 10, 0).unwrap();
        let is_in = Arc::new(AtomicU64::new(0));
        let finder = thread::spawn({
            let is_in = Arc::clone(&is_in);
            move || {
                let (was_in, found) =
                    other.find_at((0, 12, 2), || is_in.load(Ordering::Acquire) == 1);
                assert!(found.is_some() || !was_in);
            }
        });
        // Under the checker's load of half an entry a bucket, this splits too.
        one.insert(0, 12, 2).unwrap();
        is_in.store(1, Ordering::Release);
        finder.join().unwrap();
    });
}

#[test]
fn what_was_removed_before_a_look_is_not_found_from_a_spot_taken_before_that() {
    model(3, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 12, 2).unwrap();
        let is_out = Arc::new(AtomicU64::new(0));
        let finder = thread::spawn({
            let is_out = Arc::clone(&is_out);
            move || {
                let (was_out, found) =
                    other.find_at((0, 12, 2), || is_out.load(Ordering::Acquire) == 1);
                assert!(found.is_none() || !was_out);
            }
        });
        assert!(one.remove(0, 12, 2));
        is_out.store(1, Ordering::Release);
        finder.join().unwrap();
    });
}

#[test]
fn a_spot_whose_chain_grows_or_shrinks_shows_all_of_it() {
    for begins_with in [7, 8] {
        model(2, move || {
            let table = Table::new();
            let [mut one, mut other] = [(); 2].map(|()| table.thread());
            // All under one hash: the eighth goes to a second bucket.
            for key in 0..begins_with {
                one.insert(0, key, 0).unwrap();
            }
            let last = begins_with - 1;
            let finder = thread::spawn(move || {
                let (_, found) = other.find_at((0, last, 0), thread::yield_now);
                assert!(found.is_some());
            });
            if begins_with == 7 {
                one.insert(0, 7, 0).unwrap();
            } else {
                assert!(one.remove(0, 3, 0));
            }
            finder.join().unwrap();
            assert!(one.find_at((0, last, 0), || ()).1.is_some());
            assert!(one.find_at((0, 7, 0), || ()).1.is_some());
            assert_eq!(one.find_at((0, 3, 0), || ()).1.is_some(), begins_with == 7);
        });
    }
}

#[test]
fn inserts_and_removals_stand_while_their_bucket_is_split() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 12, 2).unwrap();
        let second = thread::spawn(move || {
            assert!(other.remove(0, 12, 2));
            other.insert(0, 16, 6).unwrap();
        });
        one.insert(0, 11, 1).unwrap();
        second.join().unwrap();
        assert_eq!(one.find(0, 12, 2), None);
        assert!(one.find(0, 16, 6).is_some() && one.find(0, 11, 1).is_some());
        let guard = one.reader.enter();
        assert_eq!(table.zones.get(&guard, 0).unwrap().len(), 2);
    });
}

#[test]
fn what_moves_back_from_a_chained_bucket_is_found_all_the_time() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        // All under one hash: the eighth goes to a second bucket.
        for key in 0..8 {
            one.insert(0, key, 0).unwrap();
        }
        let finder = thread::spawn(move || assert!(other.find(0, 7, 0).is_some()));
        assert!(one.remove(0, 3, 0));
        finder.join().unwrap();
        assert!(one.find(0, 7, 0).is_some() && one.find(0, 3, 0).is_none());
    });
}

#[test]
fn two_removals_of_the_same_are_one() {
    model(3, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 5, 0).unwrap();
        let second = thread::spawn(move || other.remove(0, 5, 0));
        assert!(one.remove(0, 5, 0) != second.join().unwrap());
        assert_eq!(one.find(0, 5, 0), None);
    });
}

#[test]
fn what_is_inserted_while_its_zone_is_flushed_is_there_or_drained() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 1, 0).unwrap();
        let second = thread::spawn(move || other.insert(0, 2, 2).unwrap());
        assert!(table.zones.detach(0));
        let mut gone = one.drain();
        second.join().unwrap();
        gone.extend(one.drain());
        let is_there = one.find(0, 2, 2).is_some();
        gone.sort_unstable();
        assert_eq!(gone, if is_there { vec![1] } else { vec![1, 2] });
        assert_eq!(one.find(0, 1, 0), None);
    });
}

#[test]
fn who_finds_an_entry_finds_what_was_noted_before_it() {
    model(2, || {
        let table = Table::new();
        let [mut one, other] = [(); 2].map(|()| table.thread());
        let last = Arc::clone(&table);
        one.insert(0, 9, 1).unwrap();
        // If two threads set the same bit, one may find it set.
        let threads = [(one, 2), (other, 3)].map(|(mut one, key)| {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                {
                    let guard = one.reader.enter();
                    table.zones.get(&guard, 0).unwrap().note(3, 1 << 7);
                }
                one.insert(0, key, 0).unwrap();
            })
        });
        let index = last.zones.index(last.zones.number(0)).unwrap();
        let found = index.find(0, |id| last.slab.words(id)[0].load(Ordering::Relaxed) == 3);
        assert!(found.is_none() || index.noted(3) & 1 << 7 != 0);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!([2, 3].map(|word| index.noted(word)), [0, 1 << 7]);
    });
}

#[test]
fn a_reader_of_one_zone_never_meets_another_zones_entries() {
    model(2, || {
        let table = Table::new();
        let [mut one, mut other] = [(); 2].map(|()| table.thread());
        one.insert(0, 1, 0).unwrap();
        let reader = thread::spawn({
            let table = Arc::clone(&table);
            move || {
                let guard = other.reader.enter();
                let Some(index) = table.zones.get(&guard, 0) else { return };
                // In any other zone, the same addresses have key 2.
                assert_eq!(index.find(0, |id| table.is_key(id, 2)), None);
                assert_eq!(index.zone(), 0);
            }
        });
        assert!(table.zones.detach(0));
        one.drain();
        one.insert(1, 2, 0).unwrap();
        reader.join().unwrap();
    });
}

/// Results that handlers derived from snapshots, and which of these are to be revalidated.
#[derive(Default)]
struct Ledger {
    entries: Vec<u64>,
    again: Vec<usize>,
}

/// Derives the entries that are to be revalidated again, from the newest snapshot.
fn revalidate(published: &Published<u64, Ledger>) {
    let mut snapshot = published.read();
    loop {
        let next = published.lock().again.pop();
        let Some(at) = next else { return };
        published.refresh(&mut snapshot);
        let made = *snapshot;
        let mut ledger = published.lock();
        ledger.entries[at] = made;
        if ledger.is_stale(&snapshot) {
            ledger.again.push(at);
        }
    }
}

#[test]
fn nothing_that_was_made_of_an_old_snapshot_stays() {
    model(3, || {
        let published = Arc::new(Published::new(0u64, Ledger::default()));
        let handler = {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                let snapshot = published.read();
                let mut ledger = published.lock();
                ledger.entries.push(*snapshot);
                if ledger.is_stale(&snapshot) {
                    let at = ledger.entries.len() - 1;
                    ledger.again.push(at);
                }
            })
        };
        let revalidator = {
            let published = Arc::clone(&published);
            thread::spawn(move || revalidate(&published))
        };
        published.publish(1, |ledger| {
            let all = 0..ledger.entries.len();
            ledger.again.extend(all);
        });
        handler.join().unwrap();
        revalidator.join().unwrap();
        revalidate(&published);
        assert_eq!(published.lock().entries, [1]);
    });
}

#[test]
fn no_result_of_an_old_snapshot_comes_when_the_passages_under_way_are_over() {
    model(3, || {
        let published = Arc::new(Published::new(0u64, Vec::<u64>::new()));
        let passages = Arc::new(Passages::default());
        let handler = {
            let (published, mut passage) = (Arc::clone(&published), passages.join());
            let mut snapshot = published.read();
            thread::spawn(move || {
                passage.begin();
                published.refresh(&mut snapshot);
                let made = *snapshot;
                published.lock().push(made);
                passage.end();
            })
        };
        published.publish(1, |_| ());
        let are_over = passages.under_way().are_over();
        let before = published.lock().len();
        handler.join().unwrap();
        let ledger = published.lock();
        if are_over {
            assert!(ledger[before..].iter().all(|made| *made == 1), "{ledger:?}", ledger = *ledger);
        }
    });
}

/// A wait without a wake-up is a deadlock, which the model checker detects, since its clock stands still.
const FOR_EVER: std::time::Duration = std::time::Duration::MAX;

#[test]
fn what_is_put_into_a_mailbox_is_taken_though_its_owner_sleeps() {
    model(3, || {
        let mailbox = Arc::new(Mailbox::<Vec<u32>>::default());
        let put = |number: u32| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                let is_first = {
                    let mut content = mailbox.open();
                    content.push(number);
                    content.len() == 1
                };
                if is_first {
                    mailbox.notify();
                }
            })
        };
        let others = [1, 2].map(put);
        let mut taken = Vec::new();
        while taken.len() < 2 {
            let new = std::mem::take(&mut *mailbox.open());
            if new.is_empty() {
                mailbox.wait(FOR_EVER, Vec::is_empty);
            }
            taken.extend(new);
        }
        others.into_iter().for_each(|thread| thread.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

#[test]
fn a_thread_that_is_to_end_wakes_from_its_mailbox() {
    model(3, || {
        let mailbox = Arc::new(Mailbox::<Vec<u32>>::default());
        let is_ending = Arc::new(AtomicU64::new(0));
        let handler = {
            let (mailbox, is_ending) = (Arc::clone(&mailbox), Arc::clone(&is_ending));
            thread::spawn(move || {
                while is_ending.load(Ordering::Acquire) == 0 {
                    mailbox.wait(FOR_EVER, Vec::is_empty);
                }
            })
        };
        is_ending.store(1, Ordering::Release);
        mailbox.wake();
        handler.join().unwrap();
    });
}

#[test]
fn every_thread_hears_of_a_ring_that_came_while_it_worked() {
    model(2, || {
        let (work, wake_up) = (Arc::new(AtomicU64::new(0)), Arc::new(WakeUp::default()));
        let revalidators = [(); 2].map(|()| {
            let (work, wake_up) = (Arc::clone(&work), Arc::clone(&wake_up));
            thread::spawn(move || {
                let mut heard = 0;
                while work.load(Ordering::Acquire) == 0 {
                    wake_up.wait(&mut heard, FOR_EVER);
                }
            })
        });
        work.store(1, Ordering::Release);
        wake_up.ring();
        revalidators.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn nothing_that_was_left_to_the_owner_stays_without_a_notice() {
    model(3, || {
        let left = Arc::new(Mailbox::new(0u32));
        let (notice, events) = (Arc::new(Notice::default()), Arc::new(AtomicU64::new(0)));
        let leave = || {
            let (left, notice, events) =
                (Arc::clone(&left), Arc::clone(&notice), Arc::clone(&events));
            thread::spawn(move || {
                *left.open() += 1;
                if notice.post() {
                    events.fetch_add(1, Ordering::AcqRel);
                }
            })
        };
        let handlers = [leave(), leave()];
        let mut taken = 0;
        let mut take_up = || {
            if events.swap(0, Ordering::AcqRel) > 0 {
                notice.look();
                taken += std::mem::take(&mut *left.open());
            }
        };
        take_up();
        handlers.into_iter().for_each(|thread| thread.join().unwrap());
        take_up();
        assert_eq!(taken, 2);
    });
}

/// A value that only one thread may free.
struct Own(loom::thread::ThreadId);

impl Drop for Own {
    fn drop(&mut self) {
        assert_eq!(self.0, thread::current().id(), "a reader frees a snapshot");
    }
}

#[test]
fn only_the_publishing_thread_frees_snapshots() {
    model(3, || {
        let own = || Own(thread::current().id());
        let published = Arc::new(Published::new(own(), ()));
        let readers = [(); 2].map(|()| {
            let published = Arc::clone(&published);
            let mut snapshot = published.read();
            thread::spawn(move || {
                published.refresh(&mut snapshot);
                let other = published.read();
                drop(snapshot);
                drop(other);
                // The whole is freed where it was made.
                published
            })
        });
        let mut freed = 0;
        for _ in 0..2 {
            published.publish(own(), |()| ());
            freed += usize::from(published.reclaim().is_some());
        }
        let readers = readers.map(|reader| reader.join().unwrap());
        while published.reclaim().is_some() {
            freed += 1;
        }
        assert_eq!(freed, 2, "no snapshot stays that no thread reads");
        drop(readers);
    });
}
