//! The project's own checks, run as `cargo xtask COMMAND`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

mod cost;
mod cycles;
mod durations;
mod files;
mod floors;
mod licences;
mod metadata;
mod modules;
mod mutants;
mod outline;
mod problem;
mod scan;
mod settings;
mod sizes;
mod spdx;
mod stages;
mod style;
mod suite;
mod tally;
mod tidy;

use cost::Numbers;
use tidy::Update;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy                    check architecture, unsafe, calls, names and sizes
  tidy --update-ratchet   also lower or remove exceptions in xtask/ratchet.toml
  tidy --accept           also add or raise exceptions, deliberately
  licences                check the licences of all dependencies against deny.toml
  cost                    count the hot path's instructions and compare them with xtask/cost.toml
  cost --accept           write what was counted there, deliberately
  mutants [OPTION]...     how many small faults the tests notice; `mutants --help` lists the options
  suite [OPTION]...       Open vSwitch's own test suites; `suite --help` lists the options
  test                    run every stage of `make test` and sum up";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["tidy"] => tidy::run(Update::None),
        ["tidy", "--update-ratchet"] => tidy::run(Update::Lower),
        ["tidy", "--accept"] => tidy::run(Update::Accept),
        ["licences"] => licences::run(),
        ["cost"] => cost::run(Numbers::Check),
        ["cost", "--accept"] => cost::run(Numbers::Accept),
        ["mutants", "help" | "--help" | "-h"] => {
            println!("{}", mutants::USAGE);
            Ok(true)
        }
        ["mutants", options @ ..] => mutants::run(options),
        ["suite", "help" | "--help" | "-h"] => {
            println!("{}", suite::USAGE);
            Ok(true)
        }
        ["suite", options @ ..] => suite::run(options),
        ["test"] => stages::run(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(true)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
