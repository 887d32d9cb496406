//! What a connection costs the generator: client and server are joined directly and time is simulated, so
//! that every run does the same work and instructions can be counted.
//!
//! `cargo build --release -p generator --example cost`, then
//! `valgrind --tool=cachegrind --cache-sim=yes target/release/examples/cost CONNECTIONS [RATE
//! [TIME_WAIT_MS [STEP_US]]]` for two numbers of connections. The difference of the two counts is the cost of
//! the connections in between, without start-up.

use base::Instant;
use generator::{FaultRates, Profile, SelfTest};

fn main() {
    let mut arguments =
        std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a whole number"));
    let connections = arguments.next().unwrap_or(300_000);
    let rate = arguments.next().unwrap_or(150_000);
    let time_wait_ms = arguments.next().unwrap_or(500);
    let step_ns = arguments.next().unwrap_or(20) * 1000;
    let profile = Profile {
        connections_per_second: Some(rate),
        connections_at_once: 2_000_000,
        time_wait_ms: time_wait_ms as u32,
        ..Profile::default()
    };
    let mut test = SelfTest::new(&profile, 2_000_000, 1, FaultRates::default(), Instant::ZERO)
        .expect("the profile is a good one");
    let (mut now_ns, mut most) = (0, 0);
    while test.client.statistics().opened < connections {
        now_ns += step_ns;
        // Each step carries packets one way and back once, as one iteration at real ports does.
        test.step(Instant::from_nanos(now_ns), 1);
        most = most.max(test.client.alive());
    }
    let client = test.client.statistics();
    assert_eq!((client.failed.total(), client.retransmitted), (0, 0), "none may be in trouble");
    println!(
        "{} opened, {} completed, {} packets, {most} alive at most",
        client.opened,
        client.completed,
        test.forth.left + test.back.left
    );
}
