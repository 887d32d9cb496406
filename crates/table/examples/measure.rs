//! What the table costs, in nanoseconds of processor time an operation.
//!
//! `cargo run -p table --release --example measure -- [find] [insert] [flush] [threads] [owners]
//! [small] [THREADS...]`: without names all of it; the numbers of threads are 1 and 2 unless
//! given; `small` is for counting instructions.
//!
//! `owners` measures the rival design of inserts: every hash belongs to one thread, which alone
//! inserts under it; the others hand their inserts over and wait for the answers at the end of
//! their batch. It stays here because the choice between the two rests on it.

#[path = "measure/owners.rs"]
mod owners;

use base::Instant as Moment;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;
use table::atomic::{AtomicU64, Ordering};
use table::{Epochs, Guard, Id, Insert, Links, Reader, Slab, Spare, Wheel, Zones};

/// A moment on this thread's own clock, which stands still while others have the processor: the
/// machine may be busy with something else.
#[derive(Clone, Copy)]
struct Worked(Duration);

/// Whether only instructions are to be counted: tools that do that cannot read that clock.
static IS_SMALL: AtomicU64 = AtomicU64::new(0);

impl Worked {
    fn now() -> Self {
        if IS_SMALL.load(Ordering::Relaxed) == 1 {
            return Worked(Duration::ZERO);
        }
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Worked(Duration::new(now.tv_sec as u64, now.tv_nsec as u32))
    }

    fn elapsed(self) -> Duration {
        Worked::now().0 - self.0
    }
}

/// Packets that are looked up together.
const BATCH: usize = 32;
/// Words of an IPv4 connection.
const WORDS: usize = 16;
/// The wheel's word in a record.
const LINK: usize = 15;

/// A table of connections whose key is one number.
struct Table {
    epochs: Arc<Epochs>,
    slab: Slab<WORDS>,
    zones: Zones,
}

impl Links for Table {
    fn link(&self, id: Id) -> &AtomicU64 {
        &self.slab.words(id)[LINK]
    }
}

/// What a thread has of its own.
struct Thread {
    reader: Reader,
    rest: Rest,
}

struct Rest {
    spare: Spare,
    wheel: Wheel,
    table: Arc<Table>,
}

/// A hash as good as the switch's.
fn hash(key: u64) -> u32 {
    let product =
        u128::from(key ^ 0x2d35_8dcc_aa6c_78a5) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    ((product >> 64) ^ product) as u32
}

impl Table {
    fn new(capacity: u32) -> Arc<Table> {
        let epochs = Epochs::new();
        let slab = Slab::new(Arc::clone(&epochs), capacity);
        Arc::new(Table { slab, zones: Zones::new(Arc::clone(&epochs)), epochs })
    }

    fn thread(self: &Arc<Self>) -> Thread {
        let rest = Rest { spare: self.slab.spare(), wheel: Wheel::new(), table: Arc::clone(self) };
        Thread { reader: self.epochs.reader().expect("a free reader"), rest }
    }

    #[inline]
    fn is_key(&self, id: Id, key: u64) -> bool {
        self.slab.words(id)[0].load(Ordering::Relaxed) == key
    }
}

impl Rest {
    /// A record for `key`, as full as a connection's.
    #[inline]
    fn fill(&mut self, key: u64) -> Id {
        let id = self.table.slab.take(&mut self.spare).expect("a free id");
        for word in &self.table.slab.words(id)[..LINK] {
            word.store(key, Ordering::Relaxed);
        }
        id
    }

    #[inline]
    fn arm(&self, id: Id) {
        let now = Moment::from_millis(1000);
        self.wheel.arm(&*self.table, id, now, now + Duration::from_secs(30));
    }

    /// Looks for it, and makes it.
    #[inline]
    fn insert(&mut self, guard: &Guard<'_>, zone: u16, key: u64) {
        let hash = hash(key);
        {
            let table = &*self.table;
            if let Some(index) = table.zones.get(guard, zone)
                && index.find(hash, |id| table.is_key(id, key)).is_some()
            {
                return;
            }
        }
        let id = self.fill(key);
        let table = &*self.table;
        let index = table.zones.get_or_make(guard, zone).expect("an index");
        let outcome = index.insert(guard, hash, id, |id| table.is_key(id, key));
        assert_eq!(outcome, Insert::Done);
        index.joined(guard);
        self.arm(id);
    }

    /// Looks for a batch of keys: fetches all buckets, then all records, then compares.
    #[inline]
    fn find(&self, guard: &Guard<'_>, zone: u16, keys: &[u64]) -> usize {
        let table = &*self.table;
        let Some(index) = table.zones.get(guard, zone) else { return 0 };
        let mut found = [(0u32, 0); BATCH];
        for (slot, &key) in found.iter_mut().zip(keys) {
            slot.0 = hash(key);
            index.prefetch(slot.0);
        }
        for slot in &mut found[..keys.len()] {
            if let Some(id) = index.find(slot.0, |_| true) {
                slot.1 = id;
                table.slab.prefetch(id);
            }
        }
        let found = found.iter().zip(keys).filter(|&(&(hash, id), &key)| {
            let is_it = |id| table.is_key(id, key);
            id != 0 && is_it(id) || index.find(hash, is_it).is_some()
        });
        found.count()
    }
}

/// Calls `run` several times and gives the best time an operation.
fn best(rounds: usize, operations: usize, mut run: impl FnMut()) -> f64 {
    let times = (0..rounds).map(|_| {
        let start = Worked::now();
        run();
        start.elapsed().as_nanos() as f64 / operations as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

fn find_one() {
    let table = Table::new(1000);
    let Thread { mut reader, mut rest } = table.thread();
    rest.insert(&reader.enter(), 1, 7);
    for batch in [1, BATCH] {
        let keys = [7; BATCH];
        let turns = 2_000_000 / batch;
        let ns = best(5, turns * batch, || {
            for _ in 0..turns {
                let guard = reader.enter();
                assert_eq!(black_box(rest.find(&guard, 1, black_box(&keys[..batch]))), batch);
            }
        });
        println!("find, 1 entry, batch {batch:2}: {ns:6.1} ns");
    }
}

fn find_random(entries: u64) {
    let table = Table::new(entries as u32 + 1000);
    let Thread { mut reader, mut rest } = table.thread();
    let start = Worked::now();
    for key in 0..entries {
        rest.insert(&reader.enter(), 1, key);
    }
    let ns = start.elapsed().as_nanos() as f64 / entries as f64;
    println!("insert, {entries} into one zone: {ns:6.1} ns (look, fill, insert, arm)");
    let bytes = table.zones.bytes() as f64 / entries as f64;
    println!("index: {bytes:.2} B an entry; record: {} B", WORDS * 8);
    let mut random = fastrand::Rng::with_seed(1);
    for batch in [1, BATCH] {
        let turns = 2_000_000 / batch;
        let ns = best(3, turns * batch, || {
            for _ in 0..turns {
                let keys: [u64; BATCH] = std::array::from_fn(|_| random.u64(..entries));
                let guard = reader.enter();
                assert_eq!(rest.find(&guard, 1, &keys[..batch]), batch);
            }
        });
        println!("find, random of {entries}, batch {batch:2}: {ns:6.1} ns");
    }
}

fn insert_zones(zones: u16, entries: u64) {
    let all = u64::from(zones) * entries;
    let table = Table::new(2 * all as u32 + 1000);
    let Thread { mut reader, mut rest } = table.thread();
    let run = |reader: &mut Reader, rest: &mut Rest| {
        let start = Worked::now();
        for zone in 0..zones {
            for key in 0..entries {
                rest.insert(&reader.enter(), zone, key);
            }
        }
        start.elapsed().as_nanos() as f64 / all as f64
    };
    let ns = run(&mut reader, &mut rest);
    println!("insert, {zones} zones x {entries}, fresh memory: {ns:6.1} ns");
    println!("index: {:.2} B an entry", table.zones.bytes() as f64 / all as f64);

    let start = Worked::now();
    let flushed = (0..zones).filter(|&zone| table.zones.detach(zone)).count();
    let ns = start.elapsed().as_nanos() as f64 / f64::from(zones);
    assert_eq!(flushed, usize::from(zones));
    println!("flush of a zone with {entries}: {ns:6.1} ns");

    let start = Worked::now();
    loop {
        let guard = reader.enter();
        let Rest { spare, wheel, table } = &mut rest;
        let more = table.zones.drain(&guard, 256, |_, id| {
            wheel.disarm(&**table, id);
            table.slab.retire(spare, id);
        });
        if !more {
            break;
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / all as f64;
    println!("drain behind it: {ns:6.1} ns an entry");

    let ns = run(&mut reader, &mut rest);
    println!("insert, {zones} zones x {entries}, memory used before: {ns:6.1} ns");
    let ns = {
        for zone in 0..zones {
            table.zones.detach(zone);
        }
        best(5, 1_000_000, || {
            for at in 0..1_000_000 {
                assert!(!table.zones.detach(black_box(at as u16 % zones)));
            }
        })
    };
    println!("flush of an empty zone: {ns:6.1} ns");
}

/// Runs `run` in that many threads at once, and gives the time an operation of all.
fn in_threads<T: Send>(
    table: &Arc<Table>,
    threads: usize,
    operations: u64,
    run: impl Fn(usize, Thread) -> T + Sync,
) -> f64 {
    let barrier = Barrier::new(threads);
    let (run, barrier) = (&run, &barrier);
    let slowest = thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|number| {
                let own = table.thread();
                scope.spawn(move || {
                    barrier.wait();
                    let start = Worked::now();
                    run(number, own);
                    start.elapsed()
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("a thread that ends")).max()
    });
    slowest.unwrap_or_default().as_nanos() as f64 / operations as f64
}

fn threads(counts: &[usize]) {
    let entries = 1_000_000u64;
    let mut alone = [0.0; 2];
    for &count in counts {
        let table = Table::new(entries as u32 * 4 + 100_000);
        let mut times = [f64::INFINITY; 2];
        for round in 0..5 {
            table.zones.detach_all();
            let Thread { mut reader, mut rest } = table.thread();
            while table.zones.drain(&reader.enter(), 10_000, |_, id| {
                table.slab.retire(&mut rest.spare, id);
            }) {}
            drop(rest);
            let each = entries / count as u64;
            let insert = in_threads(&table, count, each, |number, mut own| {
                for at in 0..each {
                    own.rest
                        .wheel_less_insert(&own.reader.enter(), at * count as u64 + number as u64);
                }
            });
            let find = in_threads(&table, count, each, |number, mut own| {
                let mut random = fastrand::Rng::with_seed((round * 100 + number) as u64);
                for _ in 0..each as usize / BATCH {
                    let keys: [u64; BATCH] =
                        std::array::from_fn(|_| random.u64(..each) * count as u64);
                    let guard = own.reader.enter();
                    assert_eq!(own.rest.find(&guard, 1, &keys), BATCH);
                }
            });
            for (time, now) in times.iter_mut().zip([insert, find]) {
                *time = time.min(now);
            }
        }
        if alone[0] == 0.0 {
            alone = times;
        }
        let [insert, find] = times;
        println!(
            "{count:2} threads, one zone: insert {insert:6.1} ns in each ({:.2} of alone), \
             find {find:6.1} ns in each ({:.2} of alone)",
            alone[0] / insert,
            alone[1] / find,
        );
    }
}

impl Rest {
    /// Makes it, without a wheel: these are taken apart by the index alone.
    #[inline]
    fn wheel_less_insert(&mut self, guard: &Guard<'_>, key: u64) {
        let hash = hash(key);
        let id = self.fill(key);
        let table = &*self.table;
        let index = table.zones.get_or_make(guard, 1).expect("an index");
        if index.find(hash, |id| table.is_key(id, key)).is_none() {
            let outcome = index.insert(guard, hash, id, |id| table.is_key(id, key));
            assert_eq!(outcome, Insert::Done);
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut counts: Vec<usize> = arguments.iter().filter_map(|one| one.parse().ok()).collect();
    if counts.is_empty() {
        counts = vec![1, 2];
    }
    let names: Vec<&String> =
        arguments.iter().filter(|one| one.parse::<usize>().is_err()).collect();
    let is_small = names.iter().any(|one| *one == "small");
    IS_SMALL.store(u64::from(is_small), Ordering::Relaxed);
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|one| *one == name);
    if is_wanted("find") {
        find_one();
        find_random(if is_small { 100_000 } else { 10_000_000 });
    }
    if is_wanted("insert") || is_wanted("flush") {
        insert_zones(if is_small { 10 } else { 290 }, 10_000);
    }
    if is_wanted("threads") {
        threads(&counts);
    }
    if is_wanted("owners") {
        owners::measure(&counts);
    }
}
