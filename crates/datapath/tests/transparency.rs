//! The unified cache is transparent: a long random run has the same output, upcalls, states and
//! statistics with the cache on, tiny (so that it always evicts) and off.
//!
//! The split of packets into batches is visible: all packets of a batch make their first pass before any
//! makes its second. A worker with a cache splits a batch into runs of packets that hit and packets that
//! miss. So each switch has a twin without a cache that receives the same packets in these parts.

#[path = "support/parts.rs"]
mod parts;
mod support;

use base::Instant;
use conntrack::Entry;
use datapath::WorkerConfig;
use parts::Parts;
use support::policy::Policy;
use support::switch::Switch;
use support::traffic::{Sent, Traffic};

/// The tables change in one of this many steps.
#[derive(Clone, Copy)]
enum Tables {
    Rarely,
    Always,
}

/// Whether there are packets in tunnels.
#[derive(Clone, Copy, PartialEq)]
enum Tunnels {
    None,
    Some,
}

/// Number of steps, largest batch, longest repetition of one packet, interval of table changes, tunnels.
type Kind = (usize, usize, usize, Tables, Tunnels);

const KINDS: [Kind; 8] = [
    (1000, 1, 1, Tables::Rarely, Tunnels::None),
    (800, 1, 1, Tables::Always, Tunnels::None),
    (600, 12, 1, Tables::Rarely, Tunnels::None),
    (600, 12, 1, Tables::Always, Tunnels::None),
    (600, 8, 4, Tables::Rarely, Tunnels::None),
    (800, 1, 1, Tables::Rarely, Tunnels::Some),
    (600, 12, 1, Tables::Always, Tunnels::Some),
    (600, 8, 4, Tables::Rarely, Tunnels::Some),
];

/// Inserts everything into the cache, whether that pays or not.
fn config(unified_entries: usize, exact_insert_inverse: u32) -> WorkerConfig {
    let unified_insert_inverse = 1;
    let default = WorkerConfig::default();
    WorkerConfig { unified_entries, exact_insert_inverse, unified_insert_inverse, ..default }
}

/// A switch, and its twin without a cache.
struct Pair {
    switch: Switch,
    twin: Switch,
}

impl Pair {
    fn each(&mut self, mut act: impl FnMut(&mut Switch)) {
        act(&mut self.switch);
        act(&mut self.twin);
    }

    /// Returns the output of both.
    fn receive(&mut self, now: Instant, port: u32, packets: &[Vec<u8>], what: &str) -> Vec<Sent> {
        let mut parts = Parts::default();
        let seen = self.switch.receive_telling(now, port, packets, &mut parts);
        let expect = self.twin.receive_parts(now, port, packets, &parts.0, &mut ());
        assert_eq!(seen, expect, "{what}: {packets:x?} as {:?}", parts.0);
        seen.sent
    }

    fn compare_states(&mut self, now: Instant, what: &str) {
        let (state, expect) = (self.switch.state(now), self.twin.state(now));
        let differs = expect.flows.iter().zip(&state.flows).find(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}");
        assert_eq!(state.counters, expect.counters, "{what}");
        let others = |a: &[Entry], b: &[Entry]| -> Vec<Entry> {
            a.iter().filter(|it| !b.contains(it)).cloned().collect()
        };
        let differing = [
            others(&state.connections, &expect.connections),
            others(&expect.connections, &state.connections),
        ];
        assert_eq!(differing, [vec![], vec![]], "{what}");
        assert_eq!(state, expect, "{what}");
    }
}

/// Makes a run with this seed; batches have at most so many packets, each repeated at most so many times.
/// Returns the share of passes that hit each switch's unified cache.
fn run(seed: u64, (steps, batch_max, in_a_row, tables, tunnels): Kind) -> [f64; 5] {
    let mut policy = Policy::new(seed);
    policy.has_tunnels = tunnels == Tunnels::Some;
    let caches = [
        config(0, 0),
        config(1 << 16, 1),
        config(4, 100),
        config(1 << 12, 0),
        WorkerConfig::default(),
    ];
    let mut pairs = caches.map(|cache| Pair {
        switch: Switch::new(policy.clone(), cache),
        twin: Switch::new(policy.clone(), config(0, 0)),
    });
    let mut traffic = Traffic::new(seed);
    traffic.has_tunnels = tunnels == Tunnels::Some;
    let mut now = Instant::from_millis(1000);
    for step in 0..steps {
        let r = traffic.random();
        now = now + std::time::Duration::from_micros(r.u64(0..2000) * r.u64(0..500));
        if r.u32(0..200) == 0 {
            now = now + std::time::Duration::from_secs(r.u64(0..200));
        }
        let changes = match tables {
            Tables::Rarely => r.u32(0..100) == 0,
            Tables::Always => r.u32(0..2) == 0,
        };
        let (class, nth, zone, what) = (r.usize(0..16), r.usize(..), r.u16(1..3), r.u32(0..100));
        for pair in &mut pairs {
            if changes {
                pair.each(|switch| match what % 2 {
                    0 => switch.change(now, class),
                    _ => switch.renumber(now, nth),
                });
            }
            match what {
                0 => pair.each(|switch| switch.flush(now, zone)),
                1..5 => pair.each(|switch| switch.tick(now)),
                _ => {}
            }
        }
        let first = traffic.next(0);
        let mut packets = vec![first.bytes];
        for _ in 1..1 + traffic.random().usize(0..batch_max) {
            packets.push(traffic.next(first.port).bytes);
        }
        let packets: Vec<_> = packets
            .into_iter()
            .flat_map(|bytes| vec![bytes; 1 + traffic.random().usize(0..in_a_row)])
            .collect();
        for (i, pair) in pairs.iter_mut().enumerate() {
            let what = format!("seed {seed}, step {step}, switch {i}");
            let sent = pair.receive(now, first.port, &packets, &what);
            if i == 0 {
                sent.iter().filter(|it| it.port < 4).for_each(|it: &Sent| traffic.saw(it));
            }
            if step % 32 == 0 {
                pair.compare_states(now, &what);
            }
        }
    }
    pairs.each_ref().map(|pair| pair.switch.unified_share())
}

/// Makes all kinds of runs for the seeds in `TRANSPARENCY_SEEDS=FIRST..END`, however long that takes.
#[test]
#[ignore = "long: asked for with seeds"]
fn with_seeds_as_asked() {
    let seeds = std::env::var("TRANSPARENCY_SEEDS").expect("TRANSPARENCY_SEEDS=FIRST..END");
    let (first, end) = seeds.split_once("..").expect("FIRST..END");
    let number = |word: &str| word.parse::<u64>().expect("a number");
    for seed in number(first)..number(end) {
        for kind in KINDS {
            run(seed, kind);
        }
    }
}

/// Makes runs of one kind. The caches must have hits in them.
fn run_all(seeds: std::ops::Range<u64>, kind: Kind) {
    let count = (seeds.end - seeds.start) as f64;
    let mut shares = [0.0; 5];
    for seed in seeds {
        let seen = run(seed, kind);
        shares.iter_mut().zip(seen).for_each(|(sum, share)| *sum += share / count);
    }
    // If tables change all the time, few tunnel classes last.
    let least = match (kind.3, kind.4) {
        (_, Tunnels::None) => 0.04,
        (Tables::Rarely, Tunnels::Some) => 0.03,
        (Tables::Always, Tunnels::Some) => 0.002,
    };
    assert!(shares[0] == 0.0 && shares[1] > least && shares[3] > least, "{shares:?}");
    assert!(shares[2] > least / 3.0, "{shares:?}");
}

#[test]
fn packet_by_packet() {
    run_all(0..8, KINDS[0]);
}

#[test]
fn under_constant_table_changes() {
    run_all(100..108, KINDS[1]);
}

#[test]
fn in_batches() {
    run_all(200..208, KINDS[2]);
}

#[test]
fn in_batches_under_constant_table_changes() {
    run_all(400..404, KINDS[3]);
}

#[test]
fn in_batches_of_packets_that_come_in_a_row() {
    run_all(300..304, KINDS[4]);
}

#[test]
fn through_tunnels() {
    run_all(500..508, KINDS[5]);
}

#[test]
fn through_tunnels_in_batches_under_constant_table_changes() {
    run_all(600..604, KINDS[6]);
}

#[test]
fn through_tunnels_in_batches_of_packets_that_come_in_a_row() {
    run_all(700..704, KINDS[7]);
}
