//! Compares the table with a map after arbitrary operations.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::atomic::Ordering;
use table::{Epochs, Id, Insert, Quota, Reader, Share, Slab, Spare, Zones};

/// A table whose records are a key: a zone and a number, and whether they are alive.
struct Table {
    slab: Slab<2>,
    zones: Zones,
    quota: Arc<Quota>,
}

struct Thread {
    reader: Reader,
    spare: Spare,
    share: Share,
}

impl Table {
    fn new(max: u32) -> (Table, Thread) {
        let epochs = Epochs::new();
        let slab = Slab::new(Arc::clone(&epochs), max + 1000);
        let quota = Quota::new(max);
        let thread =
            Thread { reader: epochs.reader().unwrap(), spare: slab.spare(), share: quota.share() };
        (Table { slab, zones: Zones::new(epochs), quota }, thread)
    }

    fn is_key(&self, id: Id, key: u64) -> bool {
        let [word, alive] = self.slab.words(id);
        word.load(Ordering::Relaxed) == key && alive.load(Ordering::Relaxed) != 0
    }

    fn find(&self, thread: &mut Thread, zone: u16, key: u64, hash: u32) -> Option<Id> {
        let guard = thread.reader.enter();
        let index = self.zones.get(&guard, zone)?;
        let found = index.find(hash, |id| self.is_key(id, key));
        let lookup = index.lookup();
        let at_its_spot = lookup.find_at(lookup.spot(hash), hash);
        assert_eq!(at_its_spot, index.find(hash, |_| true), "zone {zone}, key {key}");
        found
    }

    /// Returns whether the record was inserted; `None` if the table is full.
    fn insert(&self, thread: &mut Thread, zone: u16, key: u64, hash: u32) -> Option<bool> {
        if !thread.share.take() {
            return None;
        }
        let guard = thread.reader.enter();
        let id = self.slab.take(&mut thread.spare).expect("more ids than places");
        let [word, alive] = self.slab.words(id);
        word.store(key, Ordering::Relaxed);
        alive.store(1, Ordering::Relaxed);
        let index = self.zones.get_or_make(&guard, zone).unwrap();
        match index.insert(&guard, hash, id, |id| self.is_key(id, key)) {
            Insert::Done => {
                index.joined(&guard);
                Some(true)
            }
            Insert::Rival(_) => {
                self.slab.put_back(&mut thread.spare, id);
                thread.share.give();
                Some(false)
            }
            Insert::Detached => panic!("nothing is flushed meanwhile"),
        }
    }

    fn remove(&self, thread: &mut Thread, zone: u16, key: u64, hash: u32) -> bool {
        let guard = thread.reader.enter();
        let Some(index) = self.zones.get(&guard, zone) else { return false };
        let Some(id) = index.find(hash, |id| self.is_key(id, key)) else { return false };
        self.slab.words(id)[1].store(0, Ordering::Relaxed);
        assert!(index.remove(&guard, hash, id));
        assert!(!index.remove(&guard, hash, id));
        index.left(&guard);
        self.slab.retire(&mut thread.spare, id);
        thread.share.give();
        true
    }

    /// Returns whether there is more to do.
    fn drain(&self, thread: &mut Thread, budget: usize) -> bool {
        let guard = thread.reader.enter();
        self.zones.drain(&guard, budget, |index, id| {
            assert!(index.is_detached());
            let [_, alive] = self.slab.words(id);
            assert_eq!(alive.swap(0, Ordering::Relaxed), 1);
            self.slab.retire(&mut thread.spare, id);
            thread.share.give();
        })
    }

    fn walk(&self, thread: &mut Thread, zone: u16, buckets: usize) -> Vec<u64> {
        let guard = thread.reader.enter();
        let mut keys = Vec::new();
        let Some(index) = self.zones.get(&guard, zone) else { return keys };
        let mut cursor = Some(0);
        while let Some(at) = cursor {
            cursor = index.walk(at, buckets, |id| {
                keys.push(self.slab.words(id)[0].load(Ordering::Relaxed));
            });
        }
        keys.sort_unstable();
        keys
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u64),
    InsertMany(u16, u64, u64),
    Remove(u16, u64),
    RemoveMany(u16, u64, u64),
    Flush(u16),
    FlushAll,
    Drain(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3u16, 0..300u64).prop_map(|(zone, key)| Step::Insert(zone, key)),
        2 => (0..3u16, 0..3000u64, 1..900u64)
            .prop_map(|(zone, key, many)| Step::InsertMany(zone, key, many)),
        4 => (0..3u16, 0..300u64).prop_map(|(zone, key)| Step::Remove(zone, key)),
        1 => (0..3u16, 0..3000u64, 1..900u64)
            .prop_map(|(zone, key, many)| Step::RemoveMany(zone, key, many)),
        1 => (0..3u16).prop_map(Step::Flush),
        1 => Just(Step::FlushAll),
        3 => (0..60usize).prop_map(Step::Drain),
    ];
    proptest::collection::vec(step, 1..40)
}

/// With `spread`, keys have different hashes; without it, few hashes are shared by all keys.
fn hash(key: u64, spread: bool) -> u32 {
    let mixed = (key.wrapping_add(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 31) as u32;
    if spread { mixed } else { mixed % 3 }
}

fn check(steps: Vec<Step>, spread: bool) {
    let (table, mut thread) = Table::new(4000);
    let mut naive: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
    let mut waiting = 0;
    for step in steps {
        let (zone, keys, is_insert) = match step {
            Step::Insert(zone, key) => (zone, key..key + 1, true),
            Step::InsertMany(zone, key, many) => (zone, key..key + many, true),
            Step::Remove(zone, key) => (zone, key..key + 1, false),
            Step::RemoveMany(zone, key, many) => (zone, key..key + many, false),
            Step::Flush(zone) => {
                let gone = naive.remove(&zone).map_or(0, |keys| keys.len());
                assert_eq!(table.zones.detach(zone), gone > 0);
                waiting += gone;
                (zone, 0..0, false)
            }
            Step::FlushAll => {
                let gone = naive.values().filter(|keys| !keys.is_empty()).count() as u32;
                assert_eq!(table.zones.detach_all(), gone);
                waiting += naive.values().map(BTreeSet::len).sum::<usize>();
                naive.clear();
                (0, 0..0, false)
            }
            Step::Drain(budget) => {
                table.drain(&mut thread, budget);
                waiting =
                    table.quota.used() as usize - naive.values().map(BTreeSet::len).sum::<usize>();
                (0, 0..0, false)
            }
        };
        for key in keys {
            let held = naive.entry(zone).or_default();
            let hash = hash(key, spread);
            if is_insert {
                let room = table.quota.used() < 4000;
                let outcome = table.insert(&mut thread, zone, key, hash);
                assert_eq!(outcome, room.then(|| !held.contains(&key)));
                if outcome == Some(true) {
                    held.insert(key);
                }
            } else {
                assert_eq!(table.remove(&mut thread, zone, key, hash), held.remove(&key));
            }
            assert_eq!(
                table.find(&mut thread, zone, key, hash).is_some(),
                naive[&zone].contains(&key)
            );
        }
        let held = naive.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(table.quota.used() as usize, held + waiting);
    }
    for zone in 0..3 {
        let held = naive.remove(&zone).unwrap_or_default();
        for key in 0..4000 {
            let is_there = table.find(&mut thread, zone, key, hash(key, spread)).is_some();
            assert_eq!(is_there, held.contains(&key), "zone {zone} key {key}");
        }
        for buckets in [1, 7, usize::MAX] {
            let seen = table.walk(&mut thread, zone, buckets);
            assert_eq!(seen, held.iter().copied().collect::<Vec<_>>());
        }
        let guard = thread.reader.enter();
        if let Some(index) = table.zones.get(&guard, zone) {
            assert_eq!((index.len(), index.connections()), (held.len() as u32, held.len() as u32));
        }
    }
    table.zones.detach_all();
    while table.drain(&mut thread, 100) {}
    assert_eq!(table.quota.used(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    #[cfg_attr(miri, ignore = "the stress test has the same accesses, and fewer")]
    fn the_table_holds_what_a_map_would_hold(steps in steps()) {
        check(steps, true);
    }

    #[test]
    #[cfg_attr(miri, ignore = "the stress test has the same accesses, and fewer")]
    fn also_when_all_hashes_are_alike(steps in steps()) {
        check(steps, false);
    }
}

#[test]
#[cfg_attr(miri, ignore = "sizes, not accesses")]
fn an_entry_takes_no_more_index_than_promised() {
    let epochs = Epochs::new();
    let zones = Zones::new(Arc::clone(&epochs));
    let mut reader = epochs.reader().unwrap();
    let guard = reader.enter();
    let index = zones.get_or_make(&guard, 7).unwrap();
    let mut worst = 0.0f64;
    let mut random = fastrand::Rng::with_seed(1);
    for key in 1..=80_000u32 {
        assert_eq!(index.insert(&guard, random.u32(..), key, |_| false), Insert::Done);
        if key >= 10_000 && key.is_multiple_of(1000) {
            worst = worst.max(zones.bytes() as f64 / f64::from(key));
        }
    }
    assert!(worst <= table::INDEX_BYTES as f64, "{worst} bytes an entry");
}

/// A slow walk visits each entry once, even if the index grows meanwhile.
#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn what_is_there_throughout_is_met_once() {
    const KEYS: u64 = 2000;
    let (table, mut thread) = Table::new(100_000);
    let insert = |thread: &mut Thread, key| {
        assert_eq!(table.insert(thread, 0, key, hash(key, true)), Some(true));
    };
    (0..KEYS).for_each(|key| insert(&mut thread, key));
    let (mut met, mut cursor, mut next) = (Vec::new(), Some(0), KEYS);
    while let Some(at) = cursor {
        let guard = thread.reader.enter();
        cursor = table.zones.get(&guard, 0).unwrap().walk(at, 3, |id| {
            met.push(table.slab.words(id)[0].load(Ordering::Relaxed));
        });
        drop(guard);
        (next..next + 200).for_each(|key| insert(&mut thread, key));
        next += 200;
    }
    met.retain(|&key| key < KEYS);
    met.sort_unstable();
    assert_eq!(met, (0..KEYS).collect::<Vec<_>>());
}

/// A free place in a bucket looks like an entry with the hash of zero.
#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn a_sample_goes_round_and_ends_where_it_may() {
    let (table, mut thread) = Table::new(1000);
    for key in 0..500 {
        assert_eq!(table.insert(&mut thread, 1, key, hash(key, true)), Some(true));
    }
    let guard = thread.reader.enter();
    let index = table.zones.get(&guard, 1).unwrap();
    let sample = |from: u64, buckets, enough| {
        let mut ids = Vec::new();
        index.sample(hash(from, true), buckets, enough, &mut ids);
        ids
    };
    for from in 0..50 {
        let ids = sample(from, u32::MAX, usize::MAX);
        assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (500, 500));
        assert!((16..16 + 100).contains(&sample(from, u32::MAX, 16).len()));
        // The entry under that hash stands where it begins.
        let first = index.find(hash(from, true), |_| true).unwrap();
        assert!(sample(from, 1, usize::MAX).contains(&first));
    }
    assert!(sample(0, 0, 16).is_empty());
}

#[test]
fn an_entry_with_the_hash_of_zero_is_found_behind_a_free_place() {
    let (table, mut thread) = Table::new(8);
    for key in [1, 2] {
        assert_eq!(table.insert(&mut thread, 0, key, 0), Some(true));
    }
    assert!(table.remove(&mut thread, 0, 1, 0));
    assert!(table.find(&mut thread, 0, 2, 0).is_some());
}

#[test]
#[cfg_attr(miri, ignore = "many thousand steps")]
fn a_large_index_serves_again_after_its_memory_went_back() {
    const KEYS: u64 = 350_000;
    let (table, mut thread) = Table::new(KEYS as u32);
    for zone in 0..3 {
        for key in 0..KEYS {
            assert_eq!(table.insert(&mut thread, zone, key, hash(key, true)), Some(true), "{key}");
        }
        let missing =
            (0..KEYS).find(|&key| table.find(&mut thread, zone, key, hash(key, true)).is_none());
        assert_eq!(missing, None);
        assert!(table.zones.detach(zone));
        while table.drain(&mut thread, 10_000) {}
        // Now that no guard can know the empty index any more.
        assert!(!table.drain(&mut thread, 10_000));
        assert_eq!(table.find(&mut thread, zone, 1, hash(1, true)), None);
    }
}
