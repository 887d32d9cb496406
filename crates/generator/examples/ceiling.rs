//! The generator's own ceiling: client and server joined directly, on one core.
//!
//! `cargo run --release -p generator --example ceiling [SECONDS [AT_ONCE]]`

use base::Instant;
use generator::{BYTES_PER_CONNECTION, FaultRates, Profile, SelfTest};

const RUNS: usize = 5;

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns completed connections per second and packets per second (each packet counted once).
fn run(profile: &Profile, seconds: f64, seed: u64) -> (f64, f64) {
    let at_once = profile.connections_at_once as usize;
    let mut test =
        SelfTest::new(profile, at_once, seed, FaultRates::default(), Instant::ZERO).unwrap();
    let start = std::time::Instant::now();
    let mut warm = None;
    loop {
        let elapsed = start.elapsed();
        test.step(Instant::from_nanos(elapsed.as_nanos() as u64), 16);
        let done = (test.client.statistics().completed, test.forth.left + test.back.left);
        let at = elapsed.as_secs_f64();
        if at < 0.5 {
            continue;
        }
        let (from, began) = *warm.get_or_insert((done, at));
        if at - began >= seconds {
            let (client, server) = (test.client.statistics(), test.server.statistics());
            // Any of these would mean that something other than the processor was the limit.
            assert_eq!((client.failed.total(), client.retransmitted, server.table_full), (0, 0, 0));
            assert!(test.violations().is_empty(), "{:?}", test.violations());
            let per_second = |now, before| (now - before) as f64 / (at - began);
            return (per_second(done.0, from.0), per_second(done.1, from.1));
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(2.0, |text| text.parse().expect("seconds"));
    let at_once = arguments.next().map_or(1000, |text| text.parse().expect("connections at once"));
    println!("{BYTES_PER_CONNECTION} bytes per connection and side");
    let short = Profile { time_wait_ms: 0, connections_at_once: at_once, ..Profile::default() };
    let long =
        Profile { messages: 500, connections_at_once: at_once, time_wait_ms: 0, ..short.clone() };
    for (name, profile) in [("short-lived", short), ("500 messages, no wait", long)] {
        let runs: Vec<_> = (0..RUNS).map(|i| run(&profile, seconds, i as u64)).collect();
        println!(
            "{name}, {at_once} at once, TIME-WAIT 0, median of {RUNS} runs of {seconds} s: \
             {:.0} connections/s, {:.0} packets/s",
            median(runs.iter().map(|run| run.0).collect()),
            median(runs.iter().map(|run| run.1).collect()),
        );
    }
}
