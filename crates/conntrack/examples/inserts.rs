//! How much threads that create connections concurrently slow each other down, by processor time.
//!
//! `inserts COUNT ROUNDS [same] [zones] [apart] [warm]`: one thread alone, then two, alternately: in one
//! zone, in separate zones, in separate tables; `warm`: in memory used before. Two threads with separate
//! tables share only the machine, which is the limit for any table.
//!
//! The threads must run concurrently: on a loaded machine, start it with `chrt --fifo 1`. The time for a
//! cache line to move between the processors shows whether they share a cache; on a virtual machine it may
//! change from minute to minute.

mod support;

use base::{Instant, PortNo, Zone};
use conntrack::{Config, Conntrack, CtFlush};
use flow::{CtAction, Frame};
use packet::Packet;
use std::fs::read_to_string;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use support::set_source;

const NOW: Instant = Instant::from_millis(1_000_000);
const BATCH: u32 = 32;

fn frame() -> Frame {
    let mut bytes = wire::text::parse("10.0.0.1:1024>20.0.0.1:80 udp len=0").expect("a packet");
    // As in Open vSwitch's measurements, UDP has no checksum.
    bytes[40..42].fill(0);
    Frame::parse(Packet::from_bytes(&bytes), PortNo(1)).expect("a frame")
}

/// A thread's resource usage so far.
#[derive(Clone, Copy, Default, Debug)]
struct Work {
    /// Nanoseconds of processor time.
    ns: u64,
    /// Page faults.
    faults: u64,
}

impl Work {
    fn now() -> Work {
        thread::yield_now();
        let schedule = read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let state = read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let number = |text: &str, at| text.split(' ').nth(at).and_then(|word| word.parse().ok());
        let (ns, faults) = (number(&schedule, 0), number(&state, 9));
        Work { ns: ns.unwrap_or_default(), faults: faults.unwrap_or_default() }
    }

    fn since(self, before: Work) -> Work {
        Work { ns: self.ns - before.ns, faults: self.faults - before.faults }
    }
}

/// `count` connections per thread; returns the average cost.
fn run(tables: &[Arc<Conntrack>], zones: &[u16], count: u32) -> [f64; 2] {
    let start = Arc::new(Barrier::new(tables.len()));
    let threads: Vec<_> = (0..)
        .zip(tables.iter().zip(zones))
        .map(|(thread, (table, &zone))| {
            let (table, start) = (Arc::clone(table), Arc::clone(&start));
            thread::spawn(move || {
                let mut tracker = table.tracker().expect("a tracker");
                let mut frames: Vec<Frame> = (0..BATCH).map(|_| frame()).collect();
                let action = CtAction { zone: Zone(zone), commit: true, ..CtAction::default() };
                let mut number = thread * count;
                start.wait();
                let before = Work::now();
                for _ in 0..count / BATCH {
                    for frame in &mut frames {
                        set_source(frame, number);
                        frame.clear_ct();
                        number += 1;
                    }
                    tracker.execute(NOW, &action, black_box(&mut frames));
                }
                Work::now().since(before)
            })
        })
        .collect();
    let threads = threads.into_iter().map(|thread| thread.join().expect("a thread that ends"));
    let (mut ns, mut faults) = (0, 0);
    for work in threads {
        ns += work.ns;
        faults += work.faults;
    }
    let connections = f64::from(count) * tables.len() as f64;
    [ns as f64 / connections, faults as f64]
}

/// The time for a cache line to move between threads, in nanoseconds.
fn line_ns() -> f64 {
    const TURNS: u32 = 50_000;
    let turn = Arc::new(AtomicU32::new(0));
    let play = |turn: &AtomicU32, mine: u32| {
        for at in (mine..TURNS).step_by(2) {
            while turn.load(Ordering::Acquire) != at {
                std::hint::spin_loop();
            }
            turn.store(at + 1, Ordering::Release);
        }
    };
    let start = std::time::Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| play(&turn, 1));
        play(&turn, 0);
    });
    start.elapsed().as_nanos() as f64 / f64::from(TURNS)
}

fn table() -> Arc<Conntrack> {
    let config = Config { connections_max: 1 << 28, ..Config::default() };
    Arc::new(Conntrack::new(7, config))
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
    let (count, rounds) = (number(0).unwrap_or(1_000_000), number(1).unwrap_or(5));
    let is_asked = |name: &str| words.len() < 3 || words[2..].iter().any(|word| word == name);
    let warm = words.iter().any(|word| word == "warm");
    let cases = [("alone", 1), ("same", 2), ("zones", 2), ("apart", 2)];
    let mut all: Vec<Vec<[f64; 2]>> = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for ((name, threads), results) in cases.iter().zip(&mut all) {
            if !is_asked(name) && *name != "alone" {
                continue;
            }
            let one = table();
            let tables: Vec<_> = (0..*threads)
                .map(|_| if *name == "apart" { table() } else { Arc::clone(&one) })
                .collect();
            let zones = [0, u16::from(*name == "zones")];
            if warm {
                run(&tables, &zones, count);
                for table in &tables {
                    for zone in zones {
                        let _ = table.flush(NOW, &CtFlush::zone(Zone(zone)));
                    }
                    while table.drain() {}
                }
            }
            results.push(run(&tables, &zones, count));
        }
    }
    println!("a cache line from one thread to the other: {:.0} ns", line_ns());
    let mut alone = [0.0; 2];
    for ((name, _), mut results) in cases.iter().zip(all) {
        results.sort_by(|a, b| a[0].total_cmp(&b[0]));
        if results.is_empty() {
            continue;
        }
        let (least, median, most) =
            (results[0], results[results.len() / 2], results[results.len() - 1]);
        if *name == "alone" {
            alone = [least[0], median[0]];
        }
        println!(
            "{name}: {:.0} ns of processor time at least, {:.0} in the median, {:.0} at most; \
             {:.2} and {:.2} of one alone; {} faults",
            least[0],
            median[0],
            most[0],
            alone[0] / least[0],
            alone[1] / median[0],
            median[1],
        );
    }
}
