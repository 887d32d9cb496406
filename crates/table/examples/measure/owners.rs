//! The rival design: every hash has an owner, and only that thread inserts under it.
//!
//! Each pair of threads has a ring of requests and a ring of answers, each with one writer and one
//! reader. A thread goes through its batch, inserts what is its own, hands over what is not, and
//! then serves others until all its answers are there. The index is the shared one, so the rival
//! also pays for a lock that it would not need: about one uncontended atomic exchange.

use crate::{BATCH, Rest, Table, Thread, hash, in_threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use table::{Guard, Id, Insert};

const RING: usize = 128;

/// A bounded queue from one thread to one other.
#[repr(align(64))]
struct Ring {
    words: [AtomicU64; RING],
    written: Line,
    read: Line,
}

#[repr(align(64))]
struct Line(AtomicUsize);

impl Ring {
    fn new() -> Self {
        let [written, read] = [(); 2].map(|()| Line(AtomicUsize::new(0)));
        Ring { words: std::array::from_fn(|_| AtomicU64::new(0)), written, read }
    }

    /// A batch fits, and no more than a batch is ever under way.
    fn push(&self, word: u64) {
        let at = self.written.0.load(Ordering::Relaxed);
        self.words[at % RING].store(word, Ordering::Relaxed);
        self.written.0.store(at + 1, Ordering::Release);
    }

    fn pop(&self) -> Option<u64> {
        let at = self.read.0.load(Ordering::Relaxed);
        if at == self.written.0.load(Ordering::Acquire) {
            return None;
        }
        let word = self.words[at % RING].load(Ordering::Relaxed);
        self.read.0.store(at + 1, Ordering::Release);
        Some(word)
    }
}

/// All rings, by writer and reader.
struct Rings {
    requests: Vec<Ring>,
    answers: Vec<Ring>,
    threads: usize,
    busy: AtomicUsize,
}

impl Rings {
    fn new(threads: usize) -> Self {
        let rings = || (0..threads * threads).map(|_| Ring::new()).collect();
        Rings { requests: rings(), answers: rings(), threads, busy: AtomicUsize::new(threads) }
    }

    fn at(&self, from: usize, to: usize) -> usize {
        from * self.threads + to
    }

    /// Inserts what others ask `me` to.
    fn serve(&self, me: usize, guard: &Guard<'_>, rest: &Rest) {
        for from in (0..self.threads).filter(|&from| from != me) {
            while let Some(request) = self.requests[self.at(from, me)].pop() {
                let (hash, id) = ((request >> 32) as u32, request as Id);
                let key = rest.table.slab.words(id)[0].load(Ordering::Relaxed);
                let answer = u64::from(insert(guard, rest, hash, id, key));
                self.answers[self.at(me, from)].push(answer);
            }
        }
    }
}

fn insert(guard: &Guard<'_>, rest: &Rest, hash: u32, id: Id, key: u64) -> bool {
    let index = rest.table.zones.get_or_make(guard, 1).expect("an index");
    index.insert(guard, hash, id, |id| rest.table.is_key(id, key)) == Insert::Done
}

fn work(me: usize, rings: &Rings, each: u64, own: Thread) {
    let Thread { mut reader, mut rest } = own;
    let threads = rings.threads as u64;
    for batch in 0..each / BATCH as u64 {
        let guard = reader.enter();
        let mut waits = 0;
        for at in 0..BATCH as u64 {
            let key = (batch * BATCH as u64 + at) * threads + me as u64;
            let hash = hash(key);
            let table = Arc::clone(&rest.table);
            if let Some(index) = table.zones.get(&guard, 1)
                && index.find(hash, |id| table.is_key(id, key)).is_some()
            {
                continue;
            }
            let id = rest.fill(key);
            // Low bits choose the bucket, and its owner with it.
            let owner = (u64::from(hash) % threads) as usize;
            if owner == me {
                assert!(insert(&guard, &rest, hash, id, key));
            } else {
                rings.requests[rings.at(me, owner)].push(u64::from(hash) << 32 | u64::from(id));
                waits += 1;
            }
        }
        while waits > 0 {
            rings.serve(me, &guard, &rest);
            for from in (0..rings.threads).filter(|&from| from != me) {
                while let Some(answer) = rings.answers[rings.at(from, me)].pop() {
                    assert_eq!(answer, 1);
                    waits -= 1;
                }
            }
            std::hint::spin_loop();
        }
        rings.serve(me, &guard, &rest);
    }
    rings.busy.fetch_sub(1, Ordering::AcqRel);
    while rings.busy.load(Ordering::Acquire) > 0 {
        rings.serve(me, &reader.enter(), &rest);
    }
}

/// Inserts a million into one zone with so many threads.
pub(crate) fn measure(counts: &[usize]) {
    let entries = 1_000_000u64;
    let mut alone = 0.0;
    for &count in counts {
        let mut ns = f64::INFINITY;
        for _ in 0..5 {
            let table = Table::new(entries as u32 * 2 + 100_000);
            let each = entries / count as u64 / BATCH as u64 * BATCH as u64;
            let rings = Rings::new(count);
            let run = |number, own| work(number, &rings, each, own);
            ns = ns.min(in_threads(&table, count, each, run));
        }
        if alone == 0.0 {
            alone = ns;
        }
        println!(
            "{count:2} threads, one zone, owners: insert {ns:6.1} ns in each ({:.2} of alone)",
            alone / ns
        );
    }
}
