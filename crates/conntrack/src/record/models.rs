//! Loom models of threads that read and change a record, in every order that the memory model permits.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p conntrack --lib record::models --target-dir target/loom`
//! runs them; `make test` does so too.

use super::*;
use crate::protocols::query::Exchange;
use loom::thread;
use std::sync::Arc;

/// Runs a model in all orders with at most this many preemptions.
fn model(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(run);
}

type Words = [AtomicU64; WORDS_V4];

/// An unanswered connection.
fn begun() -> Arc<Words> {
    let words: Arc<Words> = Arc::new(std::array::from_fn(|_| AtomicU64::new(0)));
    begin(&words, Exchange::Single);
    words
}

fn begin(words: &Words, exchange: Exchange) -> Life {
    let record = Record::v4(words);
    let protocol = Protocol::Other(exchange);
    let birth = Birth { shard: 0, start: Instant::ZERO };
    record.begin_words([[1, 2], [3, 4]], &protocol, State::new(&protocol, None, None), birth);
    record.start_living(1000)
}

/// A reply. Returns the generation for its [`ConnectionRef`](flow::ConnectionRef).
fn answer(record: &Record<'_>) -> Option<u32> {
    let (life, mut state) = record.look();
    loop {
        let next = state.with_progress(Exchange::Multiple as u8);
        if next == state {
            return Some(life.generation());
        }
        match record.replace_state(state, next) {
            Ok(()) => return record.age(),
            Err(changed) => state = changed,
        }
    }
}

/// A packet that sets a mark. Returns the same.
fn mark(record: &Record<'_>, value: u32) -> Option<u32> {
    let (life, _) = record.look();
    if record.set_mark(value, u32::MAX) { record.age() } else { Some(life.generation()) }
}

/// The state read with the record's last generation is the record's last state.
#[test]
fn what_is_remembered_with_the_last_generation_is_the_last_state() {
    model(3, || {
        let words = begun();
        let threads = [0, 1, 2].map(|thread| {
            let words = Arc::clone(&words);
            let act = move || {
                let record = Record::v4(&words);
                match thread {
                    0 => answer(&record).map(|generation| (generation, record.state())),
                    1 => mark(&record, 7).map(|generation| (generation, record.state())),
                    _ => {
                        let (life, state) = record.look();
                        Some((life.generation(), state))
                    }
                }
            };
            thread::spawn(act)
        });
        let remembered = threads.map(|thread| thread.join().unwrap());
        let record = Record::v4(&words);
        let (life, last) = record.look();
        assert_eq!((last.mark(), last.exchange()), (7, Exchange::Multiple));
        for (generation, state) in remembered.into_iter().flatten() {
            assert!(life.differs_from(generation) != 0 || state == last, "{state:?} {last:?}");
        }
    });
}

/// Exactly one thread ends a connection, whatever its packets do meanwhile; and it stays ended.
#[test]
fn one_thread_ends_what_others_follow() {
    model(3, || {
        let words = begun();
        let seen = Record::v4(&words).life();
        let follower = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let record = Record::v4(&words);
                record.set_deadline(record.life(), 2000);
                record.age();
            })
        };
        let killer = {
            let words = Arc::clone(&words);
            thread::spawn(move || Record::v4(&words).kill())
        };
        let record = Record::v4(&words);
        let claimed = record.claim(seen);
        let killed = killer.join().unwrap();
        follower.join().unwrap();
        assert!(claimed != killed, "{claimed} {killed}");
        assert!(record.life().is_dead());
        assert_ne!(record.life().differs_from(seen.generation()), 0);
    });
}

/// A cache detects by the generation that the record belongs to another connection now.
#[test]
fn a_record_that_is_used_again_is_not_taken_for_what_it_was() {
    model(3, || {
        let words = begun();
        let old = Record::v4(&words).life().generation();
        let other = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let record = Record::v4(&words);
                let (life, state) = record.look();
                let is_whole = life.is_dead() || state.exchange() == Exchange::Multiple;
                assert!(life.differs_from(old) == 0 || is_whole, "{life:?} {state:?}");
            })
        };
        assert!(Record::v4(&words).kill());
        let life = begin(&words, Exchange::Multiple);
        assert_ne!(life.differs_from(old), 0);
        other.join().unwrap();
    });
}

/// No reader sees halves of two different labels.
#[test]
fn a_label_is_read_as_one_writer_left_it() {
    model(2, || {
        let words = begun();
        Record::v4(&words).set_label(1 << 64 | 1, u128::MAX);
        let [one, other] = [2, 3].map(|value| {
            let words = Arc::clone(&words);
            move || Record::v4(&words).set_label(value << 64 | value, u128::MAX)
        });
        let writers = [thread::spawn(one), thread::spawn(other)];
        let [high, low] = Record::v4(&words).label();
        assert_eq!(high, low);
        for writer in writers {
            assert!(writer.join().unwrap());
        }
        let [high, low] = Record::v4(&words).label();
        assert!(high == low && high > 1);
    });
}

/// The windows of a device are in the record after the change was made twice, the second time after a worker
/// has stored a segment that it judged by the earlier windows.
#[test]
fn windows_of_a_device_stay_once_they_were_brought_in_twice() {
    model(3, || {
        let words = begun();
        let worker = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let record = Record::v4(&words);
                let [peers, _, back] = record.tcp_words();
                assert!(record.set_tcp([peers, 0, back], [peers, 10 << 32, back]));
            })
        };
        let record = Record::v4(&words);
        let bring = || {
            record.change_tcp(|before| {
                let mut after = *before;
                after.original.sent_end = after.original.sent_end.max(1000);
                after
            });
        };
        bring();
        worker.join().unwrap();
        bring();
        assert_eq!(record.tcp().original.sent_end, 1000);
    });
}
