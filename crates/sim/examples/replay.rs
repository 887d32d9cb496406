//! Replays seeds of the simulation, and shrinks the plans that fail.
//!
//! ```text
//! cargo run -p sim --example replay -- SEED [END]
//! ```

use sim::{Plan, run, shrink};

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    let (first, end) = match numbers[..] {
        [seed] => (seed, seed + 1),
        [first, end] => (first, end),
        _ => {
            eprintln!("usage: replay SEED [END]; for example `replay 17` or `replay 0 1000`");
            std::process::exit(2);
        }
    };
    let mut failed = 0;
    for seed in first..end {
        let plan = Plan::new(seed);
        match run(&plan) {
            Ok(report) if end == first + 1 => println!("seed {seed}: {report:#?}"),
            Ok(_) => {}
            Err(violation) => {
                failed += 1;
                println!("seed {seed}: {violation}");
                let short = shrink(&plan, violation.law, None);
                println!("{} steps are enough:\n{short:#?}", short.steps.len());
                if let Err(violation) = run(&short) {
                    println!("seed {seed}, shrunk: {violation}");
                }
            }
        }
    }
    println!("{} seeds, {failed} failed", end - first);
    std::process::exit(i32::from(failed > 0));
}
