//! `ovs-vswitchd`: the switch alone, without the load generator, the benchmarks and their reports.
//! `tidegate switch` is the same switch in the whole program.
#![forbid(unsafe_code)]

use daemon::Directories;
use std::process::ExitCode;
use switch::command_line::{self, Parsed};

fn main() -> ExitCode {
    let directories = Directories::from_environment();
    match command_line::read(std::env::args_os(), &directories) {
        Ok(Parsed::Switch(options)) => switch::run::run(&options, &directories),
        Ok(Parsed::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            eprint!("{text}");
            ExitCode::FAILURE
        }
    }
}
