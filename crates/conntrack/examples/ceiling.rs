//! How much two threads that share nothing slow each other down on this machine: `ceiling [SECONDS]` per kind
//! of work (default 1). Prints nanoseconds per round, each thread alone and both together, and their ratio.
//!
//! It gives the limit for two threads that look connections up. If threads fall behind here too, with work
//! that touches no memory or only a thread's own, the cause is a shared clock or core and not the connection
//! table.
//!
//! `cargo run --release -p conntrack --example ceiling`

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack};
use flow::{CtAction, Frame};
use packet::Packet;
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// The threads; on an idle machine each has a processor.
const THREADS: [usize; 2] = [0, 1];
/// Rounds between two clock readings: far shorter than a scheduling interval.
const BURST: u64 = 100;

/// A round of work, created anew on each thread.
type Work = Box<dyn FnMut()>;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    measure("registers", time, |_| registers());
    measure("first-level cache", time, |_| cached(16 << 10));
    measure("second-level cache", time, |_| cached(256 << 10));
    let table = || Arc::new(Conntrack::new(7, Config::default()));
    measure("lookups, a table each", time, |at| lookups(&table(), at));
    let one = table();
    measure("lookups, one table", time, |at| lookups(&one, at));
}

/// Dependent multiplications, and independent additions beside them.
fn registers() -> Work {
    let mut words = [1u64, 2, 3, 4];
    Box::new(move || {
        for _ in 0..64 {
            for word in &mut words {
                *word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ 5;
            }
        }
        black_box(&words);
    })
}

/// Loads that each give the position of the next.
fn cached(bytes: usize) -> Work {
    let len = bytes / 4;
    // Steps of an odd number of lines plus one word reach all lines.
    let words: Vec<u32> = (0..len).map(|at| ((at + 16 * 37 + 1) % len) as u32).collect();
    let mut at = 0u32;
    Box::new(move || {
        for _ in 0..64 {
            at = words[at as usize];
        }
        black_box(at);
    })
}

/// Batches of 32 packets of one connection, a different one per thread.
fn lookups(table: &Arc<Conntrack>, at: usize) -> Work {
    let mut tracker = table.tracker().expect("a tracker");
    let text = format!("10.0.0.{}:1000>20.0.0.1:80 udp len=0", at + 1);
    let bytes = wire::text::parse(&text).expect("a packet");
    let frame = || Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("a frame");
    let mut frames: Vec<Frame> = (0..32).map(|_| frame()).collect();
    let action = CtAction { commit: true, zone: Zone(at as u16), ..CtAction::default() };
    Box::new(move || {
        frames.iter_mut().for_each(Frame::clear_ct);
        tracker.execute(Instant::from_millis(1_000_000), &action, &mut frames);
    })
}

fn measure(what: &str, time: Duration, work: impl Fn(usize) -> Work + Sync) {
    let alone = THREADS.map(|at| run(&[at], time, &work)[0]);
    let both = run(&THREADS, time, &work);
    let ratios = [0, 1].map(|at| alone[at].round_ns / both[at].round_ns);
    println!(
        "{what:22} alone {:7.1} {:7.1}   together {:7.1} {:7.1}   ratio {:.2} {:.2}",
        alone[0].round_ns,
        alone[1].round_ns,
        both[0].round_ns,
        both[1].round_ns,
        ratios[0],
        ratios[1]
    );
    let away = alone.iter().chain(&both).map(|it| it.away).fold(0.0, f64::max);
    if away > 0.05 {
        println!(
            "    worth nothing: a thread was without a processor for {:.0}% of the time",
            100.0 * away
        );
    }
}

/// The result of a thread.
#[derive(Clone, Copy)]
struct Done {
    /// Nanoseconds per round.
    round_ns: f64,
    /// The share of time beyond that, in which the thread had no processor.
    away: f64,
}

/// Nanoseconds per round of these threads, running concurrently: the median of bursts, so that an
/// interruption counts once.
fn run(threads: &[usize], time: Duration, work: &(impl Fn(usize) -> Work + Sync)) -> Vec<Done> {
    let begins = &Barrier::new(threads.len());
    std::thread::scope(|scope| {
        let start = |at: usize| {
            scope.spawn(move || {
                let mut work = work(at);
                begins.wait();
                median(time, &mut work)
            })
        };
        let threads: Vec<_> = threads.iter().map(|&at| start(at)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn median(time: Duration, work: &mut Work) -> Done {
    let begun = std::time::Instant::now();
    let mut bursts = Vec::new();
    while begun.elapsed() < time {
        let start = std::time::Instant::now();
        (0..BURST).for_each(|_| work());
        bursts.push(start.elapsed().as_nanos() as f64 / BURST as f64);
    }
    bursts.sort_unstable_by(f64::total_cmp);
    let round_ns = bursts[bursts.len() / 2];
    let mean = bursts.iter().sum::<f64>() / bursts.len() as f64;
    Done { round_ns, away: 1.0 - (round_ns / mean).min(1.0) }
}
