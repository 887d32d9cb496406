//! Runs many seeds, and checks what they cover together.

use sim::{Plan, Report, Violation, run, shrink};

/// The default seeds. `SIM_SEEDS=FIRST..END` selects others.
const SEEDS: std::ops::Range<u64> = 0..200;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("SIM_SEEDS") else { return SEEDS };
    let (first, end) = text.split_once("..").expect("SIM_SEEDS=FIRST..END");
    let number = |word: &str| word.parse::<u64>().expect("a number");
    number(first)..number(end)
}

fn check(seed: u64) -> Report {
    let plan = Plan::new(seed);
    run(&plan).unwrap_or_else(|Violation { law, step, text }| {
        let short = shrink(&plan, law, None);
        panic!(
            "seed {seed}, step {step}, {law:?}: {text}\n{} steps are enough: {:#?}\nreplay it with \
             `cargo run -p sim --example replay -- {seed}`",
            short.steps.len(),
            short
        )
    })
}

#[test]
fn the_laws_hold() {
    let (mut sum, seeds) = (Report::default(), seeds());
    let is_usual = seeds == SEEDS;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let reports = std::thread::scope(|scope| {
        let part = |first| seeds.clone().skip(first).step_by(threads).map(check);
        let parts: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || part(first).collect::<Vec<_>>()))
            .collect();
        let joined = parts.into_iter().map(|part| part.join().expect("no law is broken"));
        joined.flatten().collect::<Vec<_>>()
    });
    reports.iter().for_each(|report| sum.add(report));
    println!("{sum:?}");
    // The minimum coverage.
    let reached = [
        ("sent", sum.sent, 60_000),
        ("nowhere", sum.nowhere, 50_000),
        ("lost", sum.lost, 500),
        ("misses", sum.misses, 70_000),
        ("cached", sum.cached, 15_000),
        ("recirculated", sum.recirculated, 15_000),
        ("changed", sum.changed, 500),
        ("outdated", sum.outdated, 500),
        ("idle", sum.idle, 300),
        ("over_limit", sum.over_limit, 20_000),
        ("restarts", sum.restarts, 500),
        ("versions", sum.versions, 2_000),
        ("connections", sum.connections, 400),
        ("rules_counted", sum.rules_counted, 400),
    ];
    let missed: Vec<_> = reached.iter().filter(|(_, count, least)| count < least).collect();
    assert!(!is_usual || missed.is_empty(), "not reached: {missed:?}");
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in [1, 2, 3, 6, 7, 9, 14, 15, 23, 39] {
        let plan = Plan::new(seed);
        assert_eq!(plan, Plan::new(seed));
        assert_eq!(run(&plan), run(&plan), "seed {seed}");
    }
}
